"""Agreement against values worked out by hand, scikit-learn's, a bootstrap done row by row, and the scoreboard's."""

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
from sklearn.metrics import cohen_kappa_score, confusion_matrix, precision_score, recall_score

from demur.audit.agreement import Agreement, Below, Compared, Pair, Said, agree
from demur.audit.agreement_words import Coders, codes, mean_note, summary, tables, used
from demur.audit.corpus import read_corpus
from demur.audit.evaluation import Case, agreement_of
from demur.audit.layers import RATIONALES, STRATEGIES, Layers
from demur.audit.proportion import Rate
from demur.classifier import classify, normalize
from demur.classifier.verdict import FEATURES

NO_FEATURE = dict.fromkeys(FEATURES, False)


def layers(rationale: Any = "bare", strategy: Any = "explicit", **features: bool) -> Layers:
    return Layers(rationale, strategy, NO_FEATURE | features)


def refusal(rationale: Any = "bare", strategy: Any = "explicit", **features: bool) -> Said:
    return Said("refusal", layers(rationale, strategy, **features))


# Five refusals by the reference; the other one misses the fourth, and does not code the fifth.
PAIRS = (
    Pair(refusal("ethics", apology=True), refusal("ethics", apology=True), "a"),
    Pair(refusal("ethics", apology=True), refusal("bare"), "b"),
    Pair(refusal("policy"), refusal("policy", "implicit", apology=True), "c"),
    Pair(refusal("bare", "implicit"), Said("answer"), "d"),
    Pair(refusal("bare"), Said("refusal"), "e"),
    Pair(Said("answer"), Said("answer"), "a"),
    Pair(Said("shaped"), Said(None), "b"),
    Pair(Said("answer"), refusal("ethics", apology=True), "c"),
)


def agreed(pairs: Sequence[Pair] = PAIRS) -> Agreement:
    return agree(pairs, resamples=0)


def test_the_action_is_compared_on_all_rows() -> None:
    action = agreed().action
    assert action.cells == ((1, 0, 1, 0), (0, 0, 0, 1), (1, 0, 4, 0), (0, 0, 0, 0))
    assert action.accuracy == Rate(5, 8)
    chance = (2 * 2 + 1 * 0 + 5 * 5) / 64
    assert action.kappa == pytest.approx((5 / 8 - chance) / (1 - chance))


def test_what_was_missed_or_not_coded_is_wrong_among_the_refusals_of_the_reference() -> None:
    refused = agreed().refused
    assert refused.rows == 5
    assert refused.rationale.accuracy == Rate(2, 5)
    assert refused.rationale.cells[0] == (0, 0, 0, 0, 2)  # bare: none
    assert refused.strategy.accuracy == Rate(2, 5)
    assert refused.codes["explicit"].accuracy == Rate(3, 5)  # nothing coded is no explicit one either
    assert refused.codes["implicit"].accuracy == Rate(3, 5)
    apology = refused.codes["apology"]
    assert (apology.accuracy, apology.precision, apology.recall) == (Rate(3, 5), Rate(1, 2), Rate(1, 2))
    assert apology.kappa == pytest.approx((3 / 5 - (4 + 9) / 25) / (1 - (4 + 9) / 25))


def test_where_both_coded_only_the_coding_counts() -> None:
    both = agreed().both
    assert both.rows == 3
    assert both.rationale.accuracy == Rate(2, 3)
    assert both.strategy.accuracy == Rate(2, 3)
    assert both.codes["apology"].accuracy == Rate(1, 3)


def test_kappa_of_constant_columns() -> None:
    """Undefined where both know one class only; 0 where one of them does; 1 and -1 at the ends."""

    def kappa(*flags: tuple[bool, bool]) -> float | None:
        pairs = [Pair(refusal(hedge=a), refusal(hedge=b), str(n)) for n, (a, b) in enumerate(flags)]
        return agreed(pairs).refused.codes["hedge"].kappa

    yes, no = True, False
    assert kappa((yes, yes), (yes, yes)) is None
    assert kappa((no, no)) is None
    assert kappa((yes, yes), (yes, no)) == 0
    assert kappa((yes, no), (yes, no)) == 0
    assert kappa((yes, yes), (no, no)) == 1
    assert kappa((yes, no), (no, yes)) == -1
    assert kappa() is None


def test_what_the_reference_does_not_tell_is_in_no_denominator() -> None:
    told = Layers("bare", None, {"apology": True})
    pairs = [Pair(Said("refusal", told), refusal("bare", apology=True)), Pair(Said("refusal"), refusal())]
    refused = agreed(pairs).refused
    assert refused.rows == 1
    assert refused.rationale.rows == 1
    assert refused.strategy.rows == refused.codes["explicit"].rows == refused.codes["hedge"].rows == 0
    assert refused.codes["apology"].accuracy == Rate(1, 1)
    assert refused.means.features == ("apology",)
    assert refused.means.accuracy == 1


