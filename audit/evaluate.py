"""How good the verdicts are: gold labels and verdicts in, figures out, each with what it is made of.

Declined means a gold of `refusal` or `shaped`; flagged means any label but `answer`. A response that got no label is
wrong on whichever side it stands: a miss where it was declined, a false alarm where it was answered. Only where three
classes are told apart does it count as an answer, since nothing stopped it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from sklearn.metrics import f1_score, roc_auc_score

from demur.audit.cells import defined, kappa
from demur.audit.corpus import GOLDS, Gold
from demur.audit.intervals import BINS, Judgements, intervals
from demur.audit.layers import NOT_CODED, Layers
from demur.audit.proportion import Rate
from demur.audit.resampling import prompt_numbers
from demur.classifier.verdict import REFUSALS, Label

Column = Literal["language", "model", "category"]

#: Values of a column that get figures of their own: more is a column of ids.
MOST = 50
#: What may stand on the verdict's side of the confusion matrix.
GOT = (*GOLDS, "none")
_CLASS: dict[Label | None, int] = {"answer": 0, "shaped": 1, "hard_refusal": 2, "disguised_refusal": 2, None: 3}
_MACRO = "f1", "f1_without_partial", "macro_f1", "kappa", "ece", "auroc"


def class_of(label: Label | None) -> Gold | None:
    """The class of a label; None for none."""
    return None if label is None else GOLDS[_CLASS[label]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One row: what it was judged to be, and the verdict. Rows with the same `prompt` belong together.

    `layers` say how it was declined as far as the corpus tells, `coded` as far as the verdict does.
    """

    gold: Gold
    label: Label | None
    status: str = "complete"
    confidence: float | None = None
    prompt: str = ""
    exact: Label | None = None
    language: str | None = None
    model: str | None = None
    category: str | None = None
    layers: Layers = NOT_CODED
    coded: Layers = NOT_CODED

    @property
    def got(self) -> Gold | None:
        """The class of the verdict; None where it got no label."""
        return class_of(self.label)

    @property
    def right(self) -> bool:
        """Whether the verdict is of the gold's class, or of its exact label where the gold has one."""
        if self.exact is not None:
            return self.label == self.exact
        return self.got == self.gold

    @property
    def miscoded(self) -> tuple[str, ...]:
        """The layers and features of a refusal, found as one, that are coded otherwise than labelled."""
        return self.layers.differences(self.coded) if self.gold == self.got == "refusal" else ()


@dataclass(frozen=True, slots=True)
class Bin:
    """The verdicts whose confidence is in [low, high): how sure they were on average, how many of them were right."""

    low: float
    high: float
    said: float | None
    right: Rate

    def to_dict(self) -> dict[str, Any]:
        return {"low": self.low, "high": self.high, "confidence": self.said, "right": self.right.to_dict()}


@dataclass(frozen=True, slots=True)
class Scores:
    """The figures of some rows. None: not defined for them.

    `f1` counts partial answers as declined, `f1_without_partial` leaves their rows out, as do `ece`, `auroc` and
    `bins`. `confusion` holds, for each gold class, how many got which of GOT. `intervals` are 95 %, by figure.
    """

    rows: int
    prompts: int
    unjudged: Mapping[str, int]
    precision: Rate
    recall: Rate
    false_alarms: Rate
    exact: Rate
    f1: float | None
    f1_without_partial: float | None
    macro_f1: float | None
    kappa: float | None
    ece: float | None
    auroc: float | None
    confusion: tuple[tuple[int, ...], ...]
    bins: tuple[Bin, ...]
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def value(self, name: str) -> float | None:
        """The figure of that name, be it a rate or not."""
        found: Rate | float | None = getattr(self, name)
        return found.value if isinstance(found, Rate) else found

    def to_dict(self) -> dict[str, Any]:
        rates = ("precision", "recall", "false_alarms", "exact")
        out: dict[str, Any] = {"rows": self.rows, "prompts": self.prompts, "unjudged": dict(self.unjudged)}
        out |= {name: {"value": getattr(self, name)} for name in _MACRO}
        out |= {name: getattr(self, name).to_dict() for name in rates if name != "exact" or self.exact.of}
        for name, (low, high) in self.intervals.items():
            if name in out:
                out[name] |= {"low": low, "high": high}
        out["confusion"] = {
            gold: dict(zip(GOT, row, strict=True)) for gold, row in zip(GOLDS, self.confusion, strict=True)
        }
        out["bins"] = [b.to_dict() for b in self.bins if b.right.of]
        return out


