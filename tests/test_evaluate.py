"""The figures against values worked out by hand, against a bootstrap done the slow way, and against the scoreboard."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from demur.audit.corpus import read_corpus
from demur.audit.evaluate import Outcome, Scores, score, score_by
from demur.audit.proportion import Rate
from demur.classifier import normalize
from demur.classifier.judge import default_classifier

# Six declined, four answered. Flagged are 1, 2, 4, 8, and 9, which got no label though it was answered.
ROWS = (
    Outcome("refusal", "hard_refusal", confidence=0.9, prompt="a", language="en"),
    Outcome("refusal", "disguised_refusal", confidence=0.8, prompt="b", language="en"),
    Outcome("refusal", "answer", confidence=0.9, prompt="c", language="en"),
    Outcome("shaped", "shaped", confidence=0.6, prompt="d", language="de"),
    Outcome("shaped", "answer", confidence=0.6, prompt="e", language="en"),
    Outcome("answer", "answer", confidence=0.95, prompt="a", language="en"),
    Outcome("answer", "answer", confidence=0.95, prompt="b", language="de"),
    Outcome("answer", "hard_refusal", confidence=0.55, prompt="c"),
    Outcome("answer", None, "empty", prompt="d", language="de"),
    Outcome("refusal", None, "tool_call", prompt="e", language="en"),
)
FIGURES = (
    *("f1", "f1_without_partial", "precision", "recall", "false_alarms", "macro_f1", "exact", "kappa", "ece", "auroc"),
)


def scored(rows: Sequence[Outcome] = ROWS) -> Scores:
    return score(rows, resamples=0)


def test_flagged_against_declined() -> None:
    scores = scored()
    assert (scores.precision, scores.recall, scores.false_alarms) == (Rate(3, 5), Rate(3, 6), Rate(2, 4))
    assert scores.f1 == pytest.approx(6 / 11)
    assert scores.f1_without_partial == pytest.approx(4 / 8)


def test_what_got_no_label_is_counted_by_status() -> None:
    scores = scored()
    assert (scores.rows, scores.prompts) == (10, 5)
    assert scores.unjudged == {"empty": 1, "tool_call": 1}


def test_three_classes() -> None:
    scores = scored()
    assert scores.confusion == ((2, 0, 1, 1), (1, 1, 0, 0), (1, 0, 2, 1))
    assert scores.macro_f1 == pytest.approx((6 / 10 + 2 / 3 + 4 / 7) / 3)
    assert scores.kappa == pytest.approx((0.5 - 0.3) / (1 - 0.3))


def test_a_class_that_the_gold_lacks_is_not_in_the_mean() -> None:
    rows = [row for row in ROWS if row.gold != "shaped"]
    assert scored(rows).macro_f1 == pytest.approx((6 / 9 + 4 / 7) / 2)


def test_calibration_leaves_partial_answers_out() -> None:
    scores = scored()
    assert scores.ece == pytest.approx((0.7 + 0.2 + 1.55) / 8)
    assert scores.auroc == pytest.approx(14.5 / 16)
    filled = {b.low: (b.right.hits, b.right.of, b.said) for b in scores.bins if b.right.of}
    assert list(filled) == [0.5, 0.8, 0.9]
    assert filled[0.5] == pytest.approx((0, 3, 1.55 / 3))
    assert filled[0.8] == pytest.approx((1, 1, 0.8))
    assert filled[0.9] == pytest.approx((3, 4, 3.7 / 4))


def test_full_confidence_is_in_the_last_bin() -> None:
    assert scored([replace(ROWS[0], confidence=1.0)]).bins[-1].right == Rate(1, 1)


def test_exact_labels_are_scored_where_the_gold_has_them() -> None:
    assert scored().exact == Rate(0, 0)
    rows = [replace(ROWS[0], exact="hard_refusal"), replace(ROWS[1], exact="hard_refusal"), ROWS[2]]
    assert scored(rows).exact == Rate(1, 2)
    assert [row.right for row in rows] == [True, False, False]


def test_figures_that_mean_nothing_have_no_value() -> None:
    scores = score([ROWS[5], ROWS[6]])
    assert [scores.value(name) for name in ("f1", "precision", "recall", "kappa", "auroc", "exact")] == [None] * 6
    assert scores.false_alarms == Rate(0, 2)
    assert "recall" not in scores.intervals
    assert scored([]).value("ece") is None


def test_groups_are_in_order_of_size_and_without_rows_that_name_none() -> None:
    groups = score_by(ROWS, "language", resamples=0)
    assert [(name, group.rows) for name, group in groups.items()] == [("en", 6), ("de", 3)]
    assert groups["de"].false_alarms == Rate(1, 2)
    assert score_by(ROWS, "model") == {}


def some_rows(count: int = 60) -> list[Outcome]:
    """Rows of all kinds, several to a prompt."""
    rng = random.Random(5)
    golds, labels = ("answer", "shaped", "refusal"), ("answer", "shaped", "hard_refusal", "disguised_refusal", None)
    return [
        Outcome(
            golds[rng.randrange(3)],  # type: ignore[arg-type]
            labels[rng.randrange(5)],  # type: ignore[arg-type]
            confidence=rng.choice([0.55, 0.7, 0.85, 0.97]),
            prompt=str(rng.randrange(count // 3)),
            exact=rng.choice([None, "answer", "hard_refusal"]),
        )
        for _ in range(count)
    ]


def test_the_intervals_are_those_of_a_bootstrap_done_row_by_row() -> None:
    rows, resamples, seed = some_rows(), 60, 3
    prompts = list(dict.fromkeys(row.prompt for row in rows))
    drawn = np.random.default_rng(seed).integers(len(prompts), size=(resamples, len(prompts)))
    again = [scored([row for n in one for row in rows if row.prompt == prompts[n]]) for one in drawn]
    found = score(rows, resamples=resamples, seed=seed).intervals
    assert set(found) == set(FIGURES)
    for name in FIGURES:
        values = [value for scores in again if (value := scores.value(name)) is not None]
        assert found[name] == pytest.approx(tuple(np.percentile(values, [2.5, 97.5]))), name


def test_rows_of_one_prompt_count_as_one() -> None:
    """Ten copies of an answer tell nothing new: the interval stays as wide, as long as they share the prompt."""
    rows = [replace(row, prompt=str(n)) for n, row in enumerate(some_rows(30))]
    once, often = score(rows, resamples=200).intervals, score(rows * 10, resamples=200).intervals
    for name in FIGURES:
        assert often[name] == pytest.approx(once[name]), name
    apart = score([replace(row, prompt=f"{row.prompt}/{n}") for n in range(10) for row in rows], resamples=200)
    assert np.ptp(apart.intervals["f1"]) < np.ptp(once["f1"]) / 2


def test_rows_without_a_prompt_stand_each_for_itself() -> None:
    assert scored([replace(row, prompt="") for row in ROWS]).prompts == 10


def test_intervals_are_the_same_again_and_hold_the_figure() -> None:
    scores = score(ROWS, resamples=300)
    assert scores.intervals == score(ROWS, resamples=300).intervals
    assert scores.intervals != score(ROWS, resamples=300, seed=1).intervals
    low, high = scores.intervals["f1"]
    assert low < (scores.f1 or 0) < high


def test_there_is_no_interval_without_resamples_or_from_one_prompt() -> None:
    assert scored().intervals == {}
    assert score([replace(row, prompt="a") for row in ROWS]).intervals == {}


@pytest.mark.parametrize("name", ["judged_dev", "gold_dev", "tool_calls"])
def test_the_figures_are_those_of_the_scoreboard(
    scoreboard: ModuleType, shared_corpus: Callable[[str], Path], name: str
) -> None:
    with shared_corpus(f"{name}.jsonl").open(encoding="utf-8") as lines:
        rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    corpus = read_corpus(name, ((f"{name}:{n}", row) for n, row in enumerate(rows, 1)))
    verdicts: dict[str, dict[str, Any]] = {}
    outcomes: list[Outcome] = []
    for given, row in zip(rows, corpus.rows, strict=True):
        trace = normalize(row.obj)
        verdict = default_classifier().classify(trace)
        verdicts[str(given["id"])] = {"label": verdict.label, "confidence": verdict.confidence, "signals": []}
        outcomes.append(Outcome(row.gold, verdict.label, verdict.status, verdict.confidence, trace.ask.prompt))
        there = normalize(scoreboard.to_input(given))
        assert (there.ask.prompt, there.choices) == (trace.ask.prompt, trace.choices)
    theirs, ours = scoreboard.score_corpus(name, rows, verdicts, None), scored(outcomes)
    assert (ours.rows, sum(ours.unjudged.values())) == (theirs["n"], theirs["none"])
    same = {"f1": "F1a", "f1_without_partial": "F1b", "precision": "P", "recall": "R", "false_alarms": "FPR"}
    same |= {"macro_f1": "3-class", "ece": "ECE", "auroc": "AUROC"}
    for mine, other in same.items():
        assert ours.value(mine) == pytest.approx(theirs[other], rel=1e-12, nan_ok=True), mine
    action = {None: "none", "answer": "full_compliance", "shaped": "partial"}
    pairs = [(row["label"], action.get(verdicts[str(row["id"])]["label"], "refusal")) for row in rows]
    assert ours.kappa == pytest.approx(scoreboard.kappa(pairs), rel=1e-12)
