"""Early verdicts: a stream's head waits for them, and nothing of the stream is lost, changed or out of order."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import zlib
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from random import Random
from time import perf_counter
from typing import Any

import pytest
from fake_upstream import (
    DONE,
    END,
    RST,
    Answer,
    Step,
    ask,
    call,
    chunk,
    connection,
    event,
    head,
    proxy,
    request,
    say,
    upstream,
)

from demur.classifier.judge import Classifier
from demur.classifier.trace import Ask
from demur.config import Settings
from demur.proxy.hold import Hold, until
from demur.proxy.observe import Exchange

OPENING = event({"role": "assistant", "content": ""})
STOP = event({}, "stop")
SAID = ["I'm sorry, but ", "I can't help ", "with that request.", " Is there", " anything else?"]
REFUSED = [OPENING, *map(say, SAID), STOP, DONE]
KEY = re.compile(rb',"refusal_verdict":(\{[^{}]*\})')
LONG = 5.0


def through(*steps: Step, sent: bytes | None = None, **settings: Any) -> tuple[Answer, Exchange]:
    async def run() -> tuple[Answer, Exchange]:
        async with upstream(*steps) as up, proxy(up.url, **settings) as px:
            answer = await call(px, sent or ask(stream=True))
            return answer, await px.end()

    return asyncio.run(run())


def paced(events: Sequence[bytes], pause: float = 0.1) -> list[Step]:
    steps: list[Step] = [head()]
    for sent in events:
        steps += [chunk(sent), pause]
    return [*steps, END]


def test_what_is_held() -> None:
    assert Hold.of(Settings()) is None
    held = Hold.of(Settings(hold_chars=120))
    assert held == Hold(120, None, 2 * 2**20)
    assert [held.is_over(heard, size) for heard, size in [(119, 9), (120, 9), (0, 2**22)]] == [False, True, True]
    timed = Hold.of(Settings(hold_ms=250))
    assert timed is not None
    assert (timed.seconds, timed.is_over(10**9, 9), timed.is_over(float("inf"), 9)) == (0.25, False, True)
    whole = Hold.of(Settings(buffer=True, hold_chars=1, hold_ms=1, inspect_bytes=10))
    assert whole == Hold(None, None, 10)
    assert [whole.is_over(float("inf"), size) for size in (10, 11)] == [False, True]


def test_the_head_waits_for_so_much_text() -> None:
    answer, exchange = through(*paced(REFUSED), hold_chars=25)
    head_at, *times = [when for when, _ in answer.times]
    assert answer.get("x-refusal-verdict") == "hard_refusal"
    assert answer.get("x-refusal-status") == "early"
    assert answer.get("x-refusal-id") == exchange.id
    assert float(answer.get("x-refusal-score") or 0) > 0.5
    assert KEY.sub(b"", answer.body) == b"".join(REFUSED)
    assert times[0] - head_at < 0.05  # what was held comes with the head
    assert times[-1] - head_at > 0.3  # the rest as it comes
    first = answer.times[1][1]
    assert first == b"".join(REFUSED[:3])
    assert exchange.verdict is not None
    assert (exchange.verdict.label, exchange.verdict.status) == ("hard_refusal", "complete")


def test_an_early_answer_may_turn_out_otherwise() -> None:
    said = ["Here is the letter that you wanted: ", "I'm sorry, I can't do that after all. I can't help with it."]
    answer, exchange = through(*paced([OPENING, *map(say, said), STOP, DONE]), hold_chars=10)
    assert (answer.get("x-refusal-verdict"), answer.get("x-refusal-status")) == ("answer", "early")
    (key,) = KEY.findall(answer.body)
    assert exchange.verdict is not None
    assert json.loads(key)["label"] == exchange.verdict.label != "answer"


def test_the_head_waits_so_long() -> None:
    steps: list[Step] = [head(), chunk(OPENING + say(SAID[0]) + say(SAID[1])), LONG, chunk(STOP + DONE), END]
    for settings in ({"hold_ms": 400}, {"hold_ms": 400, "hold_chars": 10_000}):

        async def run(settings: dict[str, Any] = settings) -> None:
            async with upstream(*steps) as up, proxy(up.url, **settings) as px, connection(px) as (reader, writer):
                begun = perf_counter()
                writer.write(ask(stream=True))
                lines = (await reader.readuntil(b"\r\n\r\n")).decode()
                assert 0.35 < perf_counter() - begun < LONG - 1
                assert "x-refusal-verdict: hard_refusal" in lines
                assert "x-refusal-status: early" in lines
                assert SAID[1].encode() in await reader.readuntil(SAID[1].encode())

        asyncio.run(run())


def test_without_text_by_then_the_verdict_is_pending() -> None:
    comments = b": wait\n\n"
    rest = b"".join(REFUSED[1:])
    steps: list[Step] = [head(), chunk(comments), 0.3, chunk(comments + OPENING), 0.4, chunk(rest), END]
    answer, exchange = through(*steps, hold_ms=500)
    assert (answer.get("x-refusal-verdict"), answer.get("x-refusal-status")) == ("pending", None)
    assert KEY.sub(b"", answer.body) == comments * 2 + b"".join(REFUSED)
    assert exchange.verdict is not None
    assert exchange.verdict.label == "hard_refusal"


@pytest.mark.parametrize("settings", [{"hold_chars": 10_000}, {"hold_ms": 60_000}, {"buffer": True}])
@pytest.mark.parametrize("mode", ["off", "chunk"])
def test_a_stream_that_ends_before_has_its_final_verdict(settings: dict[str, Any], mode: str) -> None:
    answer, exchange = through(*paced(REFUSED, 0.02), stream_verdict=mode, **settings)
    verdict = exchange.verdict
    assert verdict is not None
    assert answer.get("x-refusal-status") == verdict.status == "complete"
    assert answer.get("x-refusal-verdict") == verdict.label == "hard_refusal"
    assert answer.get("x-refusal-score") == f"{verdict.confidence:.3g}"
    assert KEY.sub(b"", answer.body) == b"".join(REFUSED)
    assert len(KEY.findall(answer.body)) == (mode == "chunk")
    assert answer.clean


def test_a_whole_stream_is_held_to_its_end_and_a_finished_one_is_not() -> None:
    steps: list[Step] = [head(), chunk(b"".join(REFUSED[:-1])), 0.5, chunk(DONE), END]
    early, _ = through(*steps, hold_chars=10_000)
    whole, _ = through(*steps, buffer=True)
    assert early.get("x-refusal-status") == whole.get("x-refusal-status") == "complete"
    keys = [json.loads(KEY.findall(answer.body)[0]) for answer in (early, whole)]
    assert {**keys[0], "id": ""} == {**keys[1], "id": ""}
    assert early.times[-1][0] - early.times[0][0] > 0.3
    assert whole.times[-1][0] - whole.times[0][0] < 0.3


def test_a_finish_reason_with_every_chunk_is_no_end() -> None:
    """Older models of Gemini."""
    said = ["Here it is. ", "On it goes, ", "and on, and that is all."]
    chunks = [{"candidates": [{"content": {"parts": [{"text": t}]}, "finishReason": "STOP", "index": 0}]} for t in said]
    events = [f"data: {json.dumps(each)}\n\n".encode() for each in chunks]
    path = "/v1beta/models/m:streamGenerateContent?alt=sse"
    held, _ = through(*paced(events), sent=ask(path=path), hold_chars=15)
    assert (held.get("x-refusal-verdict"), held.get("x-refusal-status")) == ("answer", "early")
    assert KEY.sub(b"", held.times[1][1]) == b"".join(events[:2])
    short, _ = through(*paced(events), sent=ask(path=path), hold_chars=500)
    assert (short.get("x-refusal-verdict"), short.get("x-refusal-status")) == ("answer", "complete")
    assert KEY.sub(b"", short.body) == b"".join(events)


def test_nothing_to_say_is_told_as_it_is() -> None:
    answer, _ = through(*paced([OPENING, STOP, DONE], 0.01), buffer=True)
    assert (answer.get("x-refusal-verdict"), answer.get("x-refusal-status")) == (None, "empty")
    calls = [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    answer, _ = through(*paced([event({"tool_calls": calls}), event({}, "tool_calls"), DONE], 0.01), buffer=True)
    assert (answer.get("x-refusal-verdict"), answer.get("x-refusal-status")) == (None, "tool_call")
    error = b'data: {"error":{"code":"content_filter","message":"no"}}\n\n' + DONE
    answer, _ = through(*paced([error], 0.01), hold_chars=100)
    assert (answer.get("x-refusal-verdict"), answer.get("x-refusal-status")) == ("hard_refusal", "complete")


@pytest.mark.parametrize("settings", [{"buffer": True}, {"hold_chars": 10**6}, {"hold_ms": 60_000}])
def test_what_is_held_is_bounded(settings: dict[str, Any]) -> None:
    said = [say(f"It goes on and on, part {n}. ") for n in range(40)]
    steps: list[Step] = [head(), chunk(b"".join(said)), 0.5, chunk(STOP + DONE), END]
    answer, _ = through(*steps, inspect_bytes=2000, **settings)
    assert (answer.get("x-refusal-verdict"), answer.get("x-refusal-status")) == ("answer", "early")
    assert KEY.sub(b"", answer.body) == b"".join(said) + STOP + DONE
    assert answer.times[-1][0] - answer.times[0][0] > 0.3  # released as it came


def test_several_choices_are_waited_for_each() -> None:
    said = [say("Sure, here it is: one, two, three.", index=0), say("I can't help with that.", index=1)]
    ends = [event({}, "stop", index=0), event({}, "stop", index=1), DONE]
    answer, _ = through(*paced([*said, *ends]), sent=ask(stream=True, n=2), hold_chars=20)
    assert answer.times[1][1] in (said[0], b"".join(said))
    both, _ = through(head(), chunk(b"".join(said)), 0.3, chunk(b"".join(ends)), END, hold_chars=20)
    assert (both.get("x-refusal-verdict"), both.get("x-refusal-choices")) == ("hard_refusal", "1/2")
    assert both.get("x-refusal-status") == "early"


def test_a_coded_stream_is_held_in_its_own_bytes() -> None:
    packer = zlib.compressobj(wbits=31)
    pieces = [packer.compress(e) + packer.flush(zlib.Z_SYNC_FLUSH) for e in REFUSED]
    pieces.append(packer.flush())
    steps: list[Step] = [head("text/event-stream", "Content-Encoding: gzip"), *map(chunk, pieces), END]
    answer, _ = through(*steps, hold_chars=20)
    assert answer.body == b"".join(pieces)
    assert answer.get("x-refusal-verdict") == "hard_refusal"


@pytest.mark.parametrize("mode", ["off", "chunk"])
@pytest.mark.parametrize("settings", [{"hold_chars": 10_000}, {"hold_chars": 10_000, "hold_ms": 60_000}])
def test_an_upstream_that_breaks_off_meanwhile(settings: dict[str, Any], mode: str) -> None:
    start = say("Here is ") + say("how") + b'data: {"half'
    answer, exchange = through(head(), chunk(start), 0.1, RST, stream_verdict=mode, **settings)
    assert (answer.status, answer.body, answer.clean) == (200, start, False)
    assert (answer.get("x-refusal-verdict"), answer.get("x-refusal-status")) == ("answer", "incomplete")
    assert (exchange.end, exchange.status_code) == ("upstream_error", 200)
    nothing, exchange = through(head(), 0.1, RST, stream_verdict=mode, **settings)
    assert (nothing.status, nothing.json()["error"]["code"]) == (502, "upstream_disconnected")
    assert (nothing.get("x-refusal-verdict"), nothing.get("x-refusal-status")) == (None, "upstream_error")
    assert (exchange.end, exchange.status_code) == ("upstream_error", 502)
    silent, _ = through(head(), LONG, stream_verdict=mode, idle_timeout=0.3, **settings)
    assert (silent.status, silent.json()["error"]["code"]) == (504, "idle_timeout")
    late, _ = through(head(), chunk(start), LONG, stream_verdict=mode, total_timeout=0.4, **settings)
    assert (late.status, late.json()["error"]["code"]) == (504, "total_timeout")
    assert late.get("x-refusal-status") == "incomplete"


@pytest.mark.parametrize("settings", [{"hold_chars": 10_000}, {"hold_ms": 60_000}, {"buffer": True}, {}])
def test_where_comments_broke_off_all_places_agree(settings: dict[str, Any]) -> None:
    answer, exchange = through(head(), chunk(b": wait\n\n"), 0.1, RST, **settings)
    assert (answer.status, answer.body, answer.clean) == (200, b": wait\n\n", False)
    assert answer.get("x-refusal-status") == ("upstream_error" if settings else None)
    assert exchange.verdict is not None
    assert exchange.verdict.status == "upstream_error"


@pytest.mark.parametrize("settings", [{"hold_chars": 10_000}, {"hold_ms": 60_000}])
def test_a_client_that_leaves_meanwhile(settings: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with upstream(head(), chunk(say("One")), LONG, END) as up, proxy(up.url, **settings) as px:
            async with connection(px) as (_, writer):
                writer.write(ask(stream=True))
                async with asyncio.timeout(10):
                    while not up.requests:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                await asyncio.sleep(0.2)
            exchange = await px.end()
            assert (exchange.end, exchange.status_code) == ("client_disconnect", None)
            assert exchange.verdict is not None
            assert exchange.verdict.status == "incomplete"
            async with asyncio.timeout(10):
                await up.left.wait()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert caplog.text == ""


class Failing(Classifier):
    def session(self, ask: Ask) -> Any:
        raise RuntimeError("no")


def test_a_classifier_that_fails_holds_nothing_for_good() -> None:
    app = {"classifier": Failing()}
    holds: list[dict[str, Any]] = [{"hold_ms": 9000}, {"hold_chars": 9000}, {"buffer": True}]
    for settings, verdict in zip(holds, ("pending", "pending", None), strict=True):
        steps: list[Step] = [head(), chunk(b"".join(REFUSED[:4])), 0.5, chunk(b"".join(REFUSED[4:])), END]
        answer, _ = through(*steps, app=app, **settings)
        assert answer.body == b"".join(REFUSED)
        assert answer.get("x-refusal-verdict") == verdict
        assert (answer.times[-1][0] - answer.times[0][0] > 0.3) == (verdict == "pending")
    assert answer.get("x-refusal-status") == "not_classified"


def test_the_look_up_is_pending_until_the_end() -> None:
    async def run() -> None:
        steps: list[Step] = [head(), chunk(b"".join(REFUSED[:4])), 0.5, chunk(b"".join(REFUSED[4:])), END]
        async with upstream(*steps) as up, proxy(up.url, hold_chars=20) as px:
            async with connection(px) as (reader, writer):
                writer.write(ask(stream=True))
                lines = (await reader.readuntil(b"\r\n\r\n")).decode()
                found = re.search(r"x-refusal-id: (\w+)", lines)
                assert found
                look_up = request("GET", f"/-/verdicts/{found[1]}")
                assert (await call(px, look_up)).status == 202
                await reader.readuntil(END)
            assert (await call(px, look_up)).json()["status"] == "complete"

    asyncio.run(run())


def test_streams_that_are_not_judged_are_not_held() -> None:
    answer, _ = through(*paced([b"data: 1\n\n"] * 3), sent=request("GET", "/v1/fine_tuning/jobs/x/events"), buffer=True)
    assert answer.times[-1][0] - answer.times[0][0] > 0.1
    assert not [name for name, _ in answer.headers if name.startswith("x-refusal")]


def test_whatever_is_held_the_client_gets_the_upstreams_bytes() -> None:
    """Random cuts, pauses, limits and ends: the body is the upstream's but for the key, and so is the way it ends."""
    random = Random(7)
    body = b": hi\n\n" + b"".join(REFUSED)
    cases: list[tuple[list[Step], dict[str, Any], bytes, bool]] = []
    for _ in range(24):
        whole = random.random() < 0.7
        sent = body if whole else body[: random.randrange(40, len(body) - 20)]
        bounds = [0, *sorted(random.sample(range(1, len(sent)), 4)), len(sent)]
        steps: list[Step] = [head()]
        for start, stop in pairwise(bounds):
            steps += [chunk(sent[start:stop]), random.choice([0.0, 0.01, 0.03])]
        hold = {"hold_chars": random.choice([0, 1, 20, 10_000]), "hold_ms": random.choice([0, 20, 10_000])}
        mode = random.choice(["off", "chunk"])
        settings = {**hold, "buffer": random.random() < 0.2, "stream_verdict": mode}
        cases.append(([*steps, END if whole else RST], settings, sent, whole))

    async def run(steps: list[Step], settings: dict[str, Any]) -> tuple[Answer, Exchange]:
        async with upstream(*steps) as up, proxy(up.url, **settings) as px:
            return await call(px, ask(stream=True)), await px.end()

    for steps, settings, sent, whole in cases:
        answer, exchange = asyncio.run(run(steps, settings))
        assert KEY.sub(b"", answer.body) == sent, settings
        assert (answer.status, answer.clean, exchange.end) == (
            (200, True, "complete") if whole else (200, False, "upstream_error")
        ), settings
        assert exchange.verdict is not None
        assert answer.get("x-refusal-id") == exchange.id
        label, status = answer.get("x-refusal-verdict"), answer.get("x-refusal-status")
        assert status in {None, "early", "complete", "incomplete", "empty" if whole else "upstream_error"}
        if status not in {None, "early"}:
            assert (label, status) == (exchange.verdict.label, exchange.verdict.status)
        assert (label == "pending") == (status is None)
        assert whole is False or exchange.verdict.label == "hard_refusal"


