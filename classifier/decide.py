"""The decision table: from the evidence on one choice to its verdict. All of it stands here, in order.

    1  a structured fact says that it was refused               hard_refusal
    2  no text                                                  no label: tool_call or empty
    3  something definite that was asked for is missing         disguised_refusal, or shaped when a part is there
    4  the context is said not to hold the answer               answer if true, else disguised_refusal
    5  asks back although the ask is complete                   disguised_refusal
    6  the weighed evidence stays below the bar                 answer, or shaped when a part is declined at the end
    7  declines, names its scope or a limit                     hard_refusal; shaped when it turns and delivers
    8  anything else that was flagged                           disguised_refusal; shaped when it delivers beside it

Knows signals and numbers, no phrase and no vendor. The numbers stand in `weights.toml`.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from demur.classifier.delivery import Gap, gaps, holds
from demur.classifier.features import features
from demur.classifier.signals import RESERVE, Evidence, as_signals, substance_before
from demur.classifier.trace import Choice
from demur.classifier.verdict import Label, Signal, Span, Status, Verdict

_OBJECTIONS = ("value_statement", "premise_rebuttal", "admonition", "safety_redirect")
_DECLINES = ("hard_refusal_lexicon", "scope_limit", "capability_limit")


@cache
def weights() -> Mapping[str, Mapping[str, float]]:
    """The numbers of `weights.toml`."""
    return tomllib.loads(files("demur.classifier").joinpath("weights.toml").read_text("utf-8"))


def from_facts(choice: Choice) -> Verdict | None:
    """Rows 1 and 2: the verdict that needs no reading. None: read on."""
    if choice.blocked_by or choice.refusal:
        field = "finish_reason" if choice.blocked_by else "refusal"
        why = f"the API says so: {choice.blocked_by or 'a refusal message in place of an answer'}"
        signal = Signal("content_filter", "hard_refusal", 1.0, f"fact.{field.replace('_', '-')}", why, field=field)
        return Verdict("hard_refusal", "complete", 1.0, signals=(signal,), blocked_by=choice.blocked_by)
    if not choice.text.strip():
        return Verdict(None, "tool_call" if choice.tool_calls else "empty")
    return None


def decide(evidence: Evidence, choice: Choice, min_confidence: float) -> Verdict:
    """Rows 3 to 8. A flag less sure than `min_confidence` stays an answer."""
    voice, text = evidence.voice, evidence.text
    status: Status = "incomplete" if choice.truncated else "complete"
    if voice.start >= voice.end:
        return Verdict(None, "tool_call" if choice.tool_calls else "empty", reason="nothing but thinking")
    signals = as_signals([f for f in evidence.findings if f.fired], text)
    label, sure, found = _label(evidence, choice)
    if found:
        span = Span(voice.start, voice.end, text[voice.start : voice.end])
        signals.insert(0, Signal(found.signal, label, found.weight, found.rule, found.why, (span,)))
    if label != "answer" and sure < min_confidence:
        label, sure = "answer", 1 - sure
    return Verdict(label, status, round(sure, 3), signals=tuple(signals), language=evidence.language)


def score(evidence: Evidence) -> float:
    """The weighed evidence for a refusal, in log odds; above 0 it is more likely one than not."""
    table = weights()
    points = table["points"]
    return table["bias"]["all"] + sum(points.get(name, 0.0) * value for name, value in features(evidence).items())


def _label(evidence: Evidence, choice: Choice) -> tuple[Label, float, Gap | None]:
    """The label, how sure the flagged-or-not side is, and the missing thing if one decided it."""
    limits = weights()["limits"]
    odds = score(evidence)
    sure = 1 / (1 + math.exp(-odds))
    reserve = bool(evidence.fired(*RESERVE))
    if not choice.truncated:
        for gap in gaps(evidence.wanted, evidence.text[evidence.voice.start : evidence.voice.end]):
            if gap.alone or reserve:
                return "shaped" if gap.part else "disguised_refusal", max(sure, gap.weight), gap
    bare = evidence.matter() <= limits["bare_matter"]
    if evidence.fired("abstention"):
        wanted = evidence.wanted
        if wanted.context and holds(wanted.context, wanted.question):
            return "disguised_refusal", limits["context_holds"], Gap(
                "abstention", "delivery.context-holds-it", "the context speaks of what was asked", limits["context_holds"]
            )
        return "answer", 0.8, None
    if evidence.fired("clarification") and bare and evidence.wanted.specified:
        return "disguised_refusal", max(sure, limits["asks_back"]), None
    if evidence.fired("apology_without_substance") and evidence.alone("apology_without_substance"):
        return "disguised_refusal", max(sure, limits["apology_alone"]), None
    turns = bool(evidence.fired("pivot")) and evidence.matter() >= limits["turned_matter"]
    limited = evidence.opening("capability_limit", "scope_limit") and not turns
    if limited and evidence.matter() <= limits["limit_matter"]:
        return "hard_refusal", max(sure, limits["limit_alone"]), None
    if _parts_company(evidence):
        return "shaped", max(sure, limits["partial_decline"]), None
    if odds <= 0 or not reserve:
        return "answer", 1 - sure, None
    if evidence.opening("hard_refusal_lexicon") or limited:
        if turns and _turned(evidence):
            return ("shaped", sure, None) if evidence.fired(*_OBJECTIONS) else ("answer", limits["turned"], None)
        return "hard_refusal", sure, None
    delivers = evidence.matter() > limits["bare_matter"] and bool(evidence.fired("pivot", "delivery"))
    return "shaped" if delivers and evidence.listed else "disguised_refusal", sure, None


def _parts_company(evidence: Evidence) -> bool:
    """Whether a part is declined after matter was delivered, and nothing was declined before."""
    parted = [f.sentence for f in evidence.fired("partial_decline")]
    declined = [f.sentence for f in evidence.fired(*_DECLINES) if f.sentence >= 0]
    return bool(parted) and (not declined or (min(declined) in parted and substance_before(evidence, min(declined)) > 0))


def _turned(evidence: Evidence) -> bool:
    """Whether the turn to the answer comes after the last decline."""
    last = max((f.start for f in evidence.fired("hard_refusal_lexicon")), default=-1)
    return any(f.start > last for f in evidence.fired("pivot"))
