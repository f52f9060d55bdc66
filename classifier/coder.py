"""How it said no: the pragmatic layers of a refusal, coded from what its clauses do.

`rationale` is the one reason closest to the refusal marker, role words left out; `strategy` is explicit where the
action is negated in words; a feature is there where a clause of the right kind shows it. Each code names its evidence.
The layers are those of "You Shouldn't Have Asked" (EMNLP 2026); what each code means stands in docs/layers.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from demur.classifier.clauses import Clause, Deed, Kind, clauses
from demur.classifier.rulebook import Rulebook
from demur.classifier.verdict import FEATURES, Code, Rationale, Span, Strategy
from demur.classifier.voice import Voice

#: Which reason each act gives.
_REASONS: Mapping[str, Rationale] = {
    "unable": "capacity",
    "rule": "policy",
    "blame": "ethics",
    "concern": "ethics",
    "principle": "ethics",
}
#: Acts that show a feature wherever they stand, and which.
_PLAINLY: Mapping[str, str] = {
    "regret": "apology",
    "soften": "hedge",
    "acknowledge": "positive_alignment",
    "care": "solidarity",
    "principle": "statement_of_principle",
    "role": "role_based",
}
#: Kinds of clauses about the request, and about what is put in its place.
_OF_THE_REQUEST: frozenset[Kind] = frozenset({"refusal", "request", "other"})
_INSTEAD: frozenset[Kind] = frozenset({"offer", "help"})
#: Where help is to be had: a telephone number, an address on the web.
_RESOURCE = re.compile(
    r"\b\d{3}[-– ]\d{3,4}\b|\b(?:988|911|112|999|741741)\b|https?://|\bwww\.|\b\w+\.(?:org|gov|com)\b"
)
#: Characters before the marker that make a preface, and of help that make a substitute carried out. Own choices.
_PREFACE, _CARRIED_OUT = 40, 240
#: Spans kept of one code.
_SPANS = 4


class Coding(NamedTuple):
    """The layers of one refusal; `features` has one bool for each of `FEATURES`, `codes` why and where."""

    rationale: Rationale
    strategy: Strategy
    features: dict[str, bool]
    codes: tuple[Code, ...]


def code(text: str, voice: Voice, book: Rulebook) -> Coding:
    """The layers of the refusal `text`, of which `voice` is the model's own part."""
    return _Coder(text, clauses(text, voice, book)).coding()


