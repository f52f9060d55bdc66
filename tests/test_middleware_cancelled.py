"""The middleware when the application is cancelled from outside: what it had sent goes on, if a client takes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from applications import ASK, Called, Message, answering, called, part, start
from fake_upstream import Collector
from test_middleware import EVENTS, KEY, REFUSED, SSE, guarded, label, one

from demur.classifier.trace import Ask
from demur.proxy.middleware import RefusalMiddleware

JSON = [start(), part(REFUSED[:20]), part(REFUSED[20:40])]
HELD = [SSE, part(EVENTS[0]), part(EVENTS[1] + EVENTS[3][:20])]
KINDS = pytest.mark.parametrize(
    ("sent", "settings"), [(JSON, {}), (HELD, {"hold_chars": 500}), (HELD, {"buffer": True})],
    ids=["json", "stream", "buffered stream"],
)  # fmt: skip


def bytes_of(sent: list[Message]) -> bytes:
    return b"".join(message.get("body", b"") for message in sent)


def waiting(sent: list[Message], sent_all: asyncio.Event) -> Callable[..., Any]:
    """An application that sends what it is given and then nothing more."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answering(*sent)(scope, receive, send)
        sent_all.set()
        await asyncio.sleep(3600)

    return app


async def cancelled(guard: Any, when: asyncio.Event) -> Called:
    """One call, cancelled at that time; what the server had got once that was done."""
    call = asyncio.ensure_future(called(guard))
    await asyncio.wait_for(when.wait(), 20)
    call.cancel()
    got = await asyncio.wait_for(call, 20)
    assert isinstance(got.error, asyncio.CancelledError)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return got


@KINDS
def test_what_was_held_goes_on(sent: list[Message], settings: dict[str, Any]) -> None:
    async def run() -> tuple[Called, Collector]:
        sent_all = asyncio.Event()
        guard, ended = guarded(waiting(sent, sent_all), **settings)
        return await cancelled(guard, sent_all), ended

    got, ended = asyncio.run(run())
    assert (got.body, got.headers[:1]) == (bytes_of(sent), sent[0]["headers"])
    assert got.get("x-refusal-status") == ("not_classified" if sent is JSON else "incomplete")
    assert (one(ended).end, one(ended).error) == ("client_disconnect", "the application was cancelled")


@KINDS
def test_a_client_that_has_left_gets_nothing(sent: list[Message], settings: dict[str, Any]) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answering(*sent)(scope, receive, send)
        await receive()
        when.set()
        await asyncio.sleep(3600)

    when = asyncio.Event()

    async def leaves(scope: Any, receive: Any, send: Any) -> None:
        asked = False

        async def left() -> Message:
            nonlocal asked
            asked, before = True, asked
            return {"type": "http.disconnect"} if before else await receive()

        await guard(scope, left, send)

    guard, ended = guarded(app, **settings)
    got = asyncio.run(cancelled(leaves, when))
    assert got.messages == []
    assert (one(ended).end, one(ended).error) == ("client_disconnect", "the client closed its connection")


def slow(guard: Any, after: int, blocked: asyncio.Event, goes_on: asyncio.Event) -> Callable[..., Any]:
    """A client that takes so many messages and then, until it `goes_on`, no more."""
    taken = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def taking(message: Message) -> None:
            nonlocal taken
            if taken == after:
                blocked.set()
                await goes_on.wait()
            taken += 1
            await send(message)

        await guard(scope, receive, taking)

    return app


@KINDS
def test_a_client_that_takes_nothing_holds_up_no_cancellation(sent: list[Message], settings: dict[str, Any]) -> None:
    async def run() -> tuple[Called, Collector]:
        sent_all = asyncio.Event()
        guard, ended = guarded(waiting(sent, sent_all), **settings)
        return await cancelled(slow(guard, 1, asyncio.Event(), asyncio.Event()), sent_all), ended

    got, ended = asyncio.run(run())
    assert got.kinds == ["start"]
    assert one(ended).end == "client_disconnect"


def test_a_head_that_is_due_holds_up_no_cancellation_either() -> None:
    async def run() -> tuple[Called, Collector]:
        blocked = asyncio.Event()
        guard, ended = guarded(waiting(HELD, asyncio.Event()), hold_ms=10)
        return await cancelled(slow(guard, 0, blocked, asyncio.Event()), blocked), ended

    got, ended = asyncio.run(run())
    assert got.messages == []
    assert one(ended).end == "client_disconnect"


