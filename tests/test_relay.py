"""What the relay does beyond the cases of the wire (`tests/wire/`): look-ups, limits, what is judged."""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from fake_upstream import (
    DONE,
    END,
    Answer,
    Step,
    ask,
    call,
    chunk,
    completion,
    connection,
    event,
    head,
    proxy,
    request,
    say,
    upstream,
    whole,
)

from demur.proxy.inspection import TURN, StreamInspection
from demur.proxy.observe import Exchange

REFUSAL = ["I'm sorry, but ", "I can't help ", "with that request."]
OPENING = event({"role": "assistant", "content": ""})
STOP = event({}, "stop")
REFUSED = [OPENING, *map(say, REFUSAL), STOP, DONE]
KEY = re.compile(rb',"refusal_verdict":(\{[^{}]*\})')
MODES = pytest.mark.parametrize("mode", ["off", "chunk"])


def through(*steps: Step, sent: bytes | None = None, **settings: Any) -> tuple[Answer, Exchange]:
    """One exchange: what the client got, what the observers were told."""

    async def run() -> tuple[Answer, Exchange]:
        async with upstream(*steps) as up, proxy(up.url, **settings) as px:
            answer = await call(px, sent or ask(stream=True))
            return answer, await px.end()

    return asyncio.run(run())


def streamed(body: bytes, sizes: Sequence[int] = (), pause: float = 0.0) -> list[Step]:
    """`body` as a chunked event stream, cut at `sizes`."""
    steps: list[Step] = [head()]
    for start, stop in zip([0, *sizes], [*sizes, len(body)], strict=True):
        steps += [chunk(body[start:stop]), pause]
    return [*steps, END]


def same(got: bytes, sent: bytes, mode: str, keys: int = 1) -> None:
    """Byte for byte the same; with the key, after taking it out again."""
    found = KEY.findall(got)
    assert len(found) == (keys if mode == "chunk" else 0)
    assert KEY.sub(b"", got) == sent


# Streams


def test_json_lines_arrive_as_they_are_sent() -> None:
    lines = [b'{"message": {"content": "t"}, "done": false}\n'] * 3
    steps: list[Step] = [head("application/x-ndjson")]
    for line in lines:
        steps += [chunk(line), 0.2]
    answer, _ = through(*steps, END, sent=ask(path="/api/chat"))
    times = [when for when, piece in answer.times if piece]
    assert all(0.1 < after - before < 1 for before, after in pairwise(times))
    assert (answer.body, answer.get("x-refusal-verdict")) == (b"".join(lines), "pending")


@pytest.mark.parametrize("mode", ["off", "chunk"])
def test_an_endless_event_passes_and_is_not_kept(mode: str) -> None:  # W16, in small
    big = say("x" * 300_000)
    body = big + STOP + DONE
    answer, _ = through(*streamed(body, range(10_000, len(body), 10_000)), stream_verdict=mode)
    same(answer.body, body, mode)


# Complete answers


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return packer.compress(data) + packer.flush()


def test_w85_json_carries_its_verdict_in_headers_and_a_stream_in_its_finish_chunk() -> None:
    async def run() -> None:
        scripts = [whole(completion("I'm sorry, but I can't help with that."))], streamed(b"".join(REFUSED))
        async with upstream(*scripts[0], then=scripts[1:]) as up, proxy(up.url) as px:
            complete = await call(px, ask())
            verdict = (await call(px, request("GET", f"/-/verdicts/{complete.get('x-refusal-id')}"))).json()
            assert complete.get("x-refusal-verdict") == verdict["label"] == "hard_refusal"
            assert complete.get("x-refusal-score") == f"{verdict['confidence']:.3g}"
            for name in ("action", "rationale", "strategy", "status"):
                assert complete.get(f"x-refusal-{name}") == verdict[name]
            assert complete.get("x-refusal-classifier").startswith("demur-rules/")  # type: ignore[union-attr]
            assert complete.get("x-refusal-signals")
            assert complete.get("x-refusal-features") == "apology"

            stream = await call(px, ask(stream=True))
            assert stream.get("x-refusal-verdict") == "pending"
            assert stream.get("x-refusal-status") is None
            verdict = (await call(px, request("GET", f"/-/verdicts/{stream.get('x-refusal-id')}"))).json()
            (key,) = (json.loads(found) for found in KEY.findall(stream.body))
            wanted = "label", "confidence", "status", "action", "rationale", "strategy", "id"
            assert key == {name: verdict[name] for name in wanted} | {
                "features": [name for name, present in verdict["features"].items() if present],
                "signals": list(dict.fromkeys(signal["name"] for signal in verdict["signals"])),
            }
            events = [line for line in stream.body.split(b"\n\n") if line]
            assert len(events) == len(REFUSED)  # never an event more

    asyncio.run(run())


