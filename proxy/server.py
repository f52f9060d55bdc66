"""Two servers in one event loop: the proxy, and the admin server beside it; signals, and an orderly end.

At the first SIGTERM, SIGINT or SIGHUP readiness turns false and new requests get 503, while open exchanges run on, at
most `drain_seconds`; a second signal ends them at once, and none the flush of logs and spans behind them. uvicorn alone
would close its listeners first, so that nobody could see readiness turn false, and would not heed a second SIGTERM.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import uvicorn

from demur.classifier.lexicon import LexiconError
from demur.config import ConfigError, Settings, open_relay_of
from demur.proxy import logs
from demur.proxy.admin import create_admin_app
from demur.proxy.app import App, create_app
from demur.proxy.capture import content_capture
from demur.proxy.metrics import Metrics
from demur.proxy.observe import Sink
from demur.proxy.outbound import OutboundError, outbound_proxy
from demur.proxy.protocol import ClientProtocol
from demur.proxy.second_opinion import Reviews
from demur.proxy.telemetry import Telemetry, TelemetryError
from demur.proxy.tls import CertificateError
from demur.proxy.urls import Base
from demur.proxy.verdict_log import VerdictLog, VerdictLogError

logger = logging.getLogger("demur.server")

#: Seconds that an idle client connection stays open: longer than clients keep theirs, so that they close first.
KEEP_ALIVE = 75


#: Seconds between two samples of the event loop's lag.
PULSE = 0.25


class ServerError(Exception):
    """The proxy can't start; the message says why."""


_UNSTARTABLE = (
    CertificateError,
    ConfigError,
    LexiconError,
    OutboundError,
    ServerError,
    TelemetryError,
    VerdictLogError,
)


class Server(uvicorn.Server):
    """uvicorn with the settings of a proxy, and without its own signal handling."""

    def __init__(self, app: Any, sockets: list[socket.socket], *, lifespan: bool, client_timeout: float = 60.0) -> None:
        protocol = type("ClientProtocol", (ClientProtocol,), {"head_timeout": client_timeout})
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol,
                ws="none",
                lifespan="on" if lifespan else "off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=1,
            )
        )
        self.sockets = sockets
        self.listening = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    def cancel(self) -> None:
        """Breaks off what still runs."""
        for task in self.server_state.tasks:
            task.cancel()


