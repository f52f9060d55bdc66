"""Both ends of the soak: the upstream and the clients, each of which may end an exchange as its fate says."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter, defaultdict
from contextlib import suppress

from fake_upstream import Answer, chunk, read_answer, read_body, read_head
from wire.soak_plan import Exchange, Fate

#: How many exchanges run at once.
AT_ONCE = 32
#: What a connection ends with that the other side left.
GONE = (ConnectionError, asyncio.IncompleteReadError)


class Upstream:
    """Plays the answers of the exchanges whose numbers the requests name.

    By number: `begun` counts the requests whose head came, `whole` those that came whole, `arrived` is set by these.
    `faults` are of requests that are another than what was sent.
    """

    def __init__(self, plan: dict[int, Exchange]) -> None:
        self.begun: Counter[int] = Counter()
        self.whole: Counter[int] = Counter()
        self.arrived: dict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self.faults: list[str] = []
        self._plan = plan
        self._open: set[asyncio.StreamWriter] = set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with suppress(*GONE):
            while await self._exchange(reader, writer):
                pass
        self._open.discard(writer)
        writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection stays open."""
        request = await read_head(reader)
        number = int(request.all("x-exchange")[0])
        exchange = self._plan[number]
        self.begun[number] += 1
        early = exchange.fate in (Fate.EARLY_ANSWER, Fate.UPLOAD_REFUSED)
        stays = False
        try:
            async for piece in read_body(reader, request.headers):
                request.body += piece
                if early and len(request.body) >= exchange.sent_cut:
                    early = False
                    if exchange.fate is Fate.UPLOAD_REFUSED:
                        _reset(writer)
                        return False
                    stays = await self._answer(exchange, writer)
                    if not stays:
                        writer.write_eof()  # closed for good, what is unread would turn into a reset
        except GONE:
            if not exchange.sent_body.startswith(request.body):
                self.faults.append(f"exchange {number}: the part of its request's body is another")
            raise
        if request.body != exchange.sent_body:
            self.faults.append(f"exchange {number}: its request's body is another")
        self.whole[number] += 1
        self.arrived[number].set()
        if exchange.fate is Fate.EARLY_ANSWER:
            return stays
        return exchange.fate is not Fate.NO_ANSWER and await self._answer(exchange, writer)

    async def _answer(self, exchange: Exchange, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection stays open."""
        writer.write(exchange.head)
        cut_short = exchange.fate in (Fate.UPSTREAM_RESETS, Fate.UPSTREAM_ENDS)
        left = exchange.cut if cut_short else len(exchange.body)
        for piece in exchange.pieces:
            piece = piece[:left]
            left -= len(piece)
            if piece:
                writer.write(chunk(piece) if exchange.framing == "chunked" else piece)
                await writer.drain()
                if exchange.pause:
                    await asyncio.sleep(exchange.pause)
        if exchange.fate is Fate.UPSTREAM_RESETS:
            await asyncio.sleep(0.01)
            _reset(writer)
        elif exchange.fate is not Fate.UPSTREAM_ENDS:
            writer.write(b"0\r\n\r\n" if exchange.framing == "chunked" else b"")
            await writer.drain()
            return exchange.framing != "close"
        return False

    def hang_up(self) -> None:
        """Closes the connections that wait for more requests."""
        for writer in self._open:
            writer.close()


class Clients:
    """Clients of one proxy: an answer that came whole leaves a connection that serves again."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def call(self, exchange: Exchange, arrived: asyncio.Event) -> Answer | None:
        """The answer, None where the client did not wait for it."""
        fresh = exchange.number % 3 == 0 or not self._idle
        if fresh:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**24)
        else:
            reader, writer = self._idle.pop()
        answer, reusable = None, False
        try:
            async with asyncio.timeout(60):
                match exchange.fate:
                    case Fate.UPLOAD_LEFT | Fate.UPLOAD_RESET:
                        await _leave_upload(reader, writer, exchange)
                    case Fate.EARLY_ANSWER | Fate.UPLOAD_REFUSED:
                        answer = await _answered_early(reader, writer, exchange)
                    case Fate.CLIENT_LEAVES | Fate.CLIENT_RESETS:
                        await _write(writer, exchange, exchange.sent)
                        await arrived.wait()
                        await _leave(reader, writer, exchange)
                    case _:
                        await _write(writer, exchange, exchange.sent)
                        answer = await read_answer(reader)
                        reusable = answer.clean and answer.get("connection") != "close"
            return answer
        finally:
            if reusable and len(self._idle) < AT_ONCE:  # more would be open connections, which cost memory
                self._idle.append((reader, writer))
            else:
                await _close(writer)

    async def close(self) -> None:
        for _, writer in self._idle:
            await _close(writer)


async def _write(writer: asyncio.StreamWriter, exchange: Exchange, pieces: list[bytes]) -> None:
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        if exchange.sent_pause and piece is not pieces[-1]:
            await asyncio.sleep(exchange.sent_pause)


async def _leave_upload(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, exchange: Exchange) -> None:
    """The client goes with its request half sent. It sends what it does when asked to: a reset would take back a head
    that nobody has read."""
    head, *rest = exchange.sent
    writer.write(head)
    asked = await reader.readuntil(b"\r\n\r\n")
    if not asked.startswith(b"HTTP/1.1 100 "):
        raise ValueError(f"not asked for the body: {asked!r}")
    await _write(writer, exchange, rest[:-1])
    if exchange.fate is Fate.UPLOAD_RESET:
        _reset(writer)


async def _answered_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, exchange: Exchange) -> Answer:
    """The answer to a request that, if it goes up as it comes, is whole only after it."""
    last = [] if exchange.judged else exchange.sent[-1:]
    await _write(writer, exchange, exchange.sent[: len(exchange.sent) - len(last)])
    answer = await read_answer(reader)
    with suppress(ConnectionError):
        await _write(writer, exchange, last)
    return answer


async def _leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, exchange: Exchange) -> None:
    """The client goes, at once or with some of the answer read."""
    with suppress(*GONE):
        if exchange.cut % 3:
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(min(exchange.cut, 200))
    if exchange.fate is Fate.CLIENT_RESETS:
        _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
