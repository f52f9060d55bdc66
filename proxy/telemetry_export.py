"""The OpenTelemetry SDK, set up by its own `OTEL_*` variables: provider, exporters, loss counts, bounded shutdown.

Imported only when an exporter is configured, so that a proxy without telemetry does not load the SDK.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Sequence
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter, SpanExportResult
from opentelemetry.trace import Tracer

from demur.proxy.telemetry_names import SCHEMA_URL

logger = logging.getLogger("demur.telemetry")

#: Spans waiting to be exported, unless OTEL_BSP_MAX_QUEUE_SIZE says otherwise (the specification's default).
QUEUE_SIZE = 2048
#: Spans encoded at once, unless OTEL_BSP_MAX_EXPORT_BATCH_SIZE says otherwise. The specification's 512 hold the
#: interpreter lock too long: stalls of 20 to 28 ms in the event loop, of 11 ms with 128, for 0 to 5 % more CPU.
BATCH_SIZE = 128


class Pipeline:
    """A tracer provider of our own (never the global one) that exports to each of `exporters` ("otlp", "console").

    Raises ValueError when a variable that the SDK reads has an impossible value.
    """

    def __init__(self, exporters: Sequence[str]) -> None:
        queue_size = int(os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE") or QUEUE_SIZE)
        batch_size = int(os.environ.get("OTEL_BSP_MAX_EXPORT_BATCH_SIZE") or min(BATCH_SIZE, queue_size))
        self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        self._processors = [CountingProcessor(_exporter(name), queue_size, batch_size) for name in exporters]
        for processor in self._processors:
            self._provider.add_span_processor(processor)

    def tracer(self) -> Tracer:
        return self._provider.get_tracer("demur", version("demur"), SCHEMA_URL)

    def dropped(self) -> int:
        """Spans lost so far: the queue overran, the export failed, or shutdown cut it short."""
        return sum(p.dropped() for p in self._processors)

    def shutdown(self, timeout: float) -> None:
        """Exports what waits, for at most `timeout` seconds. Blocks: call it off the event loop."""
        # The SDK's own shutdown waits up to 30 s for a slow collector and takes no limit.
        closing = threading.Thread(target=self._provider.shutdown, name="telemetry-shutdown", daemon=True)
        closing.start()
        closing.join(timeout)
        lost = sum(p.close() for p in self._processors)
        if lost:
            logger.warning("%d spans were not exported within %g s at shutdown", lost, timeout)


class CountingProcessor(BatchSpanProcessor):
    """The SDK's batch processor (own thread, bounded queue, the oldest span goes first), with its losses counted.

    The SDK only logs them. Each count has one writing thread, so no lock is needed; while a batch is being taken from a
    full queue the overrun may be counted a few spans too high.
    """

    def __init__(self, exporter: SpanExporter, queue_size: int, batch_size: int) -> None:
        self._counted = _CountingExporter(exporter)
        self._queue_size = queue_size
        self._ended = 0
        self._overrun = 0
        self._closed = False
        super().__init__(self._counted, max_queue_size=queue_size, max_export_batch_size=batch_size)

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is not None and span.context.trace_flags.sampled:
            if self._waiting() >= self._queue_size:
                self._overrun += 1
            self._ended += 1
        super().on_end(span)

    def close(self) -> int:
        """No more retries: what is not exported by now is lost. Returns how many spans were on their way."""
        self._closed = True
        self._counted.shutdown()
        return self.dropped() - self._overrun - self._counted.failed

    def dropped(self) -> int:
        if self._closed:
            return self._ended - self._counted.succeeded
        return self._overrun + self._counted.failed

    def _waiting(self) -> int:
        return self._ended - self._overrun - self._counted.taken


class _CountingExporter(SpanExporter):
    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self._closed = False
        self.taken = 0
        self.succeeded = 0
        self.failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.taken += len(spans)
        result = SpanExportResult.FAILURE
        try:
            result = self._inner.export(spans)
        finally:
            if result is SpanExportResult.SUCCESS:
                self.succeeded += len(spans)
            else:
                self.failed += len(spans)
        return result

    def shutdown(self) -> None:
        if not self._closed:
            self._closed = True
            self._inner.shutdown()


def _exporter(name: str) -> SpanExporter:
    # The SDK binds stdout when it is imported; ours is the one of now.
    return ConsoleSpanExporter(out=sys.stdout) if name == "console" else OTLPSpanExporter()


def _resource() -> Resource:
    """OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come first; what they leave open is ours."""
    given = Resource.create()
    ours = {SERVICE_VERSION: version("demur")}
    if str(given.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        return given.merge(Resource({SERVICE_NAME: "demur", **ours}))
    return Resource(ours).merge(given)