class Stop:
    """Counts the signals to stop: `first` is set by the first, `second` by the next."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()

    def __call__(self) -> None:
        (self.second if self.first.is_set() else self.first).set()


#: Called once both servers listen, with the URL of the proxy and that of the admin server.
Ready = Callable[[str, str], None]


def serve(settings: Settings, ready: Ready, *, reviews: Reviews | None = None) -> int:
    """Runs the proxy until a signal stops it; returns the exit code. Faults at the start go to standard error.

    With `reviews` verdicts that are not sure get a second opinion in the background.
    """
    logs.configure(settings.log_level, settings.log_format)
    raise_open_files()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(settings, ready, reviews))
    except _UNSTARTABLE as error:
        sys.stderr.write(f"demur: {error}\n")
        return 1
    return 0


async def _serve(settings: Settings, ready: Ready, reviews: Reviews | None) -> None:
    with ExitStack() as signals, ExitStack() as closing:  # a signal finds its handler until all is flushed
        proxy_sockets = _listen("port", settings.host, settings.port, closing)
        if open_relay := open_relay_of(settings, [bound.getsockname()[0] for bound in proxy_sockets]):
            raise ServerError(open_relay)
        admin_sockets = _listen("admin_port", settings.admin_host, settings.admin_port, closing)
        app, metrics = _assemble(settings, closing, reviews)
        token = settings.admin_token.get_secret_value() if settings.admin_token else None
        proxy = Server(app, proxy_sockets, lifespan=True, client_timeout=settings.client_timeout)
        admin = Server(create_admin_app(metrics, token=token), admin_sockets, lifespan=False)
        gc.collect()
        gc.freeze()  # the rules live as long as the process: no later collection need look at them
        stop = Stop()
        signals.enter_context(_signals(stop))
        async with asyncio.TaskGroup() as servers:
            for server in (proxy, admin):
                servers.create_task(server.serve(server.sockets))
            await proxy.listening.wait()
            await admin.listening.wait()
            pulse = servers.create_task(_feel_pulse(metrics))
            ready(_url(settings.host, proxy_sockets), _url(settings.admin_host, admin_sockets))
            await stop.first.wait()
            app.relay.draining = True
            await _drain(app, stop, settings.drain_seconds)
            pulse.cancel()
            for server in (proxy, admin):
                server.cancel()
                server.should_exit = True


async def _feel_pulse(metrics: Metrics) -> None:
    """Samples by how much the event loop is late."""
    clock = asyncio.get_running_loop().time
    while True:
        due = clock() + PULSE
        await asyncio.sleep(PULSE)
        metrics.lagged(max(0.0, clock() - due))


async def _drain(app: App, stop: Stop, seconds: float) -> None:
    """Waits for the open exchanges and the reviews of ended ones, for a second signal, or for the time to be over."""
    observers = app.relay.observers
    logger.info("stopping: exchanges open: %d, seconds they have to end: %g", observers.in_flight, seconds)
    waits = [asyncio.ensure_future(wait) for wait in (_settled(app), stop.second.wait())]
    await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    if observers.in_flight:
        logger.warning("exchanges broken off, as they had not ended: %d", observers.in_flight)


async def _settled(app: App) -> None:
    await app.relay.observers.idle.wait()
    if app.reviews is not None:
        await app.reviews.settled()


def _assemble(settings: Settings, closing: ExitStack, reviews: Reviews | None = None) -> tuple[Any, Metrics]:
    """The application with all that observes it; `closing` flushes at the end."""
    telemetry = Telemetry.from_env()
    if telemetry is not None:
        closing.callback(telemetry.shutdown)
    log = VerdictLog(settings.verdict_log, capture=content_capture()) if settings.verdict_log else None
    if log is not None:
        closing.callback(log.close)
    metrics = Metrics(
        tag_limit=settings.tag_limit,
        dropped_spans=telemetry.dropped if telemetry else None,
        dropped_events=telemetry.dropped_events if telemetry else None,
        lost_records=(lambda: log.lost) if log else None,
        dropped_reviews=(lambda: reviews.dropped) if reviews else None,
    )
    sinks: list[Sink] = [metrics, log] if log else [metrics]
    for url in (settings.upstream, *(route.upstream for route in settings.route)):
        outbound_proxy(Base.parse(url))  # says now what is wrong with it, not with each request
    app = create_app(settings, telemetry=telemetry, sinks=sinks, reviews=reviews)
    observers = app.relay.observers
    metrics.in_flight.set_function(lambda: observers.in_flight)
    return app, metrics


def _listen(setting: str, host: str, port: int, closing: ExitStack) -> list[socket.socket]:
    """Sockets bound to all addresses of `host`, on one port. Raises ServerError when the port can't be had."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        sockets: list[socket.socket] = []
        for family, kind, protocol, _, address in dict.fromkeys(found):
            bound = closing.enter_context(socket.socket(family, kind, protocol))
            if sys.platform != "win32":
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:  # "::" takes IPv4 too, whatever the system is set to
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, len(found) > 1)
            # Port 0: what the first address got, the others take too.
            chosen = sockets[0].getsockname()[1] if sockets else port
            bound.bind((address[0], chosen, *address[2:]))
            sockets.append(bound)
    except OSError as error:
        raise ServerError(f"can't listen on {host} port {port} ({setting}): {error.strerror or error}") from error
    return sockets


def _url(host: str, sockets: list[socket.socket]) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{sockets[0].getsockname()[1]}"


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    loop, numbers = asyncio.get_running_loop(), [signal.SIGTERM, signal.SIGINT]
    if sys.platform == "win32":
        for number in numbers:
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))
        yield
        return
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup the terminal's end is not ours
        numbers.append(signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def raise_open_files() -> None:
    """Lets this process open as many files, and so sockets, as the system would let it: each exchange takes two."""
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(OSError, ValueError):  # some systems state a limit that they do not grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where there is one (not on Windows)."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return None
    return factory
