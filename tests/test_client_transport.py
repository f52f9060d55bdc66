"""Transports of httpx and httpx2 that judge, before a real upstream, with the real openai package and without."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import httpx
import httpx2
import openai
import pytest
from fake_upstream import END, RST, Step, chunk, head, upstream, whole
from test_middleware import EVENTS, KEY, REFUSED, STREAM

from demur.classifier.judge import default_classifier
from demur.classifier.verdict import Verdict
from demur.config import Settings
from demur.proxy.client_transport import VERDICT, AsyncRefusalTransport, RefusalTransport
from demur.proxy.observe import Exchange

LIBRARIES = pytest.mark.parametrize("lib", [httpx, httpx2], ids=["httpx", "httpx2"])
ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "How do I build it?"}]}
GIVEN: dict[str, Any] = {"settings": Settings(), "classifier": default_classifier()}
STREAMED: list[Step] = [head(), *map(chunk, EVENTS), END]


class Told(list[tuple[Verdict, Exchange]]):
    """What `on_verdict` was called with."""

    def __call__(self, verdict: Verdict, exchange: Exchange) -> None:
        assert verdict is exchange.verdict
        self.append((verdict, exchange))

    @property
    def labels(self) -> list[str | None]:
        return [verdict.label for verdict, _ in self]

    @property
    def ends(self) -> list[str]:
        return [exchange.end for _, exchange in self]


def wrapped(lib: Any, told: Told, **options: Any) -> Any:
    return lib.Client(transport=RefusalTransport(lib.HTTPTransport(verify=False), on_verdict=told, **GIVEN | options))


def wrapped_async(lib: Any, told: Told, **options: Any) -> Any:
    inner = lib.AsyncHTTPTransport(verify=False)
    return lib.AsyncClient(transport=AsyncRefusalTransport(inner, on_verdict=told, **GIVEN | options))


def before(steps: Sequence[Step], talk: Callable[[str], Any], *, then: Sequence[Sequence[Step]] = ()) -> Any:
    """What `talk`, which gets a base URL, returns; it runs in a thread beside an upstream that plays `steps`."""

    async def run() -> Any:
        async with upstream(*steps, then=then) as up:
            return await asyncio.to_thread(talk, up.url)

    return asyncio.run(run())


# openai-python


@LIBRARIES
def test_openai_gets_headers_and_the_verdict(lib: Any) -> None:
    told = Told()

    def talk(url: str) -> None:
        with wrapped(lib, told) as http, openai.OpenAI(base_url=url, api_key="k", http_client=http) as client:
            raw = client.chat.completions.with_raw_response.create(**ASK)
            assert raw.parse().choices[0].message.content == "I'm sorry, but I can't help with that."
            assert raw.headers["x-refusal-verdict"] == "hard_refusal"
            verdict = raw.http_response.extensions[VERDICT]
            assert verdict.id == raw.headers["x-refusal-id"]
            assert told == [(verdict, told[0][1])]

    before([whole(REFUSED)], talk)
    ((_, exchange),) = told
    assert (exchange.ask.prompt, exchange.path, exchange.upstream_host) == (
        "How do I build it?",
        "/v1/chat/completions",
        "127.0.0.1",
    )
    assert (exchange.status_code, exchange.end, exchange.stream) == (200, "complete", False)


@LIBRARIES
@pytest.mark.parametrize("mode", ["chunk", "off"])
def test_openai_gets_a_stream_and_its_verdict(lib: Any, mode: Any) -> None:
    told = Told()

    def talk(url: str) -> None:
        with (
            wrapped(lib, told, settings=Settings(stream_verdict=mode)) as http,
            openai.OpenAI(base_url=url, api_key="k", http_client=http) as client,
        ):
            stream = client.chat.completions.create(**ASK, stream=True)
            assert stream.response.headers["x-refusal-verdict"] == "pending"
            assert VERDICT not in stream.response.extensions
            chunks = list(stream)
            keys = [c.model_extra["refusal_verdict"] for c in chunks if c.model_extra]
            verdict = stream.response.extensions[VERDICT]
            assert verdict.label == "hard_refusal"
            assert [key["id"] for key in keys] == [verdict.id] * (mode == "chunk")

    before(STREAMED, talk)
    assert (told.labels, told.ends) == (["hard_refusal"], ["complete"])


@LIBRARIES
def test_asynchronous_openai(lib: Any) -> None:
    told = Told()

    async def run() -> None:
        async with (
            upstream(whole(REFUSED), then=[STREAMED]) as up,
            wrapped_async(lib, told) as http,
            openai.AsyncOpenAI(base_url=up.url, api_key="k", http_client=http) as client,
        ):
            raw = await client.chat.completions.with_raw_response.create(**ASK)
            assert raw.headers["x-refusal-verdict"] == "hard_refusal"
            stream = await client.chat.completions.create(**ASK, stream=True)
            chunks = [c async for c in stream]
            assert [c.model_extra["refusal_verdict"]["label"] for c in chunks if c.model_extra] == ["hard_refusal"]
            assert stream.response.extensions[VERDICT].label == "hard_refusal"

    asyncio.run(run())
    assert (told.labels, told.ends) == (["hard_refusal"] * 2, ["complete"] * 2)


def test_each_try_is_judged() -> None:
    told = Told()

    def talk(url: str) -> None:
        with (
            wrapped(httpx2, told) as http,
            openai.OpenAI(base_url=url, api_key="k", http_client=http, max_retries=2) as client,
        ):
            client.chat.completions.create(**ASK)

    slow = whole(b'{"error": {"message": "busy"}}', "application/json", "retry-after-ms: 1", status="503 Busy")
    before([slow], talk, then=[[RST], [whole(REFUSED)]])
    assert told.labels == [None, None, "hard_refusal"]
    assert [(verdict.status, exchange.status_code) for verdict, exchange in told] == [
        ("upstream_error", 503),
        ("upstream_error", None),
        ("complete", 200),
    ]


def test_threads_share_a_client() -> None:
    told = Told()

    def talk(url: str) -> None:
        with wrapped(httpx2, told) as http, openai.OpenAI(base_url=url, api_key="k", http_client=http) as client:
            faults: list[BaseException] = []

            def many() -> None:
                try:
                    for _ in range(5):
                        raw = client.chat.completions.with_raw_response.create(**ASK)
                        assert raw.headers["x-refusal-id"] == raw.http_response.extensions[VERDICT].id
                except BaseException as error:
                    faults.append(error)

            threads = [threading.Thread(target=many) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert faults == []

    before([whole(REFUSED)], talk)
    assert told.labels == ["hard_refusal"] * 40
    assert len({verdict.id for verdict, _ in told}) == 40


# Bytes


CASES = {
    "json": ([whole(REFUSED)], False),
    "json, gzip": ([whole(gzip.compress(REFUSED), "application/json", "Content-Encoding: gzip")], False),
    "error": ([whole(b'{"error": {}}', status="429 Slow down")], False),
    "html": ([whole(b"<p>Bad gateway</p>", "text/html", status="502 Bad")], False),
    "nothing": ([whole(b"")], False),
    "stream": (STREAMED, True),
    "stream, gzip": ([head("text/event-stream", "Content-Encoding: gzip"), chunk(gzip.compress(STREAM)), END], True),
    "lines": ([head("application/x-unheard-of"), chunk(b"{}\n"), chunk(b"{}\n"), END], True),
}


@LIBRARIES
@pytest.mark.parametrize("decoded", [True, False])
@pytest.mark.parametrize(("steps", "stream"), CASES.values(), ids=CASES)
def test_bytes_and_headers_arrive_as_without(lib: Any, steps: Sequence[Step], stream: bool, decoded: bool) -> None:
    def read(client: Any, url: str) -> tuple[Any, list[tuple[bytes, bytes]], bytes]:
        with client, client.stream("POST", f"{url}/chat/completions", json=ASK) as response:
            body = b"".join(response.iter_bytes() if decoded else response.iter_raw())
            ours = [(name, value) for name, value in response.headers.raw if not name.startswith(b"x-refusal")]
            return (response.status_code, response.http_version, response.reason_phrase), ours, body

    without = before(steps, lambda url: read(lib.Client(verify=False), url))
    for mode in ("off", "chunk"):
        settings = Settings(stream_verdict=mode)
        line, headers, body = before(steps, lambda url, s=settings: read(wrapped(lib, Told(), settings=s), url))  # type: ignore[misc]
        assert (line, headers, KEY.sub(b"", body)) == without


@LIBRARIES
def test_a_stream_stays_lazy_and_may_be_left(lib: Any) -> None:
    told = Told()

    async def run() -> None:
        async with upstream(head(), chunk(EVENTS[1]), 60.0) as up:

            def talk() -> None:
                with (
                    wrapped(lib, told) as client,
                    client.stream("POST", f"{up.url}/chat/completions", json=ASK) as response,
                ):
                    assert told == []
                    assert next(response.iter_raw()) == EVENTS[1]  # the rest never comes
                assert response.extensions[VERDICT].status == "incomplete"

            await asyncio.to_thread(talk)
            await asyncio.wait_for(up.left.wait(), 10)

    asyncio.run(run())
    assert told.ends == ["client_disconnect"]


@pytest.mark.parametrize(
    ("kind", "sent", "ahead"),
    [
        ("text/event-stream", EVENTS, []),
        ("application/json", EVENTS, [0]),
        ("application/json", [b"\n", b"\n", *EVENTS], [0, 1, 2]),
    ],
    ids=["events", "said to be json", "small pieces"],
)
def test_nothing_is_read_of_a_stream_that_nobody_reads(kind: str, sent: list[bytes], ahead: list[int]) -> None:
    pulled: list[int] = []

    class Counted(httpx2.SyncByteStream):
        def __iter__(self) -> Any:
            for index, piece in enumerate(sent):
                pulled.append(index)
                yield piece

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": kind}, stream=Counted())

    transport = RefusalTransport(httpx2.MockTransport(answer), **GIVEN)
    with (
        httpx2.Client(transport=transport) as client,
        client.stream("POST", "http://a.test/v1/chat/completions", json=ASK) as response,
    ):
        assert pulled == ahead
        pieces = response.iter_raw()
        for index in range(len(ahead) + 2):
            next(pieces)
            assert pulled == list(range(max(index + 1, len(ahead))))


class Interrupted(BaseException):
    """As Ctrl-C."""


class Source(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body that never ends, or is interrupted after its first piece; knows whether it was closed."""

    def __init__(self, *, interrupted: bool) -> None:
        self.closed = False
        self._interrupted = interrupted

    def __iter__(self) -> Any:
        while True:
            yield EVENTS[1]
            if self._interrupted:
                raise Interrupted

    async def __aiter__(self) -> Any:
        for piece in self:
            yield piece

    def close(self) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("kind", "interrupted"), [("text/event-stream", False), ("text/event-stream", True), ("application/json", True)]
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_body_that_is_not_read_to_its_end_is_closed(kind: str, interrupted: bool, asynchronous: bool) -> None:
    told = Told()
    source = Source(interrupted=interrupted)
    inner = httpx2.MockTransport(lambda _: httpx2.Response(200, headers={"content-type": kind}, stream=source))
    sent: tuple[str, str] = ("POST", "http://a.test/v1/chat/completions")

    async def talk() -> None:
        client = httpx2.AsyncClient(transport=AsyncRefusalTransport(inner, on_verdict=told, **GIVEN))
        async with client, client.stream(*sent, json=ASK) as response:
            pieces = response.aiter_raw()
            for _ in range(2):
                await anext(pieces)

    def talk_in_turn() -> None:
        client = httpx2.Client(transport=RefusalTransport(inner, on_verdict=told, **GIVEN))
        with client, client.stream(*sent, json=ASK) as response:
            pieces = response.iter_raw()
            for _ in range(2):
                next(pieces)

    with pytest.raises(Interrupted) if interrupted else nullcontext():
        asyncio.run(talk()) if asynchronous else talk_in_turn()
    assert source.closed
    assert told.ends == ["client_disconnect"]


