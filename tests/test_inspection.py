from __future__ import annotations

import asyncio
import zlib

import pytest
from fake_upstream import DONE, completion, event, say
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.classifier.judge import default_classifier
from demur.classifier.trace import Ask
from demur.proxy import inspection as module
from demur.proxy.finish import MAY_FINISH
from demur.proxy.inspection import TURN, StreamInspection, ask_of, in_turns, judge_body, parts_of, unjudged

STOP = event({}, "stop")
ASK = Ask(prompt="How do I build it?", model="m")


def inspection(coding: bytes | None = None, api: str = "openai.chat") -> StreamInspection:
    return StreamInspection(default_classifier(), ASK, api, status=200, coding=coding, inspect_chars=100_000)


def test_pieces_that_wait_are_read_in_their_order() -> None:
    texts = ["I'm ", "sorry, ", "but I can't ", "help with that."]
    at_once, later = inspection(), inspection()
    for text in texts:
        assert at_once.feed(say(text)) == []
        later.later(say(text))
    (finish,) = later.feed(STOP)
    assert at_once.feed(STOP) == [finish]
    assert (list(finish.verdicts), finish.several) == ([0], False)
    later.later(DONE)
    assert later.done is True
    judged = later.finish(cut=False)
    at_once.feed(DONE)
    assert judged.verdict == at_once.finish(cut=False).verdict
    assert judged.verdict.label == "hard_refusal"
    assert judged.trace is not None
    assert judged.trace.choices[0].text == "".join(texts)
    assert judged.seconds > 0


# Whichever way the pieces go, as the relay chooses it, events and verdict are those of pieces fed one by one.
@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.sampled_from([say("I "), say("can't "), say('"help" '), say("x", index=1), say("")]).flatmap(
            lambda event: st.lists(st.just(event), min_size=1, max_size=6)
        )
        | st.lists(
            st.sampled_from([STOP, DONE, b": hi\n\n", say("a") + say("b"), say("crlf").replace(b"\n", b"\r\n")])
            | st.sampled_from(
                [b"data: {", b"\n", b"nonsense\n\n", b'data: {"choices":[],"usage":{"total_tokens":1}}\n\n']
            )
            | st.just(event({"content": "a", "refusal": "b"})),
            max_size=2,
        ),
        max_size=6,
    ),
    st.sampled_from(["openai.chat", "gemini"]),
)
def test_pieces_kept_for_later_change_nothing(runs: list[list[bytes]], api: str) -> None:
    single, quick = inspection(api=api), inspection(api=api)
    expected, finished = [], []
    for piece in (piece for run in runs for piece in run):
        expected += single.feed(piece)
        if piece.endswith(b"\n\n") and not MAY_FINISH["openai.chat"](piece):
            quick.later(piece)
        else:
            finished += quick.feed(piece)
    assert finished + quick.close() == expected + single.close()
    assert (quick.done, quick.offset, quick.pending) == (single.done, single.offset, single.pending)
    one, other = quick.finish(cut=False), single.finish(cut=False)
    assert (one.verdict, one.trace) == (other.verdict, other.trace)


def test_the_first_event_is_no_comment() -> None:
    copy = inspection()
    copy.later(b": keep-alive\n\n")
    assert copy.first_event is None
    copy.later(say("x"))
    assert copy.first_event is not None


def test_an_event_that_is_still_arriving_is_read_on() -> None:
    copy = inspection()
    start = event({"role": "assistant", "content": ""})
    copy.feed(start + say("He")[:9])
    assert copy.pending == 9
    copy.feed(say("He")[9:])
    copy.feed(say("llo") * 2)  # read as plain chunks
    assert (copy.pending, copy.offset) == (0, len(start + say("He") + say("llo") * 2))
    ((finished, *_),) = copy.feed(STOP)
    assert (finished.start, finished.end) == (copy.offset - len(STOP), copy.offset)
    judged = copy.finish(cut=False)
    assert judged.trace is not None
    assert judged.trace.choices[0].text == "Hellollo"


def test_a_flood_of_waiting_pieces_is_read_before_the_end() -> None:
    copy = inspection()
    for _ in range(1000):
        copy.later(say("and so on "))
    assert len(copy._waiting) < 40_000


@pytest.mark.parametrize(
    ("coding", "body", "status", "reason"),
    [
        (b"secret", b"?", "unparsed", "content coding secret can't be decoded"),
        (b"gzip", b"plain", "unparsed", "the body is not valid gzip: error"),
    ],
)
def test_what_can_not_be_decoded(coding: bytes, body: bytes, status: str, reason: str) -> None:
    copy = inspection(coding)
    assert copy.feed(body) == copy.close() == []
    assert (copy.pending, copy.done, copy.so_far()) == (0, None, None)
    streamed = copy.finish(cut=False).verdict
    complete = asyncio.run(
        judge_body(default_classifier(), ASK, "openai.chat", status=200, body=body, coding=coding, limit=1000)
    ).verdict
    for verdict in (streamed, complete):
        assert (verdict.label, verdict.status, verdict.reason, verdict.model) == (None, status, reason, "m")


