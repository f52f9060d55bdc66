"""An early verdict in the headers of a stream: its head waits, with all that came of its body, and loses nothing.

`Gate` keeps both back and lets them go, in order; `Hold` says when that is due. Nothing here knows how a verdict comes
about.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from demur.config import Settings
from demur.proxy.headers import Headers

Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Hold:
    """How long a head is held: until `chars` of the answer were judged or all of it is there, or `seconds` have passed
    since the upstream's answer began, or `limit` bytes are held. `chars` None: until the stream ends."""

    chars: float | None
    seconds: float | None
    limit: int

    @classmethod
    def of(cls, settings: Settings) -> Hold | None:
        """None: nothing is held. `buffer` outdoes the others; of those a 0 is no limit."""
        if settings.buffer:
            return cls(None, None, settings.inspect_bytes)
        chars, seconds = settings.hold_chars or math.inf, settings.hold_ms / 1000 or None
        return cls(chars, seconds, settings.inspect_bytes) if chars < math.inf or seconds else None

    def is_over(self, heard: float, held: int) -> bool:
        """`heard`: characters that were judged; `held`: bytes that wait."""
        return (self.chars is not None and heard >= self.chars) or held > self.limit


class Gate:
    """Shut at first: the head of a stream waits, and with it what is added to `held`, until it opens."""

    def __init__(self, begin: Callable[[Headers], Awaitable[None]], send: Send) -> None:
        """`begin` sends the head with the headers that it is given."""
        self.shut = True
        self.held = bytearray()
        self._begin = begin
        self._send = send

    async def open(self, ours: Headers) -> None:
        """Sends the head with `ours`, then what waits. Stays shut if that is cancelled: nothing may go on behind it."""
        await self._begin(ours)
        if self.held:
            await self._send({"type": "http.response.body", "body": bytes(self.held), "more_body": True})
            self.held.clear()
        self.shut = False


async def until(body: AsyncIterator[bytes], deadline: float) -> AsyncGenerator[bytes | None]:
    """The pieces of `body`, and None once, when it is `deadline` (perf_counter) before the body has ended."""
    waiting: asyncio.Future[bytes | None] | None = None
    try:
        while (left := deadline - perf_counter()) > 0:
            waiting = asyncio.ensure_future(anext(body, None))
            if not (await asyncio.wait({waiting}, timeout=left))[0]:
                break
            if (piece := waiting.result()) is None:
                return
            yield piece
            waiting = None
        yield None
        if waiting is not None:
            if (piece := await waiting) is None:
                return
            waiting = None
            yield piece
    finally:
        if waiting is not None and not waiting.done():
            waiting.cancel()
            await asyncio.wait({waiting})
    async for piece in body:
        yield piece
