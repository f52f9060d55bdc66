"""A local OTLP/HTTP collector for tests: keeps spans, events and raw payloads, or misbehaves as told."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(frozen=True)
class SunkSpan:
    """A span as it came over the wire, its attributes as Python values of their OTLP types."""

    raw: Span
    attributes: dict[str, Any]
    resource: dict[str, Any]
    schema_url: str

    @property
    def name(self) -> str:
        return str(self.raw.name)

    @property
    def kind(self) -> str:
        return str(Span.SpanKind.Name(self.raw.kind)).removeprefix("SPAN_KIND_")

    @property
    def trace_id(self) -> str:
        return self.raw.trace_id.hex()

    @property
    def span_id(self) -> str:
        return self.raw.span_id.hex()

    @property
    def parent(self) -> str:
        return self.raw.parent_span_id.hex()

    @property
    def is_error(self) -> bool:
        return self.raw.status.code == 2


@dataclass(frozen=True)
class SunkEvent:
    """A log record as it came over the wire, likewise."""

    raw: LogRecord
    attributes: dict[str, Any]
    resource: dict[str, Any]
    schema_url: str

    @property
    def name(self) -> str:
        return str(self.raw.event_name)

    @property
    def trace_id(self) -> str:
        return self.raw.trace_id.hex()

    @property
    def span_id(self) -> str:
        return self.raw.span_id.hex()


class OtlpSink:
    """A context manager that listens on a free port. `status` is its answer; while `stuck` it does not answer."""

    def __init__(self) -> None:
        self.status = 200
        self.stuck = threading.Event()
        self.received: list[tuple[str, bytes]] = []  # path and payload
        self.headers: list[dict[str, str]] = []
        self.requests = 0
        self._released = threading.Event()
        sink = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                sink.requests += 1
                while sink.stuck.is_set() and not sink._released.wait(0.01):
                    pass
                if sink.status == 200 and not sink._released.is_set():
                    sink.headers.append({k.lower(): v for k, v in self.headers.items()})
                    gzipped = self.headers.get("content-encoding") == "gzip"
                    sink.received.append((self.path, gzip.decompress(body) if gzipped else body))
                try:
                    self.send_response(sink.status)
                    self.send_header("content-length", "0")
                    self.end_headers()
                except OSError:
                    self.close_connection = True  # the exporter gave up on us

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def spans(self) -> list[SunkSpan]:
        requests = map(ExportTraceServiceRequest.FromString, self._payloads("/v1/traces"))
        return [
            SunkSpan(span, _attributes(span.attributes), _attributes(resource.resource.attributes), scope.schema_url)
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def events(self) -> list[SunkEvent]:
        requests = map(ExportLogsServiceRequest.FromString, self._payloads("/v1/logs"))
        return [
            SunkEvent(
                record, _attributes(record.attributes), _attributes(resource.resource.attributes), scope.schema_url
            )
            for request in requests
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in list(self.received)]

    @property
    def payloads(self) -> list[bytes]:
        return [payload for _, payload in list(self.received)]

    def _payloads(self, path: str) -> list[bytes]:
        return [payload for at, payload in list(self.received) if at == path]

    def wait(self, condition: Callable[[], bool], timeout: float = 10.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {timeout} s in vain")
            time.sleep(0.01)


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(v) for v in value.array_value.values]
    return None if kind is None else getattr(value, kind)
