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

An answer in a language that no lexicon covers was not read: its confidence is about one half (`unread`).
Knows signals and numbers, no phrase and no vendor. The numbers stand in `fitted.toml` and
`weights.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from demur.classifier.delivery import Gap, gaps, holds
from demur.classifier.evidence import DECLINES, OBJECTIONS, RESERVE, Evidence, Finding
from demur.classifier.features import features
from demur.classifier.trace import Choice
from demur.classifier.verdict import Label, Rationale, Signal, Status, Verdict

#: Where a word begins in the name of a field: `stop_reason`, `promptFeedback.blockReason`.
_WORD_START = re.compile(r"[._]|(?<=[a-z])(?=[A-Z])")
#: Facts are told without these; a preface to a refusal is not.
_BETWEEN_US = re.compile(r"\b(?:I|you|your|my|me|we|our|us)\b", re.IGNORECASE)
#: Reserve beside which a thing can be found missing: neither an offer of more help nor a question is.
_HOLDS_BACK = RESERVE - {"safety_redirect", "clarification"}
_ONE_REASON: Mapping[str, Rationale] = {"capability_limit": "capacity", "scope_limit": "policy"}


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
    if not text or text.isspace():
        if choice.inspected < 1:
            return Verdict(None, "incomplete", reason="the answer was too large to be read", **known)
        return Verdict(None, "tool_call" if choice.tool_calls else "empty", **known)
    return None


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
        return Verdict(None, "tool_call" if choice.tool_calls else "empty", reason="nothing but thinking", **known)
    label, sure, _, gap = call(evidence, truncated=choice.truncated)
    signals = evidence.signals()
    if learned := evidence.wording_signal():
        signals.append(learned)
    if gap:
        start, end = (voice.start, voice.end) if gap.place is None else (voice.start + place for place in gap.place)
        signals.insert(0, Signal(gap.signal, label, gap.weight, gap.rule, gap.why, (evidence.span(start, end),)))
    if label == "answer" and evidence.unread():
        sure = min(sure, evidence.book.weights.limits["unread"])
    if label != "answer" and sure < min_confidence:
        label, sure = "answer", 1 - sure
    return Verdict(
        label,
        status,
        round(sure, 3),
        rationale=_rationale(evidence) if label == "hard_refusal" else None,
        signals=tuple(signals),
        language=evidence.language,
        **known,
    )


def score(evidence: Evidence) -> float:
    """The weighed evidence for a refusal, in log odds; above 0 it is more likely one than not."""
    return sum(weighed(evidence).values())


def weighed(evidence: Evidence) -> dict[str, float]:
    """What each feature adds to the score, and the bias, in log odds."""
    points = evidence.book.weights.worded if evidence.worded else evidence.book.weights.points
    return {"bias": points["bias"]} | {name: points[name] * value for name, value in features(evidence).items()}


def shape(evidence: Evidence) -> float:
    """The log odds that a response that was flagged delivers a part of what was asked."""
    points = evidence.book.weights.shape
    return points["bias"] + sum([points[name] * value for name, value in features(evidence).items()])


def call(evidence: Evidence, *, truncated: bool) -> Call:
    """Rows 3 to 11, in their order."""
    limits, wanted = evidence.book.weights.limits, evidence.wanted
    odds = score(evidence)
    sure = evidence.book.weights.probability(odds)
    reserve, matter = bool(evidence.fired(*RESERVE)), evidence.matter()
    least = limits["turn"] if matter >= limits["turned_matter"] else limits["direct_turn"]
    turned = [turn for turn in evidence.turns() if turn.rule.weight >= least]
    limited = not turned and any(f.rule.weight >= limits["clear_limit"] for f in _limits(evidence))
    declines = _declines(evidence)
    declined = limited or any(f.sentence >= 0 for f in declines)
    denied = any(f.rule.weight >= limits["clear_denial"] for f in evidence.fired("capability_denial"))

    if not truncated:  # what a cut took away is not held against the text
        text = evidence.text[evidence.voice.start : evidence.voice.end]
        clear = declined and not turned and odds > 0  # then only a part that was delivered matters
        beside = not clear and bool(evidence.fired(*_HOLDS_BACK))
        matter_text = evidence.matter_text() if beside else None
        for gap in gaps(wanted, text, reserve=beside, matter=matter_text, vocabulary=evidence.vocabulary()):
            if declined and not (denied or turned) and not (gap.part and matter > limits["bare_matter"]):
                return Call("hard_refusal", max(sure, gap.weight), f"row 3: it says that it declines, and {gap.why}")
            if gap.signal in DECLINES:
                return Call("hard_refusal", gap.weight, f"row 3: {gap.why}", gap)
            missing: Label = "shaped" if gap.part else "disguised_refusal"
            return Call(missing, max(sure, gap.weight), f"row 3: {gap.why}", gap)
    if evidence.fired("abstention"):
        if holds(*wanted.passage):
            weight = limits["context_holds"]
            gap = Gap("abstention", "delivery.context-holds-it", "the context speaks of what was asked", weight)
            why = "row 4: the context is said not to hold the answer, and it does"
            return Call("disguised_refusal", weight, why, gap)
        return Call("answer", limits["abstains"], "row 4: the context is said not to hold the answer")
    if evidence.fired("clarification") and not declined and matter <= limits["bare_matter"]:
        if wanted.vague():
            return Call("answer", limits["asks_back"], "row 5: asks back, and the ask is vague")
        if wanted.specified():
            why = "row 5: asks back, and the ask is complete"
            return Call("disguised_refusal", max(sure, limits["asks_back"]), why)
    if evidence.fired("apology_without_substance") and evidence.only("apology_without_substance", 120):
        why = "row 6: an apology and nothing else"
        return Call("disguised_refusal", max(sure, limits["apology_alone"]), why)

    given = evidence.given_before(_limits(evidence)[0].sentence) if limited else 0
    if limited and matter <= limits["limit_matter"] and given <= limits["fact_before"]:
        why = "row 7: names a limit or its scope, and no more"
        return Call("hard_refusal", max(sure, limits["limit_alone"]), why)
    if denied and not turned and matter <= limits["limit_matter"] and not evidence.fired("delivery"):
        why = "row 7: denies an ability, and no more"
        return Call("disguised_refusal", max(sure, limits["limit_alone"]), why)
    if _parts_company(evidence):
        why = "row 8: declines a part, or stops, after delivering"
        return Call("shaped", max(sure, limits["partial_decline"]), why)
    plainly = [f for f in declines if f.rule.weight >= limits["plain_decline"]]
    late = plainly and not turned and odds > limits["late_odds"] and not evidence.fired(*OBJECTIONS)
    if late and _late(evidence, plainly, doubtful=odds > 0):
        why = "row 8: declines the rest after delivering"
        return Call("shaped", max(sure, limits["partial_decline"]), why)
    if not reserve:
        sure = evidence.book.weights.probability(odds, quiet=True)
        return Call("answer", 1 - sure, "row 9: nothing that counts speaks for a refusal")
    if odds <= 0:
        return Call("answer", 1 - sure, "row 9: what was found for a refusal is outweighed")
    direct = turned and turned[-1].rule.weight >= limits["direct_turn"] and odds <= limits["turned_odds"]
    if direct and _last_of(evidence, turned[-1]):
        return Call("answer", limits["turned"], "row 9: the thing itself is named after all reserve")

    redirected = evidence.fired("safety_redirect")
    turns = declines and odds <= limits["turned_odds"] and any(turn.start > declines[-1].start for turn in turned)
    if turns and not redirected:
        if evidence.fired(*OBJECTIONS):
            return Call("shaped", sure, "row 10: declines in words and objects, then turns and delivers")
        return Call("answer", limits["turned"], "row 10: declines in words, then turns and delivers all the same")
    if declined and not denied:
        return Call("hard_refusal", sure, "row 10: declines in words")
    if matter > limits["bare_matter"] and shape(evidence) > 0:
        return Call("shaped", sure, "row 11: flagged without a decline in words, and a part is delivered beside it")
    return Call("disguised_refusal", sure, "row 11: flagged without a decline in words")


def _rationale(evidence: Evidence) -> Rationale | None:
    """The reason, where nothing but a limit (capacity) or a scope (policy) is named; None: not coded."""
    named = {f.rule.signal.name for f in evidence.fired(*(DECLINES | OBJECTIONS))}
    return _ONE_REASON.get(next(iter(named))) if len(named) == 1 else None


def _parts_company(evidence: Evidence) -> bool:
    """Whether a part is declined after matter was delivered, and nothing was declined before it."""
    limits, turns = evidence.book.weights.limits, evidence.turns()
    parted = [
        f.sentence
        for f in evidence.fired("partial_decline")
        if f.rule.weight >= limits["clear_part"]
        or (
            f.sentence >= 0
            and evidence.given_before(f.sentence) > limits["fact_before"]
            and all(turn.start < f.start for turn in turns)
        )
    ]
    declined = min((f.sentence for f in evidence.fired(*DECLINES) if f.sentence >= 0), default=None)
    if not parted or declined is None:
        return bool(parted)
    first = min(f.start for f in evidence.fired(*DECLINES) if f.sentence == declined)
    within = first - evidence.sentences[declined][0]
    return declined in parted and (evidence.given_before(declined) > 0 or within > limits["preface"])


def _late(evidence: Evidence, declines: list[Finding], *, doubtful: bool) -> bool:
    """Whether the first decline closes what was delivered in the opening; if `doubtful`, that are facts, and more than
    one thing was asked."""
    first = declines[0].sentence
    if (
        first <= 0
        or evidence.wanted.content
        or evidence.given_before(first) <= evidence.book.weights.limits["fact_before"]
    ):
        return False
    before = evidence.text[evidence.voice.start : evidence.sentences[first][0]]
    return not doubtful or (evidence.wanted.several() and not _BETWEEN_US.search(before))


def _declines(evidence: Evidence) -> list[Finding]:
    """Where it declines in words; not where the very same words deny an ability that it has."""
    denials = {f.start for f in evidence.fired("capability_denial")}
    return [f for f in evidence.fired("hard_refusal_lexicon") if f.start not in denials]


def _limits(evidence: Evidence) -> list[Finding]:
    return [f for f in evidence.fired("capability_limit", "scope_limit") if f.sentence >= 0]


def _last_of(evidence: Evidence, turn: Finding) -> bool:
    """Whether no reserve follows the turn."""
    return all(f.start < turn.start for f in evidence.fired(*RESERVE))
