"""How exchanges end: upstreams that fail, clients that leave, limits, classifiers and sinks that break."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from itertools import pairwise
from typing import Any

import pytest
from fake_upstream import (
    DONE,
    END,
    FIN,
    RST,
    Answer,
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
KEY = "Authorization: Bearer sk-secret"


async def wait_for(condition: Any) -> float:
    """Seconds until `condition()` holds, ten at most."""
    begun = time.perf_counter()
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return time.perf_counter() - begun


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def one(url: str, sent: bytes, **settings: Any) -> tuple[Answer, Exchange]:
    async def run() -> tuple[Answer, Exchange]:
        async with proxy(url, **settings) as px:
            return await call(px, sent), await px.end()

    return asyncio.run(run())


@pytest.mark.parametrize("mode", ["off", "chunk"])
def test_w30_a_reset_in_the_middle_of_a_stream(mode: str) -> None:
    async def run() -> None:
        start = say("Here is ") + say("how") + b'data: {"half'
        async with upstream(head(), chunk(start), 0.1, RST) as up, proxy(up.url, stream_verdict=mode) as px:
            answer = await call(px, ask(stream=True))
            assert (answer.body, answer.clean) == (start, False)
            exchange = await px.end()
            assert exchange.end == "upstream_error"
            assert exchange.verdict is not None
            assert exchange.verdict.status == "incomplete"
            await call(px, ask(stream=True))
            assert up.connections == 2  # the broken one is not used again

    asyncio.run(run())


def test_w31_a_body_shorter_than_declared() -> None:
    async def run() -> None:
        short = head("application/json", length=500) + b"x" * 200
        async with upstream(short, FIN) as up, proxy(up.url) as px:
            judged = await call(px, ask())
            assert judged.status == 502  # held back: it can still be told
            other = await call(px, request("GET", "/v1/models"))
            assert (other.status, other.clean) == (200, False)
            stream = await call(px, ask(stream=True))
            assert stream.status == 502
            assert {e.end for e in px.ended} == {"upstream_error"}

    asyncio.run(run())


def test_w38_w62_no_upstream_and_no_key_in_any_output(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for url, what in [
        (f"http://127.0.0.1:{unused_port()}/v1", "no connection"),
        ("http://nowhere.invalid/v1", "can't be resolved"),
    ]:
        answer, exchange = one(url, ask("How?", KEY, path="/v1/chat/completions?key=sk-secret"))
        error = answer.json()["error"]
        assert (answer.status, error["code"]) == (502, "upstream_unreachable")
        assert error["message"].startswith("demur: ")
        assert what in error["message"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert b"secret" not in answer.body
        assert "secret" not in caplog.text
        assert "secret" not in repr(exchange)
        assert answer.get("x-refusal-status") == "upstream_error"
        assert answer.get("date") is not None
        assert exchange.end == "upstream_error"


def test_w38_an_upstream_that_does_not_speak_tls() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, proxy(f"https://127.0.0.1:{port}/v1") as px:
            answer = await call(px, ask())
            assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_unreachable")
            assert "TLS" in answer.json()["error"]["message"]

    asyncio.run(run())


def test_w39_rate_limit_headers_arrive_under_their_own_names() -> None:
    lines = [
        "retry-after: 30",
        "retry-after-ms: 30000",
        "x-should-retry: false",
        "x-ratelimit-remaining-requests: 0",
        "x-request-id: req_1",
        "anthropic-ratelimit-tokens-limit: 5",
    ]

    async def run() -> None:
        busy = whole(b'{"error":{"message":"slow"}}', "application/json", *lines, status="429 Too Many Requests")
        async with upstream(busy) as up, proxy(up.url) as px:
            answer = await call(px, ask())
            assert answer.status == 429
            for line in lines:
                name, value = line.split(": ")
                assert answer.all(name) == [value]

    asyncio.run(run())


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


def test_w61_redirects_are_the_clients_business() -> None:
    async def run() -> None:
        moved = whole(b"", "text/plain", "Location: http://elsewhere.invalid/v1/x", status="307 Temporary Redirect")
        async with upstream(moved) as up, proxy(up.url) as px:
            answer = await call(px, ask("How?", KEY))
            assert (answer.status, answer.get("location")) == (307, "http://elsewhere.invalid/v1/x")
            assert len(up.requests) == 1

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


@pytest.mark.parametrize(
    ("script", "sent", "until"),
    [
        ((head(), chunk(say("One")), 0.05, chunk(say("Two")), 8.0, chunk(STOP), END), ask(stream=True), b"Two"),  # W70
        ((8.0, whole(completion("late"))), ask(), b""),  # W71
        ((head(), 8.0, chunk(STOP), END), ask(stream=True), b"\r\n\r\n"),  # W71
        ((head("application/json", length=9), 8.0), request("GET", "/v1/models"), b"\r\n\r\n"),
    ],
    ids=["w70", "w71-json", "w71-stream", "other"],
)
def test_w70_w71_a_client_that_leaves_frees_the_upstream(script: Any, sent: bytes, until: bytes) -> None:
    async def run() -> None:
        async with upstream(*script) as up, proxy(up.url) as px:
            assert await leave(px, up, sent, until) < 1
            exchange = await px.end()
            assert exchange.end == "client_disconnect"
            await asyncio.sleep(0.05)
            assert len(px.ended) == 1
            if until == b"Two":
                assert exchange.verdict is not None
                assert exchange.verdict.status == "incomplete"
                assert exchange.trace is not None
                assert exchange.trace.choices[0].text == "OneTwo"

    asyncio.run(run())


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


@pytest.mark.parametrize(
    ("script", "sent", "limits", "status", "end"),
    [  # W73, W20
        ((8.0,), ask(), {"first_byte_timeout": 0.3}, 504, "first_byte_timeout"),
        ((head("application/json", length=9), b"{", 8.0), ask(), {"idle_timeout": 0.3}, 504, "idle_timeout"),
        ((head(), chunk(say("x")), 8.0), ask(stream=True), {"idle_timeout": 0.3}, 200, "idle_timeout"),
        ((head(), chunk(say("x")), 8.0), ask(stream=True), {"total_timeout": 0.4}, 200, "total_timeout"),
        ((8.0,), ask(), {"total_timeout": 0.4}, 504, "total_timeout"),
    ],
)
def test_w73_limits_are_separate_and_named(
    script: Any, sent: bytes, limits: dict[str, Any], status: int, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with upstream(*script) as up, proxy(up.url, **limits) as px:
            answer = await call(px, sent)
            assert answer.status == status
            if status == 504:
                assert answer.json()["error"]["code"] == end
            else:
                assert not answer.clean
            exchange = await px.end()
            assert exchange.end == end
            await wait_for(up.left.is_set)

    with caplog.at_level(logging.WARNING, "demur"):
        asyncio.run(run())
    assert f"ended by {end}" in caplog.text


def test_w73_slow_but_within_the_limits() -> None:
    async def run() -> None:
        script = 0.4, head(), 0.4, chunk(say("a")), 0.4, chunk(STOP + DONE), END
        async with upstream(*script) as up, proxy(up.url, first_byte_timeout=5, idle_timeout=5) as px:
            answer = await call(px, ask(stream=True))
            assert answer.clean
            assert (await px.end()).end == "complete"

    asyncio.run(run())


def test_w74_a_post_goes_up_once() -> None:
    async def run() -> None:
        async with upstream(FIN) as up, proxy(up.url) as px:
            answer = await call(px, ask())
            assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_disconnected")
            assert len(up.requests) == 1
        # also on a connection that was used before
        async with upstream(whole(completion("Fine.")), then=[(FIN,)]) as up, proxy(up.url) as px:
            assert (await call(px, ask())).status == 200
            assert (await call(px, ask())).status == 502
            assert (len(up.requests), up.connections) == (2, 1)

    asyncio.run(run())


class Failing(Classifier):
    def session(self, ask: Ask) -> Any:
        raise RuntimeError("no")


@pytest.mark.parametrize("mode", ["off", "chunk"])
def test_w79_a_classifier_that_raises(mode: str) -> None:
    async def run() -> None:
        body = say("Here ") + say("it is") + STOP + DONE
        scripts = [(whole(completion("Fine.")),), (head(), chunk(body[:99]), 0.05, chunk(body[99:]), END)]
        options = {"classifier": Failing()}
        async with upstream(*scripts[0], then=scripts[1:]) as up, proxy(up.url, app=options, stream_verdict=mode) as px:
            answer = await call(px, ask())
            assert answer.body == completion("Fine.")
            assert answer.get("x-refusal-status") == "not_classified"
            assert answer.get("x-refusal-verdict") is None
            assert (await call(px, ask(stream=True))).body == body
            verdict = (await px.end(2)).verdict
            assert verdict is not None
            assert (verdict.label, verdict.status) == (None, "not_classified")
            assert verdict.reason == "the classifier failed: RuntimeError"

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


def test_w87_nothing_of_one_client_reaches_the_next() -> None:
    async def run() -> None:
        async with (
            upstream(whole(completion("Fine."), "application/json", "Set-Cookie: session=a")) as up,
            proxy(up.url) as px,
        ):
            first = await call(px, ask("How?", KEY, "Cookie: mine=1"))
            assert first.all("set-cookie") == ["session=a"]
            await call(px, ask())
            assert up.requests[0].all("cookie") == ["mine=1"]
            assert up.requests[1].all("cookie") == up.requests[1].all("authorization") == []

    asyncio.run(run())


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
