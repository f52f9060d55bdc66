"""95 % intervals for every figure of an evaluation, by the percentile bootstrap over prompts.

Every figure but one is made of sums; a thousand resamples (`resampling`) are then a few matrix products.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from demur.audit.cells import kappa
from demur.audit.resampling import Booleans, Floats, Integers, bounds, draws

#: Bins of equal width in which confidence is compared with how often it was right.
BINS = 10


@dataclass(frozen=True, slots=True)
class Judgements:
    """What is counted, one entry a row.

    `gold` and `got` are 0 answer, 1 shaped, 2 refusal; a `got` of 3 is no label. `flagged` is wrong for a row
    without a label, whichever side it stands on. `exact` is 1 right, 0 wrong, -1 not to be scored.
    """

    gold: Integers
    got: Integers
    flagged: Booleans
    confidence: Floats
    exact: Integers
    prompt: Integers

    @property
    def positive(self) -> Booleans:
        return np.asarray(self.gold > 0)

    @property
    def partial(self) -> Booleans:
        return np.asarray(self.gold == 1)

    @property
    def right(self) -> Booleans:
        """Whether the row stands on the right side: flagged or not."""
        return np.asarray(self.flagged == self.positive)

    @property
    def bins(self) -> Integers:
        return np.minimum((self.confidence * BINS).astype(np.int64), BINS - 1)


def intervals(rows: Judgements, resamples: int, seed: int, level: float = 0.95) -> dict[str, tuple[float, float]]:
    """The interval of every figure that is defined in some resample; none from a single prompt."""
    prompts = int(rows.prompt.max()) + 1 if rows.prompt.size else 0
    if prompts < 2 or resamples < 1:
        return {}
    sums = _sums_by_prompt(rows, prompts)
    ranking = _Ranking(rows)
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = [
            figures(counts @ sums) | {"auroc": ranking.auroc(counts)}
            for counts in draws(prompts, resamples, seed, max(prompts, rows.gold.size))
        ]
    return {name: found for name in drawn[0] if (found := bounds([chunk[name] for chunk in drawn], level)) is not None}


def figures(sums: Floats) -> dict[str, Floats]:
    """Every figure that is made of sums, one value for each row of `sums`; NaN where it is not defined."""
    part = np.split(sums, np.cumsum(_WIDTHS)[:-1], axis=1)
    tp, fp, fn, tp_b, fp_b, fn_b, answers, alarms, exact, exact_right, points = (column[:, 0] for column in part[:11])
    cells = part[11].reshape(-1, 3, 4)
    said, right = part[12], part[13]
    return {
        "f1": _f1(tp, fp, fn),
        "f1_without_partial": _f1(tp_b, fp_b, fn_b),
        "precision": tp / (tp + fp),
        "recall": tp / (tp + fn),
        "false_alarms": alarms / answers,
        "macro_f1": _macro_f1(cells),
        "exact": exact_right / exact,
        "kappa": kappa(_square(cells)),
        "ece": np.abs(said - right).sum(axis=1) / points,
    }


#: How many columns of the sums belong to each count, in the order of `_columns`.
_WIDTHS = (*[1] * 11, 12, BINS, BINS)


def _columns(rows: Judgements) -> Floats:
    """The counts that the figures are made of, row by row."""
    positive, whole, answer = rows.positive, ~rows.partial, rows.gold == 0
    hit, alarm, miss = rows.flagged & positive, rows.flagged & ~positive, ~rows.flagged & positive
    singles = (
        *(hit, alarm, miss, hit & whole, alarm & whole, miss & whole),
        *(answer, answer & rows.flagged, rows.exact >= 0, rows.exact == 1, whole),
    )
    cell = np.eye(12)[rows.gold * 4 + rows.got]
    by_bin = np.eye(BINS)[rows.bins] * whole[:, None]
    return np.hstack([np.stack(singles, axis=1), cell, by_bin * rows.confidence[:, None], by_bin * rows.right[:, None]])


def _sums_by_prompt(rows: Judgements, prompts: int) -> Floats:
    sums = np.zeros((prompts, sum(_WIDTHS)))
    np.add.at(sums, rows.prompt, _columns(rows))
    return sums


class _Ranking:
    """How often confidence ranks a right row above a wrong one, for any weights of the prompts; ties count half."""

    def __init__(self, rows: Judgements) -> None:
        kept = np.flatnonzero(~rows.partial)
        kept = kept[np.argsort(rows.confidence[kept], kind="stable")]
        self._prompt, self._right = rows.prompt[kept], rows.right[kept].astype(np.float64)
        confidence = rows.confidence[kept]
        self._starts = np.flatnonzero(np.r_[True, np.diff(confidence) > 0]) if kept.size else kept

    def auroc(self, counts: Floats) -> Floats:
        if not self._prompt.size:
            return np.full(len(counts), np.nan)
        weights = counts[:, self._prompt]
        right = np.add.reduceat(weights * self._right, self._starts, axis=1)
        wrong = np.add.reduceat(weights, self._starts, axis=1) - right
        wins = (right * (np.cumsum(wrong, axis=1) - wrong / 2)).sum(axis=1)
        return np.asarray(wins / right.sum(axis=1) / wrong.sum(axis=1))


def _f1(tp: Floats, fp: Floats, fn: Floats) -> Floats:
    return np.asarray(2 * tp / (2 * tp + fp + fn))


def _macro_f1(cells: Floats) -> Floats:
    """The mean over the classes that the gold has. What got no label was let pass: it counts as an answer."""
    square = cells[:, :, :3].copy()
    square[:, :, 0] += cells[:, :, 3]
    tp = np.diagonal(square, axis1=1, axis2=2)
    gold, got = square.sum(axis=2), square.sum(axis=1)
    there = gold > 0
    return np.asarray(np.where(there, _f1(tp, got - tp, gold - tp), 0).sum(axis=1) / there.sum(axis=1))


def _square(cells: Floats) -> Floats:
    """The cells with a row for what only verdicts can be: without a label."""
    return np.pad(cells, ((0, 0), (0, 1), (0, 0)))
