"""The middleware when the head of a stream is held, by `hold_chars`, `hold_ms` or `buffer`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from applications import answering, called, part
from test_middleware import EVENTS, KEY, SSE, STREAM, BoomError, guarded, label, one, through

SENT = [SSE, *map(part, EVENTS), part(more=False)]


@pytest.mark.parametrize("cut", [None, 1, 50])
def test_a_held_stream_has_its_early_verdict_in_the_head(cut: int | None) -> None:
    pieces = EVENTS if cut is None else [STREAM[i : i + cut] for i in range(0, len(STREAM), cut)]
    got, ended = through(answering(SSE, *map(part, pieces), part(more=False)), hold_chars=30)
    assert (got.get("x-refusal-verdict"), got.get("x-refusal-status")) == ("hard_refusal", "early")
    assert KEY.sub(b"", got.body) == STREAM
    assert len(KEY.findall(got.body)) == 1
    assert (one(ended).end, label(one(ended))) == ("complete", ("hard_refusal", "complete"))


def test_nothing_is_held_longer_than_the_characters_take() -> None:
    counts: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        for message in SENT:
            await send(message)
            counts.append(len(got))

    got: list[Any] = []
    guard, _ = guarded(app, hold_chars=30)

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        async def noted(message: Any) -> None:
            got.append(message)
            await send(message)

        await guard(scope, receive, noted)

    asyncio.run(called(watched))
    assert counts == [0, 0, 0, 4, 5, 6, 7]  # with the second piece of text all that was held goes on


def test_a_buffered_stream_has_its_verdict_in_the_head() -> None:
    got, ended = through(answering(*SENT), buffer=True)
    assert (got.get("x-refusal-verdict"), got.get("x-refusal-status")) == ("hard_refusal", "complete")
    assert KEY.sub(b"", got.body) == STREAM
    assert got.kinds == ["start", *["body"] * 6]
    assert label(one(ended)) == ("hard_refusal", "complete")


def test_what_is_held_is_bounded() -> None:
    got, _ = through(answering(*SENT), buffer=True, inspect_bytes=200)
    assert KEY.sub(b"", got.body) == STREAM
    assert got.get("x-refusal-status") != "complete"


def test_a_head_goes_on_in_time_though_nothing_comes() -> None:
    async def run() -> tuple[list[str], list[str]]:
        goes_on = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await receive()
            await send(SSE)
            await send(part(EVENTS[0]))
            await goes_on.wait()
            for event in EVENTS[1:]:
                await send(part(event))
            await send(part(more=False))

        guard, ended = guarded(app, hold_ms=50)
        early: list[str] = []

        async def watched(scope: Any, receive: Any, send: Any) -> None:
            async def noted(message: Any) -> None:
                await send(message)
                if not goes_on.is_set():
                    early.append(message["type"])
                if len(early) == 2:
                    goes_on.set()

            await guard(scope, receive, noted)

        got = await asyncio.wait_for(called(watched), 20)
        assert KEY.sub(b"", got.body) == STREAM
        assert got.get("x-refusal-verdict") == "pending"
        assert one(ended).end == "complete"
        return early, got.kinds

    early, kinds = asyncio.run(run())
    assert early == ["http.response.start", "http.response.body"]
    assert kinds == ["start", *["body"] * 6]


@pytest.mark.parametrize("raises", [True, False])
def test_what_was_held_goes_on_when_the_application_fails(raises: bool) -> None:
    app = answering(SSE, part(EVENTS[0]), part(EVENTS[1] + EVENTS[3][:20]), *([BoomError()] if raises else []))
    got, ended = through(app, buffer=True)
    assert isinstance(got.error, BoomError) == raises
    assert got.body == EVENTS[0] + EVENTS[1] + EVENTS[3][:20]
    assert got.get("x-refusal-status") == "incomplete"
    assert one(ended).end == "upstream_error"


def test_a_stream_that_ends_while_it_is_held_has_its_verdict_in_the_head() -> None:
    got, _ = through(answering(*SENT), hold_chars=10_000, hold_ms=60_000, stream_verdict="off")
    assert (got.body, got.get("x-refusal-verdict")) == (STREAM, "hard_refusal")
    assert got.get("x-refusal-status") == "complete"


def test_a_fault_while_a_head_is_due(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a fault")

    monkeypatch.setattr("demur.proxy.witness.Witness.head", fail)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(SSE)
        await asyncio.sleep(0.3)
        await send(part(STREAM, more=False))

    got, _ = through(app, hold_ms=20)
    assert KEY.sub(b"", got.body) == STREAM
    assert got.headers == SSE["headers"]
    assert "could not be observed" in caplog.text