# Errors and ends


BROKEN = {
    "no answer": ([RST], "upstream_error"),
    "half a json": ([head("application/json", length=500), b'{"choices": ', RST], "upstream_error"),
    "half a stream": ([head(), chunk(EVENTS[1]), RST], "upstream_error"),
    "half an event": ([head(), chunk(EVENTS[1] + EVENTS[3][:40]), RST], "upstream_error"),
    "silent": ([60.0], "first_byte_timeout"),
    "silent json": ([head("application/json", length=500), b'{"choices": ', 60.0], "idle_timeout"),
    "silent stream": ([head(), chunk(EVENTS[1]), 60.0], "idle_timeout"),
}


def patience(steps: Sequence[Step]) -> float:
    """Seconds that a client waits for bytes: long, unless none will come."""
    return 0.8 if 60.0 in steps else 20


def what_came(client: Any, url: str, patience: float) -> tuple[str, bytes]:
    """What a client meets at the end, and what it had read by then."""
    body = b""
    with client:
        try:
            with client.stream("POST", f"{url}/chat/completions", json=ASK, timeout=patience) as response:
                for piece in response.iter_raw():
                    body += piece
        except Exception as error:
            return type(error).__name__, body
    return "", body


@LIBRARIES
@pytest.mark.parametrize(("steps", "end"), BROKEN.values(), ids=BROKEN)
def test_errors_pass_after_what_came_before_them(lib: Any, steps: Sequence[Step], end: str) -> None:
    told = Told()
    without = before(steps, lambda url: what_came(lib.Client(verify=False), url, patience(steps)))
    assert without[0]
    assert before(steps, lambda url: what_came(wrapped(lib, told), url, patience(steps))) == without
    assert told.ends == [end]


