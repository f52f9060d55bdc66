"""Requests: W50 to W63. What a client sends goes up byte for byte, in one framing, or is refused in words."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from typing import Any

import pytest
from fake_upstream import (
    END,
    FIN,
    Answer,
    Request,
    ask,
    call,
    chunk,
    completion,
    connection,
    proxy,
    read_answer,
    request,
    upstream,
    whole,
)

FINE = whole(completion("Fine."))
JUDGED, OTHER = "/v1/chat/completions", "/v1/files"
PATHS = pytest.mark.parametrize("path", [JUDGED, OTHER])


def sent_up(*requests: bytes, **settings: Any) -> tuple[list[Answer], list[Request]]:
    """The answers to `requests`, each on a connection of its own, and what came to the upstream."""

    async def run() -> tuple[list[Answer], list[Request]]:
        async with upstream(FINE) as up, proxy(up.url, **settings) as px:
            return [await call(px, sent) for sent in requests], up.requests

    return asyncio.run(run())


def in_chunks(body: bytes, size: int) -> bytes:
    return b"".join(chunk(body[at : at + size]) for at in range(0, len(body), size)) + END


@PATHS
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_w50_a_chunked_body_has_one_framing(path: str, size: int) -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"\xe5\x8c\x97"}]}'
    with_trailers = in_chunks(body, size)[: -len(END)] + b"0;last=1\r\nX-Late: 1\r\n\r\n"
    lines = ("Transfer-Encoding: chunked", "Content-Type: application/json")
    top = request("POST", path, None, *lines)
    answers, ups = sent_up(top + in_chunks(body, size), top + with_trailers)
    assert [answer.status for answer in answers] == [200, 200]
    for got in ups:
        assert got.body == body
        assert got.all("x-late") == []
        framing = (got.all("content-length"), [value.lower() for value in got.all("transfer-encoding")])
        assert framing == (([str(len(body))], []) if path == JUDGED else ([], ["chunked"]))


@PATHS
@pytest.mark.parametrize("chunked", [True, False])
def test_w51_expect_100_continue(path: str, chunked: bool) -> None:
    body = b'{"x":"' + random.Random(1).randbytes(1_500_000).hex().encode() + b'"}'
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"

    async def run() -> None:
        async with upstream(FINE) as up, proxy(up.url) as px:
            async with connection(px) as (reader, writer), asyncio.timeout(20):
                writer.write(request("POST", path, None, "Expect: 100-continue", framing))
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
                writer.write(in_chunks(body, 50_000) if chunked else body)
                assert (await read_answer(reader)).status == 200
            assert up.requests[0].body == body
            assert up.requests[0].all("expect") == []

    asyncio.run(run())


CHUNKS = b"3\r\nabc\r\n0\r\n\r\n"
#: Each could be read in two ways by two servers, one behind the other.
SMUGGLED = {
    "length and chunks": (["Content-Length: 3", "Transfer-Encoding: chunked"], CHUNKS),
    "chunks and length": (["Transfer-Encoding: chunked", "Content-Length: 3"], CHUNKS),
    "two lengths": (["Content-Length: 3", "Content-Length: 4"], b"abcd"),
    "one length twice": (["Content-Length: 3", "Content-Length: 3"], b"abc"),
    "list of lengths": (["Content-Length: 3, 3"], b"abc"),
    "length with a sign": (["Content-Length: +3"], b"abc"),
    "negative length": (["Content-Length: -3"], b"abc"),
    "hexadecimal length": (["Content-Length: 0x3"], b"abc"),
    "no length": (["Content-Length:"], b"abc"),
    "length beyond all numbers": (["Content-Length: 99999999999999999999999"], b"abc"),
    "blank before the colon": (["Transfer-Encoding : chunked"], CHUNKS),
    "chunked twice": (["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], CHUNKS),
    "chunked, chunked": (["Transfer-Encoding: chunked, chunked"], CHUNKS),
    "chunked first": (["Transfer-Encoding: chunked, gzip"], CHUNKS),
    "xchunked": (["Transfer-Encoding: xchunked"], CHUNKS),
    "identity": (["Transfer-Encoding: identity"], CHUNKS),
    "with a parameter": (["Transfer-Encoding: chunked;q=1"], CHUNKS),
    "vertical tab": (["Transfer-Encoding: \x0bchunked"], CHUNKS),
    "folded": (["Transfer-Encoding:\r\n chunked"], CHUNKS),
    "bare LF in a size line": (["Transfer-Encoding: chunked"], b"3\nabc\r\n0\r\n\r\n"),
    "size with a sign": (["Transfer-Encoding: chunked"], b"+3\r\nabc\r\n0\r\n\r\n"),
    "size with 0x": (["Transfer-Encoding: chunked"], b"0x3\r\nabc\r\n0\r\n\r\n"),
    "size beyond all numbers": (["Transfer-Encoding: chunked"], b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
    "more than the size": (["Transfer-Encoding: chunked"], b"3\r\nabcd\r\n0\r\n\r\n"),
    "control character": (["Content-Length: 3", "X-A: a\x01b"], b"abc"),
    "bare CR": (["Content-Length: 3", "X-A: a\rX-B: b"], b"abc"),
    "name without end": (["Content-Length: 3", "X A: b"], b"abc"),
    "no name": (["Content-Length: 3", ": b"], b"abc"),
}


@PATHS
@pytest.mark.parametrize("shape", SMUGGLED)
def test_w52_what_can_be_read_in_two_ways_is_refused(shape: str, path: str) -> None:
    lines, body = SMUGGLED[shape]
    sent = request("POST", path, None, *lines) + body + request("GET", "/v1/smuggled")
    (answer,), ups = sent_up(sent)
    assert (answer.status, answer.json()["error"]["code"]) == (400, "malformed_request")
    assert answer.json()["error"]["message"].startswith("demur: ")
    assert ups == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS"])
def test_w53_no_body_is_added(method: str) -> None:
    async def run() -> None:
        async with upstream(FINE if method != "HEAD" else FINE.partition(b"{")[0]) as up, proxy(up.url) as px:
            await call(px, request(method, "/v1/files/x"))
            (got,) = up.requests
            assert got.body == b""
            assert (got.all("content-length"), got.all("transfer-encoding"), got.all("content-type")) == ([], [], [])

    asyncio.run(run())


def test_w53_a_body_where_none_is_usual_stays() -> None:
    answers, ups = sent_up(
        *(request(method, "/v1/files/x", b"{}", "X-A: 1") for method in ("GET", "DELETE", "OPTIONS", "PATCH", "PUT"))
    )
    assert [(got.body, got.all("content-length")) for got in ups] == [(b"{}", ["2"])] * 5
    assert [answer.status for answer in answers] == [200] * 5


@PATHS
@pytest.mark.parametrize("chunked", [True, False])
def test_w54_over_the_limit_is_a_413_that_names_it(path: str, chunked: bool) -> None:
    big = b"x" * 100_001
    lines = ["Transfer-Encoding: chunked"] if chunked else []
    sent = request("POST", path, None if chunked else big, *lines) + (in_chunks(big, 6000) if chunked else b"")
    (answer,), ups = sent_up(sent, max_request_bytes=100_000)
    assert (answer.status, answer.json()["error"]["code"]) == (413, "request_too_large")
    assert "100000 bytes (max_request_bytes)" in answer.json()["error"]["message"]
    assert ups == []


@pytest.mark.parametrize("chunked", [True, False])
def test_w55_25_mb_of_audio_go_up_unread(chunked: bool) -> None:
    boundary = "b'()+_,-./:=?"
    part = f"--{boundary}\r\nContent-Disposition: form-data; name=file; filename=a.wav\r\n\r\n".encode()
    body = part + b"\x00\xff\r\n--" + random.Random(2).randbytes(25_000_000) + f"\r\n--{boundary}--\r\n".encode()
    kind = f'multipart/form-data; boundary="{boundary}"'
    lines = [f"Content-Type: {kind}", *(["Transfer-Encoding: chunked"] if chunked else [])]
    for path in ("/v1/audio/transcriptions", JUDGED):  # of a form, nothing is judged anywhere
        sent = request("POST", path, None if chunked else body, *lines)
        ((answer,), (got,)) = sent_up(sent + (in_chunks(body, 65_000) if chunked else b""))
        assert answer.status == 200
        assert hashlib.sha256(got.body).digest() == hashlib.sha256(body).digest()
        assert got.all("content-type") == [kind]
        assert not [name for name, _ in answer.headers if name.startswith("x-refusal-")]


BODIES = [
    b'{"b":1,"a":"\\u003c","model":"m","x":1.0,"y":1e3,"a":2,"s":"\\ud800","messages":[{"role":"user","content":"hi"}]}\n',
    b'{"messages":[{"role":"user","content":"\\u5317\\ud83d\\ude42"}],"n":1e0,"odd":{"k":[null,true]},"z":-0.0}',
    b"  {}\r\n",
    b"",
    b"null",
    b"[1,2",
    b"\xff\xfe\x00",
    b"\x1f\x8b\x08",
    b'{"messages":' + b"[" * 50_000,
    b'{"messages":[{"role":"user","content":' + b"1" * 5000 + b"}]}",
    b"a=1&b=2",
]


@PATHS
@pytest.mark.parametrize("number", range(len(BODIES)))
def test_w56_any_body_goes_up_byte_for_byte(number: int, path: str, caplog: pytest.LogCaptureFixture) -> None:
    (answer,), (got,) = sent_up(request("POST", path, BODIES[number], "Content-Type: application/json"))
    assert (answer.status, got.body) == (200, BODIES[number])
    assert "Traceback" not in caplog.text


def test_w57_headers_of_sdks_stay() -> None:
    lines = [
        "User-Agent: OpenAI/JS 6.49.0",
        "Accept: application/json",
        "X-Stainless-Retry-Count: 0",
        "X-Stainless-Lang: js",
        "OpenAI-Organization: org",
        "anthropic-version: 2023-06-01",
        "Idempotency-Key: k-1",
        "X-Request-ID: mine",
        "Content-Encoding: gzip",
        "Cookie: a=1; b=2",
    ]
    _, (got,) = sent_up(request("POST", JUDGED, b"{}", "Content-Type: application/json; charset=utf-8", *lines))
    for line in [*lines, "Content-Type: application/json; charset=utf-8"]:
        name, _, value = line.partition(": ")
        assert got.all(name.lower()) == [value]


@pytest.mark.parametrize(
    ("base", "asked", "target"),
    [
        (base, asked, target)
        for prefix in ("", "/v1", "/api/v1", "/api")
        for base in (prefix, prefix + "/")
        for asked, target in [
            ("/v1/chat/completions", f"{prefix.removesuffix('/v1')}/v1/chat/completions"),
            ("/chat/completions", f"{prefix}/chat/completions"),
        ]
    ],
)
def test_w58_base_and_path_are_joined_once(base: str, asked: str, target: str) -> None:
    async def run() -> None:
        async with upstream(FINE) as up, proxy(up.url.removesuffix("/v1") + base) as px:
            answer = await call(px, ask(path=asked))
            assert [got.target for got in up.requests] == [target]
            assert answer.get("x-refusal-verdict") == "answer"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("asked", "target"),
    [
        ("/v1/files/a%2Fb/%7e;c=1//d/../e/./f?x=%2f&y=a+b&z=%zz&w=a=b;c", None),
        ("/v1/models/a:b@c,d!$'()*+", None),
        ('/v1/a"<>|^`{}\\[]?q="<>|^`{}\\[]?x??', None),
        ("/v1/models?", None),
        ("/v1/models?a=1#part", "/v1/models?a=1"),  # a fragment is the client's own
        ("http://elsewhere.test/v1/models?a=1", "/v1/models?a=1"),
        ("http://user:pass@elsewhere.test:99/v1/models", "/v1/models"),
        ("//elsewhere.test/v1/models", "/v1/elsewhere.test/v1/models"),
        ("/v1", "/v1"),
        ("/v1/", "/v1/"),
        ("/", "/v1/"),
        ("/v1beta/models/g:generateContent?alt=sse", "/v1/v1beta/models/g:generateContent?alt=sse"),
    ],
)
def test_w59_w60_path_and_query_stay_as_they_are(asked: str, target: str | None) -> None:
    (answer,), (got,) = sent_up(request("GET", asked))
    assert (answer.status, got.target) == (200, target or asked)
    assert got.all("host")[0].startswith("127.0.0.1:")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_w61_redirects_are_the_clients_business(status: int) -> None:
    async def run() -> None:
        async with upstream(FINE) as elsewhere:
            for where in (f"{elsewhere.url}/x", f"{elsewhere.url.replace('http:', 'https:')}/x", "/v1/other"):
                moved = whole(b"moved", "text/plain", f"Location: {where}", status=f"{status} Moved")
                async with upstream(moved) as up, proxy(up.url) as px:
                    for sent in (ask("How?", "Authorization: Bearer k"), request("GET", "/v1/models")):
                        answer = await call(px, sent)
                        assert (answer.status, answer.get("location"), answer.body) == (status, where, b"moved")
                    assert len(up.requests) == 2
            assert elsewhere.connections == 0

    asyncio.run(run())


@pytest.mark.parametrize("protocol", [None, "realtime, openai-insecure-api-key.sk-very-secret"])
def test_w63_a_websocket_is_refused_in_words(protocol: str | None, caplog: pytest.LogCaptureFixture) -> None:
    lines = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13"]
    if protocol:
        lines.append(f"Sec-WebSocket-Protocol: {protocol}")
    (answer,), ups = sent_up(request("GET", "/v1/realtime?model=m", None, *lines))
    assert (answer.status, answer.json()["error"]["code"]) == (501, "websocket_not_supported")
    assert "sk-very-secret" not in caplog.text + json.dumps(answer.json())
    assert ups == []


@pytest.mark.parametrize("wish", ["h2c, websocket", "WebSocket, h2c", "h2c\r\nUpgrade: websocket", "websocket/13"])
def test_w63_so_is_one_among_other_wishes(wish: str) -> None:
    (answer,), ups = sent_up(request("GET", "/v1/realtime?model=m", None, f"Upgrade: {wish}", "Connection: Upgrade"))
    assert (answer.status, answer.json()["error"]["code"], ups) == (501, "websocket_not_supported", [])


@pytest.mark.parametrize("method", ["PATCH", "PUT", "QUERY", "PROPFIND", "TRACE"])
def test_w64_methods_go_up_as_they_are(method: str) -> None:
    _, (got,) = sent_up(request(method, "/v1/files/x"))
    assert (got.method, got.body) == (method, b"")


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"BREW /v1/pot HTTP/1.1\r\nHost: h\r\n\r\n", 501, "method_not_supported"),
        (b"get /v1/models HTTP/1.1\r\nHost: h\r\n\r\n", 501, "method_not_supported"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "http_version_not_supported"),
        (b"GET /v1/models HTTP/2.0\r\nHost: h\r\n\r\n", 505, "http_version_not_supported"),
        (b"GET v1/models HTTP/1.1\r\nHost: h\r\n\r\n", 400, "malformed_request"),
        (b"GET /v1/models\r\n\r\n", 400, "malformed_request"),
        (b"GET /v1/files/\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n", 400, "malformed_request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 500, 400, "malformed_request"),
    ],
    ids=["method", "lower case", "PRI", "HTTP/2", "no slash", "no version", "beyond ASCII", "TLS"],
)
def test_w65_what_is_no_http_1_is_refused_in_json(sent: bytes, status: int, code: str) -> None:
    (answer,), ups = sent_up(sent)
    assert (answer.status, answer.json()["error"]["code"]) == (status, code)
    assert ups == []


@pytest.mark.parametrize("linger", [0.0, 0.5])
@PATHS
@pytest.mark.parametrize("chunked", [True, False])
def test_w66_an_answer_before_the_body_was_read(path: str, linger: float, chunked: bool) -> None:
    """An upstream may say 413 to a head alone; the client must get to hear it."""
    body = b"x" * 5_000_000
    lines = ["X-Early: 1", *(["Transfer-Encoding: chunked"] if chunked else [])]
    sent = request("POST", path, None if chunked else body, *lines) + (in_chunks(body, 60_000) if chunked else b"")
    early = whole(b'{"error":{"message":"too big"}}', "application/json", status="413 Content Too Large")

    async def run() -> None:
        async with upstream(early, linger, FIN) as up, proxy(up.url) as px, connection(px) as (reader, writer):
            async with asyncio.timeout(20):
                writer.write(sent)
                answer = await read_answer(reader)
                assert (answer.status, answer.body) == (413, b'{"error":{"message":"too big"}}')
                assert (await px.end()).end == "complete"

    asyncio.run(run())


def test_w67_ranges_pass() -> None:
    async def run() -> None:
        part = whole(b"cd", "application/octet-stream", "Content-Range: bytes 2-3/9", status="206 Partial Content")
        none = whole(b"", "text/plain", "Content-Range: bytes */9", status="416 Range Not Satisfiable")
        async with upstream(part, then=[(none,)]) as up, proxy(up.url) as px:
            for status, range_ in ((206, "bytes 2-3/9"), (416, "bytes */9")):
                answer = await call(px, request("GET", "/v1/files/x/content", None, "Range: bytes=2-3"))
                assert (answer.status, answer.get("content-range")) == (status, range_)
            assert [got.all("range") for got in up.requests] == [["bytes=2-3"]] * 2

    asyncio.run(run())


@pytest.mark.parametrize(
    "target", ["/v1/models?", "/v1/models", "/v1/models?a=b", "/v1/models??", "/v1/models?a=b?", "/v1/a%2F;b?"]
)
def test_a_query_goes_up_as_it_came_also_an_empty_one(target: str) -> None:
    async def run() -> None:
        async with upstream(whole(b"{}")) as up, proxy(up.url) as px:
            for sent in (target, f"{target}#part"):
                assert (await call(px, request("GET", sent))).status == 200
                assert up.requests[-1].target == target

    asyncio.run(run())


def test_an_empty_query_of_one_request_is_not_that_of_the_next() -> None:
    async def run() -> None:
        async with upstream(whole(b"{}")) as up, proxy(up.url) as px, connection(px) as (reader, writer):
            for target in ("/v1/models?", "/v1/models"):
                writer.write(request("GET", target))
                await read_answer(reader)
            assert [seen.target for seen in up.requests] == ["/v1/models?", "/v1/models"]

    asyncio.run(run())
