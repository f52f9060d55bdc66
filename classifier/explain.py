"""Why a verdict came out as it did: every rule that hit, whether it counted, and the numbers that were added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from demur.classifier.decide import weights
from demur.classifier.features import features
from demur.classifier.verdict import Span, Verdict

if TYPE_CHECKING:
    from demur.classifier.session import Session


@dataclass(frozen=True, slots=True)
class Hit:
    """One rule's phrase in the text; `why_not` says why it did not count (None: it did)."""

    rule: str
    signal: str
    weight: float
    why: str
    span: Span
    why_not: str | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "signal": self.signal,
            "weight": self.weight,
            "why": self.why,
            "span": self.span.to_dict(),
            "fired": self.why_not is None,
            "why_not": self.why_not,
        }


@dataclass(frozen=True, slots=True)
class ChoiceExplanation:
    """One choice: its verdict, the hits in order of place, and what each feature added, in log odds."""

    verdict: Verdict
    hits: tuple[Hit, ...]
    points: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        return {"verdict": self.verdict.to_dict(), "hits": [h.to_dict() for h in self.hits], "points": self.points}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The verdict on a trace and, for each judged choice, how it came about."""

    verdict: Verdict
    choices: tuple[ChoiceExplanation, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"verdict": self.verdict.to_dict(), "choices": [c.to_dict() for c in self.choices]}


def explain_choice(session: Session, verdict: Verdict) -> ChoiceExplanation:
    """How `verdict` came about from the text that `session` was fed."""
    evidence = session.evidence(thorough=True)
    hits = tuple(
        Hit(
            f.rule.id,
            f.rule.signal.name,
            f.rule.weight,
            f.rule.why,
            Span(f.start, f.end, evidence.text[f.start : f.end]),
            f.why_not,
        )
        for f in evidence.findings
    )
    table = weights()
    points = {"bias": table["bias"]["all"]}
    for name, value in features(evidence).items():
        if added := round(table["points"].get(name, 0.0) * value, 3):
            points[name] = added
    return ChoiceExplanation(verdict, hits, points)
