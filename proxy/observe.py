"""What an exchange leaves behind: one frozen record, handed to every sink exactly once, whatever ended the exchange.

The relay fills the record; spans, metrics, the verdict log and the verdict store read it. Nothing here knows HTTP clients,
OpenTelemetry or Prometheus. A sink that raises is logged (once a minute at most) and never harms traffic.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from demur.classifier.trace import Ask, Trace
from demur.classifier.verdict import Verdict

logger = logging.getLogger("demur.observe")

End = Literal[
    "complete",  # the upstream's whole answer went to the client
    "client_disconnect",
    "upstream_error",  # connect, DNS, TLS, reset, short body, broken framing
    "connect_timeout",
    "first_byte_timeout",
    "idle_timeout",
    "total_timeout",
    "rejected",  # refused by us before anything went upstream: too large, draining, bad request
    "internal_error",  # a fault of ours
]

#: Seconds between two log lines about the same failing sink.
COMPLAIN_EVERY = 60.0


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what became of it.

    Times are `time.perf_counter()` seconds, except `started_ns` (wall clock, nanoseconds since the epoch). `path` has no
    query (keys travel there). `api` and `provider` are None on paths that are not judged; then `trace` and `verdict` are
    None too. `stream` says that the answer was an event stream (`ask.stream`: that one was asked for). `status_code` is
    what the client got, None when it got no head. `error` explains any end but `complete`, without secrets.
    `verdict.id` equals `id`.
    """

    id: str
    api: str | None
    provider: str | None
    method: str
    path: str
    ask: Ask
    tag: str | None
    stream: bool
    upstream_host: str
    upstream_port: int
    status_code: int | None
    end: End
    error: str | None
    started_ns: int
    started: float
    first_byte: float | None
    first_event: float | None
    ended: float
    done_marker: bool | None
    classify_seconds: float
    trace: Trace | None
    verdict: Verdict | None


class Sink(Protocol):
    """Receives every exchange once, at its end, in the event loop: it must be quick and must not block."""

    def ended(self, exchange: Exchange) -> None: ...


class Spans(Protocol):
    """The spans of one request, begun by `Tracer.start`."""

    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        """`traceparent` and `tracestate` to send upstream; they replace the client's."""
        ...

    def end(self, exchange: Exchange) -> None:
        """Sets the attributes and ends the spans. Called once."""
        ...


class Tracer(Protocol):
    """What the relay needs from telemetry."""

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
    ) -> Spans | None:
        """Called before the request goes upstream. `headers` are the client's, names in lower case; `body` is empty
        unless the path is judged. None means that nothing is recorded."""
        ...


class Store(Protocol):
    """Where verdicts wait to be looked up by id."""

    def pending(self, id: str) -> None: ...
    def put(self, id: str, verdict: Verdict) -> None: ...


class Observers:
    """All sinks behind one call. `in_flight` counts the exchanges begun and not yet ended."""

    def __init__(self, sinks: Sequence[Sink] = (), store: Store | None = None) -> None:
        self.sinks = tuple(sinks)
        self.store = store
        self.in_flight = 0
        self._complained: dict[str, float] = {}

    def began(self, id: str, *, judged: bool) -> None:
        self.in_flight += 1
        if judged and self.store is not None:
            self._try(self.store, "pending", id)

    def ended(self, exchange: Exchange, spans: Spans | None) -> None:
        self.in_flight -= 1
        if exchange.verdict is not None and self.store is not None:
            self._try(self.store, "put", exchange.id, exchange.verdict)
        if spans is not None:
            self._try(spans, "end", exchange)
        for sink in self.sinks:
            self._try(sink, "ended", exchange)

    def _try(self, target: object, method: str, *args: object) -> None:
        try:
            getattr(target, method)(*args)
        except Exception:
            name = f"{type(target).__name__}.{method}"
            now = time.monotonic()
            if now - self._complained.get(name, -COMPLAIN_EVERY) >= COMPLAIN_EVERY:
                self._complained[name] = now
                logger.exception("%s failed; traffic is not affected (said once a minute at most)", name)
