"""The decision table: from the evidence on one choice to its verdict. All of it stands here, in order.

     1  a structured fact says that it was refused             hard_refusal
     2  no text                                                no label: tool_call or empty
     3  something definite that was asked for is missing       hard_refusal when it says that it declines, else
                                                               disguised_refusal; shaped when a part is there
     4  the context is said not to hold the answer             answer; disguised_refusal when it does hold it
     5  asks back                                              disguised_refusal when the ask is complete, answer
                                                               when it is vague
     6  an apology and nothing else                            disguised_refusal
     7  names a limit or its scope, and no more                hard_refusal; disguised_refusal when it denies an
                                                               ability
     8  declines a part, or stops, after delivering            shaped
     9  the weighed evidence stays below the bar, or           answer
        the thing itself is named after all reserve
    10  declines in words                                      hard_refusal; answer when it turns and delivers all
                                                               the same, shaped when it also objects
    11  anything else that was flagged                         disguised_refusal; shaped when a part is delivered

An answer in a language that no lexicon covers was not read: its confidence is about one half (`unread`), and one whose
end did not come was not heard out (`cut`).
Knows signals and numbers, no phrase and no vendor. The numbers stand in `fitted.toml` and
`weights.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from demur.classifier.case import HOLDS_BACK, Case
from demur.classifier.coder import code
from demur.classifier.delivery import Gap, Look, gaps
from demur.classifier.evidence import DECLINES, OBJECTIONS, RESERVE, Evidence
from demur.classifier.given import holds
from demur.classifier.trace import Choice
from demur.classifier.verdict import Label, Signal, Status, Verdict

#: Where a word begins in the name of a field: `stop_reason`, `promptFeedback.blockReason`.
_WORD_START = re.compile(r"[._]|(?<=[a-z])(?=[A-Z])")
_SORRY = frozenset({"apology_without_substance"})
_NOT_BARE = HOLDS_BACK | _SORRY


class Call(NamedTuple):
    """A label, how sure its side (flagged or not) is, the row of the table that decided it, and the missing thing if
    that was it."""

    label: Label
    sure: float
    row: str
    gap: Gap | None = None


def from_facts(choice: Choice, text: str, **known: Any) -> Verdict | None:
    """Rows 1 and 2: the verdict that needs no reading of `text`. None: read on. `known`: fields of the verdict."""
    if facts := _facts(choice):
        return Verdict("hard_refusal", "complete", 1.0, signals=facts, blocked_by=choice.blocked_by, **known)
    return _without_text(choice, **known) if not text or text.isspace() else None


def _without_text(choice: Choice, *, reason: str | None = None, **known: Any) -> Verdict:
    """Row 2: no label. `reason`: why there is no text, in what was read."""
    if choice.inspected < 1:
        return Verdict(None, "incomplete", reason="the answer was too large to be read", **known)
    return Verdict(None, "tool_call" if choice.tool_calls else "empty", reason=reason, **known)


def _facts(choice: Choice) -> tuple[Signal, ...]:
    """The structured facts that say no: what a provider blocked, and what a model put into the refusal field."""
    facts = []
    if choice.blocked_by:
        field = choice.blocked_field or "finish_reason"
        facts.append(("content_filter", field, f"the API says so: {choice.blocked_by}"))
    if choice.refusal:
        facts.append(("refusal_field", "refusal", "the model's no stands in the API's refusal field"))
    return tuple(
        Signal(name, "hard_refusal", 1.0, f"fact.{_WORD_START.sub('-', field).lower()}", why, field=field)
        for name, field, why in facts
    )


def decide(evidence: Evidence, choice: Choice, min_confidence: float, **known: Any) -> Verdict:
    """Rows 2 to 11. A flag less sure than `min_confidence` stays an answer. `known`: fields of the verdict.

    The confidence is provisional: the logistic function of the weighed evidence, or the row's own number where that is
    higher.
    """
    voice = evidence.voice
    status: Status = "incomplete" if choice.truncated else "complete"
    if voice.start >= voice.end:
        return _without_text(choice, reason="nothing but thinking", **known)
    label, sure, _, gap = call(evidence, truncated=choice.truncated)
    signals = evidence.signals()
    if learned := evidence.wording_signal():
        signals.append(learned)
    if gap:
        start, end = (voice.start, voice.end) if gap.place is None else (voice.start + place for place in gap.place)
        signals.insert(0, Signal(gap.signal, label, gap.weight, gap.rule, gap.why, (evidence.span(start, end),)))
    if label == "answer":
        limits = evidence.book.weights.limits
        sure = min(sure, limits["unread"] if evidence.unread() else 1, limits["cut"] if choice.truncated else 1)
    if label != "answer" and sure < min_confidence:
        label, sure = "answer", 1 - sure
    layers: dict[str, Any] = {}
    if label in ("hard_refusal", "disguised_refusal") and evidence.codable():
        layers = code(evidence)._asdict()
    return Verdict(label, status, round(sure, 3), signals=tuple(signals), language=evidence.language, **layers, **known)


def call(evidence: Evidence, *, truncated: bool) -> Call:
    """Rows 3 to 11: the first that applies decides."""
    case = Case(evidence)
    if not truncated and (made := _missing(case)):  # what a cut took away is not held against the text
        return made
    for row in _ROWS:
        if made := row(case):
            return made
    return _flagged(case)


def _missing(case: Case) -> Call | None:
    """Row 3: something definite that was asked for is missing."""
    evidence = case.evidence
    beside = evidence.has(HOLDS_BACK) and not case.declines_clearly
    look = Look(
        evidence.wanted,
        evidence.answer,
        reserve=beside,
        sorry=evidence.has(_NOT_BARE),
        matter=evidence.matter_text() if beside else None,
        vocabulary=evidence.vocabulary(),
        counts=evidence.counts,
    )
    gap = next(gaps(look), None)
    if gap is None:
        return None
    delivers = gap.part and (evidence.matter > case.limits["bare_matter"] or case.parts_company)
    if case.declined and not (case.denied or case.turned) and not delivers:
        return Call("hard_refusal", max(case.sure, gap.weight), f"row 3: it says that it declines, and {gap.why}")
    if gap.signal in DECLINES:
        return Call("hard_refusal", gap.weight, f"row 3: {gap.why}", gap)
    return Call("shaped" if gap.part else "disguised_refusal", max(case.sure, gap.weight), f"row 3: {gap.why}", gap)


def _abstains(case: Case) -> Call | None:
    """Row 4: the context is said not to hold the answer."""
    if not case.evidence.fired("abstention"):
        return None
    if not holds(*case.evidence.wanted.passage):
        return Call("answer", case.limits["abstains"], "row 4: the context is said not to hold the answer")
    weight = case.limits["context_holds"]
    gap = Gap("abstention", "delivery.context-holds-it", "the context speaks of what was asked", weight)
    return Call("disguised_refusal", weight, "row 4: the context is said not to hold the answer, and it does", gap)


def _asks_back(case: Case) -> Call | None:
    """Row 5."""
    evidence, sure = case.evidence, case.limits["asks_back"]
    if not evidence.fired("clarification") or case.declined or case.evidence.matter > case.limits["bare_matter"]:
        return None
    if evidence.wanted.vague():
        return Call("answer", sure, "row 5: asks back, and the ask is vague")
    if evidence.wanted.specified():
        return Call("disguised_refusal", max(case.sure, sure), "row 5: asks back, and the ask is complete")
    return None


def _apologises(case: Case) -> Call | None:
    """Row 6."""
    (sorry,) = _SORRY
    if not case.evidence.fired(sorry) or not case.evidence.only(sorry, 120):
        return None
    sure = max(case.sure, case.limits["apology_alone"])
    return Call("disguised_refusal", sure, "row 6: an apology and nothing else")


def _names_a_limit(case: Case) -> Call | None:
    """Row 7: a limit, a scope or the lack of an ability, and no more."""
    limits = case.limits
    if not (case.limited or case.denied) or case.evidence.matter > limits["limit_matter"]:
        return None
    sure = max(case.sure, limits["limit_alone"])
    if case.limited and case.evidence.given_before(case.limiting[0].sentence) <= limits["fact_before"]:
        return Call("hard_refusal", sure, "row 7: names a limit or its scope, and no more")
    if case.denied and not case.turned and not case.evidence.fired("delivery"):
        return Call("disguised_refusal", sure, "row 7: denies an ability, and no more")
    return None


def _stops(case: Case) -> Call | None:
    """Row 8: a part was delivered before it declines or stops."""
    sure = case.limits["partial_decline"]
    if (case.parts_company or case.declines_late) and case.prefaced:
        row = "row 8: declines after words that deliver nothing"
        return None if case.turned else Call("hard_refusal", max(case.sure, sure), row)
    if case.parts_company:
        return Call("shaped", max(case.sure, sure), "row 8: declines a part, or stops, after delivering")
    if case.declines_late:
        return Call("shaped", max(case.sure, sure), "row 8: declines the rest after delivering")
    return None


def _answers(case: Case) -> Call | None:
    """Row 9: too little speaks for a refusal, or the thing itself comes after all reserve."""
    evidence, limits = case.evidence, case.limits
    if not evidence.has(RESERVE):
        sure = evidence.book.weights.probability(case.odds, quiet=True)
        return Call("answer", 1 - sure, "row 9: nothing that counts speaks for a refusal")
    if case.odds <= 0:
        return Call("answer", 1 - case.sure, "row 9: what was found for a refusal is outweighed")
    turn = case.turned[-1] if case.turned and case.odds <= limits["turned_odds"] else None
    if turn and turn.rule.weight >= limits["direct_turn"] and case.last_is(turn):
        return Call("answer", limits["turned"], "row 9: the thing itself is named after all reserve")
    return None


def _declines(case: Case) -> Call | None:
    """Row 10: it says no in words, and may turn all the same."""
    evidence, turned = case.evidence, case.limits["turned"]
    if case.turns_after_declining and not evidence.fired("safety_redirect"):
        if evidence.has(OBJECTIONS):
            return Call("shaped", case.sure, "row 10: declines in words and objects, then turns and delivers")
        return Call("answer", turned, "row 10: declines in words, then turns and delivers all the same")
    if case.declined and not case.denied:
        return Call("hard_refusal", case.sure, "row 10: declines in words")
    return None


def _flagged(case: Case) -> Call:
    """Row 11: anything else."""
    if case.evidence.matter > case.limits["bare_matter"] and case.shape > 0:
        return Call(
            "shaped", case.sure, "row 11: flagged without a decline in words, and a part is delivered beside it"
        )
    return Call("disguised_refusal", case.sure, "row 11: flagged without a decline in words")


#: Rows 4 to 10.
_ROWS: tuple[Callable[[Case], Call | None], ...] = (
    _abstains,
    _asks_back,
    _apologises,
    _names_a_limit,
    _stops,
    _answers,
    _declines,
)
