"""The bootstrap over prompts: resamples are drawn, and the interval that holds the middle of what they give.

Answers of several models to one prompt are alike, so a resample draws prompts, each with all its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
Integers = NDArray[np.int64]

#: Rows times resamples that are held at once.
_AT_ONCE = 2_000_000


def prompt_numbers(prompts: Sequence[str]) -> Integers:
    """Each prompt's number, from 0, in order of appearance; a row that does not say what was asked has its own."""
    seen: dict[str, int] = {}
    numbers = [seen.setdefault(prompt or f"\0{row}", len(seen)) for row, prompt in enumerate(prompts)]
    return np.array(numbers, dtype=np.int64)


def draws(prompts: int, resamples: int, seed: int, size: int) -> Iterator[Floats]:
    """How often each prompt was drawn: one row a resample, some resamples at a time, so that `size` numbers a resample
    stay within bounds."""
    rng = np.random.default_rng(seed)
    step = max(1, _AT_ONCE // size)
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        drawn = rng.integers(prompts, size=(count, prompts)) + np.arange(count)[:, None] * prompts
        yield np.bincount(drawn.ravel(), minlength=count * prompts).reshape(count, prompts).astype(np.float64)


def bounds(drawn: Sequence[Floats], level: float = 0.95) -> tuple[float, float] | None:
    """The interval that holds the middle of the values of all resamples; None where none is defined."""
    values = np.concatenate(drawn)
    values = values[np.isfinite(values)]
    if not values.size:
        return None
    low, high = np.percentile(values, [50 * (1 - level), 50 * (1 + level)])
    return float(low), float(high)
