"""What clients do at the edge of HTTP/1.1: upgrades, pipelines, heads without end, HTTP/1.0, nonsense."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from contextlib import AsyncExitStack
from typing import Any

import pytest
from fake_upstream import (
    DONE,
    END,
    Answer,
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

from demur.proxy.protocol import MAX_HEAD_BYTES, MAX_TARGET_BYTES, MAX_WAITING, PIECE, ClientProtocol

FINE = whole(completion("Fine."))
H2C = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
STREAM = head(), chunk(say("Fine")), chunk(event({}, "stop") + DONE), END


def refused(answer: Answer) -> tuple[int, str]:
    """Status and code of an error of ours, which must name us and close the connection."""
    error = answer.json()["error"]
    assert error["message"].startswith("demur: ")
    assert answer.get("content-type") == "application/json"
    return answer.status, error["code"]


@pytest.mark.parametrize("cut", [0, 10, 150, -5, -1])
def test_a_wish_for_another_protocol_is_ignored(cut: int) -> None:
    async def run() -> None:
        sent = ask("How?", *H2C)
        async with upstream(FINE) as up, proxy(up.url) as px, connection(px) as (reader, writer), asyncio.timeout(10):
            writer.write(sent[:cut])
            await asyncio.sleep(0.03)
            writer.write(sent[cut:] + request("GET", "/v1/models", None, *H2C) + ask("And then?"))
            for _ in range(3):
                assert (await read_answer(reader)).status == 200
            assert [got.method for got in up.requests] == ["POST", "GET", "POST"]
            assert up.requests[0].body == sent.partition(b"\r\n\r\n")[2]
            for name in ("upgrade", "connection", "http2-settings"):
                assert up.requests[0].all(name) == []

    asyncio.run(run())


def test_many_wishes_for_another_protocol_at_once() -> None:
    async def run() -> None:
        async with upstream(whole(b"{}")) as up, proxy(up.url) as px, connection(px) as (reader, writer):
            writer.write(request("GET", "/-/healthy", None, *H2C) * 1500)
            async with asyncio.timeout(20):
                for _ in range(1500):
                    assert (await read_answer(reader)).status == 200

    asyncio.run(run())


def test_a_chunked_body_behind_a_wish_for_another_protocol() -> None:
    async def run() -> None:
        sent = (
            request("POST", "/v1/files", None, "Transfer-Encoding: chunked", *H2C) + chunk(b"abc") + chunk(b"de") + END
        )
        async with upstream(FINE) as up, proxy(up.url) as px:
            assert (await call(px, sent)).status == 200
            assert up.requests[0].body == b"abcde"

    asyncio.run(run())


@pytest.mark.parametrize("word", ["websocket", "WebSocket"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_w63_a_websocket_is_refused_in_words(word: str, method: str) -> None:
    async def run() -> None:
        async with upstream(FINE) as up, proxy(up.url) as px:
            answer = await call(px, request(method, "/v1/realtime", b"", f"Upgrade: {word}", "Connection: Upgrade"))
            assert refused(answer) == (501, "websocket_not_supported")
            assert up.requests == []

    asyncio.run(run())


@pytest.mark.parametrize("pause", [0, 0.1])
def test_a_client_that_pipelines_and_leaves_is_gone_for_all_its_requests(pause: float) -> None:
    async def run() -> None:
        async with upstream(10.0) as up, proxy(up.url) as px:
            async with connection(px) as (_, writer):
                writer.write(ask("One?"))
                await asyncio.sleep(pause)
                writer.write(ask("Two?") + ask("Three?"))
                while not up.requests:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.1)
            await asyncio.wait_for(up.left.wait(), 1)
            assert (await px.end()).end == "client_disconnect"
            assert len(up.requests) == 1

    asyncio.run(run())


@pytest.mark.parametrize("count", [3, 500])
@pytest.mark.parametrize("judged", [False, True])
def test_pipelined_requests_are_answered_in_order(judged: bool, count: int) -> None:
    """All of them at once, each answered by the upstream."""
    bodies = [completion(f"This is {number}.") for number in range(count)]

    async def run() -> None:
        first, *rest = [(whole(body),) for body in bodies]
        async with upstream(0.1, *first, then=rest) as up, proxy(up.url) as px, connection(px) as (reader, writer):
            writer.write((ask("How?") if judged else request("GET", "/v1/models")) * count)
            async with asyncio.timeout(60):
                assert [(await read_answer(reader)).body for _ in range(count)] == bodies

    asyncio.run(run())


class Heads:
    """Counts the heads that were parsed, and the requests that waited at most behind the one that ran."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parsed = self.waiting = self.kept = 0
        real = ClientProtocol.on_headers_complete

        def counted(protocol: ClientProtocol) -> None:
            real(protocol)
            self.parsed += 1
            self.waiting = max(self.waiting, len(protocol.pipeline))
            self.kept = max(self.kept, len(protocol._cycles))

        monkeypatch.setattr(ClientProtocol, "on_headers_complete", counted)


