"""Streams and their framing: W01 to W29. What an upstream writes comes out, byte for byte and at once."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from fake_upstream import (
    DONE,
    END,
    Step,
    ask,
    call,
    chunk,
    connection,
    event,
    head,
    proxy,
    read_answer,
    request,
    say,
    upstream,
)
from wire.exported import exported, play_exported
from wire.notation import chunked, closing, keys, octets, play, same, steps, text_of, verdict

from demur.classifier.sse import Event
from demur.classifier.stream import Finish, StreamJudge

OPENING = event({"role": "assistant", "content": ""})
STOP = event({}, "stop")
REFUSAL = ["I'm sorry, but ", "I can't help ", "with that request."]
REFUSED = b"".join([OPENING, *map(say, REFUSAL), STOP, DONE])
MODES = pytest.mark.parametrize("mode", ["off", "chunk"])
#: An upstream and a client in one process on a busy machine; the tests say "at once", not how fast.
SOON = 0.5


@MODES
@pytest.mark.parametrize("sent", [ask(stream=True), request("GET", "/v1/events")], ids=["judged", "other"])
def test_w01_events_arrive_as_they_are_sent(sent: bytes, mode: str) -> None:
    def stamped() -> bytes:
        return chunk(say(f"<{time.monotonic()}>"))

    async def run() -> None:
        script: list[Step] = [head(), *[step for _ in range(10) for step in (stamped, 0.2)], END]
        async with (
            upstream(*script) as up,
            proxy(up.url, stream_verdict=mode) as px,
            connection(px) as (reader, writer),
        ):
            writer.write(sent)
            await reader.readuntil(b"\r\n\r\n")
            late = []
            for _ in range(10):
                await reader.readuntil(b"<")
                late.append(time.monotonic() - float((await reader.readuntil(b">"))[:-1]))
            assert max(late) < SOON

    asyncio.run(run())


@MODES
def test_w02_the_head_comes_before_the_first_event(mode: str) -> None:
    async def run() -> None:
        async with upstream(head(), 2.0, chunk(REFUSED), END) as up, proxy(up.url, stream_verdict=mode) as px:
            answer = await call(px, ask(stream=True))
            (head_at, _), (event_at, _), *_ = answer.times
            assert event_at - head_at > 1.5

    asyncio.run(run())


@MODES
@pytest.mark.parametrize("kind", ["text/event-stream", "Text/Event-Stream; charset=UTF-8"])
@pytest.mark.parametrize("make", [chunked, closing])
def test_w03_nothing_before_us_is_to_buffer_events(make: Any, kind: str, mode: str) -> None:
    script = make(REFUSED)
    script[0] = script[0].replace(b"text/event-stream", kind.encode())
    kept = [script[0].replace(b"\r\n\r\n", b"\r\nCache-Control: no-store\r\n\r\n"), *script[1:]]
    (plain, _), (told, _) = play([script, kept], stream_verdict=mode)
    for answer in (plain, told):
        assert answer.all("x-accel-buffering") == ["no"]
        assert (answer.get("content-length"), answer.get("content-type")) == (None, kind)
        same(answer, REFUSED, mode)
    assert plain.all("cache-control") == ["no-cache, no-transform"]
    assert told.all("cache-control") == ["no-store"]


@MODES
def test_w04_a_cut_at_every_byte(mode: str) -> None:
    text = "北京🙂 I'm sorry, but I can't help with that."
    event_of_all = say(text)
    body = event_of_all + STOP + DONE
    scripts = [closing(body, [cut]) for cut in range(1, len(event_of_all) + 3)]
    results = play(scripts, stream_verdict=mode)
    for answer, exchange in results:
        same(answer, body, mode)
        assert text_of(exchange) == text
        assert "\ufffd" not in text_of(exchange)
        assert verdict(exchange) == ("hard_refusal", "complete")


@MODES
@pytest.mark.parametrize("make", [chunked, closing])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
def test_w05_every_byte_its_own_write(make: Any, line_end: str, mode: str) -> None:
    body = b"".join([say("北京🙂 I can't help with that."), STOP, DONE]).replace(b"\n", line_end.encode())
    (whole_answer, whole), (answer, exchange) = play(
        [make(body), make(body, range(1, len(body)), 0.002)], stream_verdict=mode
    )
    same(whole_answer, body, mode)
    same(answer, body, mode)
    assert whole.verdict is not None
    assert exchange.verdict is not None
    assert exchange.verdict.with_id("") == whole.verdict.with_id("")


def pretty(piece: bytes) -> bytes:
    """One event, its JSON over several `data:` lines."""
    lines = json.dumps(json.loads(piece[6:]), indent=1, ensure_ascii=False).split("\n")
    return "".join(f"data: {line}\n" for line in lines).encode() + b"\n"


#: What comes in front of, between and around the events of one and the same refusal.
FRAMINGS = {
    "W06 CR LF": REFUSED.replace(b"\n", b"\r\n"),
    "W07 CR": REFUSED.replace(b"\n", b"\r"),
    "W08 LF, then CR LF": REFUSED.replace(b"\n\n", b"\n\r\n"),
    "W08 CR LF, then LF": REFUSED.replace(b"\n\n", b"\r\n\n"),
    "W08 LF, then CR": REFUSED.replace(b"\n\n", b"\n\r"),
    "W08 each event another one": b"".join(
        piece + b"\n\n" if n % 3 == 0 else piece + b"\r\n\r\n" if n % 3 == 1 else piece + b"\r\r"
        for n, piece in enumerate(REFUSED.split(b"\n\n")[:-1])
    ),
    "W09 no space": REFUSED.replace(b"data: ", b"data:"),
    "W09 two spaces": REFUSED.replace(b"data: {", b"data:  {"),
    "W10 over several lines": b"".join(map(pretty, [OPENING, *map(say, REFUSAL), STOP])) + DONE,
    "W10 over several lines, CR LF": (b"".join(map(pretty, [OPENING, *map(say, REFUSAL), STOP])) + DONE).replace(
        b"\n", b"\r\n"
    ),
    "W11 more blank lines": REFUSED.replace(b"\n\n", b"\n\n\n\n"),
    "W11 more blank lines, CR LF": REFUSED.replace(b"\n\n", b"\r\n\r\n\r\n"),
    "W12 BOM": b"\xef\xbb\xbf" + REFUSED,
    "W12 BOM, CR LF": b"\xef\xbb\xbf" + REFUSED.replace(b"\n", b"\r\n"),
    "W13 comments": octets(": keep-alive⏎⏎:⏎⏎:⏎") + REFUSED.replace(b"data: {", b": ok\n\ndata: {"),
    "W13 comments, CR LF": octets(": keep-alive␍⏎␍⏎:␍⏎") + REFUSED.replace(b"\n", b"\r\n"),
    "W14 pings": REFUSED.replace(b"data: {", b'event: ping\ndata: {"type":"ping"}\n\ndata:\n\ndata: {'),
    "W15 ids and times": b"retry: 3000\n\n" + REFUSED.replace(b"data: {", b"id: 7\nretry: 9\nevent: message\ndata: {"),
    "W15 unknown fields": REFUSED.replace(b"data: {", b"x-trace: 1\nnonsense\ndata: {"),
    "W15 an event's name last": REFUSED.replace(b"}\n\n", b"}\nevent: message\nid: 1\n\n"),
    "W21 more after the end": REFUSED + b": bye\n\n" + b'data: {"choices":[],"usage":{"total_tokens":1}}\n\n',
    "W21 no blank line at the end": REFUSED[:-1],
    "W21 no line end at the end": REFUSED[:-2],
}


@MODES
@pytest.mark.parametrize("name", FRAMINGS)
def test_w06_w07_w08_w09_w10_w11_w12_w13_w14_w15_w17_w21_any_framing_stays(name: str, mode: str) -> None:
    body = FRAMINGS[name]
    edges = [at for at in range(1, len(body)) if body[at - 1] in b"\r\n\xef\xbb\xbf" or body[at] in b"\r\n"]
    scripts = [
        closing(body),  # several events in one write (W17)
        closing(body, edges, 0.002),  # between all CR and LF
        closing(body, edges[::2], 0.002),
        chunked(body, range(7, len(body), 7), 0.001),
        chunked(body, [1, 2, 3, len(body) - 1], 0.002),
    ]
    for answer, exchange in play(scripts, stream_verdict=mode):
        same(answer, body, mode)
        assert text_of(exchange) == "".join(REFUSAL)
        assert verdict(exchange) == ("hard_refusal", "complete")
        assert exchange.done_marker is True
        for key in keys(answer.body):
            assert key["label"] == "hard_refusal"


@pytest.mark.parametrize("eol", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_w09_of_two_spaces_one_stays(eol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON reads the same with any; what is read is not the same."""
    seen: list[tuple[str | None, str]] = []
    feed_all = StreamJudge.feed_all

    def told(self: StreamJudge, events: Sequence[Event]) -> list[Finish]:
        seen.extend((event.name, event.data.decode()) for event in events)
        return feed_all(self, events)

    monkeypatch.setattr(StreamJudge, "feed_all", told)
    data = say("Fine.")[len(b"data: ") : -2].decode()
    lines = [
        f"data:{data}",
        f"data: {data}",
        f"data:  {data}",
        f"event:x{eol}data: {data}",
        f"event:  x{eol}data:{data}",
    ]
    body = "".join(line + 2 * eol for line in lines).encode() + STOP + DONE
    ((answer, exchange),) = play([chunked(body)], stream_verdict="off")
    same(answer, body, "off")
    assert seen[:5] == [(None, data), (None, data), (None, " " + data), ("x", data), (" x", data)]
    assert text_of(exchange) == "Fine." * 5


