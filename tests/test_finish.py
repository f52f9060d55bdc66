from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.classifier.judge import default_classifier
from demur.classifier.trace import Ask
from demur.classifier.verdict import Signal, Verdict
from demur.proxy.finish import MAX_HELD, FinishChunk, may_finish, splice, summary
from demur.proxy.inspection import StreamInspection

SIGNAL = Signal("hard_refusal_lexicon", "hard_refusal", 0.9, "en.cannot", "declines")
VERDICT = Verdict("hard_refusal", "complete", 0.9, rationale="policy", signals=(SIGNAL, SIGNAL))
VALUE = summary(VERDICT, "abc")
KEY = json.dumps(
    {
        "label": "hard_refusal",
        "confidence": 0.9,
        "status": "complete",
        "action": "non_compliance",
        "rationale": "policy",
        "signals": ["hard_refusal_lexicon"],
        "id": "abc",
    },
    separators=(",", ":"),
)
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'


def test_summary() -> None:
    assert summary(VERDICT, "abc") == json.loads(KEY)
    coded = replace(VERDICT, strategy="explicit", features={"apology": True, "hedge": False})
    assert summary(coded, "abc") == json.loads(KEY) | {"strategy": "explicit", "features": ["apology"]}


@pytest.mark.parametrize(
    ("event", "spliced"),
    [
        ('data: {"a":1}\n\n', 'data: {"a":1,KEY}\n\n'),
        ('data:{"a": 1 } \r\n\r\n', 'data:{"a": 1 ,KEY} \r\n\r\n'),
        ('event: x\ndata: {"a":1}\nid: 3\n\n', 'event: x\ndata: {"a":1,KEY}\nid: 3\n\n'),
        ('data: {\ndata:  "a": "}"\ndata: }\n\n', 'data: {\ndata:  "a": "}"\ndata: ,KEY}\n\n'),
        ('data: {"a":1}', 'data: {"a":1,KEY}'),
        ('data: {"a":1}\ndata:\n\n', 'data: {"a":1,KEY}\ndata:\n\n'),
        ("data: [1]\n\n", "data: [1]\n\n"),
        (": only a comment\n\n", ": only a comment\n\n"),
    ],
)
def test_the_key_goes_before_the_last_brace_and_nothing_else_changes(event: str, spliced: str) -> None:
    expected = spliced.replace("KEY", f'"refusal_verdict":{KEY}')
    assert splice(event.encode(), {0: VALUE}, per_choice=False) == expected.encode()


def test_with_several_choices_the_key_goes_into_each_that_finished() -> None:
    first = '{"index":1,"delta":{"content":"} ]"},"finish_reason":"stop"}'
    event = f'data: {{"choices": [ {first} , {{"index":0,"delta":{{}},"finish_reason":null}}],"usage":null}}\n\n'
    got = splice(event.encode(), {1: VALUE}, per_choice=True).decode()
    assert got == event.replace(first, f'{first[:-1]},"refusal_verdict":{KEY}}}')
    twins = b'data: {"choices":[{"finish_reason":"stop"},{"finish_reason":"stop"}]}\n\n'  # the same bytes twice
    assert splice(twins, {0: VALUE, 1: VALUE}, per_choice=True).count(b"refusal_verdict") == 2
    for odd in (b"data: {}\n\n", b'data: {"choices":[1]}\n\n', b'data: {"choices":{"a":{}}}\n\n', b"data: no\n\n"):
        assert splice(odd, {0: VALUE}, per_choice=True) == odd


@pytest.mark.parametrize(
    ("data", "may"),
    [
        (b'{"finish_reason":null}', False),
        (b'{"finish_reason" :  null, "x":1}', False),
        (b'{"finish_reason":null}{"finish_reason": "stop"}', True),
        (b'{"finish_reason":"", "x":1}', False),
        (b'{"finish_reason":\ndata: null', True),  # better asked than missed
        (b'{"content":"finish"}', False),
    ],
)
def test_may_finish(data: bytes, may: bool) -> None:
    assert bool(may_finish(data)) is may


CHOICE = '{"index":0,"delta":{},"finish_reason":"stop"HERE}'


@pytest.mark.parametrize(
    "event",
    [
        f'data: {{"choices":[{CHOICE}],"z":NaN}}\n\n',
        f'data: {{"z":"\\ud800","choices":[{CHOICE}]}}\n\n',
        f'data: {{"choices":\ndata:  [1, {{"delta":"}}]"}},\ndata: {CHOICE}\r\ndata: ]}}\n\n'.replace("\n", "\r"),
        f'data: {{"a":{{"choices":[{CHOICE.replace("HERE", "")}]}},"choices":[{CHOICE}],"b":[{{}}]}}\n\n',
        f'data: {{"choices":[{{}}],"a":"choices","b":[{{}}],"\\u0063hoices":[{{}},[{{}}],{CHOICE}],"\\"":1}}\n\n',
    ],
    ids=["NaN", "half a surrogate pair", "several lines", "choices elsewhere", "choices twice"],
)
def test_the_key_of_a_choice_finds_its_place_in_odd_json(event: str) -> None:
    got = splice(event.replace("HERE", "").encode(), {0: VALUE}, per_choice=True).decode()
    assert got == event.replace("HERE", f',"refusal_verdict":{KEY}')


