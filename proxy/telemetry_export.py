"""The OpenTelemetry SDK, set up by its own `OTEL_*` variables: providers, exporters, loss counts, bounded shutdown.

Imported only when an exporter is configured, so that a proxy without telemetry does not load the SDK.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from opentelemetry._logs import Logger
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider, ReadWriteLogRecord
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, ConsoleLogRecordExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from opentelemetry.trace import Tracer

from demur.proxy.telemetry_names import SCHEMA_URL
from demur.proxy.telemetry_variables import QUEUES, Signal

logger = logging.getLogger("demur.telemetry")

#: Spans or events waiting to be exported, unless OTEL_BSP_MAX_QUEUE_SIZE or OTEL_BLRP_MAX_QUEUE_SIZE says otherwise
#: (the specification's default).
QUEUE_SIZE = 2048
#: Of these encoded at once, unless OTEL_…_MAX_EXPORT_BATCH_SIZE says otherwise. The specification's 512 spans hold the
#: interpreter lock too long: stalls of 20 to 28 ms in the event loop, of 11 ms with 128, for 0 to 5 % more CPU.
BATCH_SIZE = 128

# The SDK binds stdout when it is imported; ours is the one of now.
_SPANS: dict[str, Callable[[], Any]] = {
    "otlp": OTLPSpanExporter,
    "console": lambda: ConsoleSpanExporter(out=sys.stdout),
}
_EVENTS: dict[str, Callable[[], Any]] = {
    "otlp": OTLPLogExporter,
    "console": lambda: ConsoleLogRecordExporter(out=sys.stdout),
}


class Pipeline:
    """Providers of our own (never the global ones) that export to each of `spans` and of `events` ("otlp", "console").

    Raises ValueError when a variable that the SDK reads has an impossible value.
    """

    def __init__(self, spans: Sequence[str], events: Sequence[str]) -> None:
        resource = _resource()
        self._tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._loggers = LoggerProvider(resource=resource, shutdown_on_exit=False)
        self._spans: list[Batches] = []
        self._events: list[Batches] = []
        for name in spans:
            self._spans.append(Batches(_SPANS[name](), "TRACES"))
            self._tracers.add_span_processor(_CountingSpans(self._spans[-1]))
        for name in events:
            self._events.append(Batches(_EVENTS[name](), "LOGS"))
            self._loggers.add_log_record_processor(_CountingEvents(self._events[-1]))

    def tracer(self) -> Tracer:
        return self._tracers.get_tracer("demur", version("demur"), SCHEMA_URL)

    def logger(self) -> Logger:
        return self._loggers.get_logger("demur", version("demur"), SCHEMA_URL)

    def dropped(self) -> int:
        """Spans lost so far: the queue overran, the export failed, or shutdown cut it short."""
        return sum(batches.dropped() for batches in self._spans)

    def dropped_events(self) -> int:
        """Events lost so far, likewise."""
        return sum(batches.dropped() for batches in self._events)

    def shutdown(self, timeout: float) -> None:
        """Exports what waits, for at most `timeout` seconds. Blocks: call it off the event loop."""
        # The SDK's own shutdown waits up to 30 s for a slow collector and takes no limit.
        deadline = time.monotonic() + timeout
        closing = [
            threading.Thread(target=provider.shutdown, name="telemetry-shutdown", daemon=True)
            for provider in (self._tracers, self._loggers)
        ]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join(max(0.0, deadline - time.monotonic()))
        for what, all_batches in (("spans", self._spans), ("events", self._events)):
            if lost := sum(batches.close() for batches in all_batches):
                logger.warning("%d %s were not exported within %g s at shutdown", lost, what, timeout)


class Batches:
    """An exporter behind one of the SDK's batch processors (own thread, bounded queue, the oldest goes first), with
    what is lost on the way counted: the SDK only logs it.

    Each count has one writing thread, so no lock is needed; while a batch is being taken from a full queue the overrun
    may be counted a few items too high.
    """

    def __init__(self, inner: Any, signal: Signal) -> None:
        prefix = QUEUES[signal]
        self.queue_size = int(os.environ.get(f"{prefix}_MAX_QUEUE_SIZE") or QUEUE_SIZE)
        self.batch_size = int(os.environ.get(f"{prefix}_MAX_EXPORT_BATCH_SIZE") or min(BATCH_SIZE, self.queue_size))
        self._inner = inner
        self._handed = 0
        self._overrun = 0
        self._taken = 0
        self._succeeded = 0
        self._failed = 0
        self._closed = False

    def hand(self) -> None:
        """One more goes to the queue."""
        if self._handed - self._overrun - self._taken >= self.queue_size:
            self._overrun += 1
        self._handed += 1

    def export(self, batch: Sequence[Any]) -> Any:
        self._taken += len(batch)
        result = None
        try:
            result = self._inner.export(batch)
        finally:
            if result is not None and result.name == "SUCCESS":  # each signal has an enumeration of its own
                self._succeeded += len(batch)
            else:
                self._failed += len(batch)
        return result

    def shutdown(self) -> None:
        if not self._closed:
            self._closed = True
            self._inner.shutdown()

    def close(self) -> int:
        """No more retries: what is not exported by now is lost. Returns how many items were on their way."""
        self.shutdown()
        return self.dropped() - self._overrun - self._failed

    def dropped(self) -> int:
        if self._closed:
            return self._handed - self._succeeded
        return self._overrun + self._failed


class _CountingSpans(BatchSpanProcessor):
    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        exporter: Any = batches  # it has what the processor calls
        super().__init__(exporter, max_queue_size=batches.queue_size, max_export_batch_size=batches.batch_size)

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is not None and span.context.trace_flags.sampled:
            self._batches.hand()
        super().on_end(span)


class _CountingEvents(BatchLogRecordProcessor):
    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        exporter: Any = batches
        super().__init__(exporter, max_queue_size=batches.queue_size, max_export_batch_size=batches.batch_size)

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        self._batches.hand()
        super().on_emit(log_record)


def _resource() -> Resource:
    """OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come first; what they leave open is ours."""
    given = Resource.create()
    ours = {SERVICE_VERSION: version("demur")}
    if str(given.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        return given.merge(Resource({SERVICE_NAME: "demur", **ours}))
    return Resource(ours).merge(given)