def test_a_lookup_is_pending_while_the_stream_runs() -> None:
    async def run() -> None:
        async with upstream(head(), chunk(say("Well")), 0.5, chunk(STOP + DONE), END) as up, proxy(up.url) as px:
            async with connection(px) as (reader, writer):
                writer.write(ask(stream=True))
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                (id,) = (line.partition(": ")[2] for line in lines if line.startswith("x-refusal-id"))
                pending = await call(px, request("GET", f"/-/verdicts/{id}"))
                assert (pending.status, pending.json()) == (202, {"id": id, "status": "pending"})
                await reader.readuntil(END)
            assert (await call(px, request("GET", f"/-/verdicts/{id}"))).json()["label"] == "answer"

    asyncio.run(run())


def test_an_answer_over_the_inspection_limit_is_released_unjudged() -> None:
    body = completion("x" * 5000)
    answer, _ = through(whole(body), sent=ask(), inspect_bytes=1000)
    assert answer.body == body
    assert answer.get("x-refusal-status") == "not_classified"
    packed = _gzip(completion("x" * 50_000))
    answer, _ = through(whole(packed, "application/json", "Content-Encoding: gzip"), sent=ask(), inspect_bytes=1000)
    assert (answer.body, answer.get("x-refusal-status")) == (packed, "not_classified")


def test_other_paths_pass_unread() -> None:
    body = b'{"object":"list","data":[]}'
    answer, exchange = through(whole(body), sent=request("GET", "/v1/models"))
    assert answer.body == body
    assert not [name for name, _ in answer.headers if name.startswith("x-refusal")]
    assert (exchange.api, exchange.verdict) == (None, None)


# Requests


def test_w54_the_limit_for_request_bodies() -> None:
    async def run() -> None:
        async with upstream(whole(completion("Fine."))) as up, proxy(up.url, max_request_bytes=1000) as px:
            big = b"x" * 1001
            chunked = b"".join([chunk(big[:600]), chunk(big[600:]), END])
            for sent in (
                request("POST", "/v1/chat/completions", big, "Content-Type: application/json"),
                request("POST", "/v1/chat/completions", None, "Transfer-Encoding: chunked") + chunked,
                request("POST", "/v1/files", None, "Transfer-Encoding: chunked") + chunked,
                request("POST", "/v1/files", big),
            ):
                answer = await call(px, sent)
                assert answer.status == 413
                assert "1000 bytes (max_request_bytes)" in answer.json()["error"]["message"]
            assert up.requests == []
            assert [e.end for e in px.ended] == ["rejected"] * 4
            image = ask("x" * 500)
            assert (await call(px, image)).status == 200

    asyncio.run(run())


@pytest.mark.parametrize(
    "line", ["X-Any: 1", "Content-Type: application/x-www-form-urlencoded", "Content-Type: text/plain"]
)
def test_the_content_type_of_a_request_does_not_decide_what_is_judged(line: str) -> None:
    async def run() -> None:
        async with upstream(whole(completion("I can't help with that."))) as up, proxy(up.url) as px:
            body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Sing."}]}).encode()
            answer = await call(px, request("POST", "/v1/chat/completions", body, line))
            assert answer.get("x-refusal-verdict") == "hard_refusal"
            assert px.ended[0].ask.prompt == "Sing."

    asyncio.run(run())


@pytest.mark.parametrize("settings", [{}, {"stream_verdict": "off"}, {"hold_chars": 100}], ids=["key", "off", "held"])
@pytest.mark.parametrize("start", [b"", b": "], ids=["whole events", "a comment first"])
def test_a_piece_of_many_events_is_read_in_small_parts(
    settings: dict[str, Any], start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, read = list[int](), StreamInspection._read

    def counted(self: StreamInspection, piece: bytes) -> Any:
        sizes.append(len(piece))
        return read(self, piece)

    monkeypatch.setattr(StreamInspection, "_read", counted)
    body = start + b"data:{}\n\n" * 5000 + b"".join(REFUSED)
    answer, exchange = through(*streamed(body), **settings)
    assert KEY.sub(b"", answer.body) == body
    assert exchange.verdict is not None
    assert exchange.verdict.label == "hard_refusal"
    assert sum(sizes) == len(body)
    assert max(sizes) <= 2 * TURN
