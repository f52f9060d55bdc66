"""The client's request on its way up: what of it is read, what is turned away, which headers go with it.

The body of a judged request is read whole first, for its ask and for `stream`; so is any other JSON body whose model
decides where it goes. The rest goes up as it comes; where the upstream stops reading it, we go on for a while, since
only who reads sees the client leave.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import httpx

from demur.classifier.request import read_model
from demur.proxy import coding, errors, headers
from demur.proxy.coding import UndecodableError
from demur.proxy.errors import OwnError
from demur.proxy.inspection import ask_of, readable
from demur.proxy.leash import Cut, Leash
from demur.proxy.passage import coding_of
from demur.proxy.record import Record
from demur.proxy.routes import Destination

#: Bytes of a body that are not joined and read in one go.
LARGE = 4 * 1024 * 1024
#: Seconds without anybody asking for the next piece after which it is read all the same.
STUCK = 0.3


class Room:
    """The bytes that all uploads together may have read ahead: `limit`, and one piece of each more."""

    def __init__(self, limit: int) -> None:
        self.waiting: set[asyncio.Event] = set()  # set when there is room again
        self._left = limit

    @property
    def full(self) -> bool:
        return self._left <= 0

    def take(self, size: int) -> None:
        self._left -= size

    def give_back(self, size: int) -> None:
        was_full = self.full
        self._left += size
        if was_full and not self.full:
            for event in self.waiting:
                event.set()


class Upload(httpx.AsyncByteStream):
    """A body passed up piece by piece. What stops it ends the exchange: the HTTP client, which reads it in a task of
    its own, hides why it stopped, and says nothing at all once the answer has begun.

    Nor does the client ask for more while the upstream does not read. Then the leash reads ahead, as long as there is
    `room`, which is given back at the end of the exchange at the latest.
    """

    def __init__(self, leash: Leash, limit: int, room: Room) -> None:
        self._leash = leash
        self._room = room
        self._pieces = _pieces(leash, limit)
        self._ahead: deque[bytes] | None = None  # what was read ahead; from the first time on all goes through it
        self._wanted = True
        self._complete = False
        self._changed = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        try:
            while piece := await self._next():
                stuck = loop.call_later(STUCK, self._read_on)
                try:
                    yield piece
                finally:
                    stuck.cancel()
        except (OwnError, Cut) as exc:
            self._leash.cut(exc)
            raise
        self._leash.watch()

    async def _next(self) -> bytes:
        if self._ahead is None:
            return await anext(self._pieces, b"")
        self._wanted = True
        while not self._ahead and not self._complete:
            await self._change()
        if not self._ahead:
            return b""
        piece = self._ahead.popleft()
        self._room.give_back(len(piece))
        self._changed.set()
        return piece

    def _read_on(self) -> None:
        self._wanted = False
        self._changed.set()
        if self._ahead is None:
            self._ahead = deque()
            self._room.waiting.add(self._changed)
            self._leash.watch(self._read_ahead, at_end=self._forget)

    async def _read_ahead(self) -> None:
        assert self._ahead is not None
        async for piece in self._pieces:
            self._ahead.append(piece)
            self._room.take(len(piece))
            self._changed.set()
            while self._ahead and (self._wanted or self._room.full):
                await self._change()
        self._complete = True
        self._changed.set()

    def _forget(self) -> None:
        assert self._ahead is not None
        self._room.waiting.discard(self._changed)
        self._room.give_back(sum(map(len, self._ahead)))
        self._ahead.clear()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


async def body_of(record: Record, leash: Leash, limit: int, room: Room, *, ask_model: bool) -> bytes | Upload:
    """The request's body. Raises OwnError when it is over `limit` bytes, Cut when the client leaves.

    Of a judged request it reads the ask into `record`; of any other the model, where `ask_model` says so. `room` is
    that of all requests.
    """
    length = headers.get(record.headers, b"content-length")
    if length is not None and int(length) > limit:
        raise errors.too_large(limit)
    if record.api is not None:
        body = await _whole(leash, limit)
        record.asked(await ask_of(body, record.api, coding_of(record.headers)))
        return body
    if length in (None, b"0") and headers.get(record.headers, b"transfer-encoding") is None:
        leash.watch()
        return b""
    if ask_model and record.model is None and _may_be_json(record):
        body = await _whole(leash, limit)
        with suppress(UndecodableError):
            record.model = read_model(await readable(body, coding_of(record.headers)))
        return body
    return Upload(leash, limit, room)


def headers_of(
    record: Record, destination: Destination, body: bytes | Upload, trace: Sequence[tuple[bytes, bytes]]
) -> headers.Headers:
    """The headers that go up with it; `trace` replaces the client's trace context."""
    up = [(b"host", destination.base.netloc), *headers.upstream(record.headers)]
    if headers.get(up, b"content-length") is None:
        if isinstance(body, Upload):
            up.append((b"transfer-encoding", b"chunked"))
        elif body:
            up.append((b"content-length", str(len(body)).encode("ascii")))
    if record.api is not None:
        accepted = headers.get(up, b"accept-encoding")
        accepted = b"identity" if record.ask.stream else headers.accept_encoding(accepted, coding.DECODABLE)
        up = headers.without(up, b"accept-encoding")
        if accepted is not None:
            up.append((b"accept-encoding", accepted))
    if trace:
        up = [*headers.without(up, b"traceparent", b"tracestate"), *trace]
    return destination.headers(up, preflight=record.preflight)


def _may_be_json(record: Record) -> bool:
    """By its content type; curl calls what it sends a form, whatever that is."""
    kind = (headers.get(record.headers, b"content-type") or b"").lower()
    return not kind or b"json" in kind or kind.startswith(b"application/x-www-form-urlencoded")


async def _whole(leash: Leash, limit: int) -> bytes:
    body = b"".join([piece async for piece in _pieces(leash, limit)])
    leash.watch()
    if len(body) > LARGE:
        await asyncio.sleep(0)  # joining and reading take milliseconds each: others get their turn between
    return body


async def _pieces(leash: Leash, limit: int) -> AsyncIterator[bytes]:
    size, more = 0, True
    while more:
        piece, more = await leash.receive()
        size += len(piece)
        if size > limit:
            raise errors.too_large(limit)
        if piece:
            yield piece
