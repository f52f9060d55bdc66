"""The verdict on a span that somebody else has begun: the one that is current where an application is called.

Needs OpenTelemetry's API only. Such a span may end with the last byte of the answer, so it is told before that goes.
"""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.trace import Span

from demur.proxy import telemetry_names as names
from demur.proxy.capture import content_capture
from demur.proxy.labels import clip, operation_of
from demur.proxy.observe import Exchange
from demur.proxy.telemetry_attributes import content_attributes, response_attributes, verdict_attributes


class CurrentSpan:
    """Somebody else's span. Its status, its name and its end are none of our business."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def tell(self, exchange: Exchange) -> None:
        """Adds the verdict and what is known of request and answer."""
        if exchange.api is None or not self._span.is_recording():
            return
        attributes = verdict_attributes(exchange.verdict) if exchange.verdict is not None else {}
        attributes |= response_attributes(exchange)
        attributes[names.OPERATION_NAME] = operation_of(exchange.api)
        if exchange.provider is not None:
            attributes[names.PROVIDER_NAME] = exchange.provider
        if exchange.ask.model:
            attributes[names.REQUEST_MODEL] = clip(exchange.ask.model)
        if exchange.ask.stream:
            attributes[names.REQUEST_STREAM] = True
        if exchange.tag:
            attributes[names.REFUSAL_TAG] = clip(exchange.tag)
        if content_capture().spans:
            attributes |= content_attributes(exchange)
        self._span.set_attributes(attributes)


def current_span() -> CurrentSpan | None:
    """The caller's current span, sampled or not; None when there is none."""
    span = trace.get_current_span()
    return CurrentSpan(span) if span.get_span_context().is_valid else None