class _Coder:
    def __init__(self, text: str, found: Sequence[Clause]) -> None:
        self._text, self._clauses = text, found

    def coding(self) -> Coding:
        marker = self._marker()
        strategy: Strategy = "explicit" if marker and marker.act.name in ("decline", "no") else "implicit"
        reason = self._reason(marker)
        rationale = _REASONS[reason.act.name] if reason else "bare"
        shown = dict(self._features(marker))
        codes = [self._code("rationale", rationale, [reason] if reason else [])]
        codes.append(self._code("strategy", strategy, [marker] if marker else []))
        codes += [self._code("feature", name, shown[name]) for name in FEATURES if name in shown]
        return Coding(rationale, strategy, {name: name in shown for name in FEATURES}, tuple(codes))

    def _deeds(self, *names: str, kinds: frozenset[Kind] | None = None) -> list[Deed]:
        return [
            deed
            for clause in self._clauses
            if kinds is None or clause.kind in kinds
            for deed in clause.deeds
            if deed.act.name in names
        ]

    def _marker(self) -> Deed | None:
        """Where it says no: the first negated action, else the first distance taken."""
        for clause in self._clauses:
            for deed in clause.deeds:
                if deed.act.name == "decline" or (deed.act.name == "no" and self._alone(clause, deed)):
                    return deed
        return next(iter(self._deeds("distance", "unable")), None)

    def _alone(self, clause: Clause, deed: Deed) -> bool:
        """Whether a bare no opens its sentence and the sentence ends with it."""
        before, after = self._text[clause.start : deed.start], self._text[deed.end : clause.end].strip("*_ \n")
        return not before.strip("*_ \n#") and (not after or after[0] in ".!,;:—–-")

    def _reason(self, marker: Deed | None) -> Deed | None:
        """The reason closest to the marker; without a marker the first."""
        reasons = (
            self._deeds("unable", "rule", "blame", kinds=_OF_THE_REQUEST)
            or self._deeds("concern", kinds=_OF_THE_REQUEST)
            or self._deeds("principle")
        )
        if not reasons or marker is None:
            return reasons[0] if reasons else None
        return min(reasons, key=lambda deed: _distance(deed, marker))

    def _features(self, marker: Deed | None) -> Iterator[tuple[str, list[Deed]]]:
        for name, feature in _PLAINLY.items():
            if found := self._deeds(name):
                yield feature, found
        if found := self._deeds("blame", kinds=_OF_THE_REQUEST):
            yield "negative_stance", found
        if found := self._offers():
            yield "alternative_offer", found
        if found := self._valued():
            yield "normative_suggestion", found
        if found := self._preface(marker):
            yield "explanatory_preface", found
        if found := self._carried_out():
            yield "executed_alternative", found

    def _preface(self, marker: Deed | None) -> list[Deed]:
        """What stands before the marker and speaks of the request."""
        if marker is None or marker.act.name in ("distance", "unable"):
            return []
        before = [deed for deed in self._deeds("acknowledge", "care", "blame") if deed.end < marker.start]
        return before if marker.start - self._clauses[0].start >= _PREFACE else []

    def _offers(self) -> list[Deed]:
        """What is offered and not carried out at once."""
        following = [*self._clauses[1:], None]
        return [
            deed
            for clause, after in zip(self._clauses, following, strict=True)
            if clause.kind == "offer" and not (after and after.kind == "help" and after.does("deliver"))
            for deed in clause.deeds
            if deed.act.name == "offer"
        ]

    def _valued(self) -> list[Deed]:
        """Values put on what is offered or advised, not on what the asker may be."""
        found = []
        for clause in self._clauses:
            if clause.kind not in _INSTEAD or clause.does("care"):
                continue
            supposed = [(d.start, self._comma(d.start, clause.end)) for d in clause.deeds if d.act.name == "condition"]
            found += [
                deed
                for deed in clause.deeds
                if deed.act.name == "praise" and not any(a <= deed.start < b for a, b in supposed)
            ]
        return found

    def _comma(self, start: int, end: int) -> int:
        at = self._text.find(",", start, end)
        return end if at < 0 else at

    def _carried_out(self) -> list[Deed]:
        helping = [clause for clause in self._clauses if clause.kind == "help"]
        deeds = [deed for clause in helping for deed in clause.deeds]
        plain = sum(c.end - c.start for c in helping if not c.does("care"))
        other = sum(c.end - c.start for c in self._clauses if c.kind == "other")
        if plain >= _CARRIED_OUT or other >= 320:
            return deeds or [deed for clause in self._clauses for deed in clause.deeds][:1]
        if sum(clause.item for clause in helping) >= 3 or any(c.does("deliver") for c in helping):
            return deeds
        if any(_RESOURCE.search(self._text, clause.start, clause.end) for clause in helping):
            return deeds
        return []

    def _code(self, layer: str, name: str, deeds: Sequence[Deed]) -> Code:
        spans = tuple(Span(d.start, d.end, self._text[d.start : d.end]) for d in deeds[:_SPANS])
        rule = deeds[0].act.id if deeds else "none"
        why = deeds[0].act.why if deeds else "no reason is given"
        return Code(layer, name, rule, why, spans)  # type: ignore[arg-type]


def _distance(one: Deed, other: Deed) -> int:
    """Characters between the two; none where they overlap."""
    return max(0, one.start - other.end, other.start - one.end)
