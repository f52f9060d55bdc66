"""Headers, length and compression: W40 to W49. Each header under its own name, codings as they came."""

from __future__ import annotations

import asyncio
import gzip
import importlib
import zlib
from typing import Any

import brotli
import pytest
from fake_upstream import (
    DONE,
    END,
    Step,
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
from wire.notation import chunked, closing, play, same, verdict

try:
    zstd: Any = importlib.import_module("compression.zstd")
except ImportError:
    zstd = importlib.import_module("backports.zstd")

REFUSAL = completion("I'm sorry, but I can't help with that.")
EVENTS = [say("I'm sorry, "), say("but I can't "), say("help with that."), event({}, "stop"), DONE]
MODES = pytest.mark.parametrize("mode", ["off", "chunk"])
HOPS = [
    "Connection: keep-alive, X-Foo",
    "X-Foo: 1",
    "Keep-Alive: timeout=5",
    "Proxy-Authenticate: Basic",
    "Upgrade: h2c",
    "Trailer: X-Late",
]


def bare_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


CODINGS: dict[str, Any] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP": gzip.compress,
    "deflate": zlib.compress,
    "deflate ": bare_deflate,
    "br": brotli.compress,
    "zstd": zstd.compress,
    "gzip, br": lambda data: brotli.compress(gzip.compress(data)),
    "identity": bytes,
    "": bytes,
}


@pytest.mark.parametrize("coding", CODINGS)
def test_w40_coded_answers_keep_their_bytes_and_are_judged(coding: str) -> None:
    packed = CODINGS[coding](REFUSAL)
    policy = CODINGS[coding](b'{"error":{"message":"filtered","code":"content_filter"}}')
    limit = CODINGS[coding](b'{"error":{"message":"slow down"}}')
    line = f"Content-Encoding: {coding}"
    scripts = [
        [whole(packed, "application/json", line)],
        [head("application/json", line), *[chunk(packed[at : at + 1]) for at in range(len(packed))], END],
        [whole(policy, "application/json", line, status="400 Bad Request")],
        [whole(limit, "application/json", line, status="429 Too Many Requests")],
    ]
    full, cut, blocked, busy = play(scripts, ask("How?", f"Accept-Encoding: {coding.strip()}"))
    for (answer, _), body in zip((full, cut, blocked, busy), (packed, packed, policy, limit), strict=True):
        assert (answer.body, answer.clean) == (body, True)
        assert answer.all("content-encoding") == [coding.strip()]
    assert full[0].all("content-length") == [str(len(packed))]
    for answer, exchange in (full, cut):
        assert answer.get("x-refusal-verdict") == "hard_refusal"
        assert verdict(exchange) == ("hard_refusal", "complete")
    assert (blocked[0].status, verdict(blocked[1])) == (400, ("hard_refusal", "complete"))
    assert (busy[0].status, verdict(busy[1])) == (429, (None, "upstream_error"))


@pytest.mark.parametrize("body", [b"??", b"\x1f\x8b\x08", gzip.compress(REFUSAL)[:-30], b""], ids=range(4))
@pytest.mark.parametrize("coding", ["gzip", "br", "zstd", "deflate", "pack200", "gzip, pack200"])
def test_w40_what_can_not_be_decoded_passes(body: bytes, coding: str) -> None:
    ((answer, exchange),) = play([[whole(body, "application/json", f"Content-Encoding: {coding}")]], ask())
    assert (answer.status, answer.body, answer.clean) == (200, body, True)
    assert verdict(exchange)[0] is None


def flushed_gzip(pieces: list[bytes]) -> list[bytes]:
    packer = zlib.compressobj(wbits=31)
    out = [packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in pieces]
    return [*out, packer.flush()]


def flushed_deflate(pieces: list[bytes]) -> list[bytes]:
    packer = zlib.compressobj()
    out = [packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in pieces]
    return [*out, packer.flush()]


