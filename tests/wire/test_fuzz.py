"""Fuzzing of what bytes from outside meet: the reader of event streams, the header rules, the relay on real sockets.

Each invariant stands in one sentence over its test. The examples are the same in each run; `make fuzz` tries new ones,
and many more (`FUZZ_EXAMPLES`).
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
import zlib
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeVar

import brotli
import pytest
from fake_upstream import (
    DONE,
    END,
    FIN,
    RST,
    Answer,
    Proxy,
    Script,
    Step,
    Upstream,
    ask,
    chunk,
    completion,
    event,
    proxy,
    read_answer,
    request,
    say,
    upstream,
    whole,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire.notation import keys, pieces, without_keys

from demur.classifier.sse import BOM, SSEReader
from demur.proxy import headers

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
T = TypeVar("T")


def tries(count: int) -> settings:
    """`count` examples, always the same, or as many new ones as were asked for."""
    return settings(
        max_examples=EXAMPLES or count,
        derandomize=not EXAMPLES,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


# The reader of event streams.

LINES = st.sampled_from(
    [
        b"data: a",
        b"data:",
        b"data",
        b"data:  b",
        b": c",
        b":",
        b"event: e",
        b"event:",
        b"id: 1",
        b"retry: 9",
        b"x",
        b"\xff",
    ]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r", b""])
STREAMS = st.lists(st.one_of(LINES, ENDS, st.binary(max_size=3)), max_size=24).map(b"".join)


def by_the_book(stream: bytes) -> list[tuple[str | None, bytes]]:
    """The events of a stream as the standard reads it, line by line, all at hand; the last one may lack its end."""
    lines = stream.removeprefix(BOM).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    found: list[tuple[str | None, bytes]] = []
    name, data = None, list[bytes]()
    for line in [*lines, b""]:
        field, colon, value = line.partition(b":")
        if not line:
            if data:
                found.append((name, b"\n".join(data)))
            name, data = None, []
        elif field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event" and colon:
            name = value.removeprefix(b" ").decode("utf-8", "replace") or None
    return found


@tries(400)
@given(STREAMS, st.lists(st.integers(0, 80)))
def test_the_reader_reads_by_the_book(stream: bytes, cuts: list[int]) -> None:
    """Whatever the bytes and however cut, the events are those of the standard, in order, each at its own place."""
    reader = SSEReader()
    edges = sorted(cut for cut in cuts if cut < len(stream))
    events = [found for piece in pieces(stream, edges) for found in reader.feed(piece)] + reader.close()
    assert [(found.name, found.data) for found in events] == by_the_book(stream)
    assert reader.offset == len(stream)
    place = 0
    for found in events:
        assert place <= found.start < found.end <= len(stream)
        place = found.end


# The header rules.

HOPS = frozenset(b"connection keep-alive te trailer transfer-encoding upgrade proxy-authorization".split())
OTHERS = b"host expect via x-forwarded-for cf-ray cf-aig-authorization x-refusal-id content-length content-type".split()
NAMES = st.one_of(
    st.sampled_from([*sorted(HOPS), *OTHERS, b"authorization", b"set-cookie", b"x-a", b"x-b"]),
    st.text("abcXYZ-", min_size=1, max_size=8).map(str.encode),
)
VALUES = st.one_of(st.sampled_from([b"x-a", b"close, X-B", b"keep-alive,", b",", b"", b"5"]), st.binary(max_size=8))
HEADERS = st.lists(st.tuples(NAMES, VALUES), max_size=12)


def is_part(part: list[Any], of: list[Any]) -> bool:
    """Whether `part` is `of` with some left out, in the same order."""
    rest = iter(of)
    return all(item in rest for item in part)


@tries(300)
@given(HEADERS, st.sampled_from([200, 204, 304, 500]))
def test_headers_are_left_out_and_nothing_else(raw: list[tuple[bytes, bytes]], status: int) -> None:
    """What goes on are headers that came, values untouched and in order; none of the hop, none that it names, none of
    ours; and a second look leaves out nothing more."""
    lower = [(name.lower(), value) for name, value in raw]
    down, up = headers.downstream(raw, status), headers.upstream(lower)
    named = {token.strip().lower() for name, value in lower if name == b"connection" for token in value.split(b",")}
    for went in (down, up):
        assert is_part(went, lower)
        assert not {name for name, _ in went} & (HOPS | named)
        assert not [name for name, _ in went if name.startswith(b"x-refusal-")]
    assert headers.downstream(down, status) == down
    assert headers.upstream(up) == up
    if b"authorization" not in named:
        assert [value for name, value in up if name == b"authorization"] == [
            value for name, value in lower if name == b"authorization"
        ]


# The relay, on real sockets: one upstream and one proxy for all examples.


class Wire:
    """An upstream that plays what it is told, a proxy in front of it, and the loop of both."""

    def __init__(self, mode: str) -> None:
        self.runner = asyncio.Runner()
        self.up: Upstream
        self.px: Proxy
        self._stack = AsyncExitStack()
        self.run(self._open(mode))

    async def _open(self, mode: str) -> None:
        self.up = await self._stack.enter_async_context(upstream(FIN))
        limits = {"first_byte_timeout": 5.0, "idle_timeout": 5.0}
        self.px = await self._stack.enter_async_context(
            proxy(self.up.url, stream_verdict=mode, inspect_bytes=10_000, **limits)  # type: ignore[arg-type]
        )

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def close(self) -> None:
        self.run(self._stack.aclose())
        self.runner.close()

    async def exchange(self, script: Script, sent: bytes) -> Answer:
        """One exchange; it is reported once, and the proxy is as good as new after it."""
        before = len(self.px.ended)
        self.up.scripts = [script]
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.px.port, limit=2**22)
            writer.write(sent)
            try:
                answer = await read_answer(reader, bodiless=sent.startswith(b"HEAD"))
            finally:
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()
        await self.px.end(before + 1)
        assert len(self.px.ended) == before + 1
        self.px.ended[:-1] = []
        return answer


@pytest.fixture(scope="module", params=["off", "chunk"])
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    opened = Wire(request.param)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def no_fault_of_ours(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No example makes anything of ours raise."""
    yield
    broken_off = "ASGI callable returned without completing response."
    faults = [r for r in caplog.records if r.levelno >= logging.ERROR and r.getMessage() != broken_off]
    assert [fault.getMessage() for fault in faults] == []


