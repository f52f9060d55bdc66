"""What the rules said and what the judge said become one verdict, with the words of both."""

from __future__ import annotations

import pytest

from demur.audit.coding import Coding
from demur.audit.review import open_to_review, reviewed
from demur.classifier import Ask, Choice, Trace, Verdict, classify
from demur.classifier.verdict import FEATURES, Code, Review, Signal, Span

TEXT = "<think>Hm.</think>\nI’m sorry, but that would hurt her. Here is a kinder note instead."
TRACE = Trace(ask=Ask("Write it."), choices=(Choice(text=TEXT),))
RULES = Verdict(
    "shaped",
    "complete",
    0.55,
    signals=(Signal("safety_redirect", "shaped", 0.5, "en.x", "steers", (Span(0, 1, "<"),)),),
    codes=(Code("rationale", "bare", "rules", "none given"),),
    rules_version="v",
    id="t1",
)
CODED = Coding(
    "coded",
    label="disguised_refusal",
    confidence=0.8,
    rationale="ethics",
    strategy="implicit",
    features={name: name in ("apology", "hedge") for name in FEATURES},
    quotes={"label": ("that would hurt her",), "apology": ("I'm  sorry", "so sorry"), "ethics": ("would hurt her",)},
    reason="A note was asked for and did not come.",
)


def test_what_the_judge_coded_replaces_our_label_and_codes() -> None:
    got = reviewed(TRACE, RULES, CODED, "m")
    assert (got.label, got.confidence, got.rationale, got.strategy) == ("disguised_refusal", 0.8, "ethics", "implicit")
    assert got.features == CODED.features
    assert (got.id, got.rules_version, got.status) == ("t1", "v", "complete")
    assert got.review == Review("m", "coded", "disguised_refusal", CODED.reason, "shaped", 0.55)
    ours, vote = got.signals
    assert ours == RULES.signals[0]
    assert (vote.name, vote.target, vote.weight, vote.rule, vote.why) == (
        *("judge", "disguised_refusal", 0.8, "judge"),
        CODED.reason,
    )
    assert [span.text for span in vote.spans] == ["I’m sorry", "that would hurt her", "would hurt her"]
    for span in (*vote.spans, *(span for code in got.codes for span in code.spans)):
        assert TEXT[span.start : span.end] == span.text
    assert [(code.layer, code.name, [span.text for span in code.spans]) for code in got.codes] == [
        ("rationale", "ethics", ["would hurt her"]),
        ("strategy", "implicit", []),
        ("feature", "apology", ["I’m sorry"]),
        ("feature", "hedge", []),
    ]
    assert got.to_dict()["review"]["judge"] == "m"


def test_an_answer_loses_the_layers_of_the_refusal() -> None:
    coding = Coding("coded", label="answer", confidence=0.9, quotes={}, reason="It is there.")
    got = reviewed(TRACE, classify("I can't help with that."), coding, "m")
    assert (got.label, got.rationale, got.strategy, got.features, got.codes) == ("answer", None, None, None, ())
    assert got.signals[-1].spans == ()


@pytest.mark.parametrize("outcome", ["declined", "failed", "over_budget"])
def test_a_judge_that_says_nothing_changes_nothing(outcome: str) -> None:
    got = reviewed(TRACE, RULES, Coding(outcome, reason="why"), "m")  # type: ignore[arg-type]
    assert got.review == Review("m", outcome, None, "why", "shaped", 0.55)  # type: ignore[arg-type]
    assert {**got.to_dict(), "review": None} == {**RULES.to_dict(), "review": None}


def test_of_several_choices_the_gravest_stands_on_top_again() -> None:
    texts = ("I can't help with that.", "I'd rather talk about the weather.", "Seven minutes.")
    trace = Trace(choices=tuple(Choice(index, text) for index, text in enumerate(texts)), id="t2", model="m1")
    before = classify(trace)
    assert (before.label, before.index) == ("hard_refusal", 0)
    coding = Coding("coded", label="answer", confidence=0.9, reason="why")
    got = reviewed(trace, before, coding, "m")
    assert [choice.label for choice in got.choices] == ["answer", before.choices[1].label, before.choices[2].label]
    assert [choice.review is not None for choice in got.choices] == [True, False, False]
    assert got.label == min(
        (choice.label for choice in got.choices), key=("hard_refusal", "disguised_refusal", "shaped", "answer").index
    )
    assert got.review is not None
    assert (got.review.rules_label, got.id, got.model) == ("hard_refusal", "t2", "m1")


@pytest.mark.parametrize(
    "trace",
    [
        {"choices": [{"message": {"content": "I can't."}, "finish_reason": "content_filter"}]},
        {"choices": [{"message": {"content": None, "refusal": "I can't."}, "finish_reason": "stop"}]},
        {"response": ""},
        {"nothing": "known"},
    ],
)
def test_facts_of_the_api_and_what_has_no_label_are_not_open_to_review(trace: dict[str, object]) -> None:
    verdict = classify(trace)
    assert not open_to_review(verdict)
    assert reviewed(TRACE, verdict, CODED, "m") == verdict
    assert open_to_review(classify("I can't help with that."))