def flushed_brotli(pieces: list[bytes]) -> list[bytes]:
    packer = brotli.Compressor()
    out = [packer.process(piece) + packer.flush() for piece in pieces]
    return [*out, packer.finish()]


def flushed_zstd(pieces: list[bytes]) -> list[bytes]:
    packer = zstd.ZstdCompressor()
    out = [packer.compress(piece, packer.FLUSH_BLOCK) for piece in pieces]
    return [*out, packer.flush()]


@MODES
@pytest.mark.parametrize(
    ("coding", "pack"),
    [("gzip", flushed_gzip), ("deflate", flushed_deflate), ("br", flushed_brotli), ("zstd", flushed_zstd)],
)
def test_w41_a_coded_stream_comes_event_by_event_and_is_judged(coding: str, pack: Any, mode: str) -> None:
    pieces = [piece for piece in pack(EVENTS) if piece]
    script: list[Step] = [head("text/event-stream", f"Content-Encoding: {coding}")]
    for piece in pieces:
        script += [chunk(piece), 0.1]
    ((answer, exchange),) = play([[*script, END]], stream_verdict=mode)
    assert answer.get("content-encoding") == coding
    assert [piece for _, piece in answer.times if piece] == pieces  # one by one
    assert answer.times[-1][0] - answer.times[1][0] > 0.1 * (len(pieces) - 2)
    assert verdict(exchange) == ("hard_refusal", "complete")
    assert exchange.done_marker is True


@MODES
def test_w41_a_coded_stream_cut_anywhere(mode: str) -> None:
    for coding, pack in (("gzip", flushed_gzip), ("br", flushed_brotli), ("zstd", flushed_zstd)):
        body = b"".join(pack(EVENTS))
        line = f"Content-Encoding: {coding}"
        scripts = [closing(body, range(1, len(body), size), 0.001, line) for size in (1, 3, 50)]
        scripts += [
            chunked(body, [], 0.0, line),
            closing(body[:-4], [], 0.0, line),
            closing(b"\xff" * 9, [], 0.0, line),
        ]
        results = play(scripts, stream_verdict=mode)
        for answer, exchange in results[:-2]:
            assert (answer.body, answer.clean) == (body, True)
            assert verdict(exchange) == ("hard_refusal", "complete")
        assert [answer.body for answer, _ in results[-2:]] == [body[:-4], b"\xff" * 9]
        assert verdict(results[-1][1]) == (None, "unparsed")


def test_w41_a_bomb_in_a_stream_passes_unread() -> None:
    packed = gzip.compress(say("a" * 30_000_000))
    for mode in ("off", "chunk"):
        script = [whole(packed, "text/event-stream", "Content-Encoding: gzip")]
        ((answer, exchange),) = play([script], stream_verdict=mode)
        assert (answer.body, answer.clean) == (packed, True)
        assert verdict(exchange) == (None, "not_classified")


@pytest.mark.parametrize(
    ("accepted", "json", "stream"),
    [
        (None, [], ["identity"]),
        ("identity", ["identity"], ["identity"]),
        ("br", ["br"], ["identity"]),
        ("gzip, deflate, br, zstd", ["gzip, deflate, br, zstd"], ["identity"]),
        ("pack200", ["identity"], ["identity"]),
        ("pack200, gzip;q=0.5", ["gzip;q=0.5"], ["identity"]),
    ],
)
def test_w42_never_a_coding_that_the_client_can_not_read(
    accepted: str | None, json: list[str], stream: list[str]
) -> None:
    async def run() -> None:
        lines = [f"Accept-Encoding: {accepted}"] if accepted else []
        async with upstream(whole(REFUSAL)) as up, proxy(up.url) as px:
            await call(px, ask("How?", *lines))
            await call(px, ask("How?", *lines, stream=True))
            await call(px, request("GET", "/v1/models", None, *lines))
            assert [got.all("accept-encoding") for got in up.requests] == [json, stream, [accepted] if accepted else []]

    asyncio.run(run())