FRAGMENTS = st.one_of(
    st.sampled_from(
        [
            say("I'm sorry, but "),
            say("I can't help with that."),
            say("北京🙂"),
            event({}, "stop"),
            event({}, "length", index=1),
            event({"role": "assistant"}, ""),
            DONE,
            say("x" * 12_000),
            b'data: {"error":{"code":"content_filter"}}\n\n',
            b"event: error\ndata: {}\n\n",
            b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"no"}}\n\n',
            b'{"message":{"content":"no"},"done":true}\n',
            completion("I can't help with that."),
            BOM,
            b": c\n",
            b"data: ",
            b'"finish_reason":"stop"',
            b'{"choices":[{"finish_reason":',
        ]
    ),
    ENDS,
    st.binary(max_size=20),
)
BODIES = st.lists(FRAGMENTS, max_size=10).map(b"".join)
CODINGS: dict[str, Any] = {
    "": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "gzip, br": lambda body: brotli.compress(gzip.compress(body)),
    "x-unknown": bytes,
    "Gzip": bytes,  # and is not
}
EVENTS = "text/event-stream"
KINDS = [EVENTS, f"{EVENTS}; charset=utf-8", "application/json", "application/x-ndjson", "", "text/html"]
PATHS = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1beta/models/m:streamGenerateContent?alt=sse",
    "/v1beta/models/m:streamGenerateContent",
    "/api/chat",
    "/v1/files",
]


@tries(150)
@given(
    body=BODIES,
    cuts=st.lists(st.integers(1, 300), max_size=6),
    path=st.sampled_from(PATHS),
    stream=st.booleans(),
    kind=st.sampled_from([*[EVENTS] * 4, *KINDS]),
    coding=st.sampled_from([*[""] * 8, *CODINGS]),
    status=st.sampled_from([200, 200, 200, 201, 400, 429, 500, 600]),
    framing=st.sampled_from(["chunked", "length", "close"]),
    end=st.sampled_from([None, None, None, FIN, RST]),
    cut=st.integers(0, 2000),
)
def test_the_relay_loses_and_changes_no_byte(
    wire: Wire,
    body: bytes,
    cuts: list[int],
    path: str,
    stream: bool,
    kind: str,
    coding: str,
    status: int,
    framing: str,
    end: Any,
    cut: int,
) -> None:
    """Whatever an upstream says in an answer, however it is cut, coded, framed and ended: the client gets its bytes,
    of a broken answer never an end in order, and the exchange is reported once, with a verdict where it is judged."""
    packed = CODINGS[coding](body)
    lines = [f"HTTP/1.1 {status} Said"]
    lines += [f"Content-Type: {kind}"] if kind else []
    lines += [f"Content-Encoding: {coding}"] if coding else []
    lengths = {"chunked": "Transfer-Encoding: chunked", "length": f"Content-Length: {len(packed)}"}
    lines += [lengths.get(framing, "Connection: close")]
    cut_short = end is not None and cut < len(packed)
    wanted = packed[:cut] if cut_short else packed
    script: list[Step] = ["\r\n".join([*lines, "", ""]).encode()]
    for piece in pieces(wanted, sorted(set(cuts))):
        script += [chunk(piece) if framing == "chunked" else piece, 0.001]
    if isinstance(script[-1], float):
        script.pop()  # after a whole answer the next request may come at once
    if not cut_short:
        script += [END] if framing == "chunked" else [FIN] if framing == "close" else []
    else:
        script += [0.003, end]

    answer = wire.run(wire.exchange(script, ask("Say no.", path=path, stream=stream)))

    exchange = wire.px.ended[-1]
    assert (exchange.verdict is None) == (exchange.api is None)
    broken = cut_short and not (framing == "close" and end is FIN)
    if broken:
        assert exchange.end == "upstream_error"
        assert answer.status == 502 or not answer.clean
        assert answer.status == 502 or wanted.startswith(without_keys(answer.body))
        assert end is RST or answer.status == 502 or without_keys(answer.body) == wanted
    else:
        assert (exchange.end, answer.status, answer.clean) == ("complete", status, True)
        assert without_keys(answer.body) == wanted
        if coding or not exchange.stream or exchange.api is None:
            assert answer.body == wanted
        for key in keys(answer.body):
            assert key["id"] == answer.get("x-refusal-id")


