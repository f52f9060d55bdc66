"""Why a verdict came out as it did: the row that decided, every rule that hit, whether it counted, and the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from demur.classifier.case import Case
from demur.classifier.decide import call
from demur.classifier.evidence import Evidence
from demur.classifier.lexicon import signal_kinds
from demur.classifier.verdict import Span, Verdict
from demur.classifier.weights import load_weights

if TYPE_CHECKING:
    from demur.classifier.session import Session


@dataclass(frozen=True, slots=True)
class Hit:
    """One rule's phrase in the text, or a thing found missing; `why_not` says why it did not count (None: it did)."""

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
class Part:
    """One clause of a refusal: what it is about (`clauses.Kind`), and what its words do (names of `act.ACTS`)."""

    kind: str
    acts: tuple[str, ...]
    span: Span

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "acts": list(self.acts), "span": self.span.to_dict()}


@dataclass(frozen=True, slots=True)
class ChoiceExplanation:
    """One choice: its verdict, what decided it, the hits, and what each feature added, in log odds of a refusal.

    `decided` is the row of the decision table, in words. What was found missing stands first in `hits`, then the
    phrases in order of place. `meanings` has a phrase for each name in `points`. `clauses` are those from which the
    layers were coded, where they were.
    """

    verdict: Verdict
    hits: tuple[Hit, ...]
    points: dict[str, float]
    decided: str = ""
    meanings: dict[str, str] = field(default_factory=dict)
    clauses: tuple[Part, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.to_dict(),
            "decided": self.decided,
            "hits": [h.to_dict() for h in self.hits],
            "points": self.points,
            "meanings": self.meanings,
            "clauses": [c.to_dict() for c in self.clauses],
        }


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
    facts = [signal for signal in verdict.signals if signal.field is not None]
    if facts:
        decided = "row 1: a structured fact says that it was refused: " + ", ".join(str(f.field) for f in facts)
        return ChoiceExplanation(verdict, _hits(evidence), {}, decided)
    if verdict.label is None:
        return ChoiceExplanation(verdict, _hits(evidence), {}, f"row 2: no text to judge ({verdict.status})")
    hits = (*_missing(evidence, verdict), *_hits(evidence))
    points = {name: round(added, 3) for name, added in Case(evidence).weighed.items() if round(added, 3)}
    decided = _decided(evidence, verdict, sum(hit.why_not is not None for hit in hits))
    meanings = {name: meaning(name) for name in points}
    return ChoiceExplanation(verdict, hits, points, decided, meanings, _parts(evidence) if verdict.codes else ())


def meaning(feature: str) -> str:
    """What a feature of `features.NAMES` (or "bias") stands for, in a phrase."""
    name, later, _ = feature.partition(".later")
    phrase = load_weights().meanings.get(name) or signal_kinds()[name].why
    return f"{phrase} (after the first two sentences)" if later else phrase


def _decided(evidence: Evidence, verdict: Verdict, suppressed: int) -> str:
    """The row that decided, and what else made the label or its confidence."""
    made = call(evidence, truncated=verdict.status == "incomplete")
    notes = []
    if int(made.row.split(":")[0].removeprefix("row ")) < _WEIGHED:
        notes.append("decided before the evidence is weighed: the log odds have no say in the label")
    if made.label != verdict.label:
        notes.append(f"as {made.label} it is less sure than the bar, so it stays an answer")
    if made.label == "answer" and suppressed:
        notes.append(
            "1 hit does not count, it says why" if suppressed == 1 else f"{suppressed} hits do not count, each says why"
        )
    if evidence.unread():
        notes.append("no lexicon covers the language, so next to nothing is known")
    return "; ".join((made.row, *notes))


def _parts(evidence: Evidence) -> tuple[Part, ...]:
    return tuple(
        Part(
            clause.kind, tuple(dict.fromkeys(d.act.name for d in clause.deeds)), evidence.span(clause.start, clause.end)
        )
        for clause in evidence.clauses
    )


def _missing(evidence: Evidence, verdict: Verdict) -> Iterator[Hit]:
    """What the verdict names besides the rules of the lexicons."""
    known = {finding.rule.id for finding in evidence.findings}
    for signal in verdict.signals:
        if signal.rule not in known:
            for span in signal.spans:
                yield Hit(signal.rule, signal.name, signal.weight, signal.why, span, None)


def _hits(evidence: Evidence) -> tuple[Hit, ...]:
    return tuple(
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


#: The first row that looks at the weighed evidence.
_WEIGHED = 9
