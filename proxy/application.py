"""Who hears of the exchanges of an application that carries the middleware: as in the proxy, as far as it has it all.

An application brings its own packages: without prometheus_client there are no metrics, without OpenTelemetry no spans.
What only the proxy needs (its servers, its HTTP client) is not imported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

from demur.config import Settings
from demur.proxy.capture import content_capture
from demur.proxy.hold import Hold
from demur.proxy.observe import Observers, Sink
from demur.proxy.store import VerdictStore
from demur.proxy.verdict_log import VerdictLog

if TYPE_CHECKING:
    from demur.proxy.credentials import ClientToken
    from demur.proxy.metrics import Metrics
    from demur.proxy.telemetry import Telemetry
    from demur.proxy.telemetry_current import CurrentSpan

logger = logging.getLogger("demur.middleware")

# Of all applications of this process.
_in_flight: WeakSet[Observers] = WeakSet()
_known: list[Metrics] = []


class Listeners:
    """The observers of one application. Raises VerdictLogError when the log can't be opened. `close` flushes; it
    blocks, a few seconds at most."""

    def __init__(self, settings: Settings, sinks: Sequence[Sink]) -> None:
        self.store = VerdictStore(ttl=settings.verdict_ttl, keep=settings.verdict_keep)
        self.text = content_capture().text
        self.most_request_bytes = settings.max_request_bytes
        self.hold = Hold.of(settings)
        self.token = _token(settings)
        self._closing: list[Callable[[], None]] = []
        own: list[Sink] = []
        if settings.verdict_log:
            log = VerdictLog(settings.verdict_log, capture=content_capture())
            own.append(log)
            self._closing.append(log.close)
        telemetry = _telemetry()
        if telemetry is not None:
            self._closing.append(telemetry.shutdown)
        if (metrics := _metrics(settings.tag_limit)) is not None:
            own.append(metrics)
        self.observers = Observers([*own, *sinks], store=self.store, tracer=telemetry)
        self._find_span = _find_span()
        _in_flight.add(self.observers)

    def current_span(self) -> CurrentSpan | None:
        """The span that is current where the application is called, if somebody began one."""
        return self.observers.attempt("telemetry", self._find_span)

    def close(self) -> None:
        closing, self._closing = self._closing, []
        for close in closing:
            close()


def _token(settings: Settings) -> ClientToken | None:
    """What a look-up has to show."""
    if settings.client_token is None:
        return None
    from demur.proxy.credentials import ClientToken

    return ClientToken(settings.client_token.get_secret_value())


def _metrics(tag_limit: int) -> Metrics | None:
    """Ours beside those of the application: once in a process, shown wherever it shows its own."""
    try:
        from prometheus_client import REGISTRY

        from demur.proxy.metrics import Metrics
    except ImportError:
        return None
    if not _known:
        try:
            metrics = Metrics(tag_limit=tag_limit, registry=REGISTRY)
        except ValueError as error:
            logger.warning("no metrics of demur's own, the application has some of the same name: %s", error)
            return None
        metrics.in_flight.set_function(lambda: sum(observers.in_flight for observers in list(_in_flight)))
        _known.append(metrics)
    return _known[0]


def _telemetry() -> Telemetry | None:
    """Spans of our own, for requests that come without one. The variables are the application's as well: what it does
    by them need not be what we can do."""
    try:
        from demur.proxy.telemetry import Telemetry, TelemetryError
    except ImportError:
        return None
    try:
        return Telemetry.from_env()
    except (TelemetryError, ImportError) as error:
        logger.warning("no spans of demur's own: %s", error)
        return None


def _find_span() -> Callable[[], CurrentSpan | None]:
    try:
        from demur.proxy.telemetry_current import current_span
    except ImportError:
        return lambda: None
    return current_span
