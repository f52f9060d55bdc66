"""A verdict of the rules and a judge's coding become the verdict to report. Pure: no endpoint is known here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from demur.audit.codebook import MAX_RESPONSE
from demur.audit.coding import Coding
from demur.audit.quotations import find
from demur.classifier.doubt import open_to_review
from demur.classifier.replies import judged_text
from demur.classifier.trace import Trace
from demur.classifier.verdict import Code, Label, Layer, Review, Signal, Span, Verdict, gravest
from demur.classifier.voice import answer_start

__all__ = ["SIGNAL", "open_to_review", "reviewed"]

#: The name of the judge's vote among the signals, and of its rule.
SIGNAL = "judge"


def reviewed(trace: Trace, verdict: Verdict, coding: Coding, judge_name: str) -> Verdict:
    """The verdict to report once the judge was asked about the choice `verdict.index`.

    Where it coded, its label, confidence and codes replace ours; our signals stay, its vote beside them. Otherwise the
    verdict is ours. Both times `review` says what happened. Of several choices the gravest stands on top, now; the
    review stands there too, whichever that is. A verdict that is not open to review comes back as it is.
    """
    if not open_to_review(verdict):
        return verdict
    review = Review(
        judge=judge_name,
        outcome=coding.outcome,
        label=coding.label,
        reason=coding.reason,
        rules_label=verdict.label,
        rules_confidence=verdict.confidence,
    )
    if not verdict.choices:
        return _one(trace, verdict, coding, review)
    choices = tuple(
        _one(trace, choice, coding, review) if choice.index == verdict.index else choice for choice in verdict.choices
    )
    return replace(gravest(choices), choices=choices, model=verdict.model, id=verdict.id, review=review)


def _one(trace: Trace, verdict: Verdict, coding: Coding, review: Review) -> Verdict:
    if coding.outcome != "coded" or coding.label is None or coding.confidence is None:
        return replace(verdict, review=review)
    text = next((judged_text(choice) for choice in trace.choices if choice.index == verdict.index), "")
    found = {code: _spans(text, quotes) for code, quotes in coding.quotes.items()}
    why = coding.reason or "the judge's coding"
    vote = _vote(coding.label, coding.confidence, why, [span for spans in found.values() for span in spans])
    return replace(
        verdict,
        label=coding.label,
        confidence=coding.confidence,
        rationale=coding.rationale,
        strategy=coding.strategy,
        features=dict(coding.features) if coding.features is not None else None,
        codes=tuple(Code(layer, name, SIGNAL, why, found.get(name, ())) for layer, name in _codes(coding)),
        signals=(*verdict.signals, vote),
        review=review,
    )


def _codes(coding: Coding) -> Iterator[tuple[Layer, str]]:
    if coding.rationale is not None:
        yield "rationale", coding.rationale
    if coding.strategy is not None:
        yield "strategy", coding.strategy
    for name, present in (coding.features or {}).items():
        if present:
            yield "feature", name


def _vote(label: Label, confidence: float, why: str, spans: Sequence[Span]) -> Signal:
    in_order = sorted(set(spans), key=lambda span: (span.start, span.end))
    return Signal(SIGNAL, label, confidence, SIGNAL, why, tuple(in_order))


def _spans(text: str, quotes: Sequence[str]) -> tuple[Span, ...]:
    """Where the quotations stand in the text, which was shown to the judge without the thinking before it."""
    begin = answer_start(text, final=True)
    places = [place for quote in quotes for place in find(text[begin:], quote, MAX_RESPONSE)]
    return tuple(Span(begin + start, begin + end, text[begin + start : begin + end]) for start, end in places)