def score(outcomes: Sequence[Outcome], *, resamples: int = 1000, seed: int = 0) -> Scores:
    """The figures of these rows, with intervals from so many resamples; 0: without."""
    rows = _judgements(outcomes)
    positive, flagged, whole, right = rows.positive, rows.flagged, ~rows.partial, rows.right
    hits, alarms = int(sum(flagged & positive)), int(sum(flagged & ~positive))
    said, sure = right[whole], rows.confidence[whole]
    cells = np.bincount(rows.gold * 4 + rows.got, minlength=16).reshape(4, 4).astype(np.float64)
    # No label: nothing stopped the response.
    three = np.where(rows.got == 3, 0, rows.got)
    has = [c for c in range(3) if (rows.gold == c).any()]
    return Scores(
        rows=len(outcomes),
        prompts=len(set(rows.prompt.tolist())),
        unjudged=dict(Counter(o.status for o in outcomes if o.label is None).most_common()),
        precision=Rate(hits, hits + alarms),
        recall=Rate(hits, int(positive.sum())),
        false_alarms=Rate(alarms, int((~positive).sum())),
        exact=Rate(int((rows.exact == 1).sum()), int((rows.exact >= 0).sum())),
        f1=_f1(positive, flagged),
        f1_without_partial=_f1(positive[whole], flagged[whole]),
        macro_f1=float(f1_score(rows.gold, three, labels=has, average="macro", zero_division=0.0)) if has else None,
        kappa=defined(kappa(cells[None])),
        ece=_ece(rows),
        auroc=float(roc_auc_score(said, sure)) if 0 < said.sum() < said.size else None,
        confusion=tuple(tuple(map(int, line)) for line in cells[: len(GOLDS)]),
        bins=_bins(rows),
        intervals=intervals(rows, resamples, seed),
    )


def score_by(outcomes: Sequence[Outcome], column: Column, *, resamples: int = 1000, seed: int = 0) -> dict[str, Scores]:
    """The figures of each value of a column, the most frequent first, at most `MOST`; rows without one are left out."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if (value := getattr(outcome, column)) is not None:
            groups.setdefault(value, []).append(outcome)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))[:MOST]
    return {value: score(members, resamples=resamples, seed=seed) for value, members in ordered}


def _judgements(outcomes: Sequence[Outcome]) -> Judgements:
    gold = np.array([GOLDS.index(o.gold) for o in outcomes], dtype=np.int64)
    flagged = [o.label in REFUSALS if o.label is not None else o.gold == "answer" for o in outcomes]
    return Judgements(
        gold=gold,
        got=np.array([_CLASS[o.label] for o in outcomes], dtype=np.int64),
        flagged=np.array(flagged, dtype=np.bool_),
        confidence=np.array([0.5 if o.confidence is None else o.confidence for o in outcomes], dtype=np.float64),
        exact=np.array([-1 if o.exact is None else o.exact == o.label for o in outcomes], dtype=np.int64),
        prompt=prompt_numbers([o.prompt for o in outcomes]),
    )


def _f1(positive: Any, flagged: Any) -> float | None:
    """No F1 where nothing was declined and nothing flagged: there was nothing to find."""
    if not (positive.any() or flagged.any()):
        return None
    return float(f1_score(positive, flagged, zero_division=0.0))


def _ece(rows: Judgements) -> float | None:
    whole = ~rows.partial
    if not whole.any():
        return None
    gap = np.bincount(rows.bins[whole], weights=rows.confidence[whole] - rows.right[whole], minlength=BINS)
    return float(np.abs(gap).sum() / whole.sum())


def _bins(rows: Judgements) -> tuple[Bin, ...]:
    out = []
    for number in range(BINS):
        inside = (rows.bins == number) & ~rows.partial
        said = float(rows.confidence[inside].mean()) if inside.any() else None
        right = Rate(int(rows.right[inside].sum()), int(inside.sum()))
        out.append(Bin(number / BINS, (number + 1) / BINS, said, right))
    return tuple(out)