#: The shortest request, how many of it one client sends at once, and how many of them may wait.
SHORTEST = b"GET / HTTP/1.1\r\nHost:\r\n\r\n"
FLOOD = 4000
BOUND = MAX_WAITING + PIECE // len(SHORTEST)


@pytest.mark.parametrize("sent", [SHORTEST, request("GET", "/-/healthy")], ids=["proxied", "own"])
def test_clients_that_pipeline_thousands_hold_up_nobody(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = Heads(monkeypatch)

    async def run() -> None:
        async with upstream(60.0) as up, proxy(up.url) as px, AsyncExitStack() as stack, asyncio.timeout(60):
            floods = [await stack.enter_async_context(connection(px)) for _ in range(5)]
            reader, writer = await stack.enter_async_context(connection(px))
            for _, flooding in floods:
                flooding.write(sent * FLOOD)
            while not heads.parsed:  # noqa: ASYNC110
                await asyncio.sleep(0)
            writer.write(request("GET", "/-/healthy"))
            assert (await read_answer(reader)).status == 200
            # Not after what the others sent: those five have their turns, in which few of their requests are read.
            assert heads.parsed < 5 * FLOOD / 4
            await asyncio.sleep(0.2)
            assert MAX_WAITING <= heads.waiting <= BOUND
            assert heads.kept <= BOUND + 2

    asyncio.run(run())


def test_thousands_of_pipelined_requests_are_all_answered_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    heads = Heads(monkeypatch)

    async def run() -> None:
        async with upstream(0.3, FINE) as up, proxy(up.url) as px, connection(px) as (reader, writer):
            kinds = [number % 7 == 0 for number in range(FLOOD)]
            sent = b"".join(request("GET", "/-/healthy" if kind else "/-/verdicts/none") for kind in kinds)
            async with asyncio.timeout(60):
                writer.write(ask("How?"))
                for start in range(0, len(sent), 10_001):  # many reads, cut anywhere
                    writer.write(sent[start : start + 10_001])
                    await asyncio.sleep(0.001)
                writer.write(ask("Last?"))
                answers = [await read_answer(reader) for _ in range(FLOOD + 2)]
            assert [answer.status for answer in answers] == [200, *(200 if kind else 404 for kind in kinds), 200]
            assert heads.waiting <= BOUND
            assert heads.parsed == FLOOD + 2

    asyncio.run(run())


def test_bodies_of_requests_that_wait_are_not_collected() -> None:
    """Each answer frees one place: that is no reason to read on while a long body waits for its turn."""

    async def run() -> None:
        async with upstream(0.05, FINE) as up, proxy(up.url) as px, connection(px) as (reader, writer):
            async with asyncio.timeout(60):
                writer.write(request("GET", "/v1/models") * 20)
                body = b"x" * 20_000_000
                sending = asyncio.ensure_future(_send(writer, request("POST", "/v1/files", body)))
                for _ in range(10):
                    assert (await read_answer(reader)).status == 200
                assert not sending.done()
                assert max(len(protocol.cycle.body) for protocol in _protocols()) < 1_000_000
                for _ in range(11):
                    assert (await read_answer(reader)).status == 200
                await sending
            assert up.requests[-1].body == body

    asyncio.run(run())


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


def _protocols() -> list[ClientProtocol]:
    return [found for found in gc.get_objects() if isinstance(found, ClientProtocol) and found.parser is not None]


HUGE = b"v" * MAX_HEAD_BYTES


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"GET /v1/models HTTP/1.1\r\nX-A: " + HUGE + b"\r\n\r\n", (431, "headers_too_large")),
        (b"GET /v1/models HTTP/1.1\r\n" + b"X-A: 1\r\n" * 100_000, (431, "headers_too_large")),
        (b"GET /v1/models HTTP/1.1\r\nX-A: " + HUGE * 50, (431, "headers_too_large")),
        (b"GET /" + b"p" * MAX_TARGET_BYTES + b" HTTP/1.1\r\n\r\n", (414, "target_too_long")),
        (b"GET /" + HUGE * 50, (414, "target_too_long")),
        (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: " + HUGE * 3,
            (431, "headers_too_large"),
        ),
    ],
    ids=["header", "many", "endless header", "target", "endless target", "trailers"],
)
def test_heads_have_limits(sent: bytes, expected: tuple[int, str]) -> None:
    async def run() -> None:
        async with upstream(FINE) as up, proxy(up.url) as px:
            answer = await call(px, sent)
            assert refused(answer) == expected
            assert answer.get("connection") == "close"
            assert up.requests == []

    asyncio.run(run())


def test_a_head_without_end_is_not_kept() -> None:
    async def run() -> None:
        async with upstream(FINE) as up, proxy(up.url) as px, connection(px) as (reader, writer), asyncio.timeout(20):
            writer.write(b"GET /v1/models HTTP/1.1\r\n")
            tracemalloc.start()
            writer.write(b"X-A: " + HUGE * 100)  # 25 MB, all on our side of the test
            ours, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            assert (await read_answer(reader)).status == 431
            assert await reader.read() == b""
            assert tracemalloc.get_traced_memory()[1] - ours < 8 * MAX_HEAD_BYTES
            tracemalloc.stop()

    asyncio.run(run())


