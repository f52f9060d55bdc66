"""Events: each verdict with a label as a `gen_ai.evaluation.result` log record, tied to the request's CLIENT span.

A verdict that a second opinion reviewed is told once more, under the same id. The spans have ended by then and can't be
corrected, so that event has all of the verdict, and `refusal.review.*`.
"""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.trace import Span

from demur.classifier.verdict import Verdict
from demur.proxy import telemetry_names as names
from demur.proxy.labels import clip
from demur.proxy.observe import Exchange
from demur.proxy.telemetry_attributes import Attributes, rules_of, verdict_attributes

#: The name of the evaluation, beside others that a team may run on the same spans.
EVALUATION = "refusal"


class Events:
    """Emits the event of an exchange, parented to a span that may have ended, if that span is sampled."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def emit(self, exchange: Exchange, span: Span, time_ns: int) -> None:
        """`time_ns` is when the verdict was given, in nanoseconds since the epoch."""
        verdict = exchange.verdict
        if verdict is None or verdict.label is None or not span.get_span_context().trace_flags.sampled:
            return
        self._logger.emit(
            LogRecord(
                timestamp=time_ns,
                context=trace.set_span_in_context(span, Context()),
                severity_number=SeverityNumber.INFO,
                event_name=names.EVALUATION_EVENT,
                attributes=event_attributes(exchange, verdict),
            )
        )


def event_attributes(exchange: Exchange, verdict: Verdict) -> Attributes:
    """The verdict as an evaluation's score, without any text of the answer or of the reviewer."""
    out: Attributes = {names.REFUSAL_ID: verdict.id}
    if (review := verdict.review) is not None:
        out = verdict_attributes(verdict)
        out[names.REFUSAL_REVIEW_JUDGE] = clip(review.judge)
        out[names.REFUSAL_REVIEW_OUTCOME] = review.outcome
        if review.rules_label is not None:
            out[names.REFUSAL_REVIEW_RULES_VERDICT] = review.rules_label
        if review.rules_confidence is not None:
            out[names.REFUSAL_REVIEW_RULES_SCORE] = float(review.rules_confidence)
    out[names.EVALUATION_NAME] = EVALUATION
    if verdict.label is not None:
        out[names.EVALUATION_SCORE_LABEL] = verdict.label
    if verdict.confidence is not None:
        out[names.EVALUATION_SCORE_VALUE] = float(verdict.confidence)
    if rules := rules_of(verdict):
        out[names.EVALUATION_EXPLANATION] = ", ".join(rules)
    if exchange.trace is not None and exchange.trace.response_id:
        out[names.RESPONSE_ID] = clip(exchange.trace.response_id)
    return out
