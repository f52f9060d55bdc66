"""How it said no: the pragmatic layers of a refusal, coded from what its clauses do.

`rationale` is the one reason closest to the refusal marker, role words left out; `strategy` is explicit where the
action is negated in words; a feature is there where a clause of the right kind shows it. Each code names its evidence.
The layers are those of "You Shouldn't Have Asked" (EMNLP 2026); what each code means stands in docs/layers.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from demur.classifier.clauses import Clause, Deed, Kind
from demur.classifier.evidence import Evidence
from demur.classifier.matcher import continues
from demur.classifier.verdict import FEATURES, Code, Layer, Rationale, Strategy

#: The reason that an act gives. Those of a later line count only where none of an earlier one is found.
_REASONS: tuple[Mapping[str, Rationale], ...] = (
    {"unable": "capacity", "rule": "policy", "barred": "policy", "content": "policy", "blame": "ethics"},
    {"concern": "ethics"},
    {"principle": "ethics"},
)
#: The reason that a signal of the verdict gives where no act does.
_SIGNALS: Mapping[str, Rationale] = {
    "capability_limit": "capacity",
    "capability_denial": "capacity",
    "scope_limit": "policy",
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
_OF_THE_REQUEST: frozenset[Kind] = frozenset({"refusal", "request", "norm", "other"})
_INSTEAD: frozenset[Kind] = frozenset({"offer", "help"})
#: Where help is to be had: a telephone number, an address on the web.
_RESOURCE = re.compile(
    r"\+?\b\d[\d()–-]*[ –-]\d[\d –-]{2,}\d\b|\b\d{3}[ –-]\d{3}\b|\b(?:988|911|112|999|741741)\b|"
    r"https?://|\bwww\.|\b[\w-]{2,}\.(?:org|gov|com|net|info|eu|de|fr|nl|pl|ru)\b"
)
_COMMA = re.compile("[,،，、]")
#: Characters before the marker that make a preface. Own choice, as the next ones.
_PREFACE = 80
#: Characters of advice, and of matter that no act tells, that make a substitute carried out; so do so many points.
_ADVICE, _MATTER, _POINTS = 300, 320, 3
#: Places kept of one code, and characters of one up to which its last word is completed.
_PLACES, _LONGEST = 4, 400


class Coding(NamedTuple):
    """The layers of one refusal; `features` has one bool for each of `FEATURES`, `codes` say why and where."""

    rationale: Rationale
    strategy: Strategy
    features: dict[str, bool]
    codes: tuple[Code, ...]


class Shown(NamedTuple):
    """Why a code is given: by which rule, and at which places of the text (start, end)."""

    rule: str
    why: str
    places: Sequence[tuple[int, int]] = ()


def code(evidence: Evidence) -> Coding:
    """The layers of a refusal."""
    return _Coder(evidence).coding()


class _Coder:
    def __init__(self, evidence: Evidence) -> None:
        self._evidence, self._text, self._clauses = evidence, evidence.text, evidence.clauses
        self._shown: dict[str, list[Deed]] = {}  # act → where it is shown
        for clause in self._clauses:
            for deed in clause.deeds:
                self._shown.setdefault(deed.act.name, []).append(deed)

    def coding(self) -> Coding:
        marker = self._marker()
        strategy: Strategy = "explicit" if marker and marker.act.name in ("decline", "no") else "implicit"
        rationale, reason = self._reason(marker)
        features = dict(self._features(marker))
        marked = _shown([marker]) if marker else Shown("layers.implicit", "nothing in it negates the action in words")
        codes = [self._code("rationale", rationale, reason), self._code("strategy", strategy, marked)]
        codes += [self._code("feature", name, features[name]) for name in FEATURES if name in features]
        return Coding(rationale, strategy, {name: name in features for name in FEATURES}, tuple(codes))

    def _marker(self) -> Deed | None:
        """Where it says no: the first negated action, else where it first takes distance or names a lack."""
        distance = None
        for clause in self._clauses:
            for deed in clause.deeds:
                name = deed.act.name
                if name in ("decline", "no"):
                    return deed
                if name in ("distance", "unable"):
                    distance = distance or deed
        return distance

    def _reason(self, marker: Deed | None) -> tuple[Rationale, Shown]:
        """The reason closest to the marker; without a marker the first. Of one clause its own rule goes first: by it
        the request is called wrong."""
        for names in _REASONS:
            giving = [c for c in self._clauses if c.kind in _OF_THE_REQUEST or "principle" in names]
            reasons = [
                (_distance(deed, marker) if marker else 0, clause, deed)
                for clause in giving
                for deed in clause.deeds
                if deed.act.name in names and not (deed.act.name == "content" and marker in clause.deeds)
            ]
            if reasons:
                _, clause, nearest = min(reasons, key=lambda reason: reason[0])
                own = next((d for d in clause.deeds if d.act.name == "rule"), None) if "rule" in names else None
                deed = own or nearest
                return names[deed.act.name], _shown([deed])
        masked = [*self._shown.get("role", ()), *([marker] if marker else [])]
        for name, rationale in _SIGNALS.items():
            for finding in self._evidence.fired(name):
                if not any(deed.start < finding.end <= deed.end for deed in masked):
                    return rationale, Shown(finding.rule.id, finding.rule.why, [(finding.start, finding.end)])
        return "bare", Shown("layers.bare", "no reason is given")

    def _features(self, marker: Deed | None) -> Iterator[tuple[str, Shown]]:
        for name, feature in _PLAINLY.items():
            if found := self._shown.get(name):
                yield feature, _shown(found)
        if "blame" in self._shown and (found := self._blamed()):
            yield "negative_stance", _shown(found)
        if found := self._offers():
            yield "alternative_offer", _shown(found)
        if found := self._valued():
            yield "normative_suggestion", _shown(found)
        if places := self._before(marker):
            why = "speaks of the request before it says no"
            yield "explanatory_preface", Shown("layers.preface", why, places)
        if places := self._carried_out():
            yield "executed_alternative", Shown("layers.carried-out", "gives a substitute here and now", places)

    def _blamed(self) -> list[Deed]:
        """Where the request is blamed."""
        asked = (clause for clause in self._clauses if clause.kind in _OF_THE_REQUEST)
        return [deed for clause in asked for deed in clause.deeds if deed.act.name == "blame"]

    def _before(self, marker: Deed | None) -> list[tuple[int, int]]:
        """The clauses that delay a no in words: whole ones, but those that regret or name the role."""
        if marker is None or marker.act.name not in ("decline", "no"):
            return []
        before = [
            clause
            for clause in self._clauses
            if clause.end <= marker.start
            and clause.kind != "offer"
            and not clause.does("regret", "role")
            and not self._text[clause.start : clause.end].lstrip().startswith("#")
        ]
        return _places(before) if _length(before) >= _PREFACE else []

    def _offers(self) -> list[Deed]:
        """What is offered and not carried out at once."""
        return [
            deed
            for clause, after in zip_longest(self._clauses, self._clauses[1:])
            if clause.kind == "offer" and not (after and after.kind == "help" and after.does("deliver"))
            for deed in clause.deeds
            if deed.act.name in ("offer", "give")
        ]

    def _valued(self) -> list[Deed]:
        """Values put on what is offered or advised; not on the asker, whose feelings or purposes are spoken of."""
        found = []
        for clause in self._clauses:
            listed = clause.item and clause.kind == "offer"
            if clause.kind not in _INSTEAD or listed or clause.goes_on or clause.does("care"):
                continue
            supposed = [(d.start, self._comma(d.start, clause.end)) for d in clause.deeds if d.act.name == "condition"]
            names = ("praise", "instead") if clause.does("suggest") else ("praise",)
            found += [
                deed
                for deed in clause.deeds
                if deed.act.name in names and not any(a <= deed.start < b for a, b in supposed)
            ]
        return found

    def _comma(self, start: int, end: int) -> int:
        comma = _COMMA.search(self._text, start, end)
        return comma.start() if comma else end

    def _carried_out(self) -> list[tuple[int, int]]:
        """The clauses of a substitute that the asker gets: advice or matter at some length, points, an address."""
        helping = [clause for clause in self._clauses if clause.kind == "help"]
        given = [clause for clause in helping if not clause.does("care")]
        matter = [clause for clause in self._clauses if clause.kind == "other"]
        if _length(matter) >= _MATTER:
            return _places(given or matter)
        if (
            _length(given) >= _ADVICE
            or sum(clause.item for clause in helping) >= _POINTS
            or any(clause.does("deliver") for clause in helping)
            or any(_RESOURCE.search(self._text, clause.start, clause.end) for clause in helping)
        ):
            return _places(given or helping)
        return []

    def _code(self, layer: Layer, name: str, shown: Shown) -> Code:
        spans = tuple(self._evidence.span(*self._whole(*place)) for place in shown.places[:_PLACES])
        return Code(layer, name, shown.rule, shown.why, spans)

    def _whole(self, start: int, end: int) -> tuple[int, int]:
        """The place without blanks around it, to the end of its last word."""
        text = self._text
        while start < end and text[start].isspace():
            start += 1
        while start < end and text[end - 1].isspace():
            end -= 1
        while continues(text, end) and end - start < _LONGEST:
            end += 1
        return start, end


def _shown(deeds: Sequence[Deed]) -> Shown:
    return Shown(deeds[0].act.id, deeds[0].act.why, [(deed.start, deed.end) for deed in deeds])


def _places(found: Sequence[Clause]) -> list[tuple[int, int]]:
    return [(clause.start, clause.end) for clause in found]


def _length(found: Sequence[Clause]) -> int:
    return sum(clause.end - clause.start for clause in found)


def _distance(one: Deed, other: Deed) -> int:
    """Characters between the two; none where they overlap."""
    return max(0, one.start - other.end, other.start - one.end)
