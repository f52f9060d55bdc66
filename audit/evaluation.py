"""One evaluation as a whole: the figures of every corpus, of all together and of their groups, and what was misjudged.

It says the same on the terminal, as JSON and on a page: how figures are named, explained and written stands here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from demur.audit.agreement import Agreement, Pair, Said, agree
from demur.audit.corpus import Corpus, Row
from demur.audit.evaluate import Column, Outcome, Scores, score, score_by
from demur.audit.judge_file import Codings, content_hash
from demur.audit.judge_report import Between, JudgeReport, Rated, between, report_of
from demur.audit.layers import layers_of
from demur.audit.proportion import Rate
from demur.audit.review import open_to_review
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
class Case:
    """A row of a corpus and the verdict on it."""

    row: Row
    trace: Trace
    verdict: Verdict
    id: str | int | float

    @property
    def outcome(self) -> Outcome:
        row, trace, verdict = self.row, self.trace, self.verdict
        return Outcome(
            gold=row.gold,
            label=verdict.label,
            status=verdict.status,
            confidence=verdict.confidence,
            prompt=trace.ask.prompt,
            exact=row.exact,
            language=row.language,
            model=row.model or trace.model,
            category=row.category,
            layers=row.layers,
            coded=layers_of(verdict),
        )

    @property
    def hash(self) -> str | None:
        """The hash of the text that a judge is shown; None where there is nothing to show."""
        return content_hash(self.trace, self.verdict.index) if open_to_review(self.verdict) else None

    @property
    def gold(self) -> str:
        return self.row.exact or self.row.gold

    @property
    def response(self) -> str:
        """The text of the choice that the verdict is about."""
        index = gravest(self.verdict.choices).index if self.verdict.choices else 0
        found = next((c for c in self.trace.choices if c.index == index), next(iter(self.trace.choices), None))
        return judged_text(found) if found else ""

    @property
    def differences(self) -> list[tuple[str, str, str]]:
        """What is coded otherwise than labelled: the layer or feature, how it was labelled, how it is coded."""
        outcome = self.outcome
        return [(name, outcome.layers.said(name), outcome.coded.said(name)) for name in outcome.miscoded]

    def to_dict(self) -> dict[str, Any]:
        verdict = self.verdict
        out: dict[str, Any] = {
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
            "wrong": [*([] if self.outcome.right else ["label"]), *self.outcome.miscoded],
            "signals": [signal.to_dict() for signal in verdict.signals],
        }
        if self.row.layers:
            out["layers"] = {"labelled": self.row.layers.to_dict(), "coded": layers_of(verdict).to_dict()}
            out["codes"] = [code.to_dict() for code in verdict.codes]
        return out


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One corpus, or all of them: the figures, and how many rows had no label to score, by what stood there.

    `agreement` is of labels and rules, the labels as the reference, where the corpus tells how was declined; of all of
    them, it is of the corpora that do.
    """

    name: str
    scores: Scores
    skipped: Mapping[str, int]
    agreement: Agreement | None = None

    def to_dict(self) -> dict[str, Any]:
        layers = {"agreement": self.agreement.to_dict()} if self.agreement else {}
        return {"name": self.name, "skipped": dict(self.skipped), **self.scores.to_dict(), **layers}


@dataclass(frozen=True, slots=True)
class Report:
    """What an evaluation found. `groups` are of all rows together, `asked` the columns asked for by name.

    `miscoded` are the refusals, found as such, that are coded otherwise than labelled or not at all, whether or not
    their very label is right too (else they are among the `mistakes` as well); `both_coded` counts all that labels and
    rules coded, as the agreement does.
    """

    corpora: Sequence[Evaluated]
    pooled: Evaluated
    groups: Mapping[Column, Mapping[str, Scores]]
    mistakes: Sequence[Case]
    rules_version: str
    resamples: int
    seed: int
    both_coded: int = 0
    miscoded: Sequence[Case] = ()
    judges: Sequence[JudgeReport] = ()
    between_judges: Sequence[Between] = ()
    asked: Collection[Column] = ()

    @property
    def shown_groups(self) -> dict[Column, Mapping[str, Scores]]:
        """The groups for people: a column with one value says what all rows say, unless it was asked for."""
        return {column: found for column, found in self.groups.items() if len(found) > 1 or column in self.asked}

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
        if self.judges:
            out["judges"] = [judge.to_dict() for judge in self.judges]
            out["between_judges"] = [two.to_dict() for two in self.between_judges]
        if mistakes:
            out["errors"] = [case.to_dict() for case in self.mistakes]
            out["miscoded"] = [case.to_dict() for case in self.miscoded]
        return out


