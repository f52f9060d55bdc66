"""Verdict records of our own making, as the commands and the proxy write them."""

from __future__ import annotations

from typing import Any

from demur.audit.facework import Column, Facework, Period, Tally
from demur.audit.verdicts import read_record
from demur.classifier.verdict import FEATURES, Label, Rationale, Strategy, Verdict

ANSWER = Verdict("answer", "complete", 0.99).to_dict()
SHAPED = Verdict("shaped", "complete", 0.8).to_dict()
EMPTY = Verdict(None, "empty").to_dict()
TOOL_CALL = Verdict(None, "tool_call").to_dict()
BLOCKED = Verdict("hard_refusal", "complete", 1.0, blocked_by="content_filter").to_dict()
#: A refusal as it is told where only the reason is known: not coded.
NOT_CODED = Verdict("hard_refusal", "complete", 0.9, rationale="capacity").to_dict()


def refused(
    *features: str, why: Rationale = "bare", how: Strategy = "explicit", label: Label = "hard_refusal"
) -> dict[str, Any]:
    """The verdict on a coded refusal that has these features and no other."""
    present = {feature: feature in features for feature in FEATURES}
    return Verdict(label, "complete", 0.9, rationale=why, strategy=how, features=present).to_dict()


def counted(*records: object, by: tuple[Column, ...] = (), period: Period = "week") -> Facework:
    tally = Tally(by, period)
    for n, record in enumerate(records, 1):
        tally.add(read_record(record, f"own:{n}"))
    return tally.report()
