"""In what groups of responses differ, told only where their intervals lie apart.

Groups of fewer than SMALL are not compared. Of every rate the highest and the lowest group are looked at. The more
pairs and rates there are to pick from, the surer some pair lies apart by chance; so the intervals are widened until, of
all these comparisons together, at most one table in twenty would tell a difference where there is none (Bonferroni). It
takes the responses as independent, and says nothing on why groups differ: they may have been asked other things.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from demur.audit.facework import SMALL, Group
from demur.audit.proportion import LEVEL, Proportion


@dataclass(frozen=True, slots=True)
class Difference:
    """A rate (named as in `Profile.rates`) that is higher in one group than in another, whatever lies between."""

    rate: str
    high: Group
    low: Group

    def to_dict(self) -> dict[str, Any]:
        sides = {"high": self.high, "low": self.low}
        return {"rate": self.rate} | {
            side: {"group": group.value} | group.profile.rates()[self.rate].to_dict() for side, group in sides.items()
        }


def differences(groups: Sequence[Group]) -> list[Difference]:
    """What differs most first; nothing when fewer than two groups are large enough."""
    by_rate: dict[str, list[tuple[Proportion, Group]]] = {}
    for group in groups:
        for rate, proportion in group.profile.rates().items():
            if group.value is not None and proportion.of >= SMALL:
                by_rate.setdefault(rate, []).append((proportion, group))
    comparisons = sum(len(found) * (len(found) - 1) // 2 for found in by_rate.values())
    level = 1 - (1 - LEVEL) / max(comparisons, 1)
    apart: list[tuple[float, Difference]] = []
    for rate, found in by_rate.items():
        found.sort(key=lambda one: one[0].value or 0.0)
        (low, low_group), (high, high_group) = found[0], found[-1]
        gap = _bounds(high, level)[0] - _bounds(low, level)[1]
        if gap > 0:
            apart.append((gap, Difference(rate, high_group, low_group)))
    return [difference for _, difference in sorted(apart, key=lambda one: -one[0])]


def _bounds(proportion: Proportion, level: float) -> tuple[float, float]:
    return proportion.interval(level) or (0.0, 1.0)
