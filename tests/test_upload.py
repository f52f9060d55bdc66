"""Uploads that the upstream answers before it has read them: who leaves, what is too large or too slow is noticed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
from fake_upstream import END, chunk, connection, head, proxy, request
from wire.test_life import leaves, until


class Ticking:
    """Answers before it reads the body, then goes on as long as it is read; `open` counts the calls that last.

    `ends`: it ends its answer once the body is there. It reads none of the body before `reads` is set, and answers
    nothing before that unless it `answers`.
    """

    def __init__(self, *, ends: bool = False, reads: bool = True, answers: bool = True) -> None:
        self.open = 0
        self.received = bytearray()
        self.reads = asyncio.Event()
        self._ends = ends
        self._answers = answers
        if reads:
            self.reads.set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        reading = None
        try:
            await reader.readuntil(b"\r\n\r\n")
            if not self._answers:
                await self._left(writer)
            writer.write(head("text/plain"))
            reading = asyncio.ensure_future(self._read(reader))
            while not (reading.done() and self._ends):
                writer.write(chunk(b"tick"))
                await writer.drain()
                await asyncio.sleep(0.02)
            writer.write(END)
            await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            if reading is not None:
                reading.cancel()
            writer.close()
            self.open -= 1

    def has(self, count: int) -> bool:
        """Whether `count` bytes of all bodies are here."""
        return self.received.count(b"x") >= count

    async def _left(self, writer: asyncio.StreamWriter) -> None:
        """Waits, reading nothing, until the other side has closed."""
        with suppress(ConnectionError):
            while not self.reads.is_set():
                writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
                await writer.drain()
                await asyncio.sleep(0.02)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        await self.reads.wait()
        while piece := await reader.read(65536):
            self.received += piece
            if self.received.endswith(END):
                return


@asynccontextmanager
async def ticking(up: Ticking) -> AsyncIterator[str]:
    server = await asyncio.start_server(up, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


CHUNKED = request("POST", "/v1/files", None, "Transfer-Encoding: chunked") + chunk(b"x" * 1000)
SIZED = request("POST", "/v1/files", None, "Content-Length: 100000") + b"x" * 1000


async def ended(up: Ticking, px: Any, count: int = 1) -> tuple[str, str]:
    """How the last exchange ended, once nothing of it is left."""
    exchange = await px.end(count)
    await until(lambda: up.open == 0)
    assert px.app.relay.observers.in_flight == 0
    return exchange.end, exchange.error or ""


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("sent", [CHUNKED, SIZED], ids=["chunked", "sized"])
def test_a_client_that_leaves_while_it_uploads_and_is_answered(sent: bytes, how: str) -> None:
    up = Ticking()

    async def run() -> None:
        async with ticking(up) as url, proxy(url, max_exchanges=2) as px:
            for count in range(1, 4):
                async with connection(px) as (reader, writer):
                    writer.write(sent)
                    await reader.readuntil(b"tick")
                    await until(partial(up.has, 1000 * count))
                    leaves(writer, how)
                    assert (await ended(up, px, count))[0] == "client_disconnect"

    asyncio.run(run())


def test_a_limit_that_is_crossed_after_the_answer_began_breaks_it_off() -> None:
    up = Ticking()

    async def run() -> None:
        async with ticking(up) as url, proxy(url, max_request_bytes=2500) as px:
            async with connection(px) as (reader, writer), asyncio.timeout(10):
                writer.write(CHUNKED)
                await reader.readuntil(b"tick")
                writer.write(chunk(b"x" * 2000))
                with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                    await reader.readuntil(b"\r\n" + END)
            end, error = await ended(up, px)
            assert (end, "max_request_bytes" in error) == ("rejected", True)

    asyncio.run(run())


def test_an_upload_that_is_too_slow_after_the_answer_began_breaks_it_off() -> None:
    up = Ticking()

    async def run() -> None:
        async with ticking(up) as url, proxy(url, client_timeout=0.3) as px:
            async with connection(px) as (reader, writer), asyncio.timeout(10):
                writer.write(request("POST", "/v1/files", None, "Transfer-Encoding: chunked") + chunk(b"x"))
                with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                    await reader.readuntil(b"\r\n" + END)
            end, error = await ended(up, px)
            assert (end, "client_timeout" in error) == ("client_timeout", True)

    asyncio.run(run())


def test_an_upload_that_is_answered_early_comes_through_whole() -> None:
    up = Ticking(ends=True)

    async def run() -> None:
        async with ticking(up) as url, proxy(url) as px, connection(px) as (reader, writer), asyncio.timeout(10):
            writer.write(CHUNKED)
            await reader.readuntil(b"tick")
            writer.write(chunk(b"y" * 1000) + END)
            await reader.readuntil(b"\r\n" + END)
            assert (up.received.count(b"x"), up.received.count(b"y")) == (1000, 1000)
            assert (await px.end()).end == "complete"

    asyncio.run(run())


#: More than sockets hold, less than `max_request_bytes`.
LARGE = 24 * 2**20
STILL = [chunk(b"x" * 2**16)] * (LARGE // 2**16)


async def uploads(writer: asyncio.StreamWriter, *more: bytes) -> None:
    """Sends a large body, as far as it is read."""
    writer.write(request("POST", "/v1/files", None, "Transfer-Encoding: chunked"))
    for piece in (*STILL, *more):
        writer.write(piece)
        await writer.drain()


@pytest.mark.parametrize("answers", [True, False], ids=["answered", "not answered"])
@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_while_nobody_reads_its_upload(how: str, answers: bool) -> None:
    up = Ticking(reads=False, answers=answers)

    async def run() -> None:
        async with ticking(up) as url, proxy(url) as px:
            async with connection(px) as (_, writer), asyncio.timeout(20):
                await uploads(writer)
                assert up.open == 1
                leaves(writer, how)
                assert await until(lambda: up.open == 0) < 1
            assert (await ended(up, px))[0] == "client_disconnect"

    asyncio.run(asyncio.wait_for(run(), 60))


def test_an_upload_that_got_stuck_comes_through_whole_once_it_is_read() -> None:
    up = Ticking(ends=True, reads=False)

    async def run() -> None:
        async with ticking(up) as url, proxy(url) as px, connection(px) as (reader, writer), asyncio.timeout(30):
            await uploads(writer)
            up.reads.set()
            await until(lambda: len(up.received) > LARGE)
            writer.write(chunk(b"y" * 1000) + END)
            await reader.readuntil(b"\r\n" + END)
            assert (up.received.count(b"x"), up.received.count(b"y")) == (LARGE, 1000)
            assert (await px.end()).end == "complete"

    asyncio.run(asyncio.wait_for(run(), 60))


def test_what_is_kept_of_uploads_that_nobody_reads_is_bounded() -> None:
    up = Ticking(reads=False)

    async def run() -> None:
        async with (
            ticking(up) as url,
            proxy(url, max_request_bytes=LARGE + 2**20) as px,
            connection(px) as (_, one),
            connection(px) as (_, other),
        ):
            await uploads(one)
            still = asyncio.create_task(uploads(other))
            await asyncio.wait([still], timeout=1.5)
            assert not still.done()
            still.cancel()
            assert up.open == 2
            leaves(one, "reset")
            leaves(other, "reset")
            await px.end()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_what_was_kept_of_one_upload_is_no_burden_to_the_next() -> None:
    """The room is just for one: each of a row of clients is seen to leave, and so is one that had to wait for room."""
    up = Ticking(reads=False)

    async def run() -> None:
        async with ticking(up) as url, proxy(url, max_request_bytes=LARGE + 2**20) as px:
            gc.disable()  # nothing may hang on what the collector finds
            try:
                for count in range(1, 4):
                    async with connection(px) as (_, writer), asyncio.timeout(20):
                        await uploads(writer)
                        leaves(writer, "reset")
                        assert (await ended(up, px, count))[0] == "client_disconnect"
                async with connection(px) as (_, one), connection(px) as (_, other), asyncio.timeout(20):
                    await uploads(one)
                    still = asyncio.create_task(uploads(other))
                    await until(lambda: px.app.relay._room.full)
                    leaves(one, "reset")
                    await px.end(4)
                    await still
                    leaves(other, "reset")
                    assert (await ended(up, px, 5))[0] == "client_disconnect"
                assert not px.app.relay._room.waiting
            finally:
                gc.enable()

    asyncio.run(asyncio.wait_for(run(), 90))
