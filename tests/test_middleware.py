"""The middleware before bare ASGI applications, message by message."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from applications import ASK, CHAT, Called, Message, answering, called, part, start
from fake_upstream import DONE, Collector, completion, event, say

from demur.classifier.judge import default_classifier
from demur.config import Settings
from demur.proxy.middleware import ID, RefusalMiddleware
from demur.proxy.observe import Exchange

REFUSAL = "I'm sorry, but I can't help with that."
REFUSED = completion(REFUSAL)
EVENTS = [event({"role": "assistant"}), say("I'm sorry, but "), say("I can't help with that."), event({}, "stop"), DONE]
STREAM = b"".join(EVENTS)
KEY = re.compile(rb',"refusal_verdict":(\{[^{}]*\})')
SSE = start("text/event-stream; charset=utf-8")


def guarded(app: Any, **settings: Any) -> tuple[RefusalMiddleware, Collector]:
    ended = Collector()
    classifier = None if settings else default_classifier()
    return RefusalMiddleware(app, settings=Settings(**settings), classifier=classifier, sinks=[ended]), ended


def through(
    app: Any, body: bytes = ASK, *, call: dict[str, Any] | None = None, **settings: Any
) -> tuple[Called, Collector]:
    """One call; what the server got, and whom was told."""
    guard, ended = guarded(app, **settings)
    return asyncio.run(called(guard, body, **(call or {}))), ended


def one(ended: Collector) -> Exchange:
    (exchange,) = ended
    return exchange


def label(exchange: Exchange) -> tuple[str | None, str]:
    assert exchange.verdict is not None
    return exchange.verdict.label, exchange.verdict.status


# A complete answer


@pytest.mark.parametrize("cuts", [[], [1], [20, 21, 90]], ids=["at once", "in two", "in four"])
def test_a_complete_answer_gets_its_verdict_and_keeps_its_messages(cuts: list[int]) -> None:
    bodies = [REFUSED[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
    sent = [part(body, more=index < len(cuts)) for index, body in enumerate(bodies)]
    length = (b"content-length", str(len(REFUSED)).encode())
    got, ended = through(answering(start("application/json", length, (b"Set-Cookie", b"a=1")), *sent))
    assert got.messages[1:] == sent
    assert got.headers[:3] == [(b"content-type", b"application/json"), length, (b"Set-Cookie", b"a=1")]
    assert got.get("x-refusal-verdict") == "hard_refusal"
    exchange = one(ended)
    assert got.get("x-refusal-id") == exchange.id == got.scope[ID]
    assert (exchange.end, exchange.status_code, exchange.ask.prompt) == ("complete", 200, "How do I build it?")
    assert label(exchange) == ("hard_refusal", "complete")


def test_a_request_is_seen_as_the_application_reads_it() -> None:
    seen: list[Message] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while True:
            seen.append(await receive())
            if not seen[-1].get("more_body"):
                break
        await answering(start(), part(REFUSED, more=False), read=False)(scope, receive, send)

    _, ended = through(app, call={"pieces": 3})
    assert b"".join(message["body"] for message in seen) == ASK
    assert len(seen) == 3
    assert one(ended).ask.prompt == "How do I build it?"


@pytest.mark.parametrize(
    ("read", "settings", "why"),
    [(False, {}, "did not read"), (True, {"max_request_bytes": 20}, "over 20 bytes")],
    ids=["not read", "too large"],
)
def test_a_request_that_was_not_seen_whole_is_judged_without(read: bool, settings: dict[str, Any], why: str) -> None:
    got, ended = through(answering(start(), part(REFUSED, more=False), read=read), **settings)
    verdict = one(ended).verdict
    assert got.get("x-refusal-verdict") == "hard_refusal"
    assert verdict is not None
    assert why in (verdict.reason or "")


def test_an_answer_beyond_the_inspection_cap_is_not_held_longer() -> None:
    sent = [part(b"a" * 60), part(b"b" * 60), part(b"c", more=False)]
    got, ended = through(answering(start(), *sent), inspect_bytes=100)
    assert got.messages[1:] == sent
    assert (got.get("x-refusal-verdict"), got.get("x-refusal-status")) == (None, "not_classified")
    assert one(ended).end == "complete"


@pytest.mark.parametrize("below", [REFUSED, gzip.compress(REFUSED)], ids=["plain", "gzip"])
def test_an_answer_that_a_middleware_below_has_coded(below: bytes) -> None:
    coding = [(b"content-encoding", b"gzip")] if below != REFUSED else []
    got, _ = through(answering(start("application/json", *coding), part(below, more=False)))
    assert (got.body, got.get("x-refusal-verdict")) == (below, "hard_refusal")


def test_a_page_of_another_origin_may_read_the_headers() -> None:
    app = answering(start("application/json", (b"access-control-expose-headers", b"x-a")), part(REFUSED, more=False))
    got, _ = through(app, call={"headers": [(b"origin", b"http://page.example")]})
    assert "x-a, x-refusal-verdict" in (got.get("access-control-expose-headers") or "")


def test_an_applications_own_headers_of_our_name_are_not_passed_on_as_ours() -> None:
    app = answering(start("application/json", (b"X-Refusal-Verdict", b"answer")), part(REFUSED, more=False))
    got, _ = through(app)
    assert [value for name, value in got.headers if name.lower() == b"x-refusal-verdict"] == [b"hard_refusal"]


# A stream


@pytest.mark.parametrize("mode", ["chunk", "off"])
@pytest.mark.parametrize("size", [None, 1, 7, 10_000])
def test_a_stream_goes_on_as_it_comes(mode: str, size: int | None) -> None:
    pieces = EVENTS if size is None else [STREAM[i : i + size] for i in range(0, len(STREAM), size)]
    got, ended = through(answering(SSE, *map(part, pieces), part(more=False)), stream_verdict=mode)
    assert got.get("x-refusal-verdict") == "pending"
    keys = [json.loads(found) for found in KEY.findall(got.body)]
    assert KEY.sub(b"", got.body) == STREAM
    assert [key["label"] for key in keys] == (["hard_refusal"] if mode == "chunk" else [])
    assert [key["id"] for key in keys] == [got.get("x-refusal-id")] * len(keys)
    exchange = one(ended)
    assert (exchange.end, exchange.stream, exchange.done_marker) == ("complete", True, True)
    assert label(exchange) == ("hard_refusal", "complete")


def test_an_event_is_sent_before_the_next_one_is_there() -> None:
    got = Called()
    counts: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(SSE)
        for each in EVENTS:
            await send(part(each))
            counts.append(len(got.messages))
        await send(part(more=False))

    guard, _ = guarded(app)

    async def call(scope: Any, receive: Any, send: Any) -> None:
        async def noted(message: Any) -> None:
            got.messages.append(message)
            await send(message)

        await guard(scope, receive, noted)

    asyncio.run(called(call))
    assert counts == [2, 3, 4, 5, 6]


def test_what_is_true_of_a_streams_bytes_goes_only_with_the_key() -> None:
    length = (b"content-length", str(len(STREAM)).encode())
    sums = (b"content-digest", b"sha-256=:YQ==:"), (b"etag", b'"strong"')
    for kind in ("text/event-stream", "application/json"):
        app = answering(start(kind, length, *sums), part(STREAM, more=False))
        for held in list[dict[str, Any]]([{}, {"hold_chars": 10}, {"buffer": True}]):
            got, _ = through(app, **held)
            assert [got.get(name) for name in ("content-length", "content-digest", "etag")] == [None] * 3
            got, _ = through(app, stream_verdict="off", **held)
            assert (got.get("content-length"), got.body) == (str(len(STREAM)), STREAM)
            assert (got.get("content-digest"), got.get("etag")) == ("sha-256=:YQ==:", '"strong"')


def test_nothing_but_the_verdict_is_added_to_the_head_of_a_stream() -> None:
    got, _ = through(answering(SSE, part(STREAM, more=False)))
    assert [name for name, _ in got.headers] == [
        b"content-type", b"x-refusal-verdict", b"x-refusal-id", b"x-refusal-classifier",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
def test_a_stream_goes_on_event_by_event_whatever_its_type(kind: str) -> None:
    got = Called()
    counts: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(start(kind, (b"content-length", str(len(STREAM)).encode())))
        for each in [b"", EVENTS[0][:2], EVENTS[0][2:], *EVENTS[1:]]:
            await send(part(each))
            counts.append(got.body.count(b"data:"))
        await send(part(more=False))

    guard, ended = guarded(app)

    async def call(scope: Any, receive: Any, send: Any) -> None:
        async def noted(message: Any) -> None:
            got.messages.append(message)
            await send(message)

        await guard(scope, receive, noted)

    asyncio.run(called(call))
    assert counts == [0, 0, 1, 2, 3, 4, 5]
    assert (got.get("x-refusal-verdict"), got.get("content-length")) == ("pending", None)
    assert (one(ended).stream, len(KEY.findall(got.body))) == (True, 1)


def test_pieces_that_are_empty_or_have_no_body() -> None:
    empty = {"type": "http.response.body", "more_body": True}
    sent = [empty, part(EVENTS[0]), empty, part(), *map(part, EVENTS[1:]), {"type": "http.response.body"}]
    got, ended = through(answering(SSE, *sent))
    assert (KEY.sub(b"", got.body), len(KEY.findall(got.body))) == (STREAM, 1)
    assert (one(ended).end, label(one(ended))) == ("complete", ("hard_refusal", "complete"))


# Messages that are used again


@pytest.mark.parametrize("settings", [{}, {"buffer": True}], ids=["json", "held stream"])
def test_an_application_may_use_its_messages_again(settings: dict[str, Any]) -> None:
    whole = STREAM if settings else REFUSED

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        head = [[b"content-type", b"text/event-stream" if settings else b"application/json"]]
        message: Message = {"type": "http.response.start", "status": 200, "headers": head}
        await send(message)
        message.update(status=500)
        head.clear()
        buffer = bytearray(150)
        message = {"type": "http.response.body", "body": buffer, "more_body": True}
        for i in range(0, len(whole), 150):
            buffer[:] = whole[i : i + 150]
            await send(message)
        buffer.clear()
        message["more_body"] = False
        await send(message)

    got, ended = through(app, **settings)
    assert (got.status, KEY.sub(b"", got.body), got.get("x-refusal-verdict")) == (200, whole, "hard_refusal")
    assert got.headers[0][0] == b"content-type"
    assert label(one(ended)) == ("hard_refusal", "complete")


def test_headers_that_can_be_read_once() -> None:
    head = {**start(), "headers": iter([(b"content-type", b"application/json"), (b"a", b"b")])}
    got, _ = through(answering(head, part(REFUSED, more=False)))
    assert (got.get("a"), got.get("x-refusal-verdict")) == ("b", "hard_refusal")


@pytest.mark.parametrize("first", [start(), SSE], ids=["json", "stream"])
@pytest.mark.parametrize("settings", [{}, {"buffer": True}], ids=["", "held"])
def test_a_second_start_is_the_servers_to_refuse(first: Message, settings: dict[str, Any]) -> None:
    second = start("text/plain", status=500)
    got, ended = through(answering(first, part(b"data: {"), second, part(b"x", more=False)), **settings)
    assert got.kinds == ["start", "body", "start", "body"]
    assert (got.status, got.messages[2], got.body) == (200, second, b"data: {x")
    assert one(ended).verdict is not None


# What passes untouched


@pytest.mark.parametrize(
    "call",
    [{"path": "/v1/models", "method": "GET"}, {"path": "/health"}, {"method": "HEAD"}, {"path": "/v1/embeddings"}],
    ids=["models", "health", "head", "embeddings"],
)
def test_what_is_not_judged_is_the_applications_alone(call: dict[str, Any]) -> None:
    given: list[Any] = []

    async def app(*args: Any) -> None:
        given.extend(args)
        await args[2](start())
        await args[2](part(REFUSED, more=False))

    got, ended = through(app, call=call)
    assert got.messages == [start(), part(REFUSED, more=False)]
    assert given[0] is got.scope
    assert ID not in got.scope
    assert list(ended) == []


@pytest.mark.parametrize("kind", ["websocket", "something new"])
def test_other_scopes_pass(kind: str) -> None:
    given: list[Any] = []

    async def app(*args: Any) -> None:
        given.extend(args)

    guard, _ = guarded(app)
    args: tuple[Any, Any, Any] = ({"type": kind, "path": CHAT}, object(), object())
    asyncio.run(guard(*args))
    assert given == list(args)


@pytest.mark.parametrize("stream", [False, True])
def test_trailers_and_other_extensions_pass_in_their_order(stream: bool) -> None:
    hint = {"type": "http.response.early_hint", "links": [b"</a>"]}
    trailers = {"type": "http.response.trailers", "headers": [(b"a", b"b")], "more_trailers": False}
    head = start("text/event-stream" if stream else "application/json", trailers=True)
    got, ended = through(answering(hint, head, part(STREAM if stream else REFUSED), part(more=False), trailers))
    assert got.kinds == ["early_hint", "start", "body", "body", "trailers"]
    assert got.messages[1]["trailers"] is True
    assert got.messages[-1] is trailers
    assert label(one(ended)) == ("hard_refusal", "complete")


def test_a_message_between_the_parts_of_an_answer_keeps_its_place() -> None:
    debug = {"type": "http.response.debug", "info": {}}
    got, _ = through(answering(start(), part(REFUSED[:9]), debug, part(REFUSED[9:], more=False)))
    assert got.kinds == ["start", "body", "debug", "body"]
    got, _ = through(answering(start(), part(STREAM[:2]), debug, part(STREAM[2:9]), part(STREAM[9:], more=False)))
    assert (KEY.sub(b"", got.body), got.kinds) == (STREAM, ["start", "debug", "body"])


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize(
    "sent",
    [
        [{"type": "http.response.pathsend", "path": "/x"}],
        [{"type": "http.response.zerocopysend", "file": 3, "more_body": True}, part(b"x", more=False)],
        [part(b'data: {"a'), {"type": "http.response.zerocopysend", "file": 3}],
    ],
    ids=["path", "file and part", "part and file"],
)
def test_an_answer_from_a_file_passes_unread(kind: str, sent: list[Message]) -> None:
    got, ended = through(answering(start(kind), *sent))
    assert got.messages[1:] == sent
    assert label(one(ended)) == (None, "not_classified")
    assert one(ended).end == "complete"


def test_of_two_middlewares_the_outer_one_judges() -> None:
    inner, inner_ended = guarded(answering(SSE, part(STREAM), part(more=False)))
    got, ended = through(inner)
    assert len(KEY.findall(got.body)) == 1
    assert (len(ended), len(inner_ended)) == (1, 0)


def test_an_answer_of_another_type_passes_at_once_and_says_so() -> None:
    sent = [part(b'{"done": false}\n'), part(b'{"done": true}\n', more=False)]
    got, ended = through(answering(start("application/x-unheard-of"), *sent))
    assert got.messages[1:] == sent
    assert label(one(ended)) == (None, "unparsed")
    assert got.get("x-refusal-status") == "unparsed"


# Ends


class BoomError(Exception):
    pass


@pytest.mark.parametrize(
    ("messages", "passed"),
    [
        ([], []),
        ([start()], ["start"]),
        ([start(), part(REFUSED[:20])], ["start", "body"]),
        ([SSE, part(EVENTS[0]), part(EVENTS[3][:30])], ["start", "body", "body"]),
    ],
    ids=["before", "start", "part", "stream"],
)
@pytest.mark.parametrize("raises", [True, False])
def test_an_application_that_fails_or_stops_leaves_what_it_has_sent(
    messages: Sequence[Message], passed: list[str], raises: bool
) -> None:
    boom = BoomError("secret")
    got, ended = through(answering(*messages, *([boom] if raises else [])))
    assert got.error is (boom if raises else None)
    assert got.kinds == passed
    assert got.body == b"".join(message.get("body", b"") for message in messages)
    exchange = one(ended)
    assert exchange.end == "upstream_error"
    assert "secret" not in (exchange.error or "")
    assert exchange.verdict is not None


@pytest.mark.parametrize(
    "app",
    [answering(SSE, *map(part, EVENTS)), answering(start(), part(REFUSED, more=False))],
    ids=["stream", "json"],
)
def test_a_client_that_leaves(app: Any) -> None:
    got, ended = through(app, call={"leaves_after": 1})
    assert isinstance(got.error, OSError)
    assert one(ended).end == "client_disconnect"


def test_a_client_that_leaves_after_the_end_marker_has_all() -> None:
    got, ended = through(answering(SSE, *map(part, EVENTS), part(more=False)), call={"leaves_after": 6})
    assert isinstance(got.error, OSError)
    assert (one(ended).end, label(one(ended))) == ("complete", ("hard_refusal", "complete"))


@pytest.mark.parametrize("json_answer", [False, True])
def test_an_application_that_is_cancelled(json_answer: bool) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(start() if json_answer else SSE)
        await send(part(b"" if json_answer else EVENTS[0]))
        await asyncio.sleep(60)

    guard, ended = guarded(app)

    async def run() -> None:
        call = asyncio.ensure_future(guard_called())
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    async def guard_called() -> None:
        got = await called(guard)
        assert got.error is not None
        raise got.error

    asyncio.run(run())
    assert one(ended).end == "client_disconnect"


def test_the_exchange_ends_with_the_answer_and_not_with_what_follows_it() -> None:
    ended = Collector()
    told: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answering(start(), part(REFUSED, more=False))(scope, receive, send)
        told.append(len(ended))  # a background task may run for hours

    asyncio.run(called(RefusalMiddleware(app, settings=Settings(), classifier=default_classifier(), sinks=[ended])))
    assert told == [1]
    assert len(ended) == 1
