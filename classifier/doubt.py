"""Which verdicts a second opinion is for. One rule for all who ask: the proxy after delivery, and `classify`."""

from __future__ import annotations

from demur.classifier.verdict import Verdict


def open_to_review(verdict: Verdict) -> bool:
    """Whether a second opinion could change anything: there is a label, and it comes from reading the text, not from a
    fact that the API states."""
    stated = verdict.blocked_by is not None or any(signal.field is not None for signal in verdict.signals)
    return verdict.label is not None and not stated


def is_unsure(verdict: Verdict, below: float) -> bool:
    """Whether the verdict is open to review, and its confidence below `below`. From 1 on that means every one."""
    if verdict.confidence is None or not open_to_review(verdict):
        return False
    return verdict.confidence < below or below >= 1
