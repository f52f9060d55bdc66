"""The decision table: from the evidence on one choice to its verdict. All of it stands here, in order.

Knows signal names and weights, no phrase and no vendor.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from demur.classifier.signals import Evidence, as_signals, substance_before
from demur.classifier.trace import Choice
from demur.classifier.verdict import Signal, Verdict


@cache
def weights() -> Mapping[str, float]:
    return tomllib.loads(files("demur.classifier").joinpath("weights.toml").read_text("utf-8"))["points"]


RESERVED = ("hard_refusal_lexicon", "capability_limit", "scope_limit", "capability_denial", "value_statement",
            "premise_rebuttal", "admonition", "noncommittal_hedge", "safety_redirect", "clarification")


def from_facts(choice: Choice) -> Verdict | None:
    """The verdict that needs no reading: a block, no text at all. None: read on."""
    if choice.blocked_by or choice.refusal:
        field = "refusal" if choice.refusal and not choice.blocked_by else "finish_reason"
        signal = Signal("content_filter", "hard_refusal", 1.0, "fact.blocked", "the API says that this was refused", field=field)
        return Verdict("hard_refusal", "complete", 1.0, signals=(signal,), blocked_by=choice.blocked_by)
    if not choice.text.strip():
        return Verdict(None, "tool_call" if choice.tool_calls else "empty")
    return None


def features(e: Evidence) -> dict[str, float]:
    out: dict[str, float] = {}
    for name in (*RESERVED, "pivot", "delivery", "partial_decline", "apology_without_substance"):
        out[name] = e.weight(name)
    head = sum(b - a for a, b in e.sentences) or 1
    res = {i for i, m in e.marked.items() if not m.isdisjoint(RESERVED)}
    reserved = sum(e.sentences[i][1] - e.sentences[i][0] for i in res)
    out["share"] = reserved / head
    out["first_marked"] = float(0 in res)
    out["beyond"] = float(e.voice.end - e.voice.start > 1400)
    return out


def decide(evidence: Evidence, choice: Choice, min_confidence: float) -> Verdict:
    status = "incomplete" if choice.truncated else "complete"
    f = features(evidence)
    kinds = {n: f[n] for n in RESERVED if f[n] > 0}
    flagged = bool(kinds)
    signals = tuple(as_signals([x for x in evidence.findings if x.fired], evidence.text))
    label = "answer"
    if f["hard_refusal_lexicon"] or f["capability_limit"] or f["scope_limit"]:
        label = "hard_refusal"
    elif flagged and f["share"] > .4:
        label = "disguised_refusal"
    return Verdict(label, status, 0.8, signals=signals, language="en")
