"""How exchanges end, beyond the cases of the wire (`tests/wire/`): odd statuses, clients that leave, broken sinks."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from typing import Any

import pytest
from fake_upstream import (
    DONE,
    END,
    Proxy,
    Upstream,
    ask,
    call,
    chunk,
    completion,
    connection,
    event,
    head,
    proxy,
    read_answer,
    request,
    say,
    upstream,
    whole,
)

from demur.classifier.judge import Classifier
from demur.classifier.trace import Ask
from demur.proxy.inspection import PIECE
from demur.proxy.observe import Exchange

STOP = event({}, "stop")


async def wait_for(condition: Any) -> float:
    """Seconds until `condition()` holds, ten at most."""
    begun = time.perf_counter()
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return time.perf_counter() - begun


@pytest.mark.parametrize("status", [600, 999])
@pytest.mark.parametrize("sent", [ask(), request("GET", "/v1/models")], ids=["judged", "other"])
def test_a_status_that_nobody_knows_is_passed_on(status: int, sent: bytes) -> None:
    async def run() -> None:
        async with upstream(whole(b"{}", status=f"{status} Odd")) as up, proxy(up.url) as px:
            answer = await call(px, sent)
            assert (answer.status, answer.body, answer.clean) == (status, b"{}", True)
            assert (await px.end()).end == "complete"

    asyncio.run(run())


@pytest.mark.parametrize(
    "steps",
    [
        (b"HTTP/1.1 099 Odd\r\nContent-Length: 2\r\n\r\n{}",),
        (b"HTTP/1.1 000 Odd\r\nContent-Length: 2\r\n\r\n{}",),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",),
        (b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\n{}",),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", END),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", END),
    ],
    ids=["099", "000", "101", "2000", "coding", "codings"],
)
@pytest.mark.parametrize("sent", [ask(), request("GET", "/v1/models")], ids=["judged", "other"])
def test_an_answer_that_can_not_be_passed_on_is_a_502(steps: Any, sent: bytes) -> None:
    async def run() -> None:
        async with upstream(*steps) as up, proxy(up.url) as px:
            for _ in range(2):
                answer = await call(px, sent)
                assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_disconnected")
            assert (await px.end()).end == "upstream_error"

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["", "Content-Type: text/html\r\n", "Content-Type: application/json\r\n"])
@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
@pytest.mark.parametrize("sent", [ask(), request("DELETE", "/v1/files/x")], ids=["judged", "other"])
def test_w37_where_no_body_may_follow_a_stated_length_is_dropped(kind: str, status: str, sent: bytes) -> None:
    async def run() -> None:
        steps = f"HTTP/1.1 {status}\r\n{kind}Content-Length: 5\r\n\r\n".encode()
        async with upstream(steps) as up, proxy(up.url) as px, connection(px) as (reader, writer), asyncio.timeout(10):
            for _ in range(2):
                writer.write(sent)
                answer = await read_answer(reader)
                assert (answer.status, answer.all("content-length")) == (int(status[:3]), [])
            exchange = await px.end(2)
            assert exchange.end == "complete"
            assert exchange.verdict is None or exchange.verdict.status == "empty"
            assert (exchange.verdict is None) == sent.startswith(b"DELETE")

    asyncio.run(run())


def test_head_keeps_the_length_it_states() -> None:
    async def run() -> None:
        async with upstream(head(length=5)) as up, proxy(up.url) as px, connection(px) as (reader, writer):
            for _ in range(2):
                writer.write(request("HEAD", "/v1/files/x"))
                answer = await read_answer(reader, bodiless=True)
                assert (answer.status, answer.get("content-length")) == (200, "5")
            assert up.connections == 1

    asyncio.run(run())


async def leave(px: Proxy, up: Upstream, sent: bytes, until: bytes) -> float:
    """A client leaves once it has read `until` (empty: once its request is up). Seconds until the upstream knew."""
    async with connection(px) as (reader, writer):
        writer.write(sent)
        if until:
            await reader.readuntil(until)
        else:
            await wait_for(lambda: up.requests)
    return await wait_for(up.left.is_set)


def test_a_client_that_leaves_after_the_end_marker_has_all() -> None:
    async def run() -> None:
        async with upstream(head(), chunk(say("Fine.") + STOP + DONE), 8.0, END) as up, proxy(up.url) as px:
            await leave(px, up, ask(stream=True), b"[DONE]")
            exchange = await px.end()
            assert (exchange.end, exchange.done_marker) == ("complete", True)
            assert exchange.verdict is not None
            assert exchange.verdict.status == "complete"

    asyncio.run(run())


def test_a_client_that_leaves_while_it_uploads() -> None:
    async def run() -> None:
        async with upstream(whole(b"{}")) as up, proxy(up.url) as px:
            for target in ("/v1/files", "/v1/chat/completions"):
                async with connection(px) as (_, writer):
                    writer.write(request("POST", target, None, "Content-Length: 100000") + b"x" * 1000)
                    await writer.drain()
                    await asyncio.sleep(0.1)
            await px.end(2)
            assert [e.end for e in px.ended] == ["client_disconnect"] * 2
            assert up.requests == []  # neither came whole

    asyncio.run(run())


class Broken:
    """A sink, a store, a tracer: all of it raises."""

    def ended(self, exchange: Exchange) -> None:
        raise OSError("disk full")

    def start(self, **_: Any) -> Any:
        raise OSError("no telemetry")


def test_a_broken_sink_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        options = {"sinks": [Broken()], "telemetry": Broken()}
        async with upstream(whole(completion("Fine."))) as up, proxy(up.url, app=options) as px:
            for _ in range(3):
                assert (await call(px, ask())).get("x-refusal-verdict") == "answer"
            assert len(px.ended) == 3  # the others are told all the same
            assert px.app.relay.observers.idle.is_set()

    asyncio.run(run())
    assert caplog.text.count("Broken failed") == 1  # said once
    assert caplog.text.count("telemetry failed") == 1


class Slow(Classifier):
    """Takes 5 ms for each piece, and notes its size and how often others had their turn by then."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, int]] = []
        self.turns = 0

    def session(self, ask: Ask) -> Any:
        session, seen = super().session(ask), self.seen

        class Pieces:
            def feed(_, text: str) -> None:  # noqa: N805
                time.sleep(0.005)
                seen.append((len(text), self.turns))

            finish = session.finish

        return Pieces()


def test_w80_a_long_text_is_judged_in_pieces_that_give_way() -> None:
    slow = Slow()

    async def run() -> None:
        async def others() -> None:
            while True:
                await asyncio.sleep(0)
                slow.turns += 1

        async with (
            upstream(whole(completion("So it goes. " * 10_000))) as up,
            proxy(up.url, app={"classifier": slow}) as px,
        ):
            running = asyncio.ensure_future(others())
            assert (await call(px, ask())).status == 200
            running.cancel()

    asyncio.run(run())
    assert len(slow.seen) > 5
    assert max(size for size, _ in slow.seen) <= PIECE
    assert all(before < after for (_, before), (_, after) in pairwise(slow.seen))
