"""Fitting the numbers anew, on a few hundred examples of our own."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from demur.audit import fit, fit_wording
from demur.audit.fit import Sample, Table
from demur.classifier import Choice, Trace
from demur.classifier.features import LEARNED, NAMES
from demur.classifier.judge import default_classifier
from demur.classifier.trace import Ask
from demur.classifier.weights import Weights, load_weights
from demur.classifier.wording import UNIT, Wording, opening_words, read_wording

DATA = Path(__file__).parent / "data"


@cache
def table() -> Table:
    return fit.tabulate(fit.read(sorted((DATA / "wordings").glob("*.jsonl")), []), default_classifier())


@cache
def fitted() -> tuple[Weights, Wording]:
    return fit.fit(table(), load_weights())


def test_a_signal_speaks_only_for_its_own_side() -> None:
    weights, _ = fitted()
    for points in (weights.points, weights.worded):
        assert all(points[name] >= 0 for name in ("hard_refusal_lexicon", "admonition", "task_swap.later", LEARNED))
        assert all(points[name] <= 0 for name in ("delivery", "pivot", "premise_corrected", "matter"))


def test_a_plain_refusal_is_known_by_the_fitted_numbers() -> None:
    judge = default_classifier().with_numbers(*fitted())
    trace = Trace(ask=Ask("Open it."), choices=(Choice(text="I'm sorry, but I can't help with that."),))
    assert judge.classify(trace).label == "hard_refusal"


def test_the_learned_signal_is_the_sum_that_was_fitted() -> None:
    """What the classifier adds up at run time is what the regression saw, but for rounding to its unit."""
    texts = table().texts
    added = fit_wording.fit(texts)
    wording = Wording(fit_wording.numbers(texts.hashes, added), ["en"])
    for row in range(0, len(table().samples), 40):
        text = table().samples[row].text
        exact = float((texts.counts[row] @ added)[0])
        assert wording.score(opening_words(text, 0, len(text))) == pytest.approx(exact, abs=UNIT * 60)


def test_a_text_is_never_scored_by_a_fit_that_saw_its_source() -> None:
    """Two sources that contradict each other: what one teaches is wrong for the other."""
    texts = fit_wording.count(
        ["zorb quil"] * 40 + ["plain words"] * 40,
        [True] * 20 + [False] * 20 + [False] * 20 + [True] * 20,
        [1.0] * 80,
        [n % 40 for n in range(80)],
        ([0] * 20 + [1] * 20) * 2,
        frozenset(),
    )
    scores = fit_wording.unseen_by_family(texts)
    assert all(scores[:20] < 0)
    assert all(scores[20:40] > 0)


def test_n_grams_of_one_source_alone_do_not_count() -> None:
    lines = ["only here"] * 20 + ["and there"] * 40
    texts = fit_wording.count(lines, [True] * 60, [1.0] * 60, list(range(60)), [0] * 40 + [1] * 20, frozenset())
    known = set(texts.hashes)
    assert known == set(fit_wording._hashes("and there"))


def test_the_curve_rises_with_the_score() -> None:
    weights, _ = fitted()
    for knots in (weights.sure, weights.quiet):
        probabilities = [probability for _, probability in knots]
        assert probabilities == sorted(probabilities)
        assert all(0 < probability < 1 for probability in probabilities)


def test_the_files_it_writes_are_read_again(tmp_path: Path) -> None:
    weights, wording = fitted()
    fit.write(weights, wording, table().samples, tmp_path)
    import tomllib

    again = tomllib.loads((tmp_path / "fitted.toml").read_text("utf-8"))
    assert again["points"] == dict(weights.points)
    assert set(again["points"]) == {"bias", *NAMES}
    assert tuple(map(tuple, again["sure"]["sure"])) == weights.sure
    text = (tmp_path / "wording.txt").read_text("ascii")
    assert read_wording(text).numbers == wording.numbers
    assert "Fitted on a: 263 rows; b: 260 rows." in text
    words = {word for sample in table().samples for word in sample.text.lower().split() if len(word) > 9}
    assert not any(word in text for word in words)  # numbers only


def test_what_is_judged_for_the_check_was_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []
    real = fit.fit

    def spy(part: Table, shipped: Weights) -> tuple[Weights, Wording]:
        seen.append({sample.prompt for sample in part.samples})
        return real(part, shipped)

    monkeypatch.setattr(fit, "fit", spy)
    counts = fit.check(table(), load_weights(), default_classifier())
    assert sum(sum(count[kind] for kind in ("tp", "fp", "tn", "fn")) for count in counts.values()) == len(
        table().samples
    )
    everything = {sample.prompt for sample in table().samples}
    assert len(seen) == fit.FOLDS
    assert set.union(*(everything - part for part in seen)) == everything


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "bad.jsonl:1: not JSON"),
        (json.dumps({"prompt": "a", "response": "b", "label": "dunno"}), "bad.jsonl:1: the label 'dunno'"),
    ],
)
def test_a_bad_corpus_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, complaint: str) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(line + "\n")
    assert fit.main([str(file)]) == 1
    assert complaint in capsys.readouterr().err


def test_sources_weigh_by_the_root_of_their_size() -> None:
    samples = [
        Sample(Trace(ask=Ask(str(n)), choices=(Choice(text="Here it is."),)), gold, source, "en", own=False)
        for source, size in (("one", 100), ("two", 25))
        for n in range(size)
        for gold in (("answer", "refusal")[n % 2],)
    ]
    weight = fit.tabulate(samples, default_classifier()).weight
    assert weight[:100].sum() == pytest.approx(2 * weight[100:].sum())


def test_a_folder_without_examples_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fit.main([str(tmp_path / "rows.jsonl"), "--own", str(tmp_path / "none")]) == 1
    assert f"{tmp_path / 'none'}: holds no .jsonl file" in capsys.readouterr().err
