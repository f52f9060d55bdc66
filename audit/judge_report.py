"""What judges say of a corpus, beside its labels and the rules: counted, and compared layer by layer.

All three are compared on the same rows, those that the judge coded; two judges on those that both did. What became of
the other rows is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Literal, NamedTuple, get_args

from demur.audit.agreement import Agreement, Pair, Said, agree
from demur.audit.coding import Coding, Usage
from demur.audit.evaluate import Outcome, class_of
from demur.audit.judge_file import Codings
from demur.audit.layers import layers_of
from demur.classifier.verdict import Outcome as JudgeOutcome

#: What became of a row: the judge's outcomes, or it was never asked (yet), or has nothing to send: no text, or a fact
#: that the API states.
Fate = Literal[JudgeOutcome, "not_asked", "nothing_to_send"]
FATES: tuple[Fate, ...] = (*get_args(JudgeOutcome), "not_asked", "nothing_to_send")


class Rated(NamedTuple):
    """A row with its label and the rules' verdict; `hash` is that of the text that was coded, None: nothing to send."""

    outcome: Outcome
    hash: str | None


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """One judge on all rows. The agreements are of those that it coded; `usage` is what these rows took, as far as the
    file tells it."""

    name: str
    prompt_version: str
    fates: Mapping[Fate, int]
    usage: Usage
    labels_and_rules: Agreement
    labels_and_judge: Agreement
    judge_and_rules: Agreement

    @property
    def rows(self) -> int:
        return sum(self.fates.values())

    def to_dict(self) -> dict[str, Any]:
        return {
            "judge": self.name,
            "prompt_version": self.prompt_version,
            "rows": self.rows,
            "outcomes": dict(self.fates),
            "usage": asdict(self.usage),
            "labels_and_rules": self.labels_and_rules.to_dict(),
            "labels_and_judge": self.labels_and_judge.to_dict(),
            "judge_and_rules": self.judge_and_rules.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class Between:
    """Two judges, on the rows that both coded; the first is the reference."""

    first: str
    second: str
    agreement: Agreement

    def to_dict(self) -> dict[str, Any]:
        return {"first": self.first, "second": self.second, **self.agreement.to_dict()}


def report_of(name: str, codings: Codings, rows: Sequence[Rated], *, resamples: int, seed: int) -> JudgeReport:
    fates = Counter(_fate(row, codings) for row in rows)
    coded = [(row.outcome, coding) for row in rows if (coding := _coded(row, codings)) is not None]
    labels = [Said(outcome.gold, outcome.layers) for outcome, _ in coded]
    rules = [Said(outcome.got, outcome.coded) for outcome, _ in coded]
    judge = [_said(coding) for _, coding in coded]
    prompts = [outcome.prompt for outcome, _ in coded]

    def agreement(reference: Sequence[Said], other: Sequence[Said]) -> Agreement:
        return agree(list(map(Pair, reference, other, prompts)), resamples=resamples, seed=seed)

    asked = {row.hash for row in rows if row.hash is not None} & set(codings.by_hash)
    return JudgeReport(
        name=name,
        prompt_version=codings.prompt_version,
        fates={fate: fates[fate] for fate in FATES},
        usage=sum((codings.by_hash[digest].usage for digest in asked), Usage()),
        labels_and_rules=agreement(labels, rules),
        labels_and_judge=agreement(labels, judge),
        judge_and_rules=agreement(judge, rules),
    )


def between(judges: Mapping[str, Codings], rows: Sequence[Rated], *, resamples: int, seed: int) -> list[Between]:
    """Every two judges, in the given order."""
    out = []
    for (first, one), (second, two) in combinations(judges.items(), 2):
        both = [(row, _coded(row, one), _coded(row, two)) for row in rows]
        pairs = [Pair(_said(a), _said(b), row.outcome.prompt) for row, a, b in both if a is not None and b is not None]
        out.append(Between(first, second, agree(pairs, resamples=resamples, seed=seed)))
    return out


def _fate(row: Rated, codings: Codings) -> Fate:
    if row.hash is None:
        return "nothing_to_send"
    coding = codings.by_hash.get(row.hash)
    return coding.outcome if coding is not None else "not_asked"


def _coded(row: Rated, codings: Codings) -> Coding | None:
    coding = codings.by_hash.get(row.hash) if row.hash is not None else None
    return coding if coding is not None and coding.outcome == "coded" else None


def _said(coding: Coding) -> Said:
    return Said(class_of(coding.label), layers_of(coding))