def test_heads_and_bodies_below_the_limits_pass() -> None:
    async def run() -> None:
        path = "/v1/files?q=" + "p" * 60_000
        sent = request("POST", path, b"x" * 2_000_000, *(f"X-{number}: {'v' * 1000}" for number in range(150)))
        async with upstream(FINE) as up, proxy(up.url) as px:
            assert (await call(px, sent)).status == 200
            assert (len(up.requests[0].raw_head) > 200_000, len(up.requests[0].body)) == (True, 2_000_000)

    asyncio.run(run())


def test_trailers_do_not_become_headers() -> None:
    async def run() -> None:
        sent = request("POST", "/v1/chat/completions", None, "Transfer-Encoding: chunked")
        async with upstream(FINE) as up, proxy(up.url) as px:
            assert (await call(px, sent + chunk(b"{}") + b"0\r\nX-Late: 1\r\n\r\n")).status == 200
            assert (up.requests[0].all("x-late"), up.requests[0].body) == ([], b"{}")

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/files"])
@pytest.mark.parametrize("lines", [("gzip, chunked",), ("gzip", "chunked")], ids=["one line", "two lines"])
def test_only_chunked_is_taken_off_a_request(path: str, lines: tuple[str, ...]) -> None:
    async def run() -> None:
        sent = request("POST", path, None, *(f"Transfer-Encoding: {line}" for line in lines)) + chunk(b"\x1f\x8b") + END
        async with upstream(FINE) as up, proxy(up.url) as px:
            assert refused(await call(px, sent)) == (501, "transfer_coding_not_supported")
            assert up.requests == []
            for coding in ("chunked", "Chunked"):
                sent = request("POST", path, None, f"Transfer-Encoding: {coding}") + chunk(b"{}") + END
                assert (await call(px, sent)).status == 200

    asyncio.run(run())


def test_an_http_1_0_client_gets_no_chunks() -> None:
    async def run() -> None:
        sent = ask("How?", stream=True).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
        async with upstream(*STREAM, then=[(FINE,)]) as up, proxy(up.url, stream_verdict="off") as px:
            async with connection(px) as (reader, writer), asyncio.timeout(10):
                writer.write(sent)
                top, _, body = (await reader.read()).partition(b"\r\n\r\n")
                assert b"transfer-encoding" not in top
                assert b"connection: close" in top
                assert body == say("Fine") + event({}, "stop") + DONE
            async with connection(px) as (reader, writer), asyncio.timeout(10):
                writer.write(sent)
                answer = await read_answer(reader)
                assert (answer.body, answer.clean) == (completion("Fine."), True)
                assert await reader.read() == b""
            assert [exchange.end for exchange in px.ended] == ["complete"] * 2

    asyncio.run(run())


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"nonsense\r\n\r\n", (400, "malformed_request")),
        (b"GET /v1/models HTTP/1.1\r\nno colon\r\n\r\n", (400, "malformed_request")),
        (b"POST /v1/files HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", (400, "malformed_request")),
        (b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n", (501, "connect_not_supported")),
        (b"CONNECT /v1/models HTTP/1.1\r\nHost: h\r\n\r\n", (501, "connect_not_supported")),
        (b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", (404, "not_found")),
    ],
    ids=["line", "header", "chunk", "CONNECT", "CONNECT path", "OPTIONS *"],
)
def test_what_can_not_be_read_is_refused_in_json(sent: bytes, expected: tuple[int, str]) -> None:
    async def run() -> None:
        async with upstream(FINE) as up, proxy(up.url) as px, connection(px) as (reader, writer), asyncio.timeout(10):
            writer.write(sent)
            assert refused(await read_answer(reader)) == expected
            assert await reader.read() == b""
            assert up.requests == []

    asyncio.run(run())


def test_a_body_that_can_not_be_read_ends_its_upload_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demur.proxy.protocol.LINGER", 60.0)

    async def run() -> None:
        async with upstream(FINE) as up, proxy(up.url) as px, connection(px) as (reader, writer), asyncio.timeout(10):
            writer.write(request("POST", "/v1/files", None, "Transfer-Encoding: chunked") + chunk(b"abc"))
            while not up.connections:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            writer.write(b"zz\r\n")
            assert (await px.end()).end == "client_disconnect"
            assert refused(await read_answer(reader)) == (400, "malformed_request")
            assert up.requests == []

    asyncio.run(run())


@pytest.mark.parametrize("steps", [(0.2, FINE), (*STREAM[:2], 0.2, *STREAM[2:])], ids=["whole", "stream"])
def test_nonsense_behind_a_request_does_not_spoil_its_answer(steps: Any) -> None:
    async def run() -> None:
        async with upstream(*steps) as up, proxy(up.url) as px, connection(px) as (reader, writer), asyncio.timeout(10):
            writer.write(ask("How?"))
            await asyncio.sleep(0.1)
            writer.write(b"nonsense\r\n\r\n" * 2)
            answer = await read_answer(reader)
            assert (answer.status, answer.clean) == (200, True)
            assert await reader.read() == b""
            assert (await px.end()).end == "complete"

    asyncio.run(run())
