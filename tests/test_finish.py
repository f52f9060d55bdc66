from __future__ import annotations

import json

import pytest

from demur.classifier.judge import default_classifier
from demur.classifier.trace import Ask
from demur.classifier.verdict import Signal, Verdict
from demur.proxy.finish import MAX_HELD, FinishChunk, asks_for_several, may_finish, splice, summary
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
    assert splice(twins, {0: VALUE}, per_choice=True).count(b"refusal_verdict") == 2
    for odd in (b"data: {}\n\n", b'data: {"choices":[1]}\n\n', b"data: nonsense\n\n"):
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


@pytest.mark.parametrize(
    ("body", "several"),
    [
        (b'{"n":3}', True),
        (b'{"n": 1}', False),
        (b'{"a":{"n":3}}', False),
        (b"{}", False),
        (b'{"n":"x"}', False),
        (b'"n"', False),
    ],
)
def test_asks_for_several(body: bytes, several: bool) -> None:
    assert asks_for_several(body) is several


def follow(pieces: list[bytes]) -> list[bytes]:
    """What goes on after each piece, and at the end."""

    inspection = StreamInspection(
        default_classifier(), Ask(), "openai.chat", status=200, coding=None, inspect_chars=10_000
    )
    finish = FinishChunk(inspection, id="abc", several=False)
    out = []
    for piece in pieces:
        if inspection.skim(piece):
            out.append(piece)
        elif finish.passes(piece):
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
    piece = b"x" * 1000
    start = b'data: {"choices":[{"index":0,"delta":{"content":"'
    pieces = [start, *[piece] * 100, b'"},"finish_reason":"stop"}]}\n\n', STOP]
    out = follow(pieces)
    kept = 0
    for sent, passed in zip(pieces[:-1], out, strict=False):
        kept += len(sent) - len(passed)
        assert 0 <= kept <= MAX_HELD
    assert b"".join(out[:-2]) == b"".join(pieces[:-1])  # whole, without a key


def test_a_comment_does_not_wait_for_an_event() -> None:
    """W13: the lone `:` of a keep-alive."""
    out = follow([b":\n", b": still there\r\n: he", b"re\n", STOP])
    assert out[:3] == [b":\n", b": still there\r\n", b": here\n"]
    assert b"refusal_verdict" in out[3]
    torn = follow([STOP[:30], b"x" * MAX_HELD, b"y\n\n", STOP])
    assert torn[1] == STOP[:30] + b"x" * MAX_HELD  # over the cap: on it goes
    assert torn[2] == b"y\n\n"
    assert b"refusal_verdict" in torn[3]