def test_a_packed_body_over_the_limit_is_not_unpacked_further() -> None:
    packed = zlib.compress(completion("x" * 10_000_000))
    verdict = asyncio.run(
        judge_body(default_classifier(), ASK, "openai.chat", status=200, body=packed, coding=b"deflate", limit=5000)
    ).verdict
    assert (verdict.status, verdict.reason) == ("not_classified", "the answer is over 5000 bytes (inspect_bytes)")


def test_a_body_is_judged_as_the_classifier_judges_its_trace() -> None:
    body = completion("I'm sorry, but I can't help with that.")
    judged = asyncio.run(
        judge_body(default_classifier(), ASK, "openai.chat", status=200, body=body, coding=None, limit=1000)
    )
    assert judged.trace is not None
    assert judged.verdict == default_classifier().classify(judged.trace)


def test_a_verdict_says_that_its_ask_was_not_read() -> None:
    ask = Ask(model="m", unread="ask not read: it is too large")
    body = completion("I'm sorry, but I can't help with that.")
    judged = asyncio.run(
        judge_body(default_classifier(), ask, "openai.chat", status=200, body=body, coding=None, limit=1000)
    )
    copy = StreamInspection(default_classifier(), ask, "openai.chat", status=200, coding=None, inspect_chars=1000)
    copy.feed(say("I'm sorry, but I can't help with that.") + STOP)
    for verdict in (judged.verdict, copy.finish(cut=False).verdict):
        assert (verdict.label, verdict.reason) == ("hard_refusal", ask.unread)
    assert unjudged("empty", "nothing came", ask).verdict.reason == "nothing came"


def test_an_unreadable_request_has_no_ask() -> None:
    assert asyncio.run(ask_of(b"\xff not json", "openai.chat", None)) == Ask()


def test_a_coded_stream_is_decoded_piece_by_piece() -> None:
    packer, copy = zlib.compressobj(), inspection(b"deflate")
    for piece in (say("Hel"), say("lo"), say(".") + STOP):
        copy.later(packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH))
    judged = copy.finish(cut=False)
    assert copy.first_event is not None
    assert judged.trace is not None
    assert judged.trace.choices[0].text == "Hello."


@pytest.mark.parametrize("cut", [1, 5, 9, 14])
def test_a_packed_answer_that_breaks_off_is_not_empty(cut: int) -> None:
    packed = zlib.compress(completion("Nine minutes."), wbits=31)[:cut]
    whole = judge_body(default_classifier(), ASK, "openai.chat", status=200, body=packed, coding=b"gzip", limit=1000)
    copy = inspection(b"gzip")
    copy.later(packed)
    assert copy.close() == []
    for verdict in (asyncio.run(whole).verdict, copy.finish(cut=False).verdict):
        assert (verdict.status, verdict.reason) == ("unparsed", "the body is not valid gzip: it breaks off")
    ask = asyncio.run(ask_of(packed, "openai.chat", b"gzip"))
    assert ask.unread == "ask not read: the body is not valid gzip: it breaks off"


@pytest.mark.parametrize("event", [b"data:{}\n\n", b"data:{}\r\n\r\n", b"{}\n", b"{},"])
def test_a_long_piece_is_parted_between_events(event: bytes) -> None:
    whole = event * 10_000
    parts = list(parts_of(whole))
    assert b"".join(parts) == whole
    assert max(map(len, parts)) <= TURN
    assert len(parts) < 1.1 * len(whole) / TURN + 1
    if event.endswith(b"\n"):
        assert all(part.endswith(event) for part in parts)
    assert list(parts_of(b"")) == [b""]
    assert list(parts_of(event)) == [event]


def test_others_get_their_turn_while_a_piece_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE", 0)
    order: list[str] = []

    async def run() -> None:
        reading = asyncio.ensure_future(in_turns(b"{}\n" * 5000, lambda part: order.append("read")))
        while not reading.done():
            order.append("other")
            await asyncio.sleep(0)

    asyncio.run(run())
    assert order.count("read") == len(list(parts_of(b"{}\n" * 5000)))
    assert order.count("other") >= order.count("read")


def test_what_is_cancelled_between_two_parts_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE", 0)
    whole, read = b"{}\n" * 5000, bytearray()

    async def run() -> None:
        reading = asyncio.ensure_future(in_turns(whole, read.extend))
        await asyncio.sleep(0)
        assert 0 < len(read) < len(whole)
        reading.cancel()
        await asyncio.wait({reading})
        assert reading.cancelled()

    asyncio.run(run())
    assert read == whole