@pytest.mark.parametrize("status", ["200 OK", "304 Not Modified", "204 No Content"])
def test_w43_answers_without_a_body(status: str) -> None:
    """HEAD states a length, 304 and 204 may: none of them keeps the connection waiting for a body."""

    async def run() -> None:
        lines = ('ETag: "v1"', "Content-Length: 10", "Content-Encoding: gzip")
        said = "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode()
        method = "HEAD" if status.startswith("200") else "GET"
        async with upstream(said) as up, proxy(up.url) as px, connection(px) as (reader, writer), asyncio.timeout(10):
            for _ in range(3):
                writer.write(request(method, "/v1/files/x", None, 'If-None-Match: "v1"'))
                answer = await read_answer(reader, bodiless=True)
                assert (answer.status, answer.get("etag")) == (int(status[:3]), '"v1"')
                assert answer.get("content-encoding") == "gzip"
            assert [got.all("if-none-match") for got in up.requests] == [['"v1"']] * 3
            assert up.connections == 1

    asyncio.run(run())


@pytest.mark.parametrize("stream", [True, False])
def test_w44_w45_hops_end_here_and_repeated_headers_stay(stream: bool) -> None:
    async def run() -> None:
        lines = [*HOPS, "Set-Cookie: a=1", "VARY: Origin", "set-cookie: b=2; Path=/", "Vary: Accept", "X-MiXeD: Case"]
        kind = "text/event-stream" if stream else "application/json"
        body = b"".join(EVENTS) if stream else REFUSAL
        said = head(kind, *lines), chunk(body), b"0\r\nX-Late: 1\r\n\r\n"
        async with upstream(*said) as up, proxy(up.url, stream_verdict="off") as px:
            for sent in (ask(stream=stream), request("GET", "/v1/files/x")):
                answer = await call(px, sent)
                assert (answer.body, answer.clean) == (body, True)
                assert len(answer.all("transfer-encoding") + answer.all("content-length")) == 1
                for name in ("x-foo", "keep-alive", "proxy-authenticate", "upgrade", "trailer", "x-late", "connection"):
                    assert answer.all(name) == []
                assert answer.all("set-cookie") == ["a=1", "b=2; Path=/"]
                assert answer.all("vary") == ["Origin", "Accept"]
                assert answer.all("x-mixed") == ["Case"]

    asyncio.run(run())


def test_w45_repeated_headers_of_a_request_stay_in_order() -> None:
    async def run() -> None:
        lines = ["OpenAI-Beta: one", "X-A: 1", "openai-beta: two", "X-A: 2, 3", "X-Empty:", "X-a: 4"]
        async with upstream(whole(REFUSAL)) as up, proxy(up.url) as px:
            await call(px, ask("How?", *lines))
            (got,) = up.requests
            assert got.all("openai-beta") == ["one", "two"]
            assert (got.all("x-a"), got.all("x-empty")) == (["1", "2, 3", "4"], [""])

    asyncio.run(run())


@pytest.mark.parametrize("sent", [ask("How?", "Origin: http://page"), ask("How?", "Origin: http://page", stream=True)])
def test_w46_cross_origin_headers_are_the_upstreams(sent: bytes) -> None:
    cors = [
        "Access-Control-Allow-Origin: http://page",
        "Access-Control-Allow-Headers: authorization",
        "Access-Control-Allow-Credentials: true",
        "Access-Control-Expose-Headers: x-request-id",
    ]

    async def run() -> None:
        said = (head("application/json", *cors), chunk(REFUSAL), END)
        preflight = (whole(b"", "text/plain", *cors, status="204 No Content").replace(b"Content-Length: 0\r\n", b""),)
        async with upstream(*preflight, then=[said]) as up, proxy(up.url) as px:
            lines = ("Origin: http://page", "Access-Control-Request-Method: POST")
            asked = await call(px, request("OPTIONS", "/v1/chat/completions", None, *lines))
            assert (asked.status, up.requests[0].method) == (204, "OPTIONS")
            assert up.requests[0].all("access-control-request-method") == ["POST"]
            answer = await call(px, sent)
            for got in (asked, answer):
                for line in cors[:3]:
                    name, value = line.split(": ")
                    assert got.all(name.lower()) == [value]
            assert asked.all("access-control-expose-headers") == ["x-request-id"]
            (exposed,) = answer.all("access-control-expose-headers")
            assert exposed.startswith("x-request-id, x-refusal-")

    asyncio.run(run())


