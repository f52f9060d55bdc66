from __future__ import annotations

from dataclasses import replace

import pytest

from demur.classifier.doubt import is_unsure, open_to_review
from demur.classifier.verdict import Signal, Verdict

READ = Verdict("answer", "complete", 0.7, signals=(Signal("pivot", "answer", 0.5, "rule", "why"),))
FACT = Signal("content_filter", "hard_refusal", 1.0, "fact", "says so itself", field="finish_reason")


@pytest.mark.parametrize(
    ("below", "confidence", "unsure"),
    [(0.7, 0.69, True), (0.7, 0.7, False), (0.7, 0.9, False), (0.0, 0.0, False), (1.0, 0.5, True), (1.0, 1.0, True)],
)
def test_below_means_below_and_one_means_all(below: float, confidence: float, unsure: bool) -> None:
    assert is_unsure(replace(READ, confidence=confidence), below) is unsure


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict(None, "tool_call", confidence=0.1),
        Verdict(None, "empty"),
        replace(READ, blocked_by="content_filter"),
        replace(READ, signals=(*READ.signals, FACT)),
    ],
)
def test_facts_and_what_has_no_label_are_never_unsure(verdict: Verdict) -> None:
    assert not open_to_review(verdict)
    assert not is_unsure(verdict, 1)
    assert open_to_review(READ)
