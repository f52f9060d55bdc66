"""The same judging inside an application that serves the API itself: `app.add_middleware(RefusalMiddleware)`.

Pure ASGI, for asyncio servers. Only requests to judged paths are looked at; they, all others, websockets and the
lifespan go to the application as they came, and its answers to the client: plus the headers, plus the key in a
stream's finish chunk, and a complete JSON answer when it is whole. `/-/verdicts/{id}` below the application's root is
answered here.

The request is read as the application reads it. What fails in observing is logged and changes nothing; what the
application raises is raised.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any
from urllib.parse import quote

from demur.classifier.judge import Classifier
from demur.classifier.lexicon import LexiconError
from demur.config import ConfigError, Settings, load
from demur.proxy.application import Listeners
from demur.proxy.call import Call
from demur.proxy.headers import Headers
from demur.proxy.lookup import PREFIX, look_up, not_found
from demur.proxy.observe import Sink
from demur.proxy.witness import Judging, Server, Witness

logger = logging.getLogger("demur.middleware")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

#: The key of a scope that holds the exchange's id, once a request is observed: nobody else observes it then.
ID = "demur.id"


class RefusalMiddleware:
    """Judges the answers of `app`.

    Without `settings` they are read as by the command: `demur.toml`, then `DEMUR_*`. `classifier` stands for the one
    that the settings describe. `sinks` hear of each exchange, beside the verdict log and the metrics.

    Wrong settings fail the application's startup; where no lifespan runs, they are logged and nothing is judged.
    """

    def __init__(
        self,
        app: App,
        *,
        settings: Settings | None = None,
        classifier: Classifier | None = None,
        sinks: Sequence[Sink] = (),
    ) -> None:
        self.app = app
        self._sinks = sinks
        self._judging: Judging | None = None
        self._listeners: Listeners | None = None
        # An exception from here would reach no one: servers take an application that fails at its first call for one
        # that has no lifespan, and start.
        self._fault: Exception | None = None
        self._complained = False
        try:
            self._judging = Judging.by(settings or load().settings, classifier)
        except (ConfigError, LexiconError) as error:
            self._fault = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif scope["type"] != "http" or ID in scope or (listeners := self._started()) is None:
            await self.app(scope, receive, send)
        elif (id := _asked_for(scope)) is not None:
            await _tell(listeners, id, scope, send)
        elif (witness := self._witness(scope)) is None:
            await self.app(scope, receive, send)
        else:
            # In place: who stands before us may read what is added to the scope below.
            scope[ID] = witness.record.id
            call = Call(witness, listeners, receive, send)
            try:
                await self.app(scope, call.receive, call.send)
            except BaseException as error:
                await call.broken(error)
                raise
            await call.returned()

    def _witness(self, scope: Scope) -> Witness | None:
        """Who observes the request; None when its path is not judged."""
        try:
            assert self._judging is not None
            host, port = scope.get("server") or ("", None)
            witness = Witness(
                self._judging,
                method=scope["method"],
                path=scope.get("raw_path") or quote(scope["path"]).encode("ascii"),
                headers=_headers(scope),
                server=Server(host, port or 0),
            )
        except Exception:
            logger.exception("a request could not be observed; it passes unchanged")
            return None
        return witness if witness.record.api is not None else None

    def _start(self) -> Exception | None:
        """Finds who is to hear of exchanges; what is wrong, if something is. Not done before the application is called:
        a server may make its processes by forking."""
        if self._listeners is None and self._judging is not None and self._fault is None:
            try:
                self._listeners = Listeners(self._judging.settings, self._sinks)
                weakref.finalize(self, self._listeners.close)
            except Exception as error:  # VerdictLogError, or a fault of ours: requests pass, whatever it is
                self._fault = error
        return self._fault

    def _started(self) -> Listeners | None:
        """Who hears of exchanges; None when something is wrong, which is said once."""
        if (fault := self._start()) is not None and not self._complained:
            self._complained = True
            logger.error("nothing is judged: %s", fault)
        return self._listeners

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (fault := self._start()) is not None:
            await receive()
            await send({"type": "lifespan.startup.failed", "message": f"demur: {fault}"})
            return

        async def closing(message: MutableMapping[str, Any]) -> None:
            if message["type"].startswith("lifespan.shutdown.") and self._listeners is not None:
                listeners, self._listeners = self._listeners, None
                await asyncio.to_thread(listeners.close)
            await send(message)

        await self.app(scope, receive, closing)


def _asked_for(scope: Scope) -> str | None:
    """The id of the verdict that is asked for, None when something else is."""
    path, root = scope["path"], scope.get("root_path", "")
    if root and path.startswith(f"{root}/"):  # servers give the whole path, those before 2024 what follows the root
        path = path[len(root) :]
    if path.startswith(PREFIX) and scope["method"] in ("GET", "HEAD"):
        id = path[len(PREFIX) :]
        return id if id and "/" not in id else None
    return None


async def _tell(listeners: Listeners, id: str, scope: Scope, send: Send) -> None:
    more: Headers = []
    if (refused := _refused(listeners, scope)) is not None:
        status, body, more = refused
    else:
        status, body = look_up(listeners.store, id, text=listeners.text) or (404, not_found(id))
    head = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode("ascii")),
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _refused(listeners: Listeners, scope: Scope) -> tuple[int, bytes, Headers] | None:
    """Status, body and headers for who asks without the client token, if there is one."""
    if listeners.token is None:
        return None
    from demur.proxy.errors import OwnError

    try:
        listeners.token.admit(_headers(scope), scope.get("query_string", b""))
    except OwnError as error:
        return error.status, error.body(), list(error.headers)
    return None


def _headers(scope: Scope) -> Headers:
    """Names in lower case. What can be read only once is put back, to be read again."""
    if not isinstance(scope["headers"], list | tuple):
        scope["headers"] = list(scope["headers"])
    return [(bytes(name).lower(), bytes(value)) for name, value in scope["headers"]]