def test_w47_where_a_client_sits_is_not_told() -> None:
    async def run() -> None:
        hidden = ["X-Forwarded-For", "X-Forwarded-Host", "CF-Connecting-IP", "CF-Visitor", "CF-Ray", "Via", "Forwarded"]
        hidden += ["X-Real-IP", "True-Client-IP", "X-Client-IP"]
        async with upstream(whole(REFUSAL)) as up, proxy(up.url) as px:
            await call(px, ask("How?", *(f"{name}: 192.0.2.7" for name in hidden)))
            assert b"192.0.2.7" not in up.requests[0].raw_head

    asyncio.run(run())


@pytest.mark.parametrize("stream", [True, False])
def test_w48_long_many_and_odd_headers(stream: bool) -> None:
    """Bytes beyond ASCII, empty values, a hundred headers and very long ones; Date and Server once, as they came."""
    lines = [
        "Date: Mon, 01 Jan 2024 00:00:00 GMT",
        "Server: theirs",
        "X-Empty:",
        "X-Long: " + "v" * 60_000,
        *(f"X-{number}: {number}" for number in range(100)),
    ]

    async def run() -> None:
        said = head("application/json", *lines).replace(
            b"X-Empty:", b"X-Latin: caf\xe9\r\nX-Utf: caf\xc3\xa9\r\nX-Empty:"
        )
        async with upstream(said, chunk(REFUSAL), END) as up, proxy(up.url) as px:
            sent = ask("How?", "X-Utf: café", *lines[2:], stream=stream)
            answer = await call(px, sent)
            assert (answer.body, answer.clean) == (REFUSAL, True)
            assert (answer.all("x-latin"), answer.all("x-utf")) == (["caf\xe9"], ["caf\xc3\xa9"])
            for line in lines:
                name, _, value = line.partition(":")
                assert answer.all(name.lower()) == [value.strip()]
                if name not in ("Date", "Server"):
                    assert up.requests[0].all(name.lower()) == [value.strip()]
            assert up.requests[0].all("x-utf") == ["caf\xc3\xa9"]

    asyncio.run(run())


CREDENTIALS = ["api-key", "x-api-key", "cf-aig-authorization", "x-goog-api-key", "Authorization"]
CREDENTIALS += ["Ocp-Apim-Subscription-Key"]


@pytest.mark.parametrize("name", CREDENTIALS)
def test_w49_any_credential_passes_and_none_is_added(name: str) -> None:
    async def run() -> None:
        async with upstream(whole(REFUSAL)) as up, proxy(up.url) as px:
            await call(px, ask("How?", f"{name}: k"))
            (got,) = up.requests
            assert got.all(name.lower()) == ["k"]
            known = {*map(str.lower, CREDENTIALS), "cookie", "proxy-authorization"}
            assert {header for header, _ in got.headers} & known == {name.lower()}

    asyncio.run(run())


@MODES
def test_our_headers_are_ours(mode: str) -> None:
    """An upstream can't speak for us, and what a client says of us stays here."""
    said = [
        head("text/event-stream", "X-Refusal-Verdict: answer", "x-refusal-id: theirs"),
        chunk(b"".join(EVENTS)),
        END,
    ]
    ((answer, _),) = play([said], stream_verdict=mode)
    same(answer, b"".join(EVENTS), mode)
    assert answer.all("x-refusal-verdict") == ["pending"]
    assert "theirs" not in answer.all("x-refusal-id")
