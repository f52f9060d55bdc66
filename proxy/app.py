"""The proxy's ASGI application: `/-/…` is ours, everything else goes to the relay. Raw ASGI on the way of traffic.

Our own endpoints never reach the upstream: neither `/-` nor a path that begins with `/-/` is ever forwarded. Paths are
compared as they came: `//-/…` or `/%2D/…` is not ours, it goes up like any other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from email.utils import formatdate
from typing import Any

import httpx
import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from demur.classifier.judge import Classifier
from demur.config import Settings
from demur.proxy.capture import content_capture
from demur.proxy.credentials import ClientToken
from demur.proxy.errors import OwnError
from demur.proxy.lookup import PREFIX, look_up, not_found
from demur.proxy.observe import Observers, Sink, Tracer
from demur.proxy.relay import Relay
from demur.proxy.second_opinion import Reviews
from demur.proxy.store import VerdictStore
from demur.proxy.tls import client_context
from demur.proxy.upstream import AiohttpTransport

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class App:
    """Routes requests; ends the reviews and closes the upstream connections at the end of its lifespan."""

    def __init__(
        self, relay: Relay, own: Starlette, transport: httpx.AsyncBaseTransport, reviews: Reviews | None
    ) -> None:
        self.relay = relay
        self.reviews = reviews
        self._own = own
        self._transport = transport

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif (path := scope["raw_path"]).startswith(b"/-/") or path == b"/-":
            await self._own(scope, receive, send)
        else:
            await self.relay(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                if self.reviews is not None:
                    await self.reviews.aclose()
                await self._transport.aclose()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return


def create_app(
    settings: Settings,
    *,
    classifier: Classifier | None = None,
    telemetry: Tracer | None = None,
    sinks: Sequence[Sink] = (),
    store: VerdictStore | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
    reviews: Reviews | None = None,
) -> App:
    """The whole proxy as one ASGI application. Raises LexiconError, ConfigError when a variable that a route
    names has no key, CertificateError for a file of certificates that can't be used."""
    store = store or VerdictStore(ttl=settings.verdict_ttl, keep=settings.verdict_keep)
    transport = transport or _transport(settings)
    classifier = classifier or Classifier(
        lexicons=settings.lexicons, languages=settings.languages or None, min_confidence=settings.min_confidence
    )
    observers = Observers(sinks, store=store, tracer=telemetry, reviewer=reviews)
    relay = Relay(settings, transport=transport, classifier=classifier, observers=observers)
    return App(relay, _own_endpoints(relay, store, settings), transport, reviews)


def _transport(settings: Settings) -> AiohttpTransport:
    tls = client_context(settings.ca_file, settings.client_cert, settings.client_key)
    return AiohttpTransport(idle_timeout=settings.idle_timeout, tls=tls)


def _own_endpoints(relay: Relay, store: VerdictStore, settings: Settings) -> Starlette:
    """`/-/healthy` and `/-/ready`, which are open, and `/-/verdicts/{id}`, which asks for the client token if there is
    one.
    """
    token = ClientToken(settings.client_token.get_secret_value()) if settings.client_token else None
    text = content_capture().text

    async def healthy(request: Request) -> Response:
        return _json({"status": "ok"})

    async def ready(request: Request) -> Response:
        if relay.draining:
            return _json({"ready": False, "reason": "shutting down"}, 503)
        return _json({"ready": True})

    async def verdict(request: Request) -> Response:
        if token is not None:
            token.admit(request.headers.raw, request.scope["query_string"])
        id = request.path_params["id"]
        status, body = look_up(store, id, text=text) or (404, not_found(id))
        return _answer(body, status)

    routes = [Route("/-/healthy", healthy), Route("/-/ready", ready), Route(f"{PREFIX}{{id}}", verdict)]
    return Starlette(routes=routes, exception_handlers={HTTPException: _say, OwnError: _say_own})


def _json(content: Any, status: int = 200) -> Response:
    return _answer(msgspec.json.encode(content), status)


async def _say(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    code = "method_not_allowed" if exc.status_code == 405 else "not_found"
    return _answer(OwnError(exc.status_code, code, exc.detail).body(), exc.status_code)


async def _say_own(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, OwnError)
    answer = _answer(exc.body(), exc.status)
    answer.headers.raw.extend(exc.headers)
    return answer


def _answer(body: bytes, status: int) -> Response:
    # Our server adds no Date, so that the upstream's is not doubled.
    return Response(body, status, {"date": formatdate(usegmt=True)}, "application/json")