RAW = st.one_of(
    st.sampled_from(
        [
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.0 200 OK\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n",
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
            b"HTTP/1.1 204 No Content\r\n\r\n",
            b"HTTP/1.1 999\r\n",
            b"HTTP/2 200\r\n",
            b"Content-Length: 2\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Content-Type: text/event-stream\r\n",
            b"Content-Type: application/json\r\n",
            b"Connection: close\r\n",
            b"X-A: \xff\r\n",
            b"X-B:\r\n",
            b"\r\n",
            b"\n",
            b"{}",
            b"2\r\n{}\r\n",
            b"0\r\n\r\n",
            b"ffffffffffffffffff\r\n",
        ]
    ),
    st.binary(max_size=12),
)


@tries(120)
@given(st.lists(RAW, max_size=8), st.sampled_from([FIN, RST]), st.sampled_from(["POST", "GET", "HEAD"]))
def test_whatever_an_upstream_says_is_no_answer_or_a_valid_one(
    wire: Wire, said: list[bytes], end: Any, method: str
) -> None:
    """Whatever comes in place of an answer, the client gets one that is valid HTTP, and so does the next client."""
    sent = ask() if method == "POST" else request(method, "/v1/models")
    script = [step for piece in said for step in (piece, 0.0005)]
    answer = wire.run(wire.exchange([*script, 0.002, end], sent))
    assert answer.status == wire.px.ended[-1].status_code
    assert 200 <= answer.status <= 999
    after = wire.run(wire.exchange([whole(b"fine", "text/plain")], request("GET", "/v1/models")))
    assert (after.status, after.body, after.clean) == (200, b"fine", True)


ASKED = st.one_of(
    st.sampled_from(
        [
            b"GET /v1/models HTTP/1.1\r\n",
            b"POST /v1/chat/completions HTTP/1.1\r\n",
            b"POST /v1/files HTTP/1.1\r\n",
            b"POST /v1/files HTTP/1.0\r\n",
            b"GET http://x/v1 HTTP/1.1\r\n",
            b"GET * HTTP/1.1\r\n",
            b"Host: h\r\n",
            b"Content-Length: 3\r\n",
            b"Content-Length: 0\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Connection: close\r\n",
            b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
            b"Expect: 100-continue\r\n",
            b"X-A: \xe9\r\n",
            b"\r\n",
            b"\n",
            b"abc",
            b"{}",
            b"3\r\nabc\r\n",
            b"0\r\n\r\n",
        ]
    ),
    st.binary(max_size=12),
)


@tries(120)
@given(st.lists(ASKED, max_size=10), st.booleans())
def test_whatever_a_client_says_goes_up_as_a_valid_request_or_not_at_all(
    wire: Wire, said: list[bytes], leave: bool
) -> None:
    """Whatever bytes come in place of a request, what goes up of them is well formed and the next client is served."""

    async def speak() -> None:
        wire.up.scripts = [[whole(b"{}")]]
        reader, writer = await asyncio.open_connection("127.0.0.1", wire.px.port)
        with suppress(ConnectionError):
            for piece in said:
                writer.write(piece)
                await asyncio.sleep(0)
            if not leave:
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(2**16), 0.02)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        async with asyncio.timeout(10):
            await wire.px.app.relay.observers.idle.wait()

    wire.run(speak())
    for got in wire.up.requests:  # the raw upstream would have failed to read another one
        lengths = got.all("content-length") + got.all("transfer-encoding")
        assert len(lengths) <= 1
        assert got.all("host") == [f"127.0.0.1:{wire.up.port}"]
        assert got.target.startswith("/v1")
    wire.up.requests.clear()
    after = wire.run(wire.exchange([whole(b"fine", "text/plain")], request("GET", "/v1/models")))
    assert (after.status, after.body) == (200, b"fine")
    wire.up.requests.clear()
