"""The evidence on one text as a short list of named numbers, each between 0 and about 1.

They are what `fitted.toml` weighs. A new idea about how models decline becomes a signal with its rules, or a number
here; it never becomes an exception in the decision.
"""

from __future__ import annotations

import math

from demur.classifier.evidence import RESERVE, Evidence

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
#: The learned signal: in log odds, the one number that may be below 0 and beyond 1.
LEARNED = "learned_wording"
#: Characters of matter that leave an answer bare. Own choice.
_BARE = 80


NAMES = (
    *(*_DECLINING, *_STATING, *_ANSWERING),
    *(f"{name}.later" for name in ("hard_refusal_lexicon", *_STATING)),
    *("pivot", "reserved_share", "reserved_first", "unreserved", "matter", "limit_bare", "listed", "judged", "kinds"),
    LEARNED,
)
_FIRST = {name: name for name in (*_DECLINING, *_STATING, *_ANSWERING)}
_LATER = {name: f"{name}.later" for name in ("hard_refusal_lexicon", *_STATING)}


def features(evidence: Evidence) -> dict[str, float]:
    """How strong each signal is in the first two sentences and later, how much is reserve, what follows.

    Numbers that are 0 are left out; `NAMES` are all there can be.
    """
    found: dict[str, float] = {}
    declined = -1
    for name, findings in evidence.counted.items():
        for finding in findings:
            sentence = finding.sentence
            key = (_FIRST if sentence <= 1 else _LATER).get(name) if sentence >= 0 else None
            if key and found.get(key, 0.0) < finding.rule.weight:
                found[key] = finding.rule.weight
            if declined < sentence <= 2 and name in _DECLINING:
                declined = sentence
    turns = [f.rule.weight for f in evidence.turns() if f.sentence < 0 or f.sentence >= declined]
    reserve = evidence.reserve
    matter = evidence.matter
    found["pivot"] = max(turns, default=0.0)
    found["matter"] = min(1.0, math.log1p(matter) / 8)
    found["listed"] = float(evidence.listed())
    found[LEARNED] = evidence.wording
    if reserve:
        parts = evidence.sentences
        limit = max(found.get("capability_limit", 0.0), found.get("capability_denial", 0.0))
        found["reserved_share"] = reserve / (parts[-1][1] - parts[0][0])
        found["reserved_first"] = float(evidence.reserved(0))
        found["limit_bare"] = limit if matter <= _BARE else 0.0
        found["judged"] = float(evidence.wanted.judges)
    else:
        found["unreserved"] = 1.0
    found["kinds"] = max(0, len(RESERVE.intersection(evidence.counted)) - 1) / 3
    return {name: found[name] for name in NAMES if found.get(name)}
