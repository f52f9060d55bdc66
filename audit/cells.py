"""Two coders' words for the same rows, counted: the cells of each table of reference by other, and figures of them.

All figures here are vectorised over resamples: the first of every array is of the rows themselves, the others are of
the bootstrap over prompts (`resampling`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from demur.audit.resampling import Booleans, Floats, Integers, bounds, draws, prompt_numbers

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Column:
    """What the two said, as numbers of `classes`, and which rows are compared: one entry a row."""

    classes: tuple[str, ...]
    reference: Integers
    other: Integers
    kept: Booleans

    @classmethod
    def of(cls, classes: tuple[str, ...], said: Sequence[tuple[str, str]], kept: Sequence[bool]) -> Column:
        numbers = {name: number for number, name in enumerate(classes)}
        pairs = np.array([[numbers[mine], numbers[its]] for mine, its in said], dtype=np.int64).reshape(-1, 2)
        return cls(classes, pairs[:, 0], pairs[:, 1], np.array(kept, dtype=np.bool_))

    def by_prompt(self, prompt: Integers, prompts: int) -> Floats:
        """The cells of each prompt, in one row."""
        size = len(self.classes)
        cell = (prompt * size + self.reference) * size + self.other
        counts = np.bincount(cell[self.kept], minlength=prompts * size * size)
        return counts.reshape(prompts, size * size).astype(np.float64)


def resampled(columns: Mapping[str, Column], prompts: Sequence[str], resamples: int, seed: int) -> dict[str, Floats]:
    """The cells of every column, reference by other: of all rows, then of each resample; none from a single prompt."""
    prompt = prompt_numbers(prompts)
    count = int(prompt.max()) + 1 if prompts else 0
    sums = {name: column.by_prompt(prompt, count) for name, column in columns.items()}
    out: dict[str, list[Floats]] = {name: [] for name in columns}
    for weights in chain([np.ones((1, count))], draws(count, resamples, seed, count) if count > 1 else ()):
        for name, cells in sums.items():
            out[name].append(weights @ cells)
    return {
        name: np.concatenate(parts).reshape(-1, len(columns[name].classes), len(columns[name].classes))
        for name, parts in out.items()
    }


def accuracy(cells: Floats) -> Floats:
    return _share(np.trace(cells, axis1=1, axis2=2), cells.sum(axis=(1, 2)))


def precision(cells: Floats) -> Floats:
    """Of what the other one said is there (the second class), the share that the reference says is."""
    return _share(cells[:, 1, 1], cells[:, :, 1].sum(axis=1))


def recall(cells: Floats) -> Floats:
    return _share(cells[:, 1, 1], cells[:, 1].sum(axis=1))


def kappa(cells: Floats) -> Floats:
    """Cohen's kappa; NaN where both know one class only: they can't but agree."""
    chance = _share((cells.sum(axis=2) * cells.sum(axis=1)).sum(axis=1), cells.sum(axis=(1, 2)) ** 2)
    return _share(accuracy(cells) - chance, 1 - chance)


def mean(figures: Sequence[Floats]) -> Floats:
    """The mean of some figures, in each resample of those that are defined there."""
    if not figures:
        return np.full(1, np.nan)
    stacked = np.stack(figures)
    there = np.isfinite(stacked)
    return _share(np.where(there, stacked, 0).sum(axis=0), there.sum(axis=0).astype(np.float64))


def defined(figure: Floats) -> float | None:
    """The figure of the rows themselves."""
    return float(figure[0]) if np.isfinite(figure[0]) else None


def intervals(figures: Mapping[str, Floats]) -> dict[str, Interval]:
    """Of every figure that is defined for the rows themselves, and in some resample."""
    found = {name: bounds([figure[1:]]) for name, figure in figures.items() if defined(figure) is not None}
    return {name: interval for name, interval in found.items() if interval is not None}


def _share(part: Floats, whole: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(whole != 0, part / whole, np.nan))
