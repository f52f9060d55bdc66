"""Spans: one SERVER span per request and its CLIENT child towards the upstream, both with the verdict. And its event.

Configured by OpenTelemetry's own `OTEL_*` variables only. Without an exporter there is no telemetry at all: the SDK is
not loaded and the client's trace headers pass unchanged. Trace context is W3C's (`traceparent`, `tracestate`).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from typing import get_args

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from demur.classifier.trace import Ask
from demur.proxy import telemetry_names as names
from demur.proxy.capture import Capture, content_capture
from demur.proxy.labels import clip, error_type, operation_of, route_of
from demur.proxy.observe import Exchange
from demur.proxy.telemetry_attributes import (
    Attributes,
    content_attributes,
    request_attributes,
    response_attributes,
    verdict_attributes,
)
from demur.proxy.telemetry_events import Events
from demur.proxy.telemetry_variables import Signal, TelemetryError, configured_exporters

logger = logging.getLogger("demur.telemetry")

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"})
_PROPAGATOR = TraceContextTextMapPropagator()
_TRACE_HEADERS = (b"traceparent", b"tracestate")

__all__ = ["RequestSpans", "Telemetry", "TelemetryError"]


class Telemetry:
    """Begins the spans of each request, which emit its events. `shutdown()` flushes, bounded in time.

    `spans` and `events` name the exporters of each ("otlp", "console").
    """

    def __init__(
        self, spans: Sequence[str], *, events: Sequence[str] = (), capture: Capture = Capture.NO_CONTENT
    ) -> None:
        from demur.proxy.telemetry_export import Pipeline  # loads the SDK

        self._pipeline = Pipeline(spans, events)
        self._tracer = self._pipeline.tracer()
        self._events = Events(self._pipeline.logger()) if events else None
        self._capture = capture.spans

    @classmethod
    def from_env(cls) -> Telemetry | None:
        """Telemetry as the environment asks for it, None when it asks for none. Raises TelemetryError."""
        spans, events = (configured_exporters(os.environ, signal) for signal in get_args(Signal))
        if not spans and not events:
            return None
        try:
            return cls(spans, events=events, capture=content_capture())
        except ValueError as error:
            words = "OpenTelemetry's variables (OTEL_BSP_*, OTEL_BLRP_*, OTEL_*_LIMIT, …)"
            raise TelemetryError(f"{words}: {error}") from error

    def start(
        self,
        *,
        headers: Sequence[tuple[bytes, bytes]],
        method: str,
        path: str,
        api: str | None,
        provider: str | None,
        ask: Ask,
        body: bytes,
        upstream_host: str,
        upstream_port: int,
        started_ns: int | None = None,
    ) -> RequestSpans | None:
        """Begins both spans, before the request goes upstream. `headers` are the client's, names in lower case.

        `started_ns` is when the request arrived (nanoseconds since the epoch; now, if not given). None when that fails:
        telemetry is never a reason to refuse a request.
        """
        try:
            known = method if method in _METHODS else "_OTHER"
            route = route_of(api, path)
            name = f"{known if known == method else 'HTTP'} {route}" if route else known
            server = self._tracer.start_span(
                name,
                context=_PROPAGATOR.extract(_trace_headers(headers), Context()),
                kind=SpanKind.SERVER,
                attributes=_server_attributes(known, path, route),
                start_time=started_ns,
            )
            model = clip(ask.model) if ask.model else None
            attributes: Attributes = {names.SERVER_ADDRESS: upstream_host, names.SERVER_PORT: upstream_port}
            if api is None:
                attributes[names.HTTP_REQUEST_METHOD] = known
            else:
                attributes[names.OPERATION_NAME] = operation = operation_of(api)
                name = f"{operation} {model}" if model else operation
                if provider is not None:
                    attributes[names.PROVIDER_NAME] = provider
                if model is not None:
                    attributes[names.REQUEST_MODEL] = model
                if ask.stream:
                    attributes[names.REQUEST_STREAM] = True
                if server.is_recording():
                    attributes |= request_attributes(body)
            context = trace.set_span_in_context(server, Context())
            client = self._tracer.start_span(name, context=context, kind=SpanKind.CLIENT, attributes=attributes)
            return RequestSpans(server, client, events=self._events, capture=self._capture)
        except Exception:
            logger.exception("a span could not be started")
            return None

    def dropped(self) -> int:
        """Spans lost so far: queue overrun, failed export, cut off at shutdown."""
        return self._pipeline.dropped()

    def dropped_events(self) -> int:
        """Events lost so far."""
        return self._pipeline.dropped_events()

    def shutdown(self, timeout: float = 5.0) -> None:
        """Exports what waits, for at most `timeout` seconds. Blocks: call it off the event loop."""
        self._pipeline.shutdown(timeout)


class RequestSpans:
    """The two spans of one request, and what is told of it afterwards."""

    def __init__(self, server: Span, client: Span, *, events: Events | None, capture: bool) -> None:
        self._server = server
        self._client = client
        self._events = events
        self._capture = capture

    def headers(self) -> list[tuple[bytes, bytes]]:
        """`traceparent` and `tracestate` to send upstream, instead of the client's."""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, trace.set_span_in_context(self._client, Context()))
        return [(name.encode(), value.encode()) for name, value in carrier.items()]

    def end(self, exchange: Exchange) -> None:
        """Says what became of the request and ends both spans, at the time when the exchange ended. Emits its event."""
        end_time = exchange.started_ns + int((exchange.ended - exchange.started) * 1e9)
        try:
            if self._client.is_recording() or self._server.is_recording():
                self._describe(exchange)
        finally:
            self._client.end(end_time)
            self._server.end(end_time)
            # Whoever waits for a review holds on to this object, and need not to all that was said of the request.
            self._server = self._client = NonRecordingSpan(self._client.get_span_context())
        if self._events is not None:
            self._events.emit(exchange, self._client, end_time)

    def reviewed(self, exchange: Exchange) -> None:
        """Emits the event of a verdict that was reviewed after the end."""
        if self._events is not None:
            self._events.emit(exchange, self._client, time.time_ns())

    def _describe(self, exchange: Exchange) -> None:
        shared = verdict_attributes(exchange.verdict) if exchange.verdict is not None else {}
        if exchange.tag:
            shared[names.REFUSAL_TAG] = clip(exchange.tag)
        status, end = exchange.status_code, exchange.end
        client = shared | response_attributes(exchange)
        server = shared
        if status is not None:
            server[names.HTTP_RESPONSE_STATUS_CODE] = status
            if end == "complete" or exchange.first_byte is not None:  # otherwise the status is our own answer
                client[names.HTTP_RESPONSE_STATUS_CODE] = status
        if self._capture and exchange.api is not None:
            client |= content_attributes(exchange)
        if error := error_type(exchange):
            client[names.ERROR_TYPE] = error
            if end != "complete" or (status is not None and status >= 500):  # to a server, a 4xx is the client's fault
                server[names.ERROR_TYPE] = error
            if end != "client_disconnect":  # noteworthy, but nobody's failure
                self._client.set_status(StatusCode.ERROR)
                if names.ERROR_TYPE in server:
                    self._server.set_status(StatusCode.ERROR)
        self._client.set_attributes(client)
        self._server.set_attributes(server)


def _trace_headers(headers: Sequence[tuple[bytes, bytes]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in headers:
        if name in _TRACE_HEADERS:
            found.setdefault(name.decode(), []).append(value.decode("latin-1"))
    return found


def _server_attributes(method: str, path: str, route: str | None) -> Attributes:
    """HTTP conventions, except the query: keys travel there."""
    attributes: Attributes = {
        names.HTTP_REQUEST_METHOD: method,
        names.URL_PATH: clip(path),
        names.URL_SCHEME: "http",
    }
    if route is not None:
        attributes[names.HTTP_ROUTE] = route
    return attributes
