"""Errors and endings: W30 to W39. What broke off never looks whole; what the upstream says of errors stays its own."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import ssl
from typing import Any

import pytest
from fake_upstream import (
    DONE,
    END,
    FIN,
    RST,
    Answer,
    Step,
    ask,
    call,
    chunk,
    completion,
    connection,
    event,
    head,
    proxy,
    request,
    say,
    upstream,
    whole,
)
from wire.exported import exported
from wire.notation import chunked, closing, play, same, verdict, without_keys

from demur.proxy.metrics import Metrics
from demur.proxy.observe import Exchange

STOP = event({}, "stop")
THREE = b"".join(map(say, ["Here is ", "how ", "to do it: "]))
HALF = b"x" * 200
MODES = pytest.mark.parametrize("mode", ["off", "chunk"])
SECRET = "sk-very-secret"


@MODES
@pytest.mark.parametrize("make", [chunked, closing])
@pytest.mark.parametrize("rest", [b"", b'data: {"half', b'data: {"a":1}', b"\r", b": comm"], ids=repr)
def test_w30_a_reset_never_looks_like_an_end(rest: bytes, make: Any, mode: str) -> None:
    script = [*make(THREE + rest, [len(THREE)])[:-1], 0.05, RST]

    async def run() -> None:
        settings: dict[str, Any] = {"stream_verdict": mode, "app": {"telemetry": out.telemetry}}
        async with upstream(*script) as up, proxy(up.url, **settings) as px:
            for count in (1, 2):
                answer = await call(px, ask(stream=True))
                assert (answer.body, answer.clean) == (THREE + rest, False)
                assert b"[DONE]" not in answer.body
                exchange = await px.end(count)
                assert exchange.end == "upstream_error"
                assert verdict(exchange)[1] == "incomplete"
                assert up.connections == count  # the broken one is not used again
            told = [exchange.id for exchange in px.ended]
        for spans in [out.pair(id) for id in told]:
            assert (spans.client.is_error, spans.server.is_error) == (True, True)
            assert (spans.both("error.type"), spans.both("refusal.status")) == ("upstream_error", "incomplete")

    with exported() as out:
        asyncio.run(run())


@MODES
def test_w30_a_reset_after_the_finish_chunk_is_no_end_either(mode: str) -> None:
    """The transfer broke off, and is told so; the answer itself had been said to its end."""
    body = THREE + STOP

    async def run() -> None:
        async with upstream(head(), chunk(body), 0.05, RST) as up, proxy(up.url, stream_verdict=mode) as px:
            answer = await call(px, ask(stream=True))
            assert (without_keys(answer.body), answer.clean) == (body, False)
            exchange = await px.end(1)
            assert (exchange.end, verdict(exchange)[1]) == ("upstream_error", "complete")

    asyncio.run(run())


@MODES
def test_w30_an_old_client_sees_it_too(mode: str) -> None:
    """HTTP/1.0 knows no chunks: an end of the connection that is in order would look whole."""

    async def run() -> None:
        script: list[Step] = [head(), chunk(THREE), 0.05, RST]
        async with (
            upstream(*script) as up,
            proxy(up.url, stream_verdict=mode) as px,
            connection(px) as (reader, writer),
            asyncio.timeout(10),
        ):
            writer.write(ask(stream=True).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
            with pytest.raises(ConnectionError):
                await reader.read()

    asyncio.run(run())


@MODES
@pytest.mark.parametrize("end", [FIN, RST])
@pytest.mark.parametrize(
    ("start", "came", "status"),
    [
        ((head("application/json", length=500), HALF), HALF, "upstream_error"),
        ((head("text/event-stream", length=5000), THREE), THREE, "incomplete"),
        ((head("text/plain", length=500), HALF), HALF, "unparsed"),
        ((head("application/json"), chunk(HALF)), HALF, "upstream_error"),
        ((head("text/event-stream"), chunk(THREE)), THREE, "incomplete"),
        ((head("text/event-stream"), chunk(THREE), b"40\r\n" + b"x" * 10), THREE + b"x" * 10, "incomplete"),
        ((head("text/event-stream"), chunk(THREE), b"0\r\n"), THREE, "incomplete"),
    ],
    ids=["json", "events", "text", "chunked json", "chunked events", "inside a chunk", "inside the last chunk"],
)
def test_w31_a_body_shorter_than_declared(
    start: tuple[Step, ...], came: bytes, status: str, end: Any, mode: str
) -> None:
    """What is held until it is whole becomes our error; what was begun is broken off after the bytes that came."""

    async def run() -> None:
        async with upstream(*start, 0.05, end) as up, proxy(up.url, stream_verdict=mode) as px:
            judged = await call(px, ask(stream=True))
            other = await call(px, request("GET", "/v1/files/x/content"))
            if status == "upstream_error":
                assert (judged.status, judged.json()["error"]["code"]) == (502, "upstream_disconnected")
            else:
                assert (judged.status, judged.clean, judged.body) == (200, False, came)
            assert (other.status, other.clean, other.body) == (200, False, came)
            await px.end(2)
            assert [exchange.end for exchange in px.ended] == ["upstream_error"] * 2
            assert verdict(px.ended[0]) == ("answer" if status == "incomplete" else None, status)

    asyncio.run(run())


BLOCKED = {
    "openai": b'data: {"error":{"code":"content_filter","message":"filtered"}}\n\n',
    "another code": b'data: {"error":{"message":"m","type":"x","code":"content_policy_violation"}}\n\n',
}
FAILED = {
    "code 504": b'data: {"error":{"code":504,"type":"timeout"}}\n\n',
    "object": b'data: {"object":"error","message":"out of memory","code":500}\n\n',
    "named": b'event: error\ndata: {"message":"overloaded"}\n\n',
    "named, anthropic": b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"m"}}\n\n',
    "text": b'data: {"error":"something went wrong"}\n\n',
    "named, no JSON": b"event: error\ndata: plain text failure\n\n",
    "rate limit": b'data: {"error":{"message":"slow","type":"rate_limit_error","code":"rate_limit_exceeded"}}\n\n',
}


@MODES
def test_w32_w33_errors_inside_a_stream(mode: str) -> None:
    cases: list[tuple[bytes, tuple[str | None, str]]] = [
        (first, ("hard_refusal", "complete")) for first in BLOCKED.values()
    ]
    cases += [(first, (None, "upstream_error")) for first in FAILED.values()]
    for make in (chunked, closing):
        for tail in (DONE, b""):
            metrics = Metrics()
            scripts = [make(first + tail) for first, _ in cases]
            results = play(scripts, app={"sinks": [metrics]}, stream_verdict=mode)
            for (first, expected), (answer, exchange) in zip(cases, results, strict=True):
                same(answer, first + tail, mode, 0)
                assert verdict(exchange) == expected
                assert exchange.verdict is not None
                assert (exchange.verdict.blocked_by is not None) == (first in BLOCKED.values())
            counted = re.findall(
                r'^refusal_verdicts_total{.*refusal_status="(\w+)",refusal_verdict="(\w*)"} (\S+)$',
                metrics.render()[0].decode(),
                re.MULTILINE,
            )
            assert sorted(counted) == [
                ("complete", "hard_refusal", f"{len(BLOCKED)}.0"),
                ("upstream_error", "", f"{len(FAILED)}.0"),
            ]


@MODES
def test_w33_an_error_after_text_judges_the_text(mode: str) -> None:
    body = THREE + FAILED["code 504"] + DONE
    ((answer, exchange),) = play([chunked(body)], stream_verdict=mode)
    assert without_keys(answer.body) == body
    label, status = verdict(exchange)
    assert label not in ("hard_refusal", "disguised_refusal")
    assert status in ("incomplete", "upstream_error")


ERRORS = {
    400: b'{"error":{"message":"context length","code":"context_length_exceeded","type":"invalid_request_error"}}',
    401: b'{"error":{"message":"no key","code":"invalid_api_key"}}',
    403: b'{"error":{"message":"not yours"}}',
    404: b'{"error":{"message":"no model","code":"model_not_found"}}',
    408: b'{"error":{"message":"slow"}}',
    409: b"{}",
    413: b'{"error":"too large"}',
    415: b"null",
    422: b'{"detail":[{"loc":["body","model"],"msg":"field required"}]}',
    429: b'{"error":{"message":"slow down","type":"rate_limit_error"}}',
    500: b'{"error":{"message":"oops","type":"server_error"}}',
    503: b'{"error":{"message":"busy"}}',
    529: b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
}


@MODES
@pytest.mark.parametrize("stream", [True, False])
def test_w34_an_error_reaches_the_client_as_it_is(stream: bool, mode: str) -> None:
    scripts = [
        [whole(body, "application/json; charset=utf-8", status=f"{status} Odd")] for status, body in ERRORS.items()
    ]
    for (status, body), (answer, exchange) in zip(
        ERRORS.items(), play(scripts, ask(stream=stream), stream_verdict=mode), strict=True
    ):
        assert (answer.status, answer.get("content-type")) == (status, "application/json; charset=utf-8")
        assert (answer.body, answer.clean) == (body, True)
        assert verdict(exchange) == (None, "upstream_error")


@MODES
def test_w35_an_event_stream_that_nobody_asked_for(mode: str) -> None:
    body = say("I'm sorry, but I can't help with that.") + STOP + DONE
    ((answer, exchange),) = play([chunked(body)], ask(), stream_verdict=mode)
    same(answer, body, mode)
    assert answer.get("content-type") == "text/event-stream"
    assert (exchange.stream, verdict(exchange)) == (True, ("hard_refusal", "complete"))


@MODES
def test_w36_a_complete_answer_where_a_stream_was_asked_for(mode: str) -> None:
    body = completion("I'm sorry, but I can't help with that.")
    ((answer, exchange),) = play([[whole(body)]], stream_verdict=mode)
    assert (answer.body, answer.get("content-type")) == (body, "application/json")
    assert answer.get("x-refusal-verdict") == "hard_refusal"
    assert not exchange.stream


@MODES
@pytest.mark.parametrize("kind", ["", "application/json", "Application/JSON; charset=utf-8"])
@pytest.mark.parametrize(
    "start", [b"", b": ping\n\n", b"event: x\n", b"id: 1\r\n", b"\xef\xbb\xbf", b"\n"], ids=range(6)
)
def test_w36_an_event_stream_that_does_not_say_so(start: bytes, kind: str, mode: str) -> None:
    """Frameworks stream without a type when they are told none: its events go on as they come all the same."""
    body = start + say("I'm sorry, but I can't help with that.") + STOP + DONE
    cut = body.index(b"\n\n", len(start) + 9) + 2
    script = chunked(body, [cut], 0.4)
    line = f"Content-Type: {kind}\r\n".encode() if kind else b""
    script[0] = bytes(script[0]).replace(b"Content-Type: text/event-stream\r\n", line)  # type: ignore[arg-type]
    ((answer, exchange),) = play([script], stream_verdict=mode)
    same(answer, body, mode)
    assert answer.get("content-type") == (kind or None)
    times = [when for when, piece in answer.times if piece]
    assert times[-1] - times[0] > 0.2
    assert answer.get("x-refusal-verdict") == "pending"
    assert (exchange.stream, verdict(exchange)) == (True, ("hard_refusal", "complete"))


NOTHING = b"HTTP/1.1 204 No Content\r\n\r\n"


@pytest.mark.parametrize("stream", [True, False])
def test_w37_odd_answers_stay_as_they_are(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    cases: list[tuple[bytes, int, bytes, str]] = [
        (whole(b"<html>502</html>", "text/html", status="502 Bad Gateway"), 502, b"<html>502</html>", "upstream_error"),
        (whole(b"", "application/json"), 200, b"", "empty"),
        (whole(b"", "text/html", status="502 Bad Gateway"), 502, b"", "upstream_error"),
        (whole(b'{"choices":[{"mess'), 200, b'{"choices":[{"mess', "unparsed"),
        (whole(b"[" * 100_000), 200, b"[" * 100_000, "unparsed"),
        (whole(b"\xff\xfe{}"), 200, b"\xff\xfe{}", "unparsed"),
        (whole(b"null"), 200, b"null", "unparsed"),
        (whole(b'{"choices":{}}'), 200, b'{"choices":{}}', "empty"),
        (whole(completion("Fine.") + b"\n"), 200, completion("Fine.") + b"\n", "complete"),
        (whole(completion(None)), 200, completion(None), "empty"),
        (NOTHING, 204, b"", "empty"),
        (head() + END, 200, b"", "empty"),
        (head("application/json") + END, 200, b"", "empty"),
    ]
    for (_, status, body, expected), (answer, exchange) in zip(
        cases, play([[case[0]] for case in cases], ask(stream=stream)), strict=True
    ):
        assert (answer.status, answer.body, answer.clean) == (status, body, True)
        assert (expected, answer.status) == (verdict(exchange)[1], status)
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def failing(url: str, caplog: pytest.LogCaptureFixture) -> tuple[Answer, Exchange]:
    """An exchange with an upstream that can't be reached: our words, and no key in any of them."""
    sent = ask("How?", f"Authorization: Bearer {SECRET}", path=f"/v1/chat/completions?key={SECRET}", stream=True)

    async def run() -> tuple[Answer, Exchange]:
        async with proxy(url) as px:
            return await call(px, sent), await px.end()

    with caplog.at_level(logging.DEBUG):
        answer, exchange = asyncio.run(run())
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"].startswith("demur: ")
    assert answer.get("content-type") == "application/json"
    for output in (answer.body.decode(), str(answer.headers), caplog.text, repr(exchange)):
        assert SECRET not in output
    assert verdict(exchange) == (None, "upstream_error")
    return answer, exchange


