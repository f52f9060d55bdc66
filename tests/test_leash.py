from __future__ import annotations

import asyncio
from typing import Any

import pytest

from demur.proxy.leash import Cut, Leash


class Client:
    """Sends `pieces`, then stays until `leave` is set."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)
        self.leave = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        if self.pieces:
            piece = self.pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self.pieces)}
        await self.leave.wait()
        return {"type": "http.disconnect"}


def test_the_body_comes_through_and_nothing_happens() -> None:
    async def run() -> None:
        client = Client(b"a", b"b")
        async with Leash(client.receive, None) as leash:
            assert await leash.receive() == (b"a", True)
            assert await leash.receive() == (b"b", False)
            leash.watch()
            await asyncio.sleep(0.01)
        client.leave.set()
        await asyncio.sleep(0.01)  # too late to matter

    asyncio.run(run())


def test_a_client_that_leaves_cuts_whatever_runs() -> None:
    async def run() -> None:
        client = Client()
        asyncio.get_running_loop().call_later(0.02, client.leave.set)

        async def leashed() -> None:
            async with Leash(client.receive, None) as leash:
                leash.watch()
                await asyncio.sleep(10)

        with pytest.raises(Cut) as cut:
            await leashed()
        assert cut.value.reason == "client_disconnect"
        await asyncio.sleep(0)  # the task itself is not cancelled any more
        client.leave.set()
        with pytest.raises(Cut):
            async with Leash(client.receive, None) as leash:
                await leash.receive()

    asyncio.run(asyncio.wait_for(run(), 5))


def test_the_total_time() -> None:
    async def run() -> None:
        with pytest.raises(Cut) as cut:
            async with Leash(Client().receive, 0.02):
                await asyncio.sleep(10)
        assert cut.value.reason == "total_timeout"
        async with Leash(Client().receive, 0.02):
            pass
        await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(run(), 5))


def test_a_cancellation_from_elsewhere_stays_one() -> None:
    async def run() -> None:
        async def leashed() -> None:
            async with Leash(Client().receive, 10) as leash:
                leash.watch()
                await asyncio.sleep(10)

        task = asyncio.ensure_future(leashed())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(run(), 5))


def test_a_fault_that_came_of_the_cut_is_not_what_ended_it() -> None:
    """An HTTP client may turn the cancellation, or the end of its upload, into an error of its own."""

    async def leashed() -> None:
        async with Leash(Client().receive, None) as leash:
            leash.cut(Cut("client_disconnect"))
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                raise ConnectionError from None

    with pytest.raises(Cut):
        asyncio.run(leashed())
