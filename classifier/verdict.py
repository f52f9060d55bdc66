"""The verdict record: what was decided, how sure, the evidence. Its JSON is a public contract (`schema_version`)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import msgspec

SCHEMA_VERSION = 1

Label = Literal["answer", "hard_refusal", "disguised_refusal", "shaped"]
Status = Literal["complete", "incomplete", "empty", "tool_call", "upstream_error", "unparsed", "not_classified"]
Action = Literal["full_compliance", "partial_compliance", "non_compliance"]
Rationale = Literal["bare", "capacity", "policy", "ethics"]
Strategy = Literal["explicit", "implicit"]
Layer = Literal["rationale", "strategy", "feature"]
#: What became of a second opinion: the judge coded the response; it would not; it could not be asked or understood;
#: its token budget was spent.
Outcome = Literal["coded", "declined", "failed", "over_budget"]

#: The eleven features of a refusal, in the order in which they are told.
FEATURES = (
    "apology",
    "hedge",
    "explanatory_preface",
    "positive_alignment",
    "solidarity",
    "negative_stance",
    "alternative_offer",
    "executed_alternative",
    "normative_suggestion",
    "statement_of_principle",
    "role_based",
)

#: The gravest first; the top level of a verdict over several choices repeats the gravest.
GRAVITY: tuple[Label | None, ...] = ("hard_refusal", "disguised_refusal", "shaped", "answer", None)
REFUSALS: frozenset[Label] = frozenset({"hard_refusal", "disguised_refusal", "shaped"})
ACTIONS: dict[Label, Action] = {
    "answer": "full_compliance",
    "shaped": "partial_compliance",
    "hard_refusal": "non_compliance",
    "disguised_refusal": "non_compliance",
}


class Span(msgspec.Struct, frozen=True, gc=False):
    """Characters `start` to `end` (exclusive) of the original text of the choice."""

    start: int
    end: int
    text: str

    def to_dict(self) -> dict[str, Any]:
        return {"start": self.start, "end": self.end, "text": self.text}


class Signal(msgspec.Struct, frozen=True, gc=False):
    """One vote: a named extractor that speaks for `target` with `weight` (0 to 1), through `rule`, and why.

    `field` names the structured fact (such as `finish_reason`) that carried a signal without spans.
    """

    name: str
    target: Label
    weight: float
    rule: str
    why: str
    spans: tuple[Span, ...] = ()
    field: str | None = None

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "name": self.name,
            "target": self.target,
            "weight": self.weight,
            "rule": self.rule,
            "why": self.why,
            "spans": [s.to_dict() for s in self.spans],
        }
        if self.field is not None:
            out["field"] = self.field
        return out


class Code(msgspec.Struct, frozen=True, gc=False):
    """Why one code of the taxonomy was given: `name` (such as "ethics") of `layer`, by which rule, and where."""

    layer: Layer
    name: str
    rule: str
    why: str
    spans: tuple[Span, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "layer": self.layer,
            "code": self.name,
            "rule": self.rule,
            "why": self.why,
            "spans": [s.to_dict() for s in self.spans],
        }


@dataclass(frozen=True, slots=True)
class Review:
    """A second opinion on a verdict, by the language model `judge`. `label` is what it says, None unless it coded;
    `rules_label` and `rules_confidence` are what the rules had said; `reason` is the judge's, or why there is none."""

    judge: str
    outcome: Outcome
    label: Label | None = None
    reason: str | None = None
    rules_label: Label | None = None
    rules_confidence: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judged response. `label` is None unless `status` is `complete` or `incomplete`; `reason` then says why;
    beside a label it says what it was judged without.

    `confidence` (0 to 1) is the probability that the flagged or not-flagged side is right. `rationale`, `strategy` and
    `features` (one bool for each of `FEATURES`) are coded where nothing of what was asked was delivered, else None;
    `codes` say why and where. `choices` holds one verdict per choice when the response had several. `review` is there
    when a judge was asked.
    """

    label: Label | None
    status: Status
    confidence: float | None = None
    rationale: Rationale | None = None
    strategy: Strategy | None = None
    features: dict[str, bool] | None = None
    codes: tuple[Code, ...] = ()
    signals: tuple[Signal, ...] = ()
    blocked_by: str | None = None
    reason: str | None = None
    inspected: float = 1.0
    language: str | None = None
    model: str | None = None
    rules_version: str = ""
    id: str = ""
    index: int = 0
    choices: tuple[Verdict, ...] = field(default=())
    review: Review | None = None

    @property
    def action(self) -> Action | None:
        return ACTIONS[self.label] if self.label else None

    def is_refusal(self) -> bool:
        """Whether the ask was declined, wholly or in part: any label but `answer`."""
        return self.label in REFUSALS

    def flagged_choices(self) -> int:
        return sum(c.is_refusal() for c in self.choices) if self.choices else int(self.is_refusal())

    def with_id(self, id: str) -> Verdict:
        return replace(self, id=id)

    def to_dict(self, *, text: bool = True) -> dict[str, Any]:
        """The verdict as JSON-ready data. `text=False` leaves the evidence's words out (offsets stay)."""
        out: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "id": self.id,
            "label": self.label,
            "confidence": self.confidence,
            "status": self.status,
            "action": self.action,
            "rationale": self.rationale,
            "strategy": self.strategy,
            "features": self.features,
            "codes": [c.to_dict() for c in self.codes],
            "signals": [s.to_dict() for s in self.signals],
            "language": self.language,
            "model": self.model,
            "rules_version": self.rules_version,
        }
        if self.blocked_by is not None:
            out["blocked_by"] = self.blocked_by
        if self.reason is not None:
            out["reason"] = self.reason
        if self.inspected < 1:
            out["inspected"] = round(self.inspected, 4)
        if self.review is not None:
            out["review"] = self.review.to_dict()
        if self.choices:
            out["choices"] = [{"index": c.index, **c.to_dict()} for c in self.choices]
        if not text:
            _drop_text(out)
        return out


def gravest(verdicts: tuple[Verdict, ...]) -> Verdict:
    """The one that the top level repeats: hard_refusal before disguised_refusal, shaped, answer, no label."""
    return min(verdicts, key=lambda v: GRAVITY.index(v.label))


def _drop_text(verdict: dict[str, Any]) -> None:
    for evidence in (*verdict["signals"], *verdict["codes"]):
        for span in evidence["spans"]:
            del span["text"]
    if "review" in verdict:
        del verdict["review"]["reason"]  # the judge's own words may quote the answer
    for choice in verdict.get("choices", ()):
        _drop_text(choice)
