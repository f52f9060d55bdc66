"""Life of an exchange: W70 to W87. Who leaves, who is slow, what is limited, what crosses between clients."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from fake_upstream import (
    DONE,
    END,
    FIN,
    RST,
    Script,
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
from wire.exported import exported
from wire.notation import chunked, keys, same, text_of, verdict

from demur.config import Settings
from demur.proxy.verdict_log import VerdictLog

STOP = event({}, "stop")
FINE = whole(completion("Fine."))
MODES = pytest.mark.parametrize("mode", ["off", "chunk"])


async def until(condition: Any, seconds: float = 10) -> float:
    """Seconds until `condition()` holds."""
    begun = time.perf_counter()
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return time.perf_counter() - begun


def leaves(writer: asyncio.StreamWriter, how: str) -> None:
    """The client goes: in order, or by a reset."""
    if how == "reset":
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        writer.transport.abort()
    else:
        writer.close()


LATE: dict[str, tuple[Script, bytes, bytes]] = {
    "w70 after two chunks": (
        (head(), chunk(say("One")), 0.05, chunk(say("Two")), 20.0, chunk(STOP), END),
        ask(stream=True),
        b"Two",
    ),
    "w70 inside an event": ((head(), chunk(say("One") + b'data: {"ha'), 20.0), ask(stream=True), b"One"),
    "w71 before an answer": ((20.0, FINE), ask(), b""),
    "w71 before the first event": ((head(), 20.0, chunk(STOP), END), ask(stream=True), b"\r\n\r\n"),
    "w71 inside an answer": ((head("application/json", length=99), b"{", 20.0), ask(), b""),
    "w71 on other paths": ((head("application/json", length=9), 20.0), request("GET", "/v1/models"), b"\r\n\r\n"),
}


@MODES
@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("name", LATE)
def test_w70_w71_a_client_that_leaves_frees_the_upstream(name: str, how: str, mode: str) -> None:
    script, sent, read = LATE[name]

    async def run() -> None:
        settings: dict[str, Any] = {"stream_verdict": mode, "app": {"telemetry": out.telemetry}}
        async with upstream(*script) as up, proxy(up.url, **settings) as px:
            async with connection(px) as (reader, writer):
                writer.write(sent)
                await (reader.readuntil(read) if read else until(lambda: up.requests))
                leaves(writer, how)
                assert await until(up.left.is_set) < 1
            exchange = await px.end()
            assert exchange.end == "client_disconnect"
            await asyncio.sleep(0.05)
            assert len(px.ended) == 1
            if "w70" in name:
                assert verdict(exchange)[1] == "incomplete"
                assert text_of(exchange).startswith("One")
        out.telemetry.shutdown()
        ended = out.sink.spans()
        assert sorted(span.kind for span in ended) == ["CLIENT", "SERVER"]  # each once
        for span in ended:
            assert (span.attributes["error.type"], span.is_error) == ("client_disconnect", False)
            if "w70" in name:
                assert span.attributes["refusal.status"] == "incomplete"

    with exported() as out:
        asyncio.run(run())


@pytest.mark.parametrize("how", ["close", "reset"])
def test_w70_a_client_that_leaves_in_its_upload_is_told_of_as_any_other(how: str) -> None:
    """Half a judged request goes nowhere; still it has its spans, its record and its verdict without a label."""

    async def run() -> None:
        async with upstream(FINE) as up, proxy(up.url, app={"telemetry": out.telemetry}) as px:
            async with connection(px) as (_, writer):
                writer.write(ask()[:-9])
                await writer.drain()
                await until(lambda: px.app.relay.observers.in_flight)
                leaves(writer, how)
                exchange = await px.end()
            assert (exchange.end, verdict(exchange)[0], up.requests) == ("client_disconnect", None, [])
        out.telemetry.shutdown()
        spans = out.sink.spans()
        assert sorted(span.kind for span in spans) == ["CLIENT", "SERVER"]
        assert {span.attributes["error.type"] for span in spans} == {"client_disconnect"}

    with exported() as out:
        asyncio.run(run())


@MODES
def test_w72_a_slow_reader_slows_the_upstream_and_costs_no_memory(mode: str) -> None:
    """What nobody reads is not read from the upstream either; all of it arrives in the end."""
    piece = chunk(b"data: " + b"x" * 50_000 + b"\n\n")
    written = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head())
        for _ in range(1000):
            writer.write(piece)
            await writer.drain()
            written += 1
        writer.write(END)
        writer.close()

    async def run() -> None:
        async with await asyncio.start_server(flood, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            async with proxy(url, stream_verdict=mode) as px:
                sock = socket.socket()
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                sock.setblocking(False)
                await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", px.port))
                reader, writer = await asyncio.open_connection(sock=sock, limit=2**16)
                async with asyncio.timeout(60):
                    writer.write(ask(stream=True))
                    await until(lambda: written > 10)
                    before = -1
                    while written > before:  # until nothing moves any more
                        before = written
                        await asyncio.sleep(0.5)
                    assert written < 700  # of 50 MB, what sockets and our buffers hold
                    answer = await read_answer(reader)
                    assert (len(answer.body), answer.clean) == (1000 * 50_008, True)
                writer.close()
                assert (await px.end()).end == "complete"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("script", "sent", "limits", "status", "end"),
    [
        ((20.0,), ask(), {"first_byte_timeout": 0.3}, 504, "first_byte_timeout"),
        ((20.0,), ask(stream=True), {"first_byte_timeout": 0.3}, 504, "first_byte_timeout"),
        ((head("application/json", length=9), b"{", 20.0), ask(), {"idle_timeout": 0.3}, 504, "idle_timeout"),
        ((head(), chunk(say("x")), 20.0), ask(stream=True), {"idle_timeout": 0.3}, 200, "idle_timeout"),
        ((head(), 20.0), ask(stream=True), {"idle_timeout": 0.3}, 200, "idle_timeout"),
        (
            (head(), *[s for _ in range(99) for s in (chunk(say("x")), 0.1)]),
            ask(stream=True),
            {"total_timeout": 0.5},
            200,
            "total_timeout",
        ),
        ((20.0,), ask(), {"total_timeout": 0.4}, 504, "total_timeout"),
    ],
)
def test_w73_each_limit_is_its_own_and_named(
    script: Any, sent: bytes, limits: dict[str, Any], status: int, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with upstream(*script) as up, proxy(up.url, **limits) as px:
            answer = await call(px, sent)
            assert answer.status == status
            if status == 504:
                assert answer.json()["error"]["code"] == end
                assert end in answer.json()["error"]["message"]
            else:
                assert not answer.clean
            assert (await px.end()).end == end
            await until(up.left.is_set)

    with caplog.at_level(logging.WARNING, "demur"):
        asyncio.run(run())
    assert f"ended by {end}" in caplog.text


def test_w73_the_defaults_are_generous() -> None:
    settings = Settings()
    assert settings.connect_timeout == 10
    assert settings.first_byte_timeout > 170
    assert settings.idle_timeout > 120
    assert settings.total_timeout is None  # 20 minutes and more


def test_w73_slow_is_not_cut() -> None:
    """Scaled: the limits are to these pauses as the defaults are to 170 s and 120 s. And none stands for another."""
    slow: Script = 0.85, head(), 0.6, chunk(say("a")), 0.6, chunk(say("b")), 0.6, chunk(STOP + DONE), END
    slow_to_begin: Script = 2.0, head(), chunk(say("a") + STOP + DONE), END
    slow_to_go_on: Script = head(), chunk(say("a")), 2.0, chunk(STOP + DONE), END

    async def run(script: Script, **limits: Any) -> None:
        async with upstream(*script) as up, proxy(up.url, **limits) as px:
            assert (await call(px, ask(stream=True))).clean
            assert (await px.end()).end == "complete"

    async def run_all() -> None:
        await asyncio.gather(
            run(slow, connect_timeout=0.5, first_byte_timeout=3.0, idle_timeout=1.5),
            run(slow_to_begin, connect_timeout=1.0, idle_timeout=1.0),
            run(slow_to_go_on, connect_timeout=1.0, first_byte_timeout=1.0),
        )

    asyncio.run(run_all())


def test_w73_the_limit_for_connecting(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with upstream(20.0) as up, proxy(up.url.replace("http:", "https:"), connect_timeout=0.3) as px:
            answer = await call(px, ask())  # the handshake is never answered
            assert (answer.status, answer.json()["error"]["code"]) == (504, "connect_timeout")
            assert (await px.end()).end == "connect_timeout"

    with caplog.at_level(logging.WARNING, "demur"):
        asyncio.run(run())
    assert "ended by connect_timeout" in caplog.text


@pytest.mark.parametrize("end", [FIN, RST])
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_w74_w75_a_post_goes_up_once(method: str, end: Any) -> None:
    sent = ask() if method == "POST" else request(method, "/v1/models")

    async def run() -> None:
        async with upstream(0.02, end) as up, proxy(up.url) as px:
            answer = await call(px, sent)
            assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_disconnected")
            assert len(up.requests) == (1 if method == "POST" else 2)
        # A GET may go up once more (RFC 9110, 9.2.2), a POST may not; on a connection that was used before likewise.
        async with upstream(FINE, then=[(0.02, end), (FINE,)]) as up, proxy(up.url) as px:
            assert (await call(px, sent)).status == 200
            assert (await call(px, sent)).status == (502 if method == "POST" else 200)
            assert len(up.requests) == (2 if method == "POST" else 3)

    asyncio.run(run())


@pytest.mark.parametrize("end", [FIN, RST])
def test_w75_an_idle_connection_that_the_upstream_closed_is_not_used(end: Any) -> None:
    async def run() -> None:
        async with upstream(FINE, 0.02, end) as up, proxy(up.url) as px:
            for count in range(1, 4):
                assert (await call(px, ask())).status == 200
                await asyncio.sleep(0.2)
                assert up.connections == count

    asyncio.run(run())


def test_w77_our_own_endpoints_cost_the_upstream_nothing() -> None:
    async def run() -> None:
        async with upstream(FINE) as up, proxy(up.url) as px, connection(px) as (reader, writer):
            for _ in range(500):
                for path in ("/-/healthy", "/-/ready"):
                    writer.write(request("GET", path))
                    assert (await read_answer(reader)).status == 200
            for path in ("/-/no", "/-/verdicts/none", "/-/healthy?x=/v1/models", "/-/../v1/models"):
                writer.write(request("GET", path))
                assert (await read_answer(reader)).status in (200, 404)
            assert (up.requests, up.connections, len(px.ended)) == ([], 0, 0)

    asyncio.run(run())


def test_w80_streams_go_on_while_a_long_answer_is_judged() -> None:
    """Two hundred streams with an event every 50 ms, one answer of 2 MB: the events stay apart."""
    count, rounds = 200, 20
    said = [step for _ in range(rounds) for step in (chunk(say("t")), 0.05)]
    long = completion("So it goes. " * (2_000_000 // 12))
    spent: list[
        float
    ] = []  # seconds of work between two turns of a waiting task; the clock's would be the machine's too

    async def turns() -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0.01)
            before, now = time.thread_time(), before
            spent.append(before - now)

    async def run() -> None:
        scripts: list[Script] = [(head(), *said, chunk(STOP + DONE), END), (0.3, whole(long))]
        async with upstream(*scripts[0], then=scripts[1:]) as up, proxy(up.url) as px:

            async def stream() -> None:
                answer = await call(px, ask("How?", "X-Script: 0", stream=True))
                times = [when for when, piece in answer.times if b'"t"' in piece]
                assert len(times) == rounds  # none joined with another

            waiting = asyncio.ensure_future(turns())
            streams = [asyncio.ensure_future(stream()) for _ in range(count)]
            answer = await call(px, ask("How?", "X-Script: 1"))
            assert (answer.body, answer.get("x-refusal-status")) == (long, "complete")
            await asyncio.gather(*streams)
            waiting.cancel()

    asyncio.run(run())
    spent.sort()
    assert spent[int(len(spent) * 0.99)] < 0.5


@MODES
def test_w85_where_a_verdict_is_told(mode: str, tmp_path: Path) -> None:
    refusal = "I'm sorry, but I can't help with that."
    body = say(refusal) + STOP + DONE

    async def run() -> None:
        scripts: list[Script] = [(whole(completion(refusal)),), chunked(body)]
        settings: dict[str, Any] = {"app": {"telemetry": out.telemetry, "sinks": [log]}, "stream_verdict": mode}
        async with upstream(*scripts[0], then=scripts[1:]) as up, proxy(up.url, **settings) as px:
            plain, stream = await call(px, ask()), await call(px, ask(stream=True))
            assert plain.get("x-refusal-verdict") == "hard_refusal"
            assert plain.body == completion(refusal)
            assert stream.get("x-refusal-verdict") == "pending"
            told = {name for name, _ in stream.headers if name.startswith("x-refusal-")}
            assert told == {"x-refusal-verdict", "x-refusal-id", "x-refusal-classifier"}
            same(stream, body, mode)
            assert len(stream.body.split(b"\n\n")) == len(body.split(b"\n\n"))  # no event, no comment more
            if mode == "chunk":
                assert keys(stream.body)[0]["id"] == stream.get("x-refusal-id")
            for answer, exchange in zip((plain, stream), px.ended, strict=True):
                found = await call(px, request("GET", f"/-/verdicts/{answer.get('x-refusal-id')}"))
                assert (found.status, found.json()["label"]) == (200, "hard_refusal")
                assert verdict(exchange) == ("hard_refusal", "complete")
            log.close()
            lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
            assert [line["id"] for line in lines] == [plain.get("x-refusal-id"), stream.get("x-refusal-id")]
            for line, exchange in zip(lines, px.ended, strict=True):
                assert (line["verdict"]["label"], line["verdict"]["status"]) == ("hard_refusal", "complete")
                spans = out.pair(exchange.id)
                assert (spans.both("refusal.verdict"), spans.both("refusal.status")) == ("hard_refusal", "complete")
                (event,) = (it for it in out.sink.events() if it.span_id == spans.client.span_id)
                assert event.attributes["gen_ai.evaluation.score.label"] == "hard_refusal"
                assert spans.both("refusal.score") == line["verdict"]["confidence"]

    log = VerdictLog(tmp_path / "log.jsonl")
    with exported() as out:
        asyncio.run(run())


def test_w87_nothing_of_one_client_reaches_the_next() -> None:
    async def run() -> None:
        said = whole(
            completion("Fine."), "application/json", "Set-Cookie: session=a; Path=/", "WWW-Authenticate: Basic"
        )
        async with upstream(said) as up, proxy(up.url) as px:
            mine = ("Cookie: mine=1", "Authorization: Bearer a", "X-Api-Key: a", "Proxy-Authorization: Basic a")
            first = await call(px, ask("How?", *mine))
            assert first.all("set-cookie") == ["session=a; Path=/"]
            for sent in (ask(), ask(stream=True), request("GET", "/v1/models")):
                await call(px, sent)
                for name in ("cookie", "authorization", "x-api-key", "proxy-authorization"):
                    assert up.requests[-1].all(name) == []
            assert up.connections == 1  # although it is the same connection

    asyncio.run(run())


@MODES
def test_one_connection_serves_many_kinds_of_exchanges(mode: str) -> None:
    """Keep-alive on both sides: what one exchange leaves behind never reaches the next."""
    body = say("Fine.") + STOP + DONE
    scripts: list[Script] = [
        (FINE,),
        chunked(body),
        (whole(b"", status="204 No Content").replace(b"Content-Length: 0\r\n", b""),),
        (whole(b'{"error":{"message":"slow"}}', status="429 Too Many Requests"),),
    ]

    async def run() -> None:
        async with upstream(*scripts[0], then=scripts[1:]) as up, proxy(up.url, stream_verdict=mode) as px:
            async with connection(px) as (reader, writer), asyncio.timeout(30):
                for number in range(40):
                    writer.write(ask("How?", f"X-Script: {number % 4}", stream=number % 3 == 0))
                    answer = await read_answer(reader)
                    assert (answer.status, answer.clean) == ((200, 200, 204, 429)[number % 4], True)
                    if number % 4 == 1:
                        same(answer, body, mode)
            assert up.connections == 1
            assert len(px.ended) == 40

    asyncio.run(run())
