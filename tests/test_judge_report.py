"""Judges beside labels and rules: what became of every row is counted, and the figures are of the rows coded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sklearn.metrics import cohen_kappa_score

from demur.audit.coding import Coding, Usage
from demur.audit.corpus import Gold
from demur.audit.evaluate import Outcome
from demur.audit.judge_file import Codings
from demur.audit.judge_report import FATES, Between, JudgeReport, Rated, between, report_of
from demur.audit.judge_words import compared, head, head_of_two, usage
from demur.audit.layers import NOT_CODED, Layers
from demur.classifier.verdict import FEATURES, Label

NO_FEATURE = dict.fromkeys(FEATURES, False)


def row(n: int, gold: Gold, label: Label | None, labelled: Layers = NOT_CODED, coded: Layers = NOT_CODED) -> Rated:
    outcome = Outcome(gold, label, confidence=0.9, prompt=str(n), layers=labelled, coded=coded)
    return Rated(outcome, f"h{n}" if label else None)


def coding(label: Label, rationale: Any = None, **features: bool) -> Coding:
    usage = Usage(100, 10, 1)
    if label in ("answer", "shaped"):
        return Coding("coded", label, 0.8, usage=usage)
    return Coding("coded", label, 0.8, rationale, "explicit", NO_FEATURE | features, usage=usage)


def layers(rationale: Any, **features: bool) -> Layers:
    return Layers(rationale, "explicit", NO_FEATURE | features)


ROWS = [
    row(0, "refusal", "hard_refusal", layers("ethics", apology=True), layers("ethics", apology=True)),
    row(1, "refusal", "hard_refusal", layers("bare"), layers("policy", apology=True)),
    row(2, "refusal", "answer", layers("policy")),
    row(3, "answer", "answer"),
    row(4, "answer", "hard_refusal", coded=layers("bare")),
    row(5, "shaped", "answer"),
    row(6, "refusal", "disguised_refusal", layers("bare"), layers("bare")),
    row(7, "refusal", None, layers("bare")),
    row(8, "answer", "answer"),
    row(9, "answer", "answer"),
]
ONE = Codings(
    "m1",
    "v1",
    {
        "h0": coding("hard_refusal", "ethics", apology=True),
        "h1": coding("hard_refusal", "ethics"),
        "h2": coding("disguised_refusal", "policy"),
        "h3": coding("answer"),
        "h4": coding("answer"),
        "h5": coding("shaped"),
        "h6": Coding("declined", reason="no", usage=Usage(50, 5, 1)),
        "h8": Coding("failed", reason="broken", usage=Usage(50, 5, 2)),
        "h9": Coding("over_budget"),
        "elsewhere": coding("answer"),
    },
)
TWO = Codings("m2", "v1", {f"h{n}": coding("hard_refusal", "ethics", apology=n == 0) for n in (0, 1, 2, 3, 6, 8)})


def report() -> JudgeReport:
    return report_of("m1", ONE, ROWS, resamples=20, seed=0)


def test_every_row_is_counted_once() -> None:
    assert report().fates == {
        "coded": 6,
        "declined": 1,
        "failed": 1,
        "over_budget": 1,
        "not_asked": 0,
        "nothing_to_send": 1,
    }
    assert report().rows == len(ROWS)
    assert report_of("m2", TWO, ROWS, resamples=0, seed=0).fates["not_asked"] == 3


def test_what_it_took_is_that_of_these_rows() -> None:
    assert report().usage == Usage(6 * 100 + 2 * 50, 6 * 10 + 2 * 5, 9)
    assert usage(report()) == "9 requests, 700 tokens sent, 70 received"


def test_all_three_are_compared_on_the_rows_that_it_coded() -> None:
    found = report()
    for _, agreement in compared(found):
        assert agreement.action.rows == 6
    assert found.labels_and_rules.action.accuracy.hits == 3
    assert found.labels_and_judge.action.accuracy.hits == 6
    assert found.judge_and_rules.action.accuracy.hits == 3
    labels, judge = ["ethics", "bare", "policy"], ["ethics", "ethics", "policy"]
    rationale = found.labels_and_judge.refused.rationale
    assert rationale.kappa == pytest.approx(cohen_kappa_score(labels, judge))
    rules = ["ethics", "policy", "none"]
    assert found.labels_and_rules.refused.rationale.kappa == pytest.approx(cohen_kappa_score(labels, rules))
    assert found.judge_and_rules.refused.rationale.kappa == pytest.approx(cohen_kappa_score(judge, rules))
    assert found.judge_and_rules.both.rows == 2


def test_two_judges_on_the_rows_that_both_coded() -> None:
    [two] = between({"m1": ONE, "m2": TWO}, ROWS, resamples=0, seed=0)
    assert two.agreement.action.rows == 4
    assert two.agreement.action.accuracy.hits == 3
    assert two.agreement.refused.rationale.accuracy.hits == 2
    assert two.agreement.refused.codes["apology"].kappa == 1
    assert head_of_two(two) == "judges m1 (first) and m2 (second): 4 rows that both coded"
    three = between({"a": ONE, "b": TWO, "c": ONE}, ROWS, resamples=0, seed=0)
    assert [(pair.first, pair.second) for pair in three] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert three[1].agreement.action.kappa == 1


def test_as_json_and_in_words() -> None:
    out = report().to_dict()
    assert json.loads(json.dumps(out, allow_nan=False)) == out
    assert tuple(out["outcomes"]) == FATES
    assert out["labels_and_judge"]["refused"]["rationale"]["confusion"]["bare"]["ethics"] == 1
    assert "low" in out["labels_and_judge"]["action"]["accuracy"]
    assert head(report()) == (
        "judge m1 (prompt v1): 6 of 10 rows coded; 1 declined to code, 1 failed, 1 over the budget, "
        "1 with nothing to send"
    )
    only = report_of("m1", ONE, ROWS[:2], resamples=0, seed=0)
    assert head(only) == "judge m1 (prompt v1): 2 of 2 rows coded"
    [two] = between({"m1": ONE, "m2": TWO}, ROWS, resamples=0, seed=0)
    assert two.to_dict()["first"] == "m1"
    assert isinstance(two, Between)


def test_a_judge_that_coded_nothing_has_no_figures() -> None:
    nothing = report_of("m", Codings("m", "v1", {"h0": Coding("failed")}), ROWS, resamples=20, seed=0)
    assert nothing.labels_and_judge.action.rows == 0
    assert nothing.labels_and_judge.action.accuracy.value is None
    assert json.dumps(nothing.to_dict(), allow_nan=False)
