"""What an exchange leaves behind: one frozen record, handed to every sink exactly once, whatever ended the exchange.

The relay fills the record; spans, metrics, the verdict log and the verdict store read it. Nothing here knows HTTP
clients, OpenTelemetry or Prometheus. A sink that raises is logged (once a minute at most) and never harms traffic.
A second opinion may review the verdict later: then they hear of the exchange again, with the verdict that stands.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol, TypeVar

from demur.classifier.trace import Ask, Trace
from demur.classifier.verdict import Verdict
from demur.proxy.logs import Seldom

T = TypeVar("T")

logger = logging.getLogger("demur.observe")

End = Literal[
    "complete",  # the upstream's whole answer went to the client
    "client_disconnect",
    "upstream_error",  # connect, DNS, TLS, reset, short body, broken framing
    "connect_timeout",
    "first_byte_timeout",
    "idle_timeout",
    "total_timeout",
    "rejected",  # by us, before anything went upstream: too large, shutting down, a WebSocket
    "unauthorized",  # by us: the client token is missing or wrong
    "overloaded",  # by us: too many exchanges are open
    "client_timeout",  # the client took too long to send its request
    "shutdown",  # the drain time was over
    "internal_error",  # a fault of ours
]

#: Ends that are neither the upstream's doing nor a fault: the request was not taken, or we stop.
TURNED_AWAY: frozenset[End] = frozenset({"rejected", "unauthorized", "overloaded", "client_timeout", "shutdown"})


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what became of it.

    Times are `time.perf_counter()` seconds, except `started_ns` (wall clock, nanoseconds since the epoch). `path` has
    no query (keys travel there). `api` and `provider` are None on paths that are not judged; then `trace` and `verdict`
    are None too. `stream` says that the answer was an event stream (`ask.stream`: that one was asked for).
    `status_code` is what the client got, None when it got no head. `error` explains any end but `complete`, without
    secrets. `verdict.id` equals `id`.
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

    def reviewed(self, exchange: Exchange) -> None:
        """An exchange that it knows, with a verdict that has a `review`; not another one to be counted."""
        ...


class Spans(Protocol):
    """The spans of one request, begun by `Tracer.start`."""

    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        """`traceparent` and `tracestate` to send upstream; they replace the client's."""
        ...

    def end(self, exchange: Exchange) -> None:
        """Sets the attributes and ends the spans. Called once."""
        ...

    def reviewed(self, exchange: Exchange) -> None:
        """Adds the reviewed verdict to what was said of the ended spans."""
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
        started_ns: int,
    ) -> Spans | None:
        """Called before a request goes upstream. `headers` are the client's, names in lower case; `body` is empty
        unless the path is judged. None means that nothing is recorded."""
        ...


class Store(Protocol):
    """Where verdicts wait to be looked up by id."""

    def pending(self, id: str) -> None: ...
    def put(self, id: str, verdict: Verdict) -> None: ...


class Reviewer(Protocol):
    """Where a second opinion on verdicts comes from."""

    def offer(self, exchange: Exchange, tell: Callable[[Verdict], None]) -> None:
        """Returns at once. If the verdict of the ended `exchange` is reviewed, `tell` hears of it later."""
        ...


class Observers:
    """Everybody who is told of exchanges, behind one object.

    `in_flight` counts the exchanges begun and not yet ended, `idle` is set while there is none.
    """

    def __init__(
        self,
        sinks: Sequence[Sink] = (),
        *,
        store: Store | None = None,
        tracer: Tracer | None = None,
        reviewer: Reviewer | None = None,
    ) -> None:
        self.in_flight = 0
        self.idle = asyncio.Event()
        self.idle.set()
        self.tracer = tracer
        self._sinks = tuple(sinks)
        self._store = store
        self._reviewer = reviewer
        self._seldom = Seldom()

    def began(self) -> None:
        self.in_flight += 1
        self.idle.clear()

    def pending(self, id: str) -> None:
        """A verdict is to come under this id."""
        if self._store is not None:
            self.attempt("verdict store", partial(self._store.pending, id))

    def judged(self, verdict: Verdict) -> None:
        """There is a verdict, to be looked up by its id; the exchange may still run for a moment."""
        if self._store is not None:
            self.attempt("verdict store", partial(self._store.put, verdict.id, verdict))

    def lost(self) -> None:
        """An exchange is over of which nobody can be told."""
        self.in_flight -= 1
        if not self.in_flight:
            self.idle.set()

    def ended(self, exchange: Exchange, spans: Spans | None) -> None:
        self.in_flight -= 1
        if exchange.verdict is not None:
            self.judged(exchange.verdict)
        if spans is not None:
            self.attempt("telemetry", partial(spans.end, exchange))
        for sink in self._sinks:
            self.attempt(type(sink).__name__, partial(sink.ended, exchange))
        if self._reviewer is not None:
            tell = partial(self._reviewed, exchange, spans)
            self.attempt("second opinion", partial(self._reviewer.offer, exchange, tell))
        if not self.in_flight:
            self.idle.set()

    def _reviewed(self, exchange: Exchange, spans: Spans | None, verdict: Verdict) -> None:
        verdict = verdict.with_id(exchange.id)
        exchange = replace(exchange, verdict=verdict)
        self.judged(verdict)
        if spans is not None:
            self.attempt("telemetry", partial(spans.reviewed, exchange))
        for sink in self._sinks:
            self.attempt(type(sink).__name__, partial(sink.reviewed, exchange))

    def attempt(self, who: str, call: Callable[[], T]) -> T | None:
        """What `call` returns; None if it fails, which is logged and goes no further."""
        try:
            return call()
        except Exception:
            if self._seldom.due(who):
                logger.exception("%s failed; traffic is not affected (said once a minute at most)", who)
            return None
