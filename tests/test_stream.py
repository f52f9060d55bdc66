"""Streams are judged as their text arrives: the verdict is the saved stream's, however the bytes were cut."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from conversations import PAIRS, chunk, event, sse
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.classifier.judge import Classifier, classify
from demur.classifier.shapes import normalize
from demur.classifier.sse import Event, SSEReader
from demur.classifier.stream import StreamJudge
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
    assert judge.finish().inspected == 0


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