def written(name: str, value: float | None) -> str:
    """A figure for people: false alarms in per cent, what is not defined as a dash."""
    if value is None:
        return NOT_DEFINED
    return f"{100 * value:.1f} %" if name == "false_alarms" else f"{value:.3f}"


class Figures(Protocol):
    """What has figures by name, some with an interval."""

    @property
    def intervals(self) -> Mapping[str, tuple[float, float]]: ...
    def value(self, name: str) -> float | None: ...


def interval(scores: Figures, name: str) -> str:
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


def miscoding(report: Report) -> str:
    """How many refusals are coded otherwise than labelled, out of those that the tables say both coded."""
    otherwise = sum(bool(case.outcome.coded) for case in report.miscoded)
    uncoded = len(report.miscoded) - otherwise
    text = f"{otherwise} of {report.both_coded} refusals that the rules coded too are coded otherwise than labelled"
    return f"{text}; {uncoded} found as a refusal and not coded" if uncoded else text


def agreement_of(outcomes: Sequence[Outcome], *, resamples: int = 1000, seed: int = 0) -> Agreement | None:
    """How far the rules agree with the labels, layer by layer; None where no row tells its layers."""
    if not any(outcome.layers for outcome in outcomes):
        return None
    pairs = [Pair(Said(o.gold, o.layers), Said(o.got, o.coded), o.prompt) for o in outcomes]
    return agree(pairs, resamples=resamples, seed=seed)


def report_on(
    judged: Sequence[tuple[Corpus, Sequence[Case]]],
    *,
    by: Sequence[Column] = ("language", "model", "category"),
    asked: Collection[Column] = (),
    judges: Mapping[str, Codings] | None = None,
    rules_version: str = "",
    resamples: int = 1000,
    seed: int = 0,
) -> Report:
    """The report on these corpora, each with its cases, and on judges by name. The surest mistakes come first."""
    outcomes = [[case.outcome for case in cases] for _, cases in judged]

    def evaluated(
        name: str, scored: Sequence[Outcome], layered: Sequence[Outcome], skipped: Mapping[str, int]
    ) -> Evaluated:
        scores = score(scored, resamples=resamples, seed=seed)
        return Evaluated(name, scores, skipped, agreement_of(layered, resamples=resamples, seed=seed))

    corpora = [
        evaluated(corpus.name, own, own, corpus.skipped) for (corpus, _), own in zip(judged, outcomes, strict=True)
    ]
    pooled, everything = corpora[0], [outcome for own in outcomes for outcome in own]
    if len(corpora) > 1:
        skipped = sum((Counter(corpus.skipped) for corpus, _ in judged), Counter[str]())
        layered = [outcome for one, own in zip(corpora, outcomes, strict=True) if one.agreement for outcome in own]
        pooled = evaluated("all", everything, layered, skipped)
    groups = {column: score_by(everything, column, resamples=resamples, seed=seed) for column in by}
    cases = [case for _, own in judged for case in own]
    judges = judges or {}
    rated = [Rated(case.outcome, case.hash) for case in cases] if judges else []
    return Report(
        corpora=corpora,
        pooled=pooled,
        groups={column: found for column, found in groups.items() if found},
        mistakes=sorted((c for c in cases if not c.outcome.right), key=lambda case: -(case.verdict.confidence or 0)),
        both_coded=pooled.agreement.both.rows if pooled.agreement else 0,
        miscoded=[case for case in cases if case.outcome.miscoded],
        judges=[report_of(name, own, rated, resamples=resamples, seed=seed) for name, own in judges.items()],
        between_judges=between(judges, rated, resamples=resamples, seed=seed),
        asked=asked,
        rules_version=rules_version,
        resamples=resamples,
        seed=seed,
    )
