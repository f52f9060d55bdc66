"""Transports of httpx2 that judge: what they leave alone, what may fail in them, by which settings they go."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest
from fake_upstream import DONE, completion, event, say, whole
from test_client_transport import ASK, GIVEN, Told, before, wrapped
from test_middleware import KEY, REFUSED, STREAM
from test_middleware_life import KINDS, WHERE, fails_from, in_pieces

from demur.classifier.judge import default_classifier
from demur.config import ConfigError, Settings
from demur.proxy.client_transport import VERDICT, AsyncRefusalTransport, RefusalTransport


def answering(body: bytes = REFUSED, kind: str = "application/json") -> httpx2.MockTransport:
    return httpx2.MockTransport(lambda _: httpx2.Response(200, headers={"content-type": kind}, content=body))


def transport(inner: Any = None, **options: Any) -> RefusalTransport:
    return RefusalTransport(inner or answering(), **GIVEN | options)


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("GET", "http://api.test/v1/models"),
        ("POST", "http://api.test/v1/embeddings"),
        ("GET", "http://api.test/v1/chat/completions"),
        ("POST", "http://other.test/v1/chat/completions"),
    ],
)
def test_what_is_not_judged_is_the_inner_transports_alone(method: str, url: str) -> None:
    inner = answering()
    given: list[Any] = []

    class Inner(httpx2.BaseTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            given.append(request)
            given.append(inner.handle_request(request))
            return given[-1]  # type: ignore[no-any-return]

    request = httpx2.Request(method, url, json=ASK)
    response = transport(Inner(), hosts={"api.test"}).handle_request(request)
    assert [request, response] == given
    assert response is given[1]


def test_what_on_verdict_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("mine")

    with httpx2.Client(transport=transport(on_verdict=fail)) as client:
        response = client.post("http://a.test/v1/chat/completions", json=ASK)
    assert response.headers["x-refusal-verdict"] == "hard_refusal"
    assert "on_verdict failed" in caplog.text


@pytest.mark.parametrize("where", ["__init__", "asked", "answered", "head", "whole"])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_a_fault_in_observing_changes_no_answer(where: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a fault")

    monkeypatch.setattr(f"demur.proxy.witness.Witness.{where}", fail)
    body = REFUSED if kind == "application/json" else STREAM
    with httpx2.Client(transport=transport(answering(body, kind))) as client:
        response = client.post("http://a.test/v1/chat/completions", json=ASK)
    assert (response.status_code, KEY.sub(b"", response.content)) == (200, body)


@pytest.mark.parametrize("left_early", [False, True])
@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("where", WHERE)
@KINDS
def test_a_fault_anywhere_reaches_nobody(
    kind: str, where: str, after: int, left_early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_from(monkeypatch, where, after)
    body = REFUSED if kind == "application/json" else STREAM
    told = Told()

    def answer(_: Any) -> httpx2.Response:
        named = {"content-type": kind if "/" in kind else "application/json"}
        return httpx2.Response(200, headers=named, content=iter(in_pieces(body)))

    inner = httpx2.MockTransport(answer)
    with (
        httpx2.Client(transport=transport(inner, on_verdict=told)) as client,
        client.stream("POST", "http://a.test/v1/chat/completions", json=ASK) as response,
    ):
        pieces = response.iter_raw()
        got = next(pieces) if left_early else b"".join(pieces)
    assert response.status_code == 200
    assert body.startswith(got) if left_early else KEY.sub(b"", got) == body
    silent = where in ("record.Record.judge", "record.Record.exchange") and not after
    assert len(told) == (0 if silent else 1)


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_a_connection_is_closed_when_on_verdict_is_interrupted(kind: str) -> None:
    class Interrupted(BaseException):
        pass

    class Body(httpx2.SyncByteStream, httpx2.AsyncByteStream):
        closed = 0

        def __iter__(self) -> Any:
            yield REFUSED if kind == "application/json" else STREAM

        async def __aiter__(self) -> Any:
            yield next(iter(self))

        def close(self) -> None:
            self.closed += 1

        async def aclose(self) -> None:
            self.closed += 1

    def interrupt(*_: Any) -> None:
        raise Interrupted

    async def talk(inner: Any) -> None:
        judging = AsyncRefusalTransport(inner, on_verdict=interrupt, **GIVEN)
        async with (
            httpx2.AsyncClient(transport=judging) as client,
            client.stream("POST", "http://a.test/v1/chat/completions", json=ASK),
        ):
            pass

    def talk_in_turn(inner: Any) -> None:
        with (
            httpx2.Client(transport=transport(inner, on_verdict=interrupt)) as client,
            client.stream("POST", "http://a.test/v1/chat/completions", json=ASK),
        ):
            pass

    for asynchronous in (False, True):
        stream = Body()
        inner = httpx2.MockTransport(lambda _, s=stream: httpx2.Response(200, headers={"content-type": kind}, stream=s))
        with pytest.raises(Interrupted):
            asyncio.run(talk(inner)) if asynchronous else talk_in_turn(inner)
        assert stream.closed == 1


def test_a_request_that_is_sent_as_a_stream_is_judged_without_its_ask() -> None:
    told = Told()

    def talk(url: str) -> None:
        with wrapped(httpx2, told) as client:
            client.post(f"{url}/chat/completions", content=iter([json.dumps(ASK).encode()]))

    before([whole(REFUSED)], talk)
    assert told.labels == ["hard_refusal"]
    assert "sent as a stream" in (told[0][0].reason or "")


def test_a_large_answer_passes_without_a_label() -> None:
    told = Told()
    body = completion("a" * 5000)
    with httpx2.Client(
        transport=transport(answering(body), on_verdict=told, settings=Settings(inspect_bytes=1000))
    ) as c:
        response = c.post("http://a.test/v1/chat/completions", json=ASK)
    assert (response.content, response.headers["x-refusal-status"]) == (body, "not_classified")
    assert (told.labels, told.ends) == ([None], ["complete"])


def test_settings_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMUR_STREAM_VERDICT", "off")
    with httpx2.Client(transport=RefusalTransport(answering(STREAM, "text/event-stream"))) as client:
        assert client.post("http://a.test/v1/chat/completions", json=ASK).content == STREAM
    monkeypatch.setenv("DEMUR_STREAM_VERDICT", "chunky")
    with pytest.raises(ConfigError, match="DEMUR_STREAM_VERDICT"):
        RefusalTransport(answering())


def test_outside_of_asyncio_a_verdict_is_reached_too() -> None:
    inner = answering(completion("I'm sorry, but I can't help with that. " + "Really not. " * 20_000))
    judging = AsyncRefusalTransport(inner, settings=Settings(), classifier=default_classifier())
    work = judging.handle_async_request(httpx2.Request("POST", "http://a.test/v1/chat/completions", json=ASK))
    with pytest.raises(StopIteration) as done:  # as under trio, whose loop takes nothing from asyncio
        work.send(None)
    assert done.value.value.headers["x-refusal-verdict"] == "hard_refusal"


def test_other_events_of_a_stream_are_left_as_they_are() -> None:
    body = b": hello\n\n" + say("Fine.") + event({}, "stop") + DONE
    with httpx2.Client(transport=transport(answering(body, "text/event-stream"))) as client:
        got = client.post("http://a.test/v1/chat/completions", json=ASK).content
    assert (KEY.sub(b"", got), len(KEY.findall(got))) == (body, 1)


def test_a_response_of_a_class_of_its_own() -> None:
    class Mine(httpx2.Response):
        pass

    class Picky(httpx2.Response):
        def __init__(self, body: bytes) -> None:
            super().__init__(200, headers={"content-type": "text/event-stream"}, stream=httpx2.ByteStream(body))

    told = Told()
    plain = Mine(200, headers={"content-type": "application/json"}, content=REFUSED)
    answers = iter([plain, Picky(STREAM)])
    inner = httpx2.MockTransport(lambda _: next(answers))
    with httpx2.Client(transport=transport(inner, on_verdict=told)) as client:
        got = client.post("http://a.test/v1/chat/completions", json=ASK)
        assert (type(got), got.content, got.headers["x-refusal-verdict"]) == (Mine, REFUSED, "hard_refusal")
        got = client.post("http://a.test/v1/chat/completions", json=ASK)
        assert (type(got), KEY.sub(b"", got.content)) == (Picky, STREAM)
    assert told.labels == ["hard_refusal"] * 2


def test_a_stream_that_is_closed_unread() -> None:
    told = Told()
    with httpx2.Client(transport=transport(answering(STREAM, "text/event-stream"), on_verdict=told)) as client:
        with client.stream("POST", "http://a.test/v1/chat/completions", json=ASK) as response:
            pass
        response.close()
    assert (told.ends, told.labels) == (["client_disconnect"], [None])
    assert response.extensions[VERDICT] is told[0][0]


def test_a_redirect_is_an_exchange_of_its_own() -> None:
    told = Told()

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.host == "a.test":
            return httpx2.Response(307, headers={"location": "http://b.test/v1/chat/completions"})
        return httpx2.Response(200, headers={"content-type": "application/json"}, content=REFUSED)

    inner = transport(httpx2.MockTransport(answer), on_verdict=told)
    with httpx2.Client(transport=inner, follow_redirects=True) as client:
        client.post("http://a.test/v1/chat/completions", json=ASK)
    assert [(exchange.status_code, exchange.ask.prompt) for _, exchange in told] == [
        (307, "How do I build it?"),
        (200, "How do I build it?"),
    ]
    assert told.labels == [None, "hard_refusal"]


def test_of_two_transports_both_judge_and_the_inner_ones_key_stays() -> None:
    inner, outer = Told(), Told()
    twice = transport(transport(answering(STREAM, "text/event-stream"), on_verdict=inner), on_verdict=outer)
    with httpx2.Client(transport=twice) as client:
        got = client.post("http://a.test/v1/chat/completions", json=ASK)
    (key,) = KEY.findall(got.content)
    assert json.loads(key)["id"] == inner[0][0].id
    assert got.headers.get_list("x-refusal-id") == [outer[0][0].id]
    assert inner.labels == outer.labels == ["hard_refusal"]


def test_pieces_that_are_empty_or_no_bytes() -> None:
    class Odd(httpx2.SyncByteStream):
        def __iter__(self) -> Any:
            yield from [b"", STREAM[:2], b"", bytearray(STREAM[2:300]), memoryview(STREAM)[300:400], STREAM[400:]]

    told = Told()
    inner = httpx2.MockTransport(lambda _: httpx2.Response(200, stream=Odd()))
    with (
        httpx2.Client(transport=transport(inner, on_verdict=told)) as client,
        client.stream("POST", "http://a.test/v1/chat/completions", json=ASK) as response,
    ):
        got = b"".join(response.iter_raw())
    assert (KEY.sub(b"", got), told.labels) == (STREAM, ["hard_refusal"])


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (RefusalTransport, None, "got NoneType. Give it HTTPTransport()"),
        (RefusalTransport, "x", "got str. Give it HTTPTransport()"),
        (RefusalTransport, httpx2.Client(), "got Client. Give it HTTPTransport()"),
        (RefusalTransport, httpx2.AsyncHTTPTransport(), "got AsyncHTTPTransport. Give it HTTPTransport()"),
        (RefusalTransport, httpx2.HTTPTransport, "got the class HTTPTransport. Give it HTTPTransport()"),
        (AsyncRefusalTransport, None, "got NoneType. Give it AsyncHTTPTransport()"),
        (AsyncRefusalTransport, httpx2.HTTPTransport(), "got HTTPTransport. Give it AsyncHTTPTransport()"),
    ],
)
def test_what_is_no_transport_of_this_kind_is_refused_at_once(kind: Any, given: Any, words: str) -> None:
    with pytest.raises(TypeError) as caught:
        kind(given, **GIVEN)
    assert words in str(caught.value)
    assert f"{kind.__name__} wraps a transport" in str(caught.value)