@pytest.mark.parametrize("after", [0, 1, 2])
def test_nothing_goes_on_behind_a_message_that_was_being_sent(after: int) -> None:
    """Whether that one has gone out only the server knows; an answer may break off, and never has a gap."""
    sent = [start(), part(REFUSED[:20]), part(REFUSED[20:], more=False)]

    async def run() -> tuple[Called, Collector]:
        blocked, goes_on = asyncio.Event(), asyncio.Event()
        guard, ended = guarded(answering(*sent))
        call = slow(guard, after, blocked, goes_on)
        blocked_once = asyncio.ensure_future(blocked.wait())
        blocked_once.add_done_callback(lambda _: goes_on.set())
        return await cancelled_at(call, blocked), ended

    async def cancelled_at(app: Any, when: asyncio.Event) -> Called:
        task = asyncio.ensure_future(called(app))
        while not when.is_set():  # noqa: ASYNC110  not an iteration later: then it goes on
            await asyncio.sleep(0)
        task.cancel()
        return await asyncio.wait_for(task, 20)

    got, ended = asyncio.run(run())
    assert isinstance(got.error, asyncio.CancelledError)
    assert got.kinds == ["start", "body", "body"][:after]
    assert label(one(ended)) == ("hard_refusal", "complete")


def test_an_answer_that_is_being_judged_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> tuple[Called, Collector]:
        judging = asyncio.Event()

        async def judge(*_: Any) -> None:
            judging.set()
            await asyncio.sleep(3600)

        monkeypatch.setattr("demur.proxy.witness.Witness.whole", judge)
        guard, ended = guarded(answering(*JSON[:2], part(REFUSED[20:], more=False)))
        return await cancelled(guard, judging), ended

    got, ended = asyncio.run(run())
    assert (got.body, got.messages[-1]["more_body"]) == (REFUSED, False)
    assert label(one(ended)) == (None, "not_classified")


def test_a_start_goes_on_though_the_ask_is_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> tuple[Called, Collector]:
        reading = asyncio.Event()

        async def read(*_: Any) -> Ask:
            if not reading.is_set():
                reading.set()
                await asyncio.sleep(3600)
            return Ask(prompt="read after all")

        monkeypatch.setattr("demur.proxy.witness.ask_of", read)
        guard, ended = guarded(answering(*JSON))
        return await cancelled(guard, reading), ended

    got, ended = asyncio.run(run())
    assert got.messages == [start()]
    assert (one(ended).end, one(ended).ask.prompt) == ("client_disconnect", "read after all")


@KINDS
def test_a_timeout_outside_sees_that_an_answer_has_begun(sent: list[Message], settings: dict[str, Any]) -> None:
    """As without the middleware; a second answer to the same request would be a fault."""
    guard, ended = guarded(waiting(sent, asyncio.Event()), **settings)

    async def limited(scope: Any, receive: Any, send: Any) -> None:
        begun = False

        async def noted(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await asyncio.wait_for(guard(scope, receive, noted), 0.05)
        except TimeoutError:
            if not begun:
                await answering(start(status=504), part(more=False), read=False)(scope, receive, send)

    got = asyncio.run(called(limited))
    assert (got.error, got.status, got.body) == (None, 200, bytes_of(sent))
    assert len(ended) == 1


@KINDS
def test_a_scope_that_cancels_again_and_again(sent: list[Message], settings: dict[str, Any]) -> None:
    """anyio's, as in Starlette: sending that waits for nothing is possible, any other is not, and hangs nothing."""
    guard, ended = guarded(waiting(sent, asyncio.Event()), **settings)

    async def limited(scope: Any, receive: Any, send: Any) -> None:
        with anyio.move_on_after(0.05):
            await guard(scope, receive, send)

    got = asyncio.run(called(limited))
    assert (got.error, got.body) == (None, bytes_of(sent))
    again = asyncio.run(called(slow(limited, 1, asyncio.Event(), asyncio.Event())))
    assert (again.error, again.kinds) == (None, ["start"])
    assert [exchange.end for exchange in ended] == ["client_disconnect"] * 2


def test_a_call_whose_loop_has_gone_is_over() -> None:
    guard, ended = guarded(waiting(JSON, asyncio.Event()))

    async def receive() -> Message:
        return {"type": "http.request", "body": ASK}

    sent: list[Message] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def run() -> Any:
        scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": []}
        call = RefusalMiddleware.__call__(guard, scope, receive, send)
        call.send(None)
        return call

    asyncio.run(run()).close()
    assert (sent, len(ended)) == ([], 1)


def test_without_a_hold_nothing_waits() -> None:
    async def run() -> tuple[Called, Collector]:
        sent_all = asyncio.Event()
        guard, ended = guarded(waiting([SSE, *map(part, EVENTS)], sent_all))
        return await cancelled(guard, sent_all), ended

    got, ended = asyncio.run(run())
    assert KEY.sub(b"", got.body) == b"".join(EVENTS)
    assert one(ended).end == "complete"  # its end marker has come