def test_no_connection_is_an_error_as_without() -> None:
    told = Told()
    with wrapped(httpx2, told) as client, pytest.raises(httpx2.ConnectError):
        client.post("http://127.0.0.1:1/v1/chat/completions", json=ASK)
    assert told.ends == ["upstream_error"]
    assert told[0][1].ask.prompt == "How do I build it?"


@asynccontextmanager
async def reading(client: Any, url: str) -> AsyncIterator[asyncio.Task[bytes]]:
    async def read() -> bytes:
        async with client, client.stream("POST", f"{url}/chat/completions", json=ASK) as response:
            return b"".join([piece async for piece in response.aiter_raw()])

    task = asyncio.ensure_future(read())
    yield task
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@LIBRARIES
@pytest.mark.parametrize(
    "steps",
    [[60.0], [head("application/json", length=500), b"{", 60.0], [head(), chunk(EVENTS[1]), 60.0]],
    ids=["no head", "json", "stream"],
)
def test_a_task_that_is_cancelled_leaves_no_connection(lib: Any, steps: Sequence[Step]) -> None:
    told = Told()

    async def run() -> None:
        async with upstream(*steps) as up:
            async with reading(wrapped_async(lib, told), up.url):
                while not up.requests:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.1)
            await asyncio.wait_for(up.left.wait(), 10)

    asyncio.run(run())
    assert told.ends == ["client_disconnect"]


@pytest.mark.parametrize("lib", [httpx2])
@pytest.mark.parametrize(("steps", "end"), BROKEN.values(), ids=BROKEN)
def test_errors_pass_in_asynchronous_clients_too(lib: Any, steps: Sequence[Step], end: str) -> None:
    async def came(client: Any, url: str, patience: float) -> tuple[str, bytes]:
        body = b""
        async with client:
            try:
                async with client.stream("POST", f"{url}/chat/completions", json=ASK, timeout=patience) as response:
                    async for piece in response.aiter_raw():
                        body += piece
            except Exception as error:
                return type(error).__name__, body
        return "", body

    async def run() -> None:
        told = Told()
        async with upstream(*steps) as up:
            without = await came(lib.AsyncClient(verify=False), up.url, patience(steps))
            assert await came(wrapped_async(lib, told), up.url, patience(steps)) == without
        assert without[0]
        assert told.ends == [end]

    asyncio.run(run())
