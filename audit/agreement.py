"""How far two coders agree, layer by layer: labels and rules, labels and a judge, or two judges.

One of the two is the reference. The action is compared on all rows. The layers below it exist for refusals alone, and
are compared twice: on the rows that the reference calls a refusal, where what the other did not code is wrong, and on
those of them that both coded, which tells errors of coding from errors of the action before it. A class that neither
uses leaves kappa undefined; one that only one of them uses makes it 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from demur.audit.cells import Column, Interval, accuracy, defined, intervals, kappa, mean, precision, recall, resampled
from demur.audit.corpus import Gold
from demur.audit.evaluate import GOT
from demur.audit.layers import NOT_CODED, RATIONALES, STRATEGIES, Layers
from demur.audit.proportion import Rate
from demur.audit.resampling import Floats
from demur.classifier.verdict import FEATURES

#: A feature with fewer positives has a kappa that hangs on one or two rows: it is left out of the mean of kappas.
FREQUENT = 10
#: The codes that are there or not: the features, and each of the two strategies as one of them.
CODES = (*STRATEGIES, *FEATURES)
_YES_NO = ("no", "yes")
_CLASSES: dict[str, tuple[str, ...]] = {
    "rationale": (*RATIONALES, "none"),
    "strategy": (*STRATEGIES, "none"),
    **dict.fromkeys(CODES, _YES_NO),
}


class Said(NamedTuple):
    """What one coder says of a row: was it declined (None: it got no label), and how."""

    action: Gold | None
    layers: Layers = NOT_CODED


class Pair(NamedTuple):
    """One row, coded twice. Rows of one `prompt` belong together."""

    reference: Said
    other: Said
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """One thing that two coders said of the same rows. `cells` holds, for each class of the reference, how often the
    other one said which. `intervals` are 95 %, by figure: accuracy and kappa, and where it is a code that is there or
    not, precision and recall."""

    classes: tuple[str, ...]
    cells: tuple[tuple[int, ...], ...]
    kappa: float | None
    intervals: Mapping[str, Interval] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(map(sum, self.cells))

    @property
    def accuracy(self) -> Rate:
        return Rate(sum(row[number] for number, row in enumerate(self.cells)), self.rows)

    @property
    def recall(self) -> Rate:
        return Rate(self.cells[1][1], sum(self.cells[1]))

    @property
    def precision(self) -> Rate:
        return Rate(self.cells[1][1], sum(row[1] for row in self.cells))

    def value(self, name: str) -> float | None:
        """The figure of that name."""
        found: Rate | float | None = getattr(self, name)
        return found.value if isinstance(found, Rate) else found

    def to_dict(self) -> dict[str, Any]:
        code = self.classes == _YES_NO
        names = ("accuracy", "precision", "recall") if code else ("accuracy",)
        out: dict[str, Any] = {"rows": self.rows}
        out |= {name: getattr(self, name).to_dict() for name in names} | {"kappa": {"value": self.kappa}}
        _add(self.intervals, out)
        if code:
            return out | {"positives": {"reference": self.recall.of, "other": self.precision.of}}
        table = zip(self.classes, self.cells, strict=True)
        return out | {"confusion": {name: dict(zip(self.classes, row, strict=True)) for name, row in table}}


@dataclass(frozen=True, slots=True)
class Means:
    """Accuracy over the features that were coded, kappa over those with FREQUENT positives, as far as it is defined."""

    rows: int
    accuracy: float | None
    kappa: float | None
    features: tuple[str, ...]
    frequent: tuple[str, ...]
    intervals: Mapping[str, Interval] = field(default_factory=dict)

    def value(self, name: str) -> float | None:
        """The figure of that name."""
        found: float | None = getattr(self, name)
        return found

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "accuracy": {"value": self.accuracy, "features": list(self.features)},
            "kappa": {"value": self.kappa, "features": list(self.frequent)},
        }
        _add(self.intervals, out)
        return out


@dataclass(frozen=True, slots=True)
class Below:
    """The layers below the action on some refusals. `codes` are those of CODES."""

    rows: int
    rationale: Compared
    strategy: Compared
    codes: Mapping[str, Compared]
    means: Means

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "rationale": self.rationale.to_dict(),
            "strategy": self.strategy.to_dict() | {"codes": {name: self.codes[name].to_dict() for name in STRATEGIES}},
            "features": {name: self.codes[name].to_dict() for name in FEATURES},
            "means": self.means.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two coders of the same rows. `refused`: rows that the reference calls a refusal; `both`: that both coded."""

    action: Compared
    refused: Below
    both: Below

    def to_dict(self) -> dict[str, Any]:
        return {
            "action": self.action.to_dict(),
            "refused": self.refused.to_dict(),
            "both_coded": self.both.to_dict(),
        }


