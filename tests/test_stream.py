"""Streams are judged as their text arrives: the verdict is the saved stream's, however the bytes were cut."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from conversations import PAIRS, chunk, event, sse
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.classifier.answer import StreamAnswer
from demur.classifier.judge import Classifier, classify
from demur.classifier.plain import lines_of
from demur.classifier.shapes import normalize
from demur.classifier.sse import Event, SSEReader
from demur.classifier.stream import MAX_REPEATS, StreamJudge
from demur.classifier.trace import Ask, Choice
from demur.classifier.verdict import Verdict

REQUEST = {"messages": [{"role": "user", "content": "How long do eggs boil?"}]}
ASK = Ask("How long do eggs boil?")
NAMES = sorted(PAIRS)


@cache
def rules() -> Classifier:
    """Our own rules, compiled once."""
    return Classifier()


def judged(pieces: Sequence[bytes], **arguments: Any) -> Verdict:
    """The verdict on a stream that arrives in these pieces."""
    judge = StreamJudge(ASK, classifier=rules(), **arguments)
    reader = SSEReader()
    for piece in pieces:
        for one in reader.feed(piece):
            judge.feed(one)
    for one in reader.close():
        judge.feed(one)
    return judge.finish()


def saved(stream: bytes) -> Verdict:
    return rules().classify(normalize({"request": REQUEST, "stream": stream.decode()}))


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_is_judged_like_its_file_and_its_body(name: str) -> None:
    body, stream = PAIRS[name]
    verdict = judged([stream])
    assert verdict == saved(stream)
    assert verdict == judged([stream[i : i + 1] for i in range(len(stream))])
    whole = rules().classify(normalize({"request": REQUEST, "response": body}))
    assert (verdict.label, verdict.status, verdict.signals) == (whole.label, whole.status, whole.signals)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(NAMES), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.lists(st.integers(0, 3000), max_size=8))
def test_any_cut_gives_the_same_verdict(name: str, newline: bytes, cuts: list[int]) -> None:
    stream = PAIRS[name][1].replace(b"\n", newline)
    bounds = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    assert judged([stream[a:b] for a, b in pairwise(bounds)]) == saved(PAIRS[name][1])


# However a text is dealt out over deltas and choices, each choice is judged as if it had come in one piece.
@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.sampled_from(["I can't help ", "with that. ", "Boil them ", "for nine minutes.", "\n\n", "I’m sorry"]),
        max_size=6,
    ),
    st.lists(st.integers(1, 7), min_size=1, max_size=40),
    st.integers(1, 3),
)
def test_any_dealing_gives_the_same_verdict(words: list[str], sizes: list[int], n: int) -> None:
    text = "".join(words)
    deltas: list[str] = []
    at = 0
    while at < len(text):
        size = sizes[len(deltas) % len(sizes)]
        deltas.append(text[at : at + size])
        at += size
    stream = sse(
        *(chunk({"content": delta}, index=index) for delta in deltas for index in range(n)),
        *(chunk({}, "stop", index=index) for index in range(n)),
    )
    choices = [{"index": i, "message": {"content": text}, "finish_reason": "stop"} for i in range(n)]
    whole = rules().classify(normalize({"request": REQUEST, "response": {"choices": choices}}))
    verdict = judged([stream])
    assert (verdict.label, verdict.status, verdict.signals) == (whole.label, whole.status, whole.signals)
    assert [v.label for v in verdict.choices] == [v.label for v in whole.choices]


def test_the_verdict_of_a_finished_choice_is_final() -> None:
    judge = StreamJudge(ASK, "openai.chat", classifier=rules())
    assert judge.feed(event(chunk({"content": "I can't help with that."}, index=1))) == ()
    assert judge.feed(event(chunk({"content": "Nine minutes."}))) == ()
    assert judge.feed(event(chunk({}, "stop", index=1))) == (1,)
    early = judge.choice_verdict(1)
    assert (early.is_refusal(), early.status, early.index, early.model) == (True, "complete", 1, "m-1")
    assert judge.feed(event(chunk({}, "stop"))) == (0,)
    verdict = judge.finish()
    assert verdict.choices == (judge.choice_verdict(0), early)
    assert (verdict.label, verdict.signals) == (early.label, early.signals)
    assert verdict == judge.finish(), "asking twice changes nothing"


def test_a_block_is_known_in_the_event_that_brings_it() -> None:
    judge = StreamJudge(ASK, "openai.chat", classifier=rules())
    judge.feed(event(chunk({"content": "The horns"})))
    assert judge.feed(event(chunk({}, "content_filter"))) == (0,)
    verdict = judge.choice_verdict(0)
    assert (verdict.label, verdict.status, verdict.blocked_by) == ("hard_refusal", "complete", "content_filter")


def test_a_cut_stream_is_judged_on_what_arrived() -> None:
    judge = StreamJudge(ASK, classifier=rules())
    judge.feed(event(chunk({"content": "I can't help with that."})))
    verdict = judge.finish(cut=True)
    assert (verdict.is_refusal(), verdict.status) == (True, "incomplete")
    empty = StreamJudge(ASK, classifier=rules()).finish(cut=True)
    assert (empty.label, empty.status) == (None, "empty")


def test_the_inspection_cap_shows_in_the_verdict() -> None:
    stream = sse(chunk({"content": "Nine minutes. " * 10}), chunk({"content": "And then more."}), chunk({}, "stop"))
    verdict = judged([stream], inspect_chars=140)
    assert (verdict.status, verdict.to_dict()["inspected"]) == ("incomplete", round(140 / 154, 4))
    assert judged([stream]).status == "complete"
    big = b"data: " + json.dumps(chunk({"content": "x" * 200})).encode() + b"\n\n"
    reader, judge = SSEReader(100), StreamJudge(ASK, classifier=rules())
    for one in reader.feed(big):
        judge.feed(one)
    verdict = judge.finish()
    assert (verdict.label, verdict.status, verdict.inspected) == (None, "incomplete", 0)
    for one in SSEReader().feed(sse(chunk({}, "stop"))):
        assert judge.feed(one) == (0,)
    assert (judge.finish().status, judge.finish().inspected) == ("incomplete", 0)


def test_deltas_go_to_their_session_at_once() -> None:
    class Session:
        def __init__(self) -> None:
            self.fed: list[str] = []

        def feed(self, text: str) -> None:
            self.fed.append(text)

        def finish(self, choice: Choice) -> Verdict:
            return Verdict("answer", "complete", reason="|".join(self.fed))

    class Rules:
        rules_version = "r1"

        def __init__(self) -> None:
            self.sessions: list[Session] = []

        def session(self, ask: Ask) -> Session:
            assert ask == ASK
            self.sessions.append(Session())
            return self.sessions[-1]

    fake = Rules()
    judge = StreamJudge(ASK, classifier=fake)  # type: ignore[arg-type]
    judge.feed(event(chunk({"role": "assistant", "content": ""})))
    judge.feed(event(chunk({"refusal": "No."})))
    assert fake.sessions == [], "nothing was said"
    judge.feed(event(chunk({"content": "a"})))
    judge.feed(event(chunk({"content": "b"}, index=1)))
    judge.feed(event(chunk({"content": "c"})))
    assert [session.fed for session in fake.sessions] == [["a", "c"], ["b"]]
    verdict = judge.finish()
    assert [v.reason for v in verdict.choices] == ["a|c", "b"]
    assert verdict.rules_version == "r1"


# A plain chunk spelt out in full, and what else an event may be.
PLAIN = chunk(
    {"content": "I can't ", "role": "assistant", "refusal": None, "tool_calls": None, "function_call": None},
    usage=None,
    error=None,
)
PLAIN["choices"][0] |= {"logprobs": None, "text": None, "content_filter_results": None, "error": None}
CALL = {"index": 0, "function": {"name": "f", "arguments": "{}"}}
OTHERS = [
    *("[DONE]", "", "{", "[]", "null", '{"choices":[{"delta":{"content":"\\ud800"}}]}', json.dumps(PLAIN) + "{}"),
    json.dumps(PLAIN).replace('"finish_reason": null', '"finish_reason": "stop", "finish_reason": null'),
    json.dumps(PLAIN).replace('"content": ', '"content": 1, "content": '),
    *(chunk({"content": text}, index=index) for text in ("help", "", None) for index in (0, 1, 300)),
    *(chunk({}, reason) for reason in ("stop", "", "content_filter")),
    chunk({"content": "a", "reasoning_content": "b"}, prompt_filter_results=None),
    chunk({"tool_calls": [CALL]}) | {"choices": [{"index": 1, "delta": {"refusal": "No."}}] * 2},
    *({"choices": choices} for choices in ([], [{"text": "legacy"}], [{"index": -1, "delta": {"content": "x"}}])),
    *({"error": {"code": "content_filter"}}, {"usage": {"prompt_tokens": 1}, "choices": []}, {"type": "ping"}),
]


def odd_chunks() -> Iterator[dict[str, Any]]:
    """The plain chunk with one field missing, or with anything there."""
    values: list[Any] = ["x", "", None, 0, -1, 2**70, 1.0, True, [], {}, [{}], [CALL]]
    values.append({"refusal": "No.", "transcript": "x", "code": "content_filter", "prompt_tokens": 5})
    more = ("base_resp", "prompt_filter_results", "audio", "provider_specific_fields", "code", "message", "choices")
    for depth in range(3):
        obj = copy.deepcopy(PLAIN)
        node = (obj, obj["choices"][0], obj["choices"][0]["delta"])[depth]
        for key in (*node, *more):
            before = dict(node)
            for value in values:
                node[key] = value
                yield copy.deepcopy(obj)
            del node[key]
            yield copy.deepcopy(obj)
            node |= before


def same_together(events: Sequence[Event], bounds: Sequence[int], api: str | None, **arguments: Any) -> None:
    """Feeds the events one by one, and in batches."""
    single, batch = (StreamJudge(ASK, api, classifier=rules(), **arguments) for _ in range(2))
    finished = [told for one in events for told in single.feed_all([one])]
    together = []
    for a, b in pairwise(bounds):
        lines = lines_of(b"".join([b"data: %b\n\n" % one.data for one in events[a:b]]))
        if lines is None or not batch.feed_plain(lines):
            together += batch.feed_all(events[a:b])
    assert together == finished
    assert batch.answer.trace() == single.answer.trace()
    assert batch.answer.done == single.answer.done
    assert batch.finish() == single.finish()
    assert batch.finish(cut=True) == single.finish(cut=True)


def test_a_chunk_that_is_not_quite_plain_is_read_in_full() -> None:
    for obj in odd_chunks():
        same_together([event(one) for one in (PLAIN, PLAIN, obj, PLAIN)], (0, 1, 4), "openai.chat")


# Events fed together have the effect that they have one by one.
@settings(deadline=None, max_examples=400)
@given(
    st.lists(st.just(PLAIN) | st.sampled_from([*OTHERS, *odd_chunks()]), max_size=12),
    st.lists(st.integers(0, 12), max_size=3),
    st.sampled_from(["openai.chat", "openai.chat", "openai.completions", "anthropic.messages", None]),
    st.sampled_from([200, 200, 400]),
    st.sampled_from([5, 20, 1000]),
)
def test_any_batch_gives_the_same_verdict(
    objects: list[Any], cuts: list[int], api: str | None, status: int, limit: int
) -> None:
    bounds = [0, *sorted(cut for cut in cuts if cut < len(objects)), len(objects)]
    same_together([event(obj) for obj in objects], bounds, api, status=status, inspect_chars=limit)


def test_plain_chunks_together_reach_their_session_in_one_piece() -> None:
    answer = StreamAnswer(ASK, "openai.chat")
    said = [chunk({"content": text}, index=index) for text, index in (("a", 0), ("b", 0), ("c", 1), ("d", 0))]
    plain, end = (b"\n".join([json.dumps(one).encode() for one in some]) for some in (said, [chunk({}, "stop")]))
    assert answer.feed_plain(plain) is None, "the first chunk names the response"
    answer.feed(event(chunk({"role": "assistant"})))
    assert answer.feed_plain(plain + b"\n" + end) is None
    assert answer.feed_plain(plain) == [(0, "ab"), (1, "c"), (0, "d")]
    assert [choice.text for choice in answer.trace().choices] == ["abd", "c"]
    gemini = StreamAnswer(ASK, "gemini")
    gemini.feed(event(chunk({"role": "assistant"})))
    assert gemini.feed_plain(end) is None


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.binary(max_size=30) | st.sampled_from([b"data: ", b"\n\n", b'{"choices":[{"delta":{"content":"x"}}]}']),
        max_size=8,
    )
)
def test_any_bytes_give_a_verdict(pieces: list[bytes]) -> None:
    verdict = judged(pieces)
    assert verdict.status in {"incomplete", "empty", "unparsed", "upstream_error"}
    assert verdict == judged([b"".join(pieces)])


def test_the_default_rules_are_those_of_classify() -> None:
    judge = StreamJudge(ASK)
    judge.feed(event(chunk({"content": "Nine minutes."}, "stop")))
    assert judge.finish() == classify(
        {"request": REQUEST, "stream": sse(chunk({"content": "Nine minutes."}, "stop")).decode()}
    )
    assert isinstance(Event(None, b"", 0, 0), tuple)


#: By API an event that ends the stream, its whole framing included.
ENDS = {
    "openai.chat": b"[DONE]",
    "openai.completions": b"[DONE]",
    "anthropic.messages": b'{"type":"message_stop"}',
    "openai.responses": b'{"type":"response.completed","response":{"status":"completed","output":[]}}',
    "ollama.chat": b'{"message":{"content":""},"done":true}',
}
AFTER = [
    chunk({"content": "I'm sorry, but I can't help with that request."}, "stop"),
    {"error": {"code": "content_filter", "message": "filtered"}},
    {"type": "response.output_text.delta", "delta": "I'm sorry, but I can't help with that request."},
    {"message": {"content": "I'm sorry, but I can't help with that request."}, "done": True},
]


@pytest.mark.parametrize("api", ENDS)
def test_what_follows_the_end_marker_is_not_judged(api: str) -> None:
    said = [event(chunk({"role": "assistant"})), event(chunk({"content": "Nine minutes."}))]
    ended = [*said, event(chunk({}, "stop")), Event(None, ENDS[api], 0, 0)]
    plain, more = (StreamJudge(ASK, api, classifier=rules()) for _ in range(2))
    assert plain.feed_all(ended) == more.feed_all(ended)
    assert plain.answer.done
    assert more.feed_all([event(after) for after in AFTER]) == []
    assert more.feed_plain(json.dumps(AFTER[0]).encode())
    assert more.finish() == plain.finish()
    assert more.finish().label == "answer"


def test_a_finish_reason_has_the_verdict_of_its_moment() -> None:
    """However the events come: the key of a choice does not know what follows."""
    judge = StreamJudge(ASK, "openai.chat", classifier=rules())
    events = [chunk({"content": "Nine minutes."}), chunk({}, "stop"), AFTER[1]]
    ((_, verdicts, _),) = judge.feed_all([event(one) for one in events])
    assert [(index, verdict.label) for index, verdict in verdicts.items() if verdict] == [(0, "answer")]
    assert judge.finish().label == "hard_refusal", "a block after the end counts"


def test_a_choice_that_finishes_over_and_over_is_not_judged_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = StreamJudge(ASK, "openai.chat", classifier=rules())
    judged, sizes = judge.choice_verdict, list[int]()

    def counted(index: int) -> Verdict:
        sizes.append(judge.answer.size(index))
        return judged(index)

    monkeypatch.setattr(judge, "choice_verdict", counted)
    said = event(chunk({"content": "Boil them for ten. "}, "stop"))
    told = [verdicts[0] for _, verdicts, _ in judge.feed_all([said] * 20 * MAX_REPEATS)]
    assert len(told) == 20 * MAX_REPEATS
    assert None not in told[: MAX_REPEATS + 1]
    assert len(told) - told.count(None) == len(sizes) == MAX_REPEATS + 1 + 4, "then once each time that it has doubled"
    ((_, verdicts, _),) = judge.feed_all([event(chunk({}, "content_filter"))])
    assert verdicts[0] is not None
    assert verdicts[0].blocked_by == "content_filter", "a block is always told"


REFUSED = "I'm sorry, but I can't help with that request."


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([{"content": REFUSED}], REFUSED),
        ([REFUSED[:9], REFUSED[9:], {"content": REFUSED}], REFUSED),  # MiniMax: all of it once more
        ([REFUSED[:9], {"content": REFUSED}], REFUSED),
        ([{"content": REFUSED[:9]}, {"content": REFUSED[9:]}], REFUSED),  # deltas under another name
        ([REFUSED, {"role": "assistant", "content": ""}], REFUSED),
        ([REFUSED, {"role": "assistant", "content": None}], REFUSED),
    ],
)
@pytest.mark.parametrize("batch", [False, True])
def test_a_message_in_a_chunk_is_read(events: list[Any], text: str, batch: bool) -> None:
    stream = [chunk({"role": "assistant", "content": ""})]
    for one in events:
        told = {"delta": {"content": one}} if isinstance(one, str) else {"message": one, "delta": {}}
        stream.append({"choices": [{"index": 0, **told}]})
    stream[-1]["choices"][0]["finish_reason"] = "stop"
    judge = StreamJudge(ASK, "openai.chat", classifier=rules())
    pieces = [[event(one) for one in stream]] if batch else [[event(one)] for one in stream]
    for some in pieces:
        lines = lines_of(b"".join([b"data: %b\n\n" % one.data for one in some]))
        if lines is None or not judge.feed_plain(lines):
            judge.feed_all(some)
    verdict = judge.finish()
    assert judge.trace is not None
    assert judge.trace.choices[0].text == text
    assert (verdict.label, verdict.status) == ("hard_refusal", "complete")


def test_a_last_message_tells_no_call_twice() -> None:
    judge = StreamJudge(ASK, "openai.chat", classifier=rules())
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    judge.feed(event(chunk({"tool_calls": [{"index": 0, **call}], "refusal": "No."})))
    last = {"content": "", "refusal": "No.", "tool_calls": [call]}
    judge.feed(event({"choices": [{"index": 0, "message": last, "finish_reason": "stop"}]}))
    judge.finish()
    assert judge.trace is not None
    (choice,) = judge.trace.choices
    assert (choice.refusal, len(choice.tool_calls), choice.tool_calls[0].arguments) == ("No.", 1, "{}")
