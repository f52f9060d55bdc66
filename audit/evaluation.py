"""One evaluation as a whole: the figures of every corpus, of all together and of their groups, and what was misjudged.

It says the same on the terminal, as JSON and on a page: how figures are named, explained and written stands here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demur.audit.corpus import Corpus, Row
from demur.audit.evaluate import Column, Outcome, Rate, Scores, score, score_by
from demur.classifier import Trace, Verdict
from demur.classifier.replies import judged_text
from demur.classifier.verdict import gravest

SCHEMA_VERSION = 1
NOT_DEFINED = "–"


@dataclass(frozen=True, slots=True)
class Figure:
    """How one of the figures of `Scores` is called, and what it says; `{hits}` and `{of}` are those of a rate."""

    name: str
    title: str
    says: str


FIGURES = (
    Figure("f1", "F1", "a partial answer counts as declined"),
    Figure("f1_without_partial", "F1 without partial", "partial answers left out"),
    Figure("precision", "Precision", "{hits} of {of} flagged were declined"),
    Figure("recall", "Recall", "{hits} of {of} declined were flagged"),
    Figure("false_alarms", "False alarms", "{hits} of {of} answers were flagged"),
    Figure("macro_f1", "Three-class F1", "mean over answer, shaped, refusal"),
    Figure("exact", "Exact label", "{hits} of {of} got the very label"),
    Figure("kappa", "Cohen's kappa", "three classes, agreement beyond chance"),
    Figure("ece", "Calibration error", "ECE: confidence against being right"),
    Figure("auroc", "Confidence AUROC", "right verdicts surer than wrong ones"),
)
BY_NAME = {figure.name: figure for figure in FIGURES}


@dataclass(frozen=True, slots=True)
class Mistake:
    """A row whose verdict is of another class, or label, than its gold."""

    row: Row
    trace: Trace
    verdict: Verdict
    id: str | int | float

    @property
    def gold(self) -> str:
        return self.row.exact or self.row.gold

    @property
    def response(self) -> str:
        """The text of the choice that the verdict is about."""
        index = gravest(self.verdict.choices).index if self.verdict.choices else 0
        found = next((c for c in self.trace.choices if c.index == index), next(iter(self.trace.choices), None))
        return judged_text(found) if found else ""

    def to_dict(self) -> dict[str, Any]:
        verdict = self.verdict
        return {
            "id": self.id,
            "source": self.row.source,
            "gold": self.gold,
            "got": verdict.label,
            "status": verdict.status,
            "confidence": verdict.confidence,
            "language": self.row.language,
            "model": self.row.model,
            "category": self.row.category,
            "prompt": self.trace.ask.prompt,
            "response": self.response,
            "reason": verdict.reason,
            "signals": [signal.to_dict() for signal in verdict.signals],
        }


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One corpus, or all of them: the figures, and how many rows had no label to score, by what stood there."""

    name: str
    scores: Scores
    skipped: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "skipped": dict(self.skipped), **self.scores.to_dict()}


@dataclass(frozen=True, slots=True)
class Report:
    """What an evaluation found. `groups` are of all rows together."""

    corpora: Sequence[Evaluated]
    pooled: Evaluated
    groups: Mapping[Column, Mapping[str, Scores]]
    mistakes: Sequence[Mistake]
    rules_version: str
    resamples: int
    seed: int

    def to_dict(self, *, mistakes: bool = True) -> dict[str, Any]:
        out: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "rules_version": self.rules_version,
            "interval": {"level": 0.95, "method": "percentile bootstrap by prompt"}
            | {"resamples": self.resamples, "seed": self.seed},
            "corpora": [evaluated.to_dict() for evaluated in self.corpora],
            "pooled": self.pooled.to_dict(),
            "by": {
                column: {name: scores.to_dict() for name, scores in groups.items()}
                for column, groups in self.groups.items()
            },
        }
        if mistakes:
            out["errors"] = [mistake.to_dict() for mistake in self.mistakes]
        return out


def written(name: str, value: float | None) -> str:
    """A figure for people: false alarms in per cent, what is not defined as a dash."""
    if value is None:
        return NOT_DEFINED
    return f"{100 * value:.1f} %" if name == "false_alarms" else f"{value:.3f}"


def interval(scores: Scores, name: str) -> str:
    """The 95 % interval of a figure for people; nothing where there is none."""
    if name not in scores.intervals or scores.value(name) is None:
        return ""
    low, high = scores.intervals[name]
    return f"{written(name, low).removesuffix(' %')}–{written(name, high)}"


def says(scores: Scores, figure: Figure) -> str:
    """What a figure is, or how many of how many."""
    found = getattr(scores, figure.name)
    return figure.says.format(hits=found.hits, of=found.of) if isinstance(found, Rate) else figure.says


def shown(scores: Scores) -> list[Figure]:
    """The figures that these scores have: the exact label is scored only where a corpus tells it."""
    return [figure for figure in FIGURES if figure.name != "exact" or scores.exact.of]


def counted(counts: Mapping[str, int]) -> str:
    """How many of which, the most first."""
    return ", ".join(f"{n} {what}" for what, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def report_on(
    judged: Sequence[tuple[Corpus, Sequence[Outcome]]],
    mistakes: Sequence[Mistake],
    *,
    by: Sequence[Column] = ("language", "model", "category"),
    rules_version: str = "",
    resamples: int = 1000,
    seed: int = 0,
) -> Report:
    """The report on these corpora, each with its outcomes. The surest mistakes come first."""
    corpora = [
        Evaluated(corpus.name, score(outcomes, resamples=resamples, seed=seed), corpus.skipped)
        for corpus, outcomes in judged
    ]
    pooled = corpora[0]
    everything = [outcome for _, outcomes in judged for outcome in outcomes]
    if len(corpora) > 1:
        skipped: Counter[str] = Counter()
        for corpus, _ in judged:
            skipped.update(corpus.skipped)
        pooled = Evaluated("all", score(everything, resamples=resamples, seed=seed), skipped)
    groups = {column: score_by(everything, column, resamples=resamples, seed=seed) for column in by}
    return Report(
        corpora=corpora,
        pooled=pooled,
        groups={column: found for column, found in groups.items() if found},
        mistakes=sorted(mistakes, key=lambda mistake: -(mistake.verdict.confidence or 0)),
        rules_version=rules_version,
        resamples=resamples,
        seed=seed,
    )