def follow(pieces: list[bytes], *, several: bool = False) -> list[bytes]:
    """What goes on after each piece, and at the end."""

    inspection = StreamInspection(
        default_classifier(), Ask(), "openai.chat", status=200, coding=None, inspect_chars=10_000
    )
    finish = FinishChunk(inspection, id="abc", several=several)
    out = []
    for piece in pieces:
        if finish.passes(piece):
            out.append(piece)
            inspection.later(piece)
        else:
            out.append(finish.feed(piece))
    return [*out, finish.close()]


def test_only_the_event_that_is_still_arriving_is_kept_back() -> None:
    say = b'data: {"choices":[{"index":0,"delta":{"content":"No."},"finish_reason":null}]}\n\n'
    assert follow([say, say + say[:9], say[9:], b"data: [DONE]\n\n"]) == [say, say, say, b"data: [DONE]\n\n", b""]
    first, second, rest = follow([say + STOP[:30], STOP[30:] + b"data: [D"])
    assert (first, rest) == (say, b"data: [D")
    assert b'"refusal_verdict":{"label":' in second
    last = follow([say, STOP[:-2]])
    assert last[:2] == [say, b""]
    assert b"refusal_verdict" in last[2]  # the stream ended without a blank line


def test_an_event_over_the_cap_passes_as_it_comes() -> None:
    start = b'data: {"choices":[{"index":0,"delta":{"content":"'
    end = b'"},"finish_reason":"stop"}]}\n\n'
    piece = b"x" * 100_000
    pieces = [start, *[piece] * 11, end, STOP.replace(b'"index":0', b'"index":1')]
    out = follow(pieces)
    kept = 0
    for sent, passed in zip(pieces[:-1], out, strict=False):
        kept += len(sent) - len(passed)
        assert 0 <= kept <= MAX_HELD
    assert b"".join(out[:-2]) == b"".join(pieces[:-1])  # whole, without a key
    assert b"refusal_verdict" in out[-2]
    large = follow([start, *[piece] * 4, end])
    assert large[:-2] == [b""] * 5
    assert b"refusal_verdict" in large[-2]


def test_a_comment_does_not_wait_for_an_event() -> None:
    """W13: the lone `:` of a keep-alive."""
    out = follow([b":\n", b": still there\r\n: he", b"re\n", STOP])
    assert out[:3] == [b":\n", b": still there\r\n", b": here\n"]
    assert b"refusal_verdict" in out[3]
    out = follow([b": a\r", b"\n: b\r: c", b"\r" + STOP[:-1], b"\n"])
    assert out[:3] == [b": a\r", b"\n: b\r", b": c\r"]
    assert b"refusal_verdict" in out[3]
    torn = follow([STOP[:30], b"x" * MAX_HELD, b"y\n\n", STOP])
    assert torn[1] == STOP[:30] + b"x" * MAX_HELD  # over the cap: on it goes
    assert torn[2] == b"y\n\n"
    assert b"refusal_verdict" in torn[3]


SAY = b'data: {"choices":[{"index":0,"delta":{"content":"No."},"finish_reason":null}]}\n\n'
PRETTY = b'data: {"choices":\ndata: [{"index":1,"finish_reason":\ndata: "stop"}]}\n\n'
ODD = [  # events that end a choice in other words
    STOP.replace(b"finish_reason", b"finish\\u005freason"),
    b'data: {"type":"response.completed","response":{"status":"completed","output":[]}}\n\n',
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n',
    b'data: {"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}\n\n',
    b'data: {"message":{"content":"x"},"done":true,"done_reason":"stop"}\n\n',
    b'data: {"choices":[{"index":2,"delta":{},"finish_reason"\ndata: :"stop"}]}\n\n',
]
FINE = [STOP, STOP.replace(b'"index":0', b'"index":1'), PRETTY, STOP.replace(b"}]", b'},{"finish_reason":"length"}]')]
PLAIN = [
    SAY,
    SAY.replace(b":0,", b":1,"),
    b"data: [DONE]\n\n",
    b": hi\n\n",
    b": a\n",
    b"data\n",
    b"\n",
    b"\xef\xbb\xbf",
]


# Whatever comes, however it is cut: what goes on is what came, but for the keys.
@settings(deadline=None, max_examples=1000)
@given(
    st.lists(st.sampled_from([*PLAIN, *FINE, *ODD]) | st.binary(max_size=3), max_size=10),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.lists(st.integers(0, 1200), max_size=12) | st.just([]),
    st.booleans(),
    st.booleans(),
)
def test_without_the_keys_it_is_the_upstreams_stream(
    events: list[bytes], newline: bytes, cuts: list[int], whole: bool, several: bool
) -> None:
    events = [event.replace(b"\n", newline) for event in events]
    stream = b"".join(events)
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = events if whole else [stream[a:b] for a, b in pairwise(bounds)]
    passed = b"".join(follow(pieces, several=several))
    assert re.sub(rb',"refusal_verdict":\{[^{}]*\}', b"", passed) == stream
