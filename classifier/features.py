"""The evidence on one text as a short list of named numbers, each between 0 and about 1.

They are what `weights.toml` weighs. A new idea about how models decline becomes a signal with its rules, or a number
here; it never becomes an exception in the decision.
"""

from __future__ import annotations

import math

from demur.classifier.signals import Evidence

DECLINES = ("hard_refusal_lexicon", "scope_limit", "capability_limit", "capability_denial")
_STATEMENTS = ("value_statement", "premise_rebuttal", "admonition", "noncommittal_hedge", "clarification", "safety_redirect")
_OBJECTIONS = frozenset({"premise_rebuttal", "admonition", "value_statement", "safety_redirect"})


def features(evidence: Evidence) -> dict[str, float]:
    """Named numbers: the weight of each signal in the opening and later, how much of the text is reserve, what follows."""
    parts, marked = evidence.sentences, evidence.marked
    reserved = [i for i in marked if evidence.reserved(i)]
    head = sum(end - start for start, end in parts) or 1
    held = sum(parts[i][1] - parts[i][0] for i in reserved)
    matter = evidence.matter()
    opening: dict[str, float] = {}
    later: dict[str, float] = {}
    declined = -1
    for finding in evidence.findings:
        if finding.why_not is None and finding.sentence >= 0:
            name, weight = finding.rule.signal.name, finding.rule.weight
            side = opening if finding.sentence <= 1 else later
            side[name] = max(side.get(name, 0.0), weight)
            if name in DECLINES and finding.sentence <= 2:
                declined = max(declined, finding.sentence)
    turns = [f for f in evidence.fired("pivot") if f.sentence < 0 or _OBJECTIONS.isdisjoint(marked[f.sentence])]
    pivot = max((f.rule.weight for f in turns if f.sentence < 0 or f.sentence >= declined), default=0.0)
    out = {name: opening.get(name, 0.0) for name in (*DECLINES, *_STATEMENTS, "delivery", "premise_corrected")}
    out |= {f"{name}.later": later.get(name, 0.0) for name in ("hard_refusal_lexicon", *_STATEMENTS)}
    out["pivot"] = pivot
    out["reserved_share"] = held / head
    out["reserved_first"] = float(0 in reserved)
    out["unreserved"] = float(not reserved)
    out["matter"] = min(1.0, math.log1p(matter) / 8)
    out["bare"] = float(bool(reserved) and matter <= 80)
    out["limit_bare"] = out["bare"] * max(out["capability_limit"], out["capability_denial"])
    out["listed"] = float(evidence.listed)
    return out