@MODES
def test_w13_comments_come_as_comments_and_are_no_first_token(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    alive = octets(": keep-alive⏎⏎")

    async def run() -> None:
        script: list[Step] = [head(), *[s for _ in range(10) for s in (chunk(alive), 0.3)], chunk(octets(":⏎")), 0.1]
        settings: dict[str, Any] = {"stream_verdict": mode, "app": {"telemetry": out.telemetry}}
        async with upstream(*script, chunk(REFUSED), END) as up, proxy(up.url, **settings) as px:
            answer = await call(px, ask(stream=True))
            same(answer, alive * 10 + octets(":⏎") + REFUSED, mode)
            times = [when for when, piece in answer.times if piece == alive]
            assert len(times) == 10
            assert all(0.2 < after - before < 0.3 + SOON for before, after in pairwise(times))
            exchange = await px.end()
            assert exchange.first_event is not None
            assert exchange.first_byte is not None
            assert exchange.first_event - exchange.first_byte > 2.5
            assert verdict(exchange) == ("hard_refusal", "complete")
            client = (await asyncio.to_thread(out.pair, exchange.id)).client
            assert client.attributes["gen_ai.response.time_to_first_chunk"] > 2.5

    with exported() as out:
        asyncio.run(run())
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@MODES
@pytest.mark.parametrize("make", [chunked, closing])
def test_w18_a_stream_without_end_marker(make: Any, mode: str) -> None:
    body = REFUSED[: -len(DONE)]
    played = play_exported([make(body), make(REFUSED)], stream_verdict=mode)
    for (answer, exchange, spans), sent, marker in zip(played, (body, REFUSED), (False, True), strict=True):
        same(answer, sent, mode)
        assert exchange.done_marker is marker
        assert spans.client.attributes["stream.done_marker"] is marker
        assert verdict(exchange) == ("hard_refusal", "complete")
        assert (spans.both("refusal.verdict"), spans.both("refusal.status")) == ("hard_refusal", "complete")


@MODES
@pytest.mark.parametrize("make", [chunked, closing])
def test_w19_a_stream_without_finish_reason(make: Any, mode: str) -> None:
    body = b"".join([OPENING, say("Here is "), say("how:")])
    long = body + b"".join(say(f"Step {number}: whisk the eggs, fold in the flour. ") for number in range(200))
    scripts = [make(body), make(body + DONE), make(long), make(say(REFUSAL[0]) + say("I can't help with that."))]
    *plain, (_, refusal) = play(scripts, stream_verdict=mode)
    for (answer, exchange), sent in zip(plain, (body, body + DONE, long), strict=True):
        same(answer, sent, mode, 0)
        assert verdict(exchange) == ("answer", "incomplete")
        assert exchange.verdict is not None
        assert exchange.verdict.confidence is not None
        assert exchange.verdict.confidence <= 0.9
    assert verdict(refusal) == ("hard_refusal", "incomplete")


def test_w20_a_stream_that_stays_open_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        settings: dict[str, Any] = {"idle_timeout": 0.5, "app": {"telemetry": out.telemetry}}
        async with upstream(head(), chunk(say("Fine.") + STOP), 20.0, END) as up, proxy(up.url, **settings) as px:
            answer = await call(px, ask(stream=True))
            assert not answer.clean
            exchange = await px.end()
            assert exchange.end == "idle_timeout"
            assert "upstream_error" not in (exchange.error or "")
            await asyncio.wait_for(up.left.wait(), 5)
        assert out.pair(exchange.id).both("error.type") == "idle_timeout"

    with caplog.at_level(logging.INFO, "demur"), exported() as out:
        asyncio.run(run())
    assert "ended by idle_timeout" in caplog.text
    assert "upstream_error" not in caplog.text


ODD = [
    b'data: {"id":"c","choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}\n\n',
    OPENING,
    b'data: {"id":"c","choices":null}\n\n',
    b'data: {"id":"c"}\n\n',
    event(None),
    b'data: {"id":"c","choices":[{"index":0,"finish_reason":null}]}\n\n',
    b'data: {"id":"c","choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{"end_offset":2}}]}\n\n',
    b'data: {"id":"c","choices":["odd",7,null]}\n\n',
    b'data: {"id":"c","choices":{"0":{}}}\n\n',
    b'data: {"id":7,"choices":[{"index":"0","delta":[]}],"usage":[]}\n\n',
    b'data: {"id":"c","choices":[{"index":0,"delta":{"content":[{"type":"text"}],"tool_calls":{}}}]}\n\n',
    b"data: [1,2]\n\n",
    b"data: null\n\n",
    b"data: not json\n\n",
    b'data: {"half":\n\n',
    b"data: " + b"[" * 5000 + b"\n\n",
    b'data: {"id":"\xff\xfe","choices":[]}\n\n',
    b'data: {"id":"\\ud800","choices":[{"index":0,"delta":{"content":""}}]}\n\n',
]


@MODES
def test_w22_w24_odd_chunks_pass(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    usage = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n'
    bodies = [b"".join([odd, say("Fine."), odd, STOP, usage, DONE]) for odd in ODD]
    bodies.append(b"".join([*ODD[:8], say("Fine."), STOP, usage, DONE]))
    for body, (answer, exchange) in zip(
        bodies, play([chunked(body) for body in bodies], stream_verdict=mode), strict=True
    ):
        same(answer, body, mode)
        assert verdict(exchange) == ("answer", "complete")
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_w23_no_option_is_added_and_no_chunk() -> None:
    async def run() -> None:
        async with upstream(*chunked(REFUSED)) as up, proxy(up.url) as px:
            sent = ask(stream=True)
            answer = await call(px, sent)
            assert up.requests[0].body == sent.partition(b"\r\n\r\n")[2]
            assert b"include_usage" not in up.requests[0].body
            assert answer.body.count(b"data: ") == REFUSED.count(b"data: ")

    asyncio.run(run())


def test_w24_what_azure_filtered_is_recorded() -> None:
    filtered = {"hate": {"filtered": True, "severity": "high"}}
    chunks = [
        {"id": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]},
        {"id": "c", "choices": [{"index": 0, "delta": {"content": "The horns"}, "finish_reason": None}]},
        {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "content_filter"}]},
        {
            "id": "",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": None,
                    "content_filter_results": filtered,
                    "content_filter_offsets": {"check_offset": 44, "start_offset": 44, "end_offset": 198},
                }
            ],
        },
    ]
    body = b"".join(b"data: %b\n\n" % json.dumps(piece).encode() for piece in chunks) + DONE
    path = "/openai/deployments/x/chat/completions?api-version=2024-10-21"
    for mode in ("off", "chunk"):
        ((answer, exchange),) = play([chunked(body)], ask(stream=True, path=path), stream_verdict=mode)
        same(answer, body, mode)
        assert verdict(exchange) == ("hard_refusal", "complete")
        assert exchange.verdict is not None
        assert "content_filter" in (exchange.verdict.blocked_by or "")


