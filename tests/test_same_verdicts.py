"""One matrix of answers: through the proxy, the middleware and the client transports it gives the same headers, bytes
and verdicts."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import brotli
import httpx
import httpx2
import hypothesis
import pytest
from applications import answering, called, part
from conversations import PAIRS, chat, chunk, sse
from fake_upstream import Collector, call, proxy, request, upstream
from fake_upstream import chunk as framed
from hypothesis import strategies as st
from test_middleware import KEY

from demur.classifier.judge import default_classifier
from demur.classifier.verdict import Verdict
from demur.config import Settings
from demur.proxy.client_transport import AsyncRefusalTransport, RefusalTransport
from demur.proxy.middleware import RefusalMiddleware

Headers = dict[str, str]
#: Headers with ours, body, and the verdict that was told.
Outcome = tuple[Headers, bytes, dict[str, Any]]
#: Path, status, headers and body.
Answer = tuple[str, int, list[tuple[str, str]], bytes]

_PATHS = {
    "chat": "/v1/chat/completions",
    "legacy": "/v1/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:generateContent",
    "policy error": "/v1/chat/completions",
    "error": "/v1/chat/completions",
}
_GEMINI_STREAM = "/v1beta/models/m:streamGenerateContent"
SENT = {"content-type": "application/json", "origin": "http://page.test"}
_ID = re.compile(rb"[0-9a-f]{32}")


def matrix() -> Iterator[Any]:
    """Path, status, content type, coding, body."""
    json_type, events = "application/json", "text/event-stream"
    for name, (whole, stream) in PAIRS.items():
        path = _PATHS[name.partition(",")[0]]
        status = {"policy error": 400, "error": 504}.get(name, 200)
        body = json.dumps(whole).encode()
        yield pytest.param(path, status, json_type, "", body, id=name)
        yield pytest.param(path, status, json_type, "gzip", gzip.compress(body), id=f"{name}, gzip")
        at = _GEMINI_STREAM if name.startswith("gemini") else path
        yield pytest.param(at, 200, events, "", stream, id=f"{name}, stream")
        yield pytest.param(at, 200, events, "gzip", gzip.compress(stream), id=f"{name}, stream, gzip")
    refused = chat("I'm sorry, but I can't help with that.")
    several = sse(
        chunk({"content": "Sure: "}), chunk({"content": "I can't help with that."}, index=1),
        chunk({}, "stop", index=1), chunk({"content": "mix well."}), chunk({}, "stop"), done=True,
    )  # fmt: skip
    chat_path = _PATHS["chat"]
    yield pytest.param(chat_path, 200, json_type, "", json.dumps(refused).encode(), id="refused")
    yield pytest.param(chat_path, 200, events, "", several, id="several choices, stream")
    yield pytest.param(chat_path, 200, events, "", several[:-40], id="no end marker")
    yield pytest.param(chat_path, 401, json_type, "", b'{"error": {"message": "no key"}}', id="no key")
    yield pytest.param(chat_path, 200, json_type, "", b'{"choices": [', id="half a json")
    yield pytest.param(chat_path, 200, json_type, "", b"", id="empty")
    yield pytest.param(chat_path, 502, "text/html", "", b"<p>Bad gateway", id="html")
    yield pytest.param(chat_path, 200, "application/x-unheard-of", "", b"{}\n{}\n", id="another type")
    yield pytest.param(chat_path, 200, events, "x-odd", b"....", id="unknown coding")
    stream = PAIRS["chat"][1]
    for kind in ("", json_type):
        said = kind or "no type"
        yield pytest.param(chat_path, 200, kind, "", stream, id=f"{said}, stream")
        yield pytest.param(chat_path, 200, kind, "", b"\r\n: hi\n\n" + stream, id=f"{said}, blank lines first, stream")
        yield pytest.param(chat_path, 200, kind, "", several[:-40], id=f"{said}, no end marker, stream")
        yield pytest.param(chat_path, 429, kind, "", b'data: {"error": {"message": "busy"}}\n\n', id=f"{said}, error")
        yield pytest.param(chat_path, 200, kind, "gzip", gzip.compress(stream), id=f"{said}, events, gzip")
    lines = b"".join(
        json.dumps({"model": "m", "message": {"content": text}, "done": done}).encode() + b"\n"
        for text, done in [("I can't ", False), ("help with that.", False), ("", True)]
    )
    yield pytest.param("/api/chat", 200, "application/x-ndjson", "", lines, id="ollama, stream")
    parts = b", ".join(PAIRS["gemini"][1].replace(b"data: ", b"").split(b"\n\n")[:-1])
    yield pytest.param(_GEMINI_STREAM, 200, json_type, "", b"[" + parts + b"]", id="gemini, array")
    yield pytest.param("/v1/embeddings", 200, json_type, "", json.dumps(refused).encode(), id="not judged")


STREAMS = pytest.mark.parametrize(
    ("path", "status", "kind", "coding", "body"), [it for it in matrix() if str(it.id).endswith("stream")]
)


def plain(headers: Any, body: bytes, verdict: Verdict | None) -> Outcome:
    """Without the ids, and without what each way adds or takes for reasons of its own."""
    own = {"x-accel-buffering", "cache-control", "transfer-encoding", "content-length", "connection", "date"}
    found = {name.lower(): value for name, value in headers if name.lower() not in own}
    if "x-refusal-id" in found:
        found["x-refusal-id"] = "ID"
    told = verdict.to_dict() | {"id": "ID"} if verdict else {}
    return found, _ID.sub(b"ID", body), told


def head_of(kind: str) -> list[tuple[str, str]]:
    return [("content-type", kind)] if kind else []


def encoded(headers: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers]


def ask_of(path: str, body: bytes) -> bytes:
    ask = {"model": "m", "messages": [{"role": "user", "content": "How do I build it?"}]}
    return json.dumps(ask | ({"n": 2} if b'"index": 1' in body else {})).encode()


async def through_the_proxy(
    answer: Answer, sent: dict[str, str], given: dict[str, Any], ask: bytes | None = None
) -> Outcome:
    path, status, head, body = answer
    lines = "".join(f"{name}: {value}\r\n" for name, value in [*head, ("transfer-encoding", "chunked")])
    script = [f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode(), framed(body) if body else b"", b"0\r\n\r\n"]
    async with upstream(*script) as up, proxy(up.url, **given) as px:
        lines_sent = [f"{name}: {value}" for name, value in sent.items()]
        got = await call(px, request("POST", path, ask or ask_of(path, body), *lines_sent))
        return plain(got.headers, got.body, (await px.end()).verdict)


async def through_the_middleware(
    answer: Answer, sent: dict[str, str], given: dict[str, Any], ask: bytes | None = None
) -> Outcome:
    path, status, head, body = answer
    ended = Collector()
    start = {"type": "http.response.start", "status": status, "headers": encoded(head)}
    app = RefusalMiddleware(
        answering(start, part(body), part(more=False)),
        settings=Settings(**given), classifier=default_classifier(), sinks=[ended],
    )  # fmt: skip
    got = await called(app, ask or ask_of(path, body), path=path, headers=encoded(list(sent.items())))
    headers = [(name.decode(), value.decode()) for name, value in got.headers]
    return plain(headers, got.body, ended[-1].verdict if ended else None)


@pytest.mark.parametrize(("path", "status", "kind", "coding", "body"), list(matrix()))
def test_all_ways_say_the_same(path: str, status: int, kind: str, coding: str, body: bytes) -> None:
    same(path, status, head_of(kind) + ([("content-encoding", coding)] if coding else []), body, {})


@STREAMS
def test_all_ways_leave_a_stream_alone(path: str, status: int, kind: str, coding: str, body: bytes) -> None:
    same(path, status, head_of(kind), body, {"stream_verdict": "off"})


@pytest.mark.parametrize(
    ("coding", "pack", "why"),
    [
        ("gzip", gzip.compress, None),
        ("X-GZIP", gzip.compress, None),
        ("deflate, br", lambda ask: brotli.compress(zlib.compress(ask)), None),
        ("identity", bytes, None),
        ("gzip", lambda ask: ask, "ask not read: the body is not valid gzip: error"),
        ("pack200", bytes, "ask not read: content coding pack200 can't be decoded"),
        ("gzip", lambda _: gzip.compress(bytes(33 * 1024 * 1024)), "the request decodes to over 33554432 bytes"),
    ],
    ids=["gzip", "x-gzip", "two", "none", "not gzip", "unknown", "large"],
)
def test_all_ways_read_a_coded_request(coding: str, pack: Callable[[bytes], bytes], why: str | None) -> None:
    refused = chat("I'm sorry, but I can't help with that.") | {"model": None}  # then it is the one of the request
    path, body = _PATHS["chat"], json.dumps(refused).encode()
    sent = SENT | {"content-encoding": coding}
    told = same(path, 200, head_of("application/json"), body, {}, sent, pack(ask_of(path, body)))
    assert (told["label"], told["model"]) == ("hard_refusal", None if why else "m")
    assert (why or "") in (told.get("reason") or "")
    assert ("reason" in told) == (why is not None)


def same(
    path: str,
    status: int,
    head: list[tuple[str, str]],
    body: bytes,
    given: dict[str, Any],
    sent: dict[str, str] = SENT,
    ask: bytes | None = None,
) -> dict[str, Any]:
    """The verdict that all ways give."""
    ask = ask or ask_of(path, body)
    settings = Settings(**given)
    told: list[Verdict] = []
    options: dict[str, Any] = {
        "settings": settings,
        "classifier": default_classifier(),
        "on_verdict": lambda verdict, _: told.append(verdict),
    }

    def through_a_client() -> Outcome:
        stream = httpx2.ByteStream(body)
        inner = httpx2.MockTransport(lambda _: httpx2.Response(status, headers=head, stream=stream))
        with (
            httpx2.Client(transport=RefusalTransport(inner, **options)) as client,
            client.stream("POST", f"http://up.test{path}", content=ask, headers=sent) as response,
        ):
            got = b"".join(response.iter_raw())
        return plain(response.headers.multi_items(), got, told.pop() if told else None)

    async def through_an_asynchronous_client() -> Outcome:
        stream = httpx.ByteStream(body)
        inner = httpx.MockTransport(lambda _: httpx.Response(status, headers=head, stream=stream))
        async with (
            httpx.AsyncClient(transport=AsyncRefusalTransport(inner, **options)) as client,
            client.stream("POST", f"http://up.test{path}", content=ask, headers=sent) as response,
        ):
            got = b"".join([piece async for piece in response.aiter_raw()])
        return plain(response.headers.multi_items(), got, told.pop() if told else None)

    answer = (path, status, head, body)
    expected = asyncio.run(through_the_proxy(answer, sent, given, ask))
    assert ("x-refusal-id" in expected[0]) == (path != "/v1/embeddings")
    assert asyncio.run(through_the_middleware(answer, sent, given, ask)) == expected
    assert through_a_client() == expected
    assert asyncio.run(through_an_asynchronous_client()) == expected
    return expected[2]


@pytest.mark.parametrize(
    "given", [{"hold_chars": 12}, {"buffer": True}, {"hold_ms": 60_000}], ids=["hold_chars", "buffer", "hold_ms"]
)
@STREAMS
def test_held_streams_have_the_same_verdict_in_their_head(
    path: str, status: int, kind: str, coding: str, body: bytes, given: dict[str, Any]
) -> None:
    answer = (path, status, head_of(kind), body)
    expected = asyncio.run(through_the_proxy(answer, SENT, given))
    assert "buffer" not in given or expected[0].get("x-refusal-verdict") != "pending"
    assert asyncio.run(through_the_middleware(answer, SENT, given)) == expected


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(st.data())
def test_any_cut_gives_the_same_bytes_and_the_same_verdict(data: st.DataObject) -> None:
    """Wherever a stream is cut into pieces, and whatever it is said to be, what arrives is the stream, plus at most the
    keys, and is judged alike."""
    name = data.draw(st.sampled_from(sorted(PAIRS)))
    body, path = PAIRS[name][1], _PATHS[name.partition(",")[0]]
    path = _GEMINI_STREAM if name.startswith("gemini") else path
    early = data.draw(st.lists(st.integers(0, 8), max_size=3))
    cuts = sorted(early + data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    mode: Any = data.draw(st.sampled_from(["chunk", "off"]))
    hold = data.draw(st.integers(0, 40))
    options: dict[str, Any] = {
        "settings": Settings(stream_verdict=mode, hold_chars=hold),
        "classifier": default_classifier(),
    }
    head = head_of(data.draw(st.sampled_from(["text/event-stream", "application/json", ""])))
    start = {"type": "http.response.start", "status": 200, "headers": encoded(head)}

    def in_an_application(pieces: list[bytes]) -> tuple[bytes, Verdict | None]:
        ended = Collector()
        app = RefusalMiddleware(answering(start, *map(part, pieces), part(more=False)), sinks=[ended], **options)
        got = asyncio.run(called(app, ask_of(path, body), path=path))
        return got.body, ended[-1].verdict

    def in_a_client(pieces: list[bytes]) -> tuple[bytes, Verdict]:
        told: list[Verdict] = []
        answer = httpx2.Response(200, headers=head, content=iter(pieces))
        transport = RefusalTransport(
            httpx2.MockTransport(lambda _: answer), on_verdict=lambda verdict, _: told.append(verdict), **options
        )
        with httpx2.Client(transport=transport) as client:
            return client.post(f"http://up.test{path}", content=ask_of(path, body)).content, told[0]

    pieces = [body[start:stop] for start, stop in pairwise([0, *cuts, len(body)])]
    outcomes = [in_an_application([body]), in_an_application(pieces), in_a_client(pieces)]
    assert [KEY.sub(b"", got) for got, _ in outcomes] == [body] * 3
    assert len({len(KEY.findall(got)) for got, _ in outcomes}) == 1
    told = [verdict.with_id("") for _, verdict in outcomes if verdict is not None]
    assert told == [told[0]] * 3