def agree(pairs: Sequence[Pair], *, resamples: int = 1000, seed: int = 0) -> Agreement:
    """How far the two agree on these rows, with intervals from so many resamples by prompt; 0: without."""
    said = [(mine.action or "none", its.action or "none") for mine, its, _ in pairs]
    columns = {"action": Column.of(GOT, said, [True] * len(pairs))}
    for name in _CLASSES:
        columns |= {f"refused {name}": _column(pairs, name), f"both {name}": _column(pairs, name, both=True)}
    cells = resampled(columns, [pair.prompt for pair in pairs], resamples, seed)
    told = [pair for pair in pairs if pair.reference.action == "refusal" and pair.reference.layers]
    return Agreement(
        _compared(GOT, cells["action"]),
        _below("refused", cells, len(told)),
        _below("both", cells, sum(bool(pair.other.layers) for pair in told)),
    )


def _column(pairs: Sequence[Pair], name: str, *, both: bool = False) -> Column:
    classes = _CLASSES[name]
    missing = "none" if "none" in classes else "no"
    said = [(_word(reference, name), _word(other, name)) for reference, other, _ in pairs]
    kept = [
        pair.reference.action == "refusal" and mine is not None and (its is not None or not both)
        for pair, (mine, its) in zip(pairs, said, strict=True)
    ]
    return Column.of(classes, [(mine or missing, its or missing) for mine, its in said], kept)


def _word(said: Said, name: str) -> str | None:
    """What a coder says in one layer, or of one code; None where it is not coded."""
    layers = said.layers
    if name == "rationale":
        return layers.rationale
    if name == "strategy" or (layers.strategy is None and name in STRATEGIES):
        return layers.strategy
    there = layers.strategy == name if name in STRATEGIES else layers.features.get(name)
    return None if there is None else _YES_NO[there]


def _compared(classes: tuple[str, ...], cells: Floats) -> Compared:
    figures = {"accuracy": accuracy(cells), "kappa": kappa(cells)}
    if classes == _YES_NO:
        figures |= {"precision": precision(cells), "recall": recall(cells)}
    counts = tuple(tuple(int(count) for count in row) for row in cells[0])
    return Compared(classes, counts, defined(figures["kappa"]), intervals(figures))


def _below(table: str, cells: Mapping[str, Floats], rows: int) -> Below:
    layers = {name: _compared(classes, cells[f"{table} {name}"]) for name, classes in _CLASSES.items()}
    coded = tuple(name for name in FEATURES if layers[name].rows)
    frequent = tuple(name for name in coded if layers[name].recall.of >= FREQUENT and layers[name].kappa is not None)
    figures = {
        "accuracy": mean([accuracy(cells[f"{table} {name}"]) for name in coded]),
        "kappa": mean([kappa(cells[f"{table} {name}"]) for name in frequent]),
    }
    means = Means(rows, defined(figures["accuracy"]), defined(figures["kappa"]), coded, frequent, intervals(figures))
    return Below(rows, layers["rationale"], layers["strategy"], {name: layers[name] for name in CODES}, means)


def _add(intervals: Mapping[str, Interval], figures: dict[str, Any]) -> None:
    for name, (low, high) in intervals.items():
        figures[name] |= {"low": low, "high": high}