@MODES
@pytest.mark.parametrize("last", ["stop", "sensitive", "model_length", "eos_token", "北"])
def test_w25_any_finish_reason_is_kept(last: str, mode: str) -> None:
    unset = say("Fine.").replace(b'"finish_reason":null', b'"finish_reason":""')
    missing = say(" Fine.").replace(b',"finish_reason":null', b"")
    body = b"".join([OPENING, unset, missing, event({}, last), DONE])
    ((answer, exchange, spans),) = play_exported([chunked(body)], stream_verdict=mode)
    same(answer, body, mode)
    assert exchange.trace is not None
    assert exchange.trace.choices[0].finish_reason == last
    assert spans.client.attributes["gen_ai.response.finish_reasons"] == [last]
    assert (spans.client.is_error, spans.server.is_error) == (False, False)
    assert text_of(exchange) == "Fine. Fine."


@MODES
def test_w26_tool_calls_in_pieces(mode: str) -> None:
    parts: list[Any] = [
        {"role": "assistant", "tool_calls": [{"index": 0, "id": "t1", "function": {"name": "find", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"text": "I can'}}]},
        {"tool_calls": [{"index": 1, "id": "t2", "function": {"name": "tell", "arguments": '{"a\\u00e9'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "'t help with that.\"}"}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": '": 1}'}}]},
        {"function_call": {"name": "old", "arguments": "{}"}},
    ]
    body = b"".join([*map(event, parts), event({}, "tool_calls"), DONE])
    scripts = [chunked(body), closing(body, range(1, len(body), 11), 0.001)]
    for answer, exchange in play(scripts, stream_verdict=mode):
        same(answer, body, mode)
        assert verdict(exchange) == (None, "tool_call")


@MODES
def test_w27_several_choices_have_a_verdict_each(mode: str) -> None:
    said = [say("Sure: ", index=0), say("I can't help ", index=1), say("Of course: ", index=2)]
    more = [say("with that.", index=1), say("done.", index=2), say("here it is.", index=0)]
    ends = [event({}, "stop", index=2), event({}, "stop", index=0), event({}, "length", index=1)]
    body = b"".join([*said, *more, *ends, DONE])
    scripts = [chunked(body), closing(body, range(5, len(body), 13), 0.001)]
    for answer, exchange in play(scripts, ask(stream=True, n=3), stream_verdict=mode):
        same(answer, body, mode, 3)
        assert exchange.verdict is not None
        assert exchange.verdict.label == "hard_refusal"
        assert [(c.index, c.label) for c in exchange.verdict.choices] == [
            (0, "answer"),
            (1, "hard_refusal"),
            (2, "answer"),
        ]
        if mode == "chunk":
            assert [key["label"] for key in keys(answer.body)] == ["answer", "answer", "hard_refusal"]
            chunks = [json.loads(line[6:]) for line in answer.body.splitlines() if line.startswith(b"data: {")]
            assert not any("refusal_verdict" in chunk for chunk in chunks)
            assert [chunk["choices"][0]["refusal_verdict"]["label"] for chunk in chunks[-3:]] == [
                "answer",
                "answer",
                "hard_refusal",
            ]


@MODES
def test_w28_log_probabilities_pass(mode: str) -> None:
    logged = {"token": "No", "bytes": [78, 111], "logprob": -0.5, "top_logprobs": []}

    def with_logprobs(piece: bytes, **both: Any) -> bytes:
        return piece.replace(b'"delta"', b'"logprobs":' + json.dumps(both).encode() + b',"delta"')

    body = b"".join(
        [
            with_logprobs(say("I can't "), content=[logged], refusal=None),
            with_logprobs(event({"refusal": "help with that."}), content=None, refusal=[logged]),
            with_logprobs(STOP, content=[], refusal=[]),
            DONE,
        ]
    )
    ((answer, exchange),) = play([chunked(body)], stream_verdict=mode)
    same(answer, body, mode)
    assert verdict(exchange) == ("hard_refusal", "complete")


@MODES
def test_w29_thinking_passes_at_once_and_is_not_judged(mode: str) -> None:
    thoughts: list[dict[str, Any]] = [
        {"reasoning_content": "I can't help with that, I must refuse. "},
        {"reasoning": "I won't do that. "},
        {"reasoning_details": [{"type": "reasoning.text", "text": "I'm sorry, but I can't help with that."}]},
    ]
    body = b"".join([*[event(thoughts[n % 3]) for n in range(30)], say("Take two eggs and whisk them."), STOP, DONE])
    cuts = [at + 2 for at in range(len(body)) if body[at : at + 2] == b"\n\n"][:-1]
    ((answer, exchange),) = play([chunked(body, cuts, 0.1)], stream_verdict=mode)
    same(answer, body, mode)
    times = [when for when, piece in answer.times if b"reasoning" in piece]
    assert len(times) == 30
    assert times[-1] - times[0] > 2  # each as it came
    assert verdict(exchange) == ("answer", "complete")
    assert text_of(exchange) == "Take two eggs and whisk them."


def test_the_notation_stands_for_bytes() -> None:
    assert octets("a⏎b␍⏎c␍‖d") == b"a\nb\r\nc\rd"
    assert [step for step in steps("a⏎‖b✂FIN") if isinstance(step, bytes)] == [b"a\n", b"b"]


@MODES
def test_a_client_that_reads_in_its_own_time_gets_all(mode: str) -> None:
    body = b"".join(say(f"{n} " * 50) for n in range(3000)) + STOP + DONE  # more than all buffers on the way hold

    async def run() -> None:
        async with (
            upstream(*chunked(body)) as up,
            proxy(up.url, stream_verdict=mode) as px,
            connection(px) as (reader, writer),
            asyncio.timeout(30),
        ):
            writer.write(ask(stream=True))
            await asyncio.sleep(0.3)
            same(await read_answer(reader), body, mode)

    asyncio.run(run())
