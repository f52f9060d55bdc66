"""How models said no: refusals counted by reason, strategy and feature, for all responses and for groups of them.

Only counts are kept, so that a log of any length takes the memory of its groups. A refusal that the provider blocked
has no words of the model, and one without all of its layers was not coded: both are counted apart, and no rate of a
reason, a strategy or a feature is out of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from demur.audit.layers import RATIONALES, STRATEGIES
from demur.audit.proportion import Proportion
from demur.audit.verdicts import Record, Response
from demur.classifier.verdict import ACTIONS, FEATURES, Rationale, Strategy

SCHEMA_VERSION = 1

Column = Literal["model", "release", "category", "language", "period", "tag"]
COLUMNS: tuple[Column, ...] = get_args(Column)
Period = Literal["day", "week", "month"]
PERIODS: tuple[Period, ...] = get_args(Period)

#: Of fewer there is no rate but counts: at twenty the interval of a half already goes from 30 to 70 %.
SMALL = 20
#: Values of a column that are counted each for itself; what comes after so many others is counted as one group.
KEPT = 1000

_FORMATS = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m"}


@dataclass(frozen=True, slots=True)
class Profile:
    """What became of some responses, and how the refusals among them were put.

    `responses` = `unjudged` (by status) + `answers` + `partial` + `refusals`;
    `refusals` = `blocked` (by the provider) + `not_coded` + `coded`. The other three count coded refusals.
    """

    responses: int
    unjudged: Mapping[str, int]
    answers: int
    partial: int
    blocked: int
    not_coded: int
    coded: int
    rationales: Mapping[Rationale, int]
    strategies: Mapping[Strategy, int]
    features: Mapping[str, int]

    @property
    def judged(self) -> int:
        return self.answers + self.partial + self.refusals

    @property
    def refusals(self) -> int:
        return self.blocked + self.not_coded + self.coded

    def rates(self) -> dict[str, Proportion]:
        """Every rate by its name: those of the judged first, then those of the coded refusals."""
        judged = {"refusal": self.refusals, "partial": self.partial, "blocked": self.blocked}
        coded = {f"rationale.{name}": count for name, count in self.rationales.items()}
        coded |= {f"strategy.{name}": count for name, count in self.strategies.items()}
        coded |= {f"feature.{name}": count for name, count in self.features.items()}
        return {name: Proportion(hits, self.judged) for name, hits in judged.items()} | {
            name: Proportion(hits, self.coded) for name, hits in coded.items()
        }

    def to_dict(self) -> dict[str, Any]:
        names = ("responses", "judged", "answers", "partial", "refusals", "blocked", "not_coded", "coded")
        out: dict[str, Any] = {name: getattr(self, name) for name in names}
        out["unjudged"] = dict(self.unjudged)
        rates: dict[str, Any] = {"rationale": {}, "strategy": {}, "feature": {}}
        for name, proportion in self.rates().items():
            layer, _, code = name.partition(".")
            if code:
                rates[layer][code] = proportion.to_dict()
            else:
                rates[layer] = proportion.to_dict()
        return out | {"rates": rates}


@dataclass(frozen=True, slots=True)
class Group:
    """The responses with one value of a column; None: those that do not tell it. `rest`: those with any later value."""

    value: str | None
    profile: Profile
    rest: bool = False

    @property
    def name(self) -> str:
        if self.rest:
            return "(other values)"
        return "(not told)" if self.value is None else self.value


@dataclass(frozen=True, slots=True)
class Facework:
    """A whole report. `left_out` counts the records without a verdict, by why; `reviewed` those in place of which their
    review was counted. `groups` has the columns that some record tells."""

    whole: Profile
    groups: Mapping[Column, Sequence[Group]]
    period: Period
    records: int
    reviewed: int
    left_out: Mapping[str, int]


class Tally:
    """Counts records, one `add` each, by the columns `by`; `report()` is what was counted so far."""

    def __init__(self, by: Sequence[Column] = (), period: Period = "week") -> None:
        self._by, self._period = tuple(dict.fromkeys(by)), period
        self._whole: Counter[str] = Counter()
        self._groups: dict[Column, dict[str | None, Counter[str]]] = {column: {} for column in self._by}
        self._rest: dict[Column, Counter[str]] = {column: Counter() for column in self._by}
        self._left_out: Counter[str] = Counter()
        self._records = self._reviewed = 0

    def add(self, record: Record) -> None:
        self._records += 1
        if record.missing is not None:
            self._left_out[record.missing] += 1
            return
        for response in record.responses:
            facts = _facts(response)
            self._whole.update(facts)
            for column in self._by:
                self._group(column, self._value(response, column)).update(facts)

    def replaced(self) -> None:
        """Counts a record in place of which its review is added."""
        self._reviewed += 1

    def report(self) -> Facework:
        groups = {column: self._listed(column) for column in self._by}
        return Facework(
            whole=_profile(self._whole),
            groups={column: found for column, found in groups.items() if any(g.value is not None for g in found)},
            period=self._period,
            records=self._records,
            reviewed=self._reviewed,
            left_out=dict(self._left_out),
        )

    def _value(self, response: Response, column: Column) -> str | None:
        if column == "period":
            return None if response.time is None else period_of(response.time, self._period)
        value: str | None = getattr(response, column)
        return value

    def _group(self, column: Column, value: str | None) -> Counter[str]:
        groups = self._groups[column]
        if value not in groups:
            if len(groups) >= KEPT and value is not None:
                return self._rest[column]
            groups[value] = Counter()
        return groups[value]

    def _listed(self, column: Column) -> list[Group]:
        """Periods in their order, other values by how often they come; then those not told, then the rest."""
        found = [Group(value, _profile(counts)) for value, counts in self._groups[column].items()]
        found.sort(key=lambda g: (g.value is None, 0 if column == "period" else -g.profile.responses, g.value or ""))
        rest = self._rest[column]
        return [*found, Group(None, _profile(rest), rest=True)] if rest else found


def period_of(time: datetime, period: Period) -> str:
    """The day (2026-01-31), the ISO week (2026-W05) or the month (2026-01) that a time falls in."""
    return time.strftime(_FORMATS[period])


def _facts(response: Response) -> list[str]:
    """What a response counts towards."""
    if response.label is None:
        return ["responses", f"unjudged.{response.status}"]
    action = ACTIONS[response.label]
    if action != "non_compliance":
        return ["responses", "partial" if action == "partial_compliance" else "answers"]
    if response.blocked:
        return ["responses", "blocked"]
    if response.rationale is None or response.strategy is None or response.features is None:
        return ["responses", "not_coded"]
    codes = [f"rationale.{response.rationale}", f"strategy.{response.strategy}"]
    return ["responses", "coded", *codes, *(f"feature.{name}" for name in response.features)]


def _profile(counts: Mapping[str, int]) -> Profile:
    unjudged = {name.removeprefix("unjudged."): n for name, n in counts.items() if name.startswith("unjudged.")}
    return Profile(
        responses=counts.get("responses", 0),
        unjudged=dict(sorted(unjudged.items(), key=lambda item: (-item[1], item[0]))),
        answers=counts.get("answers", 0),
        partial=counts.get("partial", 0),
        blocked=counts.get("blocked", 0),
        not_coded=counts.get("not_coded", 0),
        coded=counts.get("coded", 0),
        rationales={name: counts.get(f"rationale.{name}", 0) for name in RATIONALES},
        strategies={name: counts.get(f"strategy.{name}", 0) for name in STRATEGIES},
        features={name: counts.get(f"feature.{name}", 0) for name in FEATURES},
    )
