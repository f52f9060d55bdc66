"""The numbers of the decision: what each feature weighs and how sure a score makes (`fitted.toml`), thresholds of the
table (`weights.toml`)."""

from __future__ import annotations

import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

Knots = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Weights:
    """`points`: log odds of a refusal per feature of `features.py` and a bias, where the learned signal can't read the
    text; `worded`: the same where it can. `shape`: log odds that what was flagged delivers a part. `limits`: thresholds
    of the table. `sure`: log odds of the score → probability that the text declines, between which is interpolated;
    `quiet`: the same where no rule speaks for it.
    """

    points: Mapping[str, float]
    worded: Mapping[str, float]
    shape: Mapping[str, float]
    limits: Mapping[str, float]
    sure: Knots
    quiet: Knots
    meanings: Mapping[str, str]

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Weights:
        """From the tables of both files."""
        sure, quiet = (
            tuple((float(odds), float(probability)) for odds, probability in data["sure"][name])
            for name in ("sure", "quiet")
        )
        tables = (data["points"], data["worded"], data["shape"], data["limits"])
        return cls(*tables, sure, quiet, data["meanings"])

    def probability(self, odds: float, *, quiet: bool = False) -> float:
        """The calibrated probability that a text with these log odds declines; `quiet`: in which no rule says so."""
        knots = self.quiet if quiet else self.sure
        at = bisect_right(knots, (odds, 2.0))
        if at == 0:
            return knots[0][1]
        if at == len(knots):
            return knots[-1][1]
        (left, low), (right, high) = knots[at - 1], knots[at]
        return low + (high - low) * (odds - left) / (right - left)


@cache
def load_weights() -> Weights:
    """The numbers that ship."""
    room = files("demur.classifier")
    read = (tomllib.loads(room.joinpath(name).read_text("utf-8")) for name in ("fitted.toml", "weights.toml"))
    return Weights.of({name: table for data in read for name, table in data.items()})
