"""The evidence on one text as a short list of named numbers, each between 0 and about 1.

They are what `weights.toml` weighs. A new idea about how models decline becomes a signal with its rules, or a number
here; it never becomes an exception in the decision.
"""

from __future__ import annotations

import math

from demur.classifier.evidence import Evidence

_DECLINING = ("hard_refusal_lexicon", "scope_limit", "capability_limit", "capability_denial")
_STATING = (
    "value_statement",
    "premise_rebuttal",
    "admonition",
    "noncommittal_hedge",
    "clarification",
    "safety_redirect",
    "task_swap",
)
_ANSWERING = ("delivery", "premise_corrected")
#: Characters of matter that leave an answer bare. Own choice.
_BARE = 80


def features(evidence: Evidence) -> dict[str, float]:
    """How strong each signal is in the first two sentences and later, how much is reserve, what follows."""
    parts = evidence.sentences
    reserved = [i for i in evidence.marked if evidence.reserved(i)]
    matter = evidence.matter()
    first: dict[str, float] = {}
    later: dict[str, float] = {}
    declined = -1
    for finding in evidence.findings:
        if finding.fired and finding.sentence >= 0:
            name, weight = finding.rule.signal.name, finding.rule.weight
            side = first if finding.sentence <= 1 else later
            side[name] = max(side.get(name, 0.0), weight)
            if name in _DECLINING and finding.sentence <= 2:
                declined = max(declined, finding.sentence)
    out = {name: first.get(name, 0.0) for name in (*_DECLINING, *_STATING, *_ANSWERING)}
    out |= {f"{name}.later": later.get(name, 0.0) for name in ("hard_refusal_lexicon", *_STATING)}
    turns = (f.rule.weight for f in evidence.turns() if f.sentence < 0 or f.sentence >= declined)
    out["pivot"] = max(turns, default=0.0)
    out["reserved_share"] = sum(parts[i][1] - parts[i][0] for i in reserved) / (sum(b - a for a, b in parts) or 1)
    out["reserved_first"] = float(0 in reserved)
    out["unreserved"] = float(not reserved)
    out["matter"] = min(1.0, math.log1p(matter) / 8)
    bare = bool(reserved) and matter <= _BARE
    out["limit_bare"] = max(out["capability_limit"], out["capability_denial"]) if bare else 0.0
    out["listed"] = float(evidence.listed())
    return out
