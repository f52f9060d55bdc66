"""Case by case what the wire must show; the numbers are those of the project's list of wire cases."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from fake_upstream import (
    DONE,
    END,
    FIN,
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
    read_answer,
    request,
    say,
    upstream,
    whole,
)

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


@MODES
def test_w01_events_arrive_as_they_are_sent(mode: str) -> None:
    steps: list[Step] = [head()]
    for _ in range(6):
        steps += [chunk(say("t")), 0.2]
    answer, _ = through(*steps, END, stream_verdict=mode)
    times = [when for when, piece in answer.times if piece]
    assert len(times) == 6
    gaps = [after - before for before, after in pairwise(times)]
    assert all(0.1 < gap < 1 for gap in gaps)  # one by one, neither together nor late


def test_json_lines_arrive_as_they_are_sent() -> None:
    lines = [b'{"message": {"content": "t"}, "done": false}\n'] * 3
    steps: list[Step] = [head("application/x-ndjson")]
    for line in lines:
        steps += [chunk(line), 0.2]
    answer, _ = through(*steps, END, sent=ask(path="/api/chat"))
    times = [when for when, piece in answer.times if piece]
    assert all(0.1 < after - before < 1 for before, after in pairwise(times))
    assert (answer.body, answer.get("x-refusal-verdict")) == (b"".join(lines), "pending")


def test_w02_the_head_comes_before_the_first_event() -> None:
    answer, _ = through(head(), 0.5, chunk(say("t")), END)
    (head_at, _), (event_at, _) = answer.times
    assert event_at - head_at > 0.3


def test_w03_nothing_before_us_is_to_buffer_events() -> None:
    answer, _ = through(*streamed(b"".join(REFUSED)))
    assert answer.get("x-accel-buffering") == "no"
    assert answer.all("cache-control") == ["no-cache, no-transform"]
    assert answer.get("content-length") is None
    kept, _ = through(head("text/event-stream; charset=utf-8", "Cache-Control: no-store"), chunk(DONE), END)
    assert kept.all("cache-control") == ["no-store"]


@MODES
def test_w04_w05_any_cut_gives_the_same_bytes_and_the_same_verdict(mode: str) -> None:
    texts = ["北京🙂 I'm sorry, ", "but I can't help with that."]
    body = b"".join([OPENING, *map(say, texts), STOP, DONE])
    cuts: list[Sequence[int]] = [[], range(1, len(body))]
    start = body.index("北".encode())
    cuts += [[at] for at in range(start - 1, start + 12)]
    cuts += [sorted(random.Random(seed).sample(range(1, len(body)), 9)) for seed in range(10)]

    async def run() -> list[tuple[Answer, Exchange]]:
        scripts = [streamed(body, cut) for cut in cuts]
        async with upstream(*scripts[0], then=scripts[1:]) as up, proxy(up.url, stream_verdict=mode) as px:
            return [(await call(px, ask(stream=True)), await px.end(number)) for number in range(1, len(cuts) + 1)]

    results = asyncio.run(run())
    for answer, exchange in results:
        same(answer.body, body, mode)
        assert exchange.verdict is not None
        assert exchange.trace is not None
        assert exchange.trace.choices[0].text == "".join(texts)
    assert len({repr(e.verdict.with_id("")) for _, e in results if e.verdict}) == 1


@MODES
def test_every_byte_its_own_write(mode: str) -> None:  # W05 with pauses, so that nothing is joined on the way
    body = b"".join([say("No."), STOP, DONE])
    answer, exchange = through(*streamed(body, range(1, len(body)), 0.001), stream_verdict=mode)
    same(answer.body, body, mode)
    assert exchange.end == "complete"


@MODES
@pytest.mark.parametrize(
    "body",
    [
        b"".join([say(t, eol="\r\n") for t in REFUSAL] + [event({}, "stop", eol="\r\n")]),  # W06
        b"\xef\xbb\xbf" + b"".join(REFUSED),  # W12
        b": keep-alive\n\n:\n" + b"".join(REFUSED) + b"event: ping\ndata: {}\n\n",  # W13, W14
        b"".join(REFUSED[:-1]) + STOP[:-2],  # a finish chunk without its blank line
        b"".join(REFUSED).replace(b"data: {", b"data:{"),  # W09
    ],
    ids=["w06-crlf", "w12-bom", "w13-comments", "no-blank-line", "w09-no-space"],
)
def test_framing_stays_as_it_is(body: bytes, mode: str) -> None:
    for steps in (streamed(body), streamed(body, range(7, len(body), 7))):
        answer, exchange = through(*steps, stream_verdict=mode)
        same(answer.body, body, mode)
        assert exchange.verdict is not None
        assert exchange.verdict.label == "hard_refusal"


def test_w18_a_stream_without_end_marker() -> None:
    body = b"".join(REFUSED[:-1])
    answer, exchange = through(
        head("text/event-stream", "Connection: close"), chunk(body), END, FIN, stream_verdict="off"
    )
    assert answer.body == body
    assert exchange.done_marker is False
    assert exchange.verdict is not None
    assert (exchange.verdict.label, exchange.verdict.status) == ("hard_refusal", "complete")


@MODES
def test_w19_a_stream_without_finish_reason_is_incomplete(mode: str) -> None:
    body = say("Here is ") + say("how:")
    raw = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + body
    answer, exchange = through(raw, FIN, stream_verdict=mode)
    same(answer.body, body, mode, keys=0)
    assert answer.clean
    assert exchange.verdict is not None
    assert exchange.verdict.status == "incomplete"


@MODES
def test_w22_w24_odd_chunks_pass(mode: str) -> None:
    odd = [
        b'data: {"id":"c","choices":[],"prompt_filter_results":[{"prompt_index":0}]}\n\n',
        OPENING,
        b'data: {"id":"c","choices":null}\n\n',
        b'data: {"id":"c"}\n\n',
        event(None),
        b'data: {"id":"c","choices":[{"index":0,"finish_reason":null}]}\n\n',
        b'data: {"id":"c","choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{"end_offset":2}}]}\n\n',
        b"data: not json\n\n",
        say("Fine."),
        STOP,
        b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n',
        DONE,
    ]
    answer, exchange = through(*streamed(b"".join(odd)), stream_verdict=mode)
    same(answer.body, b"".join(odd), mode)
    assert exchange.verdict is not None
    assert exchange.verdict.label == "answer"


@MODES
def test_w27_several_choices_have_a_verdict_each(mode: str) -> None:
    said = [
        say("Sure, here it is.", index=0),
        say("I can't help with that.", index=1),
        say("Of course: done.", index=2),
    ]
    ends = [event({}, "stop", index=2), event({}, "stop", index=0), event({}, "length", index=1)]
    body = b"".join([*said, *ends, DONE])
    answer, exchange = through(*streamed(body), sent=ask(stream=True, n=3), stream_verdict=mode)
    same(answer.body, body, mode, keys=3)
    assert exchange.verdict is not None
    assert exchange.verdict.label == "hard_refusal"
    assert [choice.index for choice in exchange.verdict.choices] == [0, 1, 2]
    if mode == "chunk":
        events = [json.loads(line[6:]) for line in answer.body.split(b"\n") if line.startswith(b"data: {")]
        keyed = [c for e in events for c in e["choices"] if "refusal_verdict" in c]
        labels = {choice["index"]: choice["refusal_verdict"]["label"] for choice in keyed}
        assert labels == {0: "answer", 1: "hard_refusal", 2: "answer"}
        assert all("refusal_verdict" not in e for e in events)


@MODES
@pytest.mark.parametrize(
    ("first", "status", "label"),
    [
        (b'data: {"error":{"code":"content_filter","message":"filtered"}}\n\n', "complete", "hard_refusal"),  # W32
        (b'data: {"error":{"code":504,"type":"timeout"}}\n\n', "upstream_error", None),  # W33
        (b'data: {"object":"error","message":"out of memory"}\n\n', "upstream_error", None),
        (b'event: error\ndata: {"message":"overloaded"}\n\n', "upstream_error", None),
    ],
)
def test_w32_w33_errors_inside_a_stream(first: bytes, status: str, label: str | None, mode: str) -> None:
    answer, exchange = through(*streamed(first + DONE), stream_verdict=mode)
    same(answer.body, first + DONE, mode, keys=0)
    assert exchange.verdict is not None
    assert (exchange.verdict.status, exchange.verdict.label) == (status, label)


def test_w35_an_event_stream_that_nobody_asked_for() -> None:
    answer, exchange = through(*streamed(b"".join(REFUSED)), sent=ask(), stream_verdict="off")
    assert answer.body == b"".join(REFUSED)
    assert exchange.stream
    assert exchange.verdict is not None
    assert exchange.verdict.label == "hard_refusal"


def test_w41_a_coded_stream_passes_event_by_event_and_is_judged() -> None:
    packer = zlib.compressobj(wbits=31)
    pieces = [packer.compress(e) + packer.flush(zlib.Z_SYNC_FLUSH) for e in REFUSED]
    pieces.append(packer.flush())
    steps: list[Step] = [head("text/event-stream", "Content-Encoding: gzip")]
    for piece in pieces:
        steps += [chunk(piece), 0.05]
    answer, exchange = through(*steps, END)
    assert answer.get("content-encoding") == "gzip"
    assert [piece for _, piece in answer.times if piece] == pieces
    assert exchange.verdict is not None
    assert exchange.verdict.label == "hard_refusal"


@pytest.mark.parametrize("mode", ["off", "chunk"])
def test_an_endless_event_passes_and_is_not_kept(mode: str) -> None:  # W16, in small
    big = say("x" * 300_000)
    body = big + STOP + DONE
    answer, _ = through(*streamed(body, range(10_000, len(body), 10_000)), stream_verdict=mode)
    same(answer.body, body, mode)


# Complete answers


def test_w40_coded_json_keeps_its_bytes_and_is_judged() -> None:
    plain = completion("I'm sorry, but I can't help with that.")
    for coding, packed in {
        "gzip": _gzip(plain),
        "deflate": zlib.compress(plain),
        "x-gzip": _gzip(plain),
    }.items():
        answer, _ = through(
            whole(packed, "application/json", f"Content-Encoding: {coding}"),
            sent=ask("How?", "Accept-Encoding: gzip, br;q=0.5, zstd"),
        )
        assert (answer.body, answer.get("content-encoding")) == (packed, coding)
        assert answer.get("content-length") == str(len(packed))
        assert answer.get("x-refusal-verdict") == "hard_refusal"
    unknown, _ = through(whole(b"??", "application/json", "Content-Encoding: secret"), sent=ask())
    assert (unknown.body, unknown.get("x-refusal-status")) == (b"??", "unparsed")


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("status", "content_type", "body", "expected"),
    [  # W34, W37
        (
            "401 Unauthorized",
            "application/json",
            b'{"error":{"message":"no key","code":"invalid_api_key"}}',
            "upstream_error",
        ),
        ("429 Too Many Requests", "application/json", b'{"error":{"message":"slow down"}}', "upstream_error"),
        ("502 Bad Gateway", "text/html", b"<html>502</html>", "upstream_error"),
        ("200 OK", "application/json", b"", "empty"),
        ("200 OK", "application/json", b'{"choices":[{"mess', "unparsed"),
        ("200 OK", "application/json", completion(None), "empty"),
    ],
)
def test_w34_w37_status_type_and_bytes_stay(status: str, content_type: str, body: bytes, expected: str) -> None:
    answer, _ = through(whole(body, content_type, status=status), sent=ask(stream=status[0] != "2"))
    assert (answer.status, answer.get("content-type"), answer.body) == (int(status[:3]), content_type, body)
    assert answer.get("x-refusal-status") == expected
    assert answer.get("x-refusal-verdict") is None


def test_w37_no_content() -> None:
    answer, exchange = through(b"HTTP/1.1 204 No Content\r\n\r\n", sent=ask())
    assert (answer.status, answer.body) == (204, b"")
    assert exchange.verdict is not None
    assert exchange.verdict.status == "empty"


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


def test_w56_bodies_go_up_byte_for_byte() -> None:
    body = (
        b'{"b":1,"a":"\\u003c","model":"m","n":1,"x":1.0,"y":1e3,"a":2,"s":"\\ud800",'
        b'"messages":[{"role":"user","content":"hi"}],"odd":{"k":[null]}}\n'
    )

    async def run() -> None:
        async with upstream(whole(completion("Fine."))) as up, proxy(up.url) as px:
            target = "/v1/chat/completions?api-version=%7E1&x=a+b"
            await call(px, request("POST", target, body, "Content-Type: application/json"))
            (got,) = up.requests
            assert hashlib.sha256(got.body).digest() == hashlib.sha256(body).digest()
            assert got.target == target

    asyncio.run(run())


def test_w50_w53_framing_of_requests() -> None:
    async def run() -> None:
        async with upstream(whole(completion("Fine."))) as up, proxy(up.url) as px:
            chunked = b"".join([chunk(b'{"model":"m",'), chunk(b'"messages":[]}'), END])
            lines = ("Transfer-Encoding: chunked", "Content-Type: application/json")
            await call(px, request("POST", "/v1/chat/completions", None, *lines) + chunked)
            await call(px, request("POST", "/v1/files", None, "Transfer-Encoding: chunked") + chunked)
            await call(px, request("GET", "/v1/models"))
            await call(px, request("DELETE", "/v1/files/x"))
            judged, other, get, delete = up.requests
            assert judged.body == other.body == b'{"model":"m","messages":[]}'
            assert judged.all("content-length") == [str(len(judged.body))]
            assert judged.all("transfer-encoding") == []
            assert (other.all("content-length"), other.all("transfer-encoding")) == ([], ["chunked"])
            assert (get.all("content-length"), get.all("transfer-encoding")) == ([], [])
            assert delete.all("transfer-encoding") == []
            assert delete.body == b""

    asyncio.run(run())


def test_w51_expect_100_continue() -> None:
    async def run() -> None:
        body = random.Random(1).randbytes(3_000_000)
        async with upstream(whole(b"{}")) as up, proxy(up.url) as px:
            async with connection(px) as (reader, writer), asyncio.timeout(20):
                lines = ("Expect: 100-continue", f"Content-Length: {len(body)}")
                writer.write(request("POST", "/v1/audio/transcriptions", None, *lines))
                assert b" 100 " in await reader.readuntil(b"\r\n\r\n")
                writer.write(body)
                assert (await read_answer(reader)).status == 200
            assert up.requests[0].body == body
            assert up.requests[0].all("expect") == []

    asyncio.run(run())


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


def test_w55_multipart_goes_up_unread() -> None:
    async def run() -> None:
        part = b"--b'()+_,-./:=?\r\n\r\n" + random.Random(2).randbytes(400_000) + b"\x00\xff\r\n--"
        async with upstream(whole(b"{}")) as up, proxy(up.url) as px:
            kind = 'Content-Type: multipart/form-data; boundary="b\'()+_,-./:=?"'
            body = b"".join([chunk(part[i : i + 9999]) for i in range(0, len(part), 9999)]) + END
            await call(px, request("POST", "/v1/audio/transcriptions", None, kind, "Transfer-Encoding: chunked") + body)
            assert up.requests[0].body == part
            assert up.requests[0].all("content-type") == [kind.partition(": ")[2]]

    asyncio.run(run())