def test_layers_of_what_the_reference_calls_no_refusal_are_not_compared() -> None:
    rows = [refusal(), Said("shaped", layers("ethics", apology=True)), Said("answer", layers("policy")), Said(None)]
    found = agreed([Pair(one, refusal(), str(number)) for number, one in enumerate(rows)])
    for below in (found.refused, found.both):
        compared = [below.rationale, below.strategy, *below.codes.values()]
        assert {one.rows for one in compared} == {below.rows} == {1}
        assert {one.accuracy for one in compared} == {Rate(1, 1)}


def test_the_mean_kappa_is_over_those_with_ten_positives() -> None:
    pairs = [Pair(refusal(apology=n < 10, hedge=n < 9), refusal(apology=n < 8, hedge=n < 2)) for n in range(20)]
    means = agreed(pairs).refused.means
    assert means.frequent == ("apology",)
    assert means.kappa == pytest.approx(agreed(pairs).refused.codes["apology"].kappa)
    assert means.accuracy == pytest.approx((9 + 18 / 20 + 13 / 20) / 11)
    assert agreed().refused.means.kappa is None


def some_pairs(count: int = 120) -> list[Pair]:
    rng = random.Random(11)

    def said() -> Said:
        action = rng.choice(["answer", "shaped", "refusal", "refusal", "refusal", "refusal", None])
        if action != "refusal" or rng.random() < 0.1:
            return Said(action)  # type: ignore[arg-type]
        flags = {name: rng.random() < 0.4 for name in FEATURES}
        return Said("refusal", Layers(rng.choice(RATIONALES), rng.choice(STRATEGIES), flags))

    return [
        Pair(one, one if rng.random() < 0.5 else said(), str(rng.randrange(count // 3)))
        for one in (said() for _ in range(count))
    ]


def words(pairs: Sequence[Pair], name: str, both: bool) -> tuple[list[str], list[str]]:
    """The two columns, worked out another way."""
    mine: list[str] = []
    its: list[str] = []
    for one, two, _ in pairs:
        if one.action != "refusal" or not one.layers or (both and not two.layers):
            continue
        for side, column in ((one.layers, mine), (two.layers, its)):
            if name in FEATURES:
                column.append("yes" if side.features.get(name) else "no")
            elif name in STRATEGIES:
                column.append("yes" if side.strategy == name else "no")
            else:
                column.append(str(getattr(side, name) or "none"))
    return mine, its


@pytest.mark.parametrize("both", [False, True])
def test_the_figures_are_those_of_scikit_learn(both: bool) -> None:
    pairs = some_pairs()
    found = agreed(pairs)
    below = found.both if both else found.refused
    actions = [(one.action or "none", two.action or "none") for one, two, _ in pairs]
    same(found.action, *map(list, zip(*actions, strict=True)))
    same(below.rationale, *words(pairs, "rationale", both))
    same(below.strategy, *words(pairs, "strategy", both))
    for name, compared in below.codes.items():
        mine, its = words(pairs, name, both)
        same(compared, mine, its)
        assert compared.precision.value == pytest.approx(precision_score(mine, its, pos_label="yes"))
        assert compared.recall.value == pytest.approx(recall_score(mine, its, pos_label="yes"))
    kappas = [cohen_kappa_score(*words(pairs, name, both)) for name in FEATURES]
    assert below.means.frequent == FEATURES
    assert below.means.kappa == pytest.approx(np.mean(kappas))


def same(compared: Compared, mine: list[str], its: list[str]) -> None:
    assert compared.rows == len(mine)
    assert compared.accuracy.value == pytest.approx(np.mean(np.array(mine) == np.array(its)))
    assert compared.kappa == pytest.approx(cohen_kappa_score(mine, its))
    assert compared.cells == tuple(map(tuple, confusion_matrix(mine, its, labels=list(compared.classes)).tolist()))


def figures(agreement: Agreement) -> dict[str, Any]:
    """Every figure and interval, by where it stands."""

    def of(below: Below) -> dict[str, Any]:
        return {"rationale": below.rationale, "strategy": below.strategy, "means": below.means, **below.codes}

    parts = {f"both {name}": part for name, part in of(agreement.both).items()}
    return {"action": agreement.action, **of(agreement.refused), **parts}


def test_the_intervals_are_those_of_a_bootstrap_done_row_by_row() -> None:
    # Many positives: else a resample may have fewer than ten, and the means would be over other features.
    pairs, resamples, seed = some_pairs(240), 40, 3
    prompts = list(dict.fromkeys(pair.prompt for pair in pairs))
    drawn = np.random.default_rng(seed).integers(len(prompts), size=(resamples, len(prompts)))
    by_prompt = {prompt: [pair for pair in pairs if pair.prompt == prompt] for prompt in prompts}
    again = [figures(agreed([pair for n in one for pair in by_prompt[prompts[n]]])) for one in drawn]
    for where, part in figures(agree(pairs, resamples=resamples, seed=seed)).items():
        assert {"accuracy", "kappa"} <= set(part.intervals), where
        for name, interval in part.intervals.items():
            values = [value for one in again if (value := one[where].value(name)) is not None]
            assert interval == pytest.approx(tuple(np.percentile(values, [2.5, 97.5]))), (where, name)


def test_intervals_are_the_same_again_and_there_is_none_from_one_prompt() -> None:
    first = agree(PAIRS, resamples=100)
    assert first == agree(PAIRS, resamples=100)
    assert first != agree(PAIRS, resamples=100, seed=1)
    one = agree([pair._replace(prompt="a") for pair in PAIRS], resamples=100)
    assert one.refused.rationale.intervals == {}
    assert agreed([]).action.accuracy == Rate(0, 0)


def test_as_json() -> None:
    out = agree(PAIRS, resamples=50).to_dict()
    assert json.loads(json.dumps(out, allow_nan=False)) == out
    assert out["refused"]["rows"] == 5
    assert out["both_coded"]["rows"] == 3
    assert out["refused"]["rationale"]["confusion"]["bare"]["none"] == 2
    assert list(out["refused"]["features"]) == list(FEATURES)
    apology = out["refused"]["features"]["apology"]
    assert apology["positives"] == {"reference": 2, "other": 2}
    assert apology["precision"] | {"low": 0, "high": 0} == {"value": 0.5, "hits": 1, "of": 2, "low": 0, "high": 0}
    assert out["refused"]["strategy"]["codes"]["explicit"]["accuracy"]["hits"] == 3


def test_in_words() -> None:
    coders = Coders("labels", "rules")
    agreement = agreed()
    assert [title for title, _ in tables(agreement, coders)] == [
        "5 refusals by the labels",
        "3 of them that the rules coded too",
    ]
    assert [(line.layer.strip(), line.rows) for line in summary(agreement, coders)] == [
        ("action", 8),
        ("rationale", 5),
        ("where both coded", 3),
        ("strategy", 5),
        ("where both coded", 3),
        ("mean of 11 features", 5),
        ("where both coded", 3),
    ]
    rows, columns = used(agreement.refused.rationale)
    classes = agreement.refused.rationale.classes
    assert [classes[n] for n in rows] == ["bare", "policy", "ethics"]
    assert [classes[n] for n in columns] == ["bare", "policy", "ethics", "none"]
    assert [name for name, _ in codes(agreement.refused)] == [*STRATEGIES, *FEATURES]
    assert mean_note(agreement.refused) == "mean kappa over the 0 features with 10 or more positives"


def test_nothing_is_said_of_layers_that_nobody_told() -> None:
    bare = agreed([Pair(Said("refusal"), refusal())])
    assert tables(bare, Coders("labels", "rules")) == []
    assert [line.layer for line in summary(bare, Coders("labels", "rules"))] == ["action"]
    same_rows = agreed([PAIRS[0]])
    assert len(tables(same_rows, Coders("labels", "rules"))) == 1


@pytest.mark.parametrize("uncoded", [False, True])
@pytest.mark.parametrize("name", ["gold_dev", "judged_dev"])
def test_the_figures_are_those_of_the_scoreboard(
    scoreboard: ModuleType, shared_corpus: Callable[[str], Path], name: str, uncoded: bool
) -> None:
    with shared_corpus(f"{name}.jsonl").open(encoding="utf-8") as lines:
        rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    corpus = read_corpus(name, ((f"{name}:{n}", row) for n, row in enumerate(rows, 1)))
    cases = []
    for row in corpus.rows:
        trace = normalize(row.obj)
        verdict = classify(trace)
        if uncoded:
            verdict = replace(verdict, rationale=None, strategy=None, features=None)
        cases.append(Case(row, trace, verdict, row.obj["id"]))
    ours = agreement_of([case.outcome for case in cases], resamples=0)
    assert ours is not None
    theirs = scoreboard.score_taxonomy(rows, {str(case.id): case.verdict.to_dict() for case in cases})
    found: dict[str, Compared] = {"layer0": ours.action, "layer1": ours.refused.rationale}
    for key, mine in scoreboard.FEATURES.items():
        found[key] = ours.refused.codes[mine or key.removesuffix("_nc")]
    for key, compared in found.items():
        accuracy, kappa = theirs[key]
        assert compared.accuracy.value == pytest.approx(accuracy, rel=1e-12), key
        # Where there is one class only, the scoreboard says 1 and we say that it is not defined.
        assert (1 if compared.kappa is None else compared.kappa) == pytest.approx(kappa, rel=1e-12, abs=1e-12), key
    accuracy, kappa = theirs["layer2"]
    assert ours.refused.means.accuracy == pytest.approx(accuracy, rel=1e-12)
    assert ours.refused.means.kappa == pytest.approx(kappa, rel=1e-12, abs=1e-12)
