"""What may end an exchange from outside, at any moment: the client leaves, takes too long to send its request, or the
total time is up.

The body of `async with Leash(…)` is cancelled when one of them happens, and left by `Cut`. The request's body is
read through `leash.receive`; after it, `leash.watch` waits for the client to leave, and nobody else may call `receive`.
It can read the rest of the body too, where who wants it may not ask for a long while.
Who reads it in another task ends the exchange with `leash.cut`: nobody hears what is raised there.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Literal, Self

Receive = Callable[[], Awaitable[Any]]
Reason = Literal["client_disconnect", "client_timeout", "total_timeout"]

#: Bytes of a request's body that give it a second more.
BYTES_PER_SECOND = 500


class Cut(Exception):
    """The exchange was ended from outside."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


class Leash:
    """Cancels the task that entered it, once. Only `receive` tells when the client is gone."""

    def __init__(self, receive: Receive, total: float | None, client: float = math.inf) -> None:
        """`total`: seconds for the exchange. `client`: seconds of waiting for the request's body, besides those that
        its size gives it."""
        self._receive = receive
        self._total = total
        self._patience = client
        self._cause: Exception | None = None
        self._over = False
        self._watcher: asyncio.Task[None] | None = None
        self._at_end: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def receive(self) -> tuple[bytes, bool]:
        """The next piece of the request's body, and whether more will come. Raises Cut when the client has left."""
        message = await self._received()
        if message["type"] == "http.disconnect":
            raise Cut("client_disconnect")
        return message.get("body", b""), message.get("more_body", False)

    async def _received(self) -> Any:
        if self._patience == math.inf:
            return await self._receive()
        loop = asyncio.get_running_loop()
        begun = loop.time()
        timer = loop.call_later(self._patience, self.cut, Cut("client_timeout"))
        try:
            message = await self._receive()
        finally:
            timer.cancel()
        self._patience += len(message.get("body", b"")) / BYTES_PER_SECOND - (loop.time() - begun)
        return message

    def watch(
        self, rest: Callable[[], Awaitable[None]] | None = None, *, at_end: Callable[[], None] | None = None
    ) -> None:
        """The request's body has been read, or `rest` reads what is left of it (what it raises is the end of the
        exchange): from now on wait for the client to leave. `at_end` is called when the exchange is over."""
        if self._over:
            if at_end is not None:
                at_end()
        elif self._watcher is None:
            self._at_end = at_end
            self._watcher = asyncio.get_running_loop().create_task(self._watch(rest))

    def cut(self, cause: Exception) -> None:
        """Cancels the task that entered, which leaves by `cause`. The first cause counts; after the end, none does."""
        if not self._over and self._cause is None:
            self._cause = cause
            self._task.cancel()

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        if self._total is not None:
            self._timer = asyncio.get_running_loop().call_later(self._total, self.cut, Cut("total_timeout"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if self._at_end is not None:
            self._at_end()
        # Our own cancellation becomes its cause, and so does a fault that came of it or of the upload that it stopped;
        # a cancellation that came from elsewhere as well (a forced stop) goes on.
        if self._cause is not None and self._task.uncancel() == 0 and kind is not None:
            raise self._cause from None

    async def _watch(self, rest: Callable[[], Awaitable[None]] | None) -> None:
        try:
            if rest is not None:
                await rest()
        except Exception as exc:  # nobody awaits this task: who entered the leash hears of it
            self.cut(exc)
            return
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.cut(Cut("client_disconnect"))