# `until`


async def pieces(*steps: bytes | float) -> AsyncIterator[bytes]:
    for step in steps:
        if isinstance(step, bytes):
            yield step
        else:
            await asyncio.sleep(step)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((b"a", b"b"), [b"a", b"b"]),
        ((), []),
        ((b"a", 0.4, b"b", b"c"), [b"a", None, b"b", b"c"]),
        ((0.4,), [None]),
        ((b"a", 0.4), [b"a", None]),
    ],
)
def test_until(steps: tuple[bytes | float, ...], expected: list[bytes | None]) -> None:
    async def run() -> list[bytes | None]:
        return [piece async for piece in until(pieces(*steps), perf_counter() + 0.1)]

    assert asyncio.run(run()) == expected
    assert asyncio.run(after_deadline(steps)) == [None, *(step for step in steps if isinstance(step, bytes))]


async def after_deadline(steps: tuple[bytes | float, ...]) -> list[bytes | None]:
    return [piece async for piece in until(pieces(*steps), perf_counter() - 1)]


def test_until_hands_errors_on_and_leaves_nothing_running() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"a"
        raise ConnectionError("gone")

    async def run() -> None:
        with pytest.raises(ConnectionError):
            _ = [piece async for piece in until(broken(), perf_counter() + 5)]
        endless = until(pieces(b"a", 60.0), perf_counter() + 60)
        assert await anext(endless) == b"a"
        waiting = asyncio.ensure_future(anext(endless))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())