def test_w38_an_upstream_that_can_not_be_reached(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        unused = sock.getsockname()[1]
    for url, words in [
        (f"http://127.0.0.1:{unused}/v1", f"127.0.0.1:{unused}"),
        (f"https://127.0.0.1:{unused}/v1", f"127.0.0.1:{unused}"),
        ("http://nowhere.invalid/v1", "nowhere.invalid"),
    ]:
        answer, exchange = failing(url, caplog)
        assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_unreachable")
        assert words in answer.json()["error"]["message"]
        assert exchange.end == "upstream_error"


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"\x15\x03\x01\x00\x02\x02\x28"], ids=repr)
def test_w38_an_upstream_without_tls(said: bytes, caplog: pytest.LogCaptureFixture) -> None:
    port = 0

    async def run() -> None:
        nonlocal port

        async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(said)
            writer.close()

        async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with proxy(f"https://127.0.0.1:{port}/v1") as px:
                answer = await call(px, ask())
                assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_unreachable")
                assert (await px.end()).end == "upstream_error"

    asyncio.run(run())


@pytest.mark.parametrize(
    "said",
    [
        FIN,
        RST,
        b"hello\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-A: a\x00b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 O",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=repr,
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings"])
def test_w38_an_upstream_that_does_not_speak_http(said: Step, path: str) -> None:
    async def run() -> None:
        async with upstream(said, FIN) as up, proxy(up.url) as px:
            answer = await call(px, ask(path=path))
            if path == "/v1/embeddings" and answer.status == 200:  # its head had gone out
                assert b"zz" in bytes(said)  # type: ignore[arg-type]
                assert not answer.clean
            else:
                assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_disconnected")
            assert len(up.requests) == 1
            assert (await px.end()).end == "upstream_error"

    asyncio.run(run())


def test_w38_a_handshake_that_fails() -> None:
    async def run() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # without a certificate there is no handshake
        async with upstream(whole(b"{}"), ssl=context) as up, proxy(up.url.replace("http:", "https:")) as px:
            answer = await call(px, ask())
            assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_unreachable")

    asyncio.run(run())


@pytest.mark.parametrize("stream", [True, False])
def test_w39_rate_limit_headers_arrive_under_their_own_names(stream: bool) -> None:
    lines = [
        "retry-after: 30",
        "retry-after-ms: 30000",
        "x-should-retry: false",
        "x-ratelimit-limit-requests: 60",
        "x-ratelimit-remaining-tokens: 149984",
        "x-ratelimit-reset-requests: 1s",
        "x-request-id: req_1",
        "request-id: req_2",
        "anthropic-ratelimit-tokens-limit: 5",
        "anthropic-ratelimit-requests-reset: 2024-01-01T00:00:00Z",
        "openai-processing-ms: 12",
        "server-timing: gpu;dur=1.2",
    ]
    busy = whole(b'{"error":{"message":"slow"}}', "application/json", *lines, status="429 Too Many Requests")
    fine = [head("text/event-stream", *lines), chunk(DONE), END]
    for answer, _ in play([[busy], fine], ask(stream=stream)):
        for line in lines:
            name, value = line.split(": ")
            assert answer.all(name) == [value]
