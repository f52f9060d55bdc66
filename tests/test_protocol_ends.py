"""How a client's connection ends, when we close it."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from fake_upstream import END, RST, Proxy, ask, chunk, completion, connection, head, proxy, say, upstream, whole

from demur.proxy.protocol import ClientProtocol
from demur.proxy.server import _loop_factory

LOOPS = pytest.mark.parametrize("loop", [None, _loop_factory()], ids=["asyncio", "server"])
LONG = completion("Fine. ") + b" " * 12_000_000


@LOOPS
def test_a_client_that_reads_no_more_is_let_go(loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demur.proxy.protocol.STALLED", 0.2)

    async def test(px: Proxy, client: socket.socket) -> None:
        assert (await px.end()).end == "complete"
        while _open():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert len(await _rest(client)) < len(LONG)

    _asked(test, loop)


@LOOPS
def test_a_slow_client_gets_all_of_an_answer_behind_which_we_close(loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demur.proxy.protocol.STALLED", 1.0)

    async def test(px: Proxy, client: socket.socket) -> None:
        running = asyncio.get_running_loop()
        begun = running.time()
        got = await _rest(client, 0.01)
        assert got.partition(b"\r\n\r\n")[2] == LONG
        assert running.time() - begun > 1.5  # so it was looked at while it read

    _asked(test, loop)


@pytest.mark.parametrize("version", [b"HTTP/1.0", b"HTTP/1.1"])
@pytest.mark.parametrize("leaves", [False, True])
@LOOPS
def test_an_answer_that_breaks_off_is_told_of_once(
    version: bytes, leaves: bool, loop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """By the relay; the server adds nothing, however its log is set up, also if the client leaves meanwhile."""

    async def run() -> None:
        async with upstream(head(), chunk(say("Fine")), 0.2, RST) as up, proxy(up.url) as px:
            async with connection(px) as (reader, writer), asyncio.timeout(10):
                writer.write(ask("How?", stream=True).replace(b"HTTP/1.1", version, 1))
                await reader.readuntil(b"Fine")
                if leaves:
                    writer.transport.abort()
                else:
                    with suppress(ConnectionError):
                        assert not (await reader.read()).endswith(END)
            await px.end()
            while _open():  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())
    told = [record.name for record in caplog.records if record.levelno >= logging.WARNING]
    assert told == ([] if leaves else ["demur.relay"])


def _asked(test: Callable[[Proxy, socket.socket], Awaitable[None]], loop: Any) -> None:
    """Runs `test` with a client that has asked for LONG, behind which its connection is to be closed."""

    async def run() -> None:
        running = asyncio.get_running_loop()
        limit = 2 * len(LONG)  # so it is sent in one piece
        async with upstream(whole(LONG)) as up, proxy(up.url, inspect_bytes=limit) as px, asyncio.timeout(60):
            with socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
                client.setblocking(False)
                await running.sock_connect(client, ("127.0.0.1", px.port))
                await running.sock_sendall(client, ask("How?", "Connection: close"))
                await test(px, client)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


async def _rest(client: socket.socket, pause: float = 0.0) -> bytes:
    """All that is still to be read, with a `pause` behind each piece."""
    got = bytearray()
    with suppress(ConnectionError):
        while piece := await asyncio.get_running_loop().sock_recv(client, 65536):
            got += piece
            await asyncio.sleep(pause)
    return bytes(got)


def _open() -> list[ClientProtocol]:
    """The connections of clients."""
    return [found for found in gc.get_objects() if isinstance(found, ClientProtocol) and found.parser is not None]
