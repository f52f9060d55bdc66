from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.classifier.judge import default_classifier
from demur.classifier.trace import Ask
from demur.classifier.verdict import Signal, Verdict
from demur.proxy.finish import MAX_HELD, MAY_FINISH, FinishChunk, splice, summary
from demur.proxy.inspection import Framing, StreamInspection

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
    assert splice(event.encode(), {0: VALUE}) == expected.encode()


def test_with_several_choices_the_key_goes_into_each_that_finished() -> None:
    first = '{"index":1,"delta":{"content":"} ]"},"finish_reason":"stop"}'
    event = f'data: {{"choices": [ {first} , {{"index":0,"delta":{{}},"finish_reason":null}}],"usage":null}}\n\n'
    got = splice(event.encode(), {1: VALUE}, choices="choices").decode()
    assert got == event.replace(first, f'{first[:-1]},"refusal_verdict":{KEY}}}')
    twins = b'data: {"choices":[{"finish_reason":"stop"},{"finish_reason":"stop"}]}\n\n'  # the same bytes twice
    assert splice(twins, {0: VALUE, 1: VALUE}, choices="choices").count(b"refusal_verdict") == 2
    for odd in (b"data: {}\n\n", b'data: {"choices":[1]}\n\n', b'data: {"choices":{"a":{}}}\n\n', b"data: no\n\n"):
        assert splice(odd, {0: VALUE}, choices="choices") == odd


def test_the_key_of_json_that_stands_alone() -> None:
    key = f',"refusal_verdict":{KEY}'.encode()
    assert splice(b'{"a":1}\r\n', {0: VALUE}, framing="lines") == b'{"a":1%b}\r\n' % key
    assert splice(b'{\n "a": {}\n}', {0: VALUE}, framing="array") == b'{\n "a": {}\n%b}' % key
    two = b'{"candidates": [{"index": 0},\n{"index": 1, "finishReason": "STOP"}]}'
    got = splice(two, {1: VALUE}, choices="candidates", framing="array")
    assert got == two.replace(b'"STOP"', b'"STOP"' + key)


@pytest.mark.parametrize(
    ("api", "data", "may"),
    [
        ("openai.chat", b'{"finish_reason":null}', False),
        ("openai.chat", b'{"finish_reason" :  null, "x":1}', False),
        ("openai.chat", b'{"finish_reason":null}{"finish_reason": "stop"}', True),
        ("openai.chat", b'{"finish_reason":"", "x":1}', False),
        ("openai.chat", b'{"finish_reason":\ndata: null', True),  # better asked than missed
        ("openai.chat", b'{"content":"finish"}', False),
        ("openai.completions", b'{"text":"","finish_reason":"stop"}', True),
        ("openai.responses", b'{"type":"response.output_text.delta"}', False),
        ("openai.responses", b'{"type":"response.output_text.done"}', False),
        ("openai.responses", b'{"type":"response.completed"}', True),
        ("openai.responses", b'{"type":"response.incomplete"}', True),
        ("anthropic.messages", b'{"stop_reason":null,"stop_sequence":null}', False),
        ("anthropic.messages", b'{"delta":{"stop_reason": "refusal"}}', True),
        ("gemini", b'{"candidates":[{"content":{}}]}', False),
        ("gemini", b'{"candidates":[{"finishReason": "STOP"}]}', True),
        ("ollama.chat", b'{"done":false}', False),
        ("ollama.chat", b'{"done": true}', True),
    ],
)
def test_what_may_finish_a_choice(api: str, data: bytes, may: bool) -> None:
    assert bool(MAY_FINISH[api](data)) is may


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
    got = splice(event.replace("HERE", "").encode(), {0: VALUE}, choices="choices").decode()
    assert got == event.replace("HERE", f',"refusal_verdict":{KEY}')


def followed(
    pieces: list[bytes], *, several: bool = False, api: str = "openai.chat", framing: Framing = "sse"
) -> tuple[list[bytes], StreamInspection]:
    """What goes on after each piece, and at the end; and what judged it."""
    inspection = StreamInspection(
        default_classifier(), Ask(), api, status=200, coding=None, inspect_chars=10_000, framing=framing
    )
    finish = FinishChunk(inspection, api, id="abc", several=several, framing=framing)
    out = []
    for piece in pieces:
        if finish.passes(piece):
            out.append(piece)
            inspection.later(piece)
        else:
            out.append(finish.feed(piece))
    return [*out, finish.close()], inspection


def follow(pieces: list[bytes], **options: Any) -> list[bytes]:
    return followed(pieces, **options)[0]


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


def sse(*objects: object) -> bytes:
    return b"".join(f"data: {json.dumps(obj)}\n\n".encode() for obj in objects)


def lines(*objects: object) -> bytes:
    return b"".join(f"{json.dumps(obj)}\n".encode() for obj in objects)


def array(*objects: object) -> bytes:
    return ("[" + "\n,\r\n".join(json.dumps(obj, indent=2) for obj in objects) + "]\n").encode()


def part(text: str, index: int = 0, **more: object) -> dict[str, object]:
    return {"candidates": [{"index": index, "content": {"parts": [{"text": text}]}, **more}]}


NO = "I'm sorry, but {I} can't help with \"that\"."
#: By API and framing the events of a refusal: those before, the one with the key, those after it.
STREAMS: dict[str, tuple[str, Framing, list[Any], Any, list[Any]]] = {
    "legacy": (
        "openai.completions",
        "sse",
        [{"choices": [{"index": 0, "text": NO, "finish_reason": None}]}],
        {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]},
        [{"choices": [], "usage": {}}],
    ),
    "responses": (
        "openai.responses",
        "sse",
        [
            {"type": "response.created", "response": {"status": "in_progress"}},
            {"type": "response.output_text.delta", "item_id": "m", "content_index": 0, "delta": NO},
            {"type": "response.output_text.done", "item_id": "m", "content_index": 0, "text": NO},
        ],
        {"type": "response.completed", "response": {"status": "completed", "output": []}},
        [],
    ),
    "responses, incomplete": (
        "openai.responses",
        "sse",
        [{"type": "response.output_text.delta", "item_id": "m", "content_index": 0, "delta": NO}],
        {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}},
        [],
    ),
    "anthropic": (
        "anthropic.messages",
        "sse",
        [
            {"type": "message_start", "message": {"content": [], "stop_reason": None}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": NO}},
        ],
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}},
        [{"type": "message_stop"}],
    ),
    "gemini": ("gemini", "sse", [part(NO)], part("", finishReason="STOP"), []),
    "gemini, array": ("gemini", "array", [part(NO), part("")], part("", finishReason="STOP"), [{"usageMetadata": {}}]),
    "ollama": (
        "ollama.chat",
        "lines",
        [{"model": "m", "message": {"content": NO}, "done": False}],
        {"model": "m", "message": {"content": ""}, "done": True, "done_reason": "stop"},
        [],
    ),
    "ollama, generate": (
        "ollama.chat",
        "lines",
        [{"model": "m", "response": NO, "done": False}],
        {"model": "m", "response": "", "done": True},
        [],
    ),
}
FORMS = {"sse": sse, "lines": lines, "array": array}


@pytest.mark.parametrize(("api", "framing", "before", "last", "after"), STREAMS.values(), ids=STREAMS)
def test_every_api_has_its_finish_chunk_at_any_cut(
    api: str, framing: Framing, before: list[Any], last: Any, after: list[Any]
) -> None:
    form = FORMS[framing]
    stream = form(*before, last, *after)
    whole = b"".join(follow([stream], api=api, framing=framing))
    found = re.findall(rb',"refusal_verdict":(\{[^{}]*\})', whole)
    assert [json.loads(key)["label"] for key in found] == ["hard_refusal"]
    assert form(*before, {**last, "refusal_verdict": json.loads(found[0])}, *after).split() == spaced(whole, framing)
    for cut in range(len(stream) + 1):
        assert b"".join(follow([stream[:cut], stream[cut:]], api=api, framing=framing)) == whole
    assert b"".join(follow([stream[i : i + 1] for i in range(len(stream))], api=api, framing=framing)) == whole
    pieces = [form(obj) for obj in (*before, last, *after)] if framing != "array" else [stream]
    out = follow(pieces, api=api, framing=framing)
    assert b"".join(out) == whole
    assert out[: len(before)] == pieces[: len(before)] or framing == "array"  # none of those waits


def spaced(stream: bytes, framing: Framing) -> list[bytes]:
    """The words of the stream with the spaces and line ends that `json.dumps` puts in."""
    form = FORMS[framing]
    texts = re.findall(rb"^data: (.*)$", stream, re.MULTILINE) if framing == "sse" else stream.split(b"\n")
    return form(*(json.loads(stream) if framing == "array" else [json.loads(text) for text in texts if text])).split()


def test_several_candidates_have_their_keys_in_the_candidates() -> None:
    stream = array(part("Sure: one.", 0), part(NO, 1, finishReason="STOP"), part("", 0, finishReason="STOP"))
    chunks = json.loads(b"".join(follow([stream], several=True, api="gemini", framing="array")))
    found = [(c["index"], c["refusal_verdict"]["label"]) for o in chunks for c in o["candidates"] if len(c) > 3]
    assert found == [(1, "hard_refusal"), (0, "answer")]
    assert not any("refusal_verdict" in chunk for chunk in chunks)


@pytest.mark.parametrize(
    ("event", "choices", "spliced"),
    [
        ('data: {"a":1,"refusal_verdict":{}}\n\n', None, None),
        ('data: {"a":{"refusal_verdict":{}}}\n\n', None, 'data: {"a":{"refusal_verdict":{}},KEY}\n\n'),
        ('data: {"a":"refusal_verdict"}\n\n', None, 'data: {"a":"refusal_verdict",KEY}\n\n'),
        (
            'data: {"choices":[{"index":0,"refusal_verdict":{}},{"index":1}]}\n\n',
            "choices",
            'data: {"choices":[{"index":0,"refusal_verdict":{}},{"index":1,KEY}]}\n\n',
        ),
        (
            'data: {"choices":[{"index":0}],"refusal_verdict":{}}\n\n',
            "choices",
            'data: {"choices":[{"index":0,KEY}],"refusal_verdict":{}}\n\n',
        ),
    ],
)
def test_an_object_that_has_the_key_gets_no_second_one(event: str, choices: str | None, spliced: str | None) -> None:
    expected = (spliced or event).replace("KEY", f'"refusal_verdict":{KEY}')
    assert splice(event.encode(), {0: VALUE, 1: VALUE}, choices=choices) == expected.encode()


@pytest.mark.parametrize(("api", "framing", "before", "last", "after"), STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("several", [False, True])
def test_who_judges_what_was_judged_leaves_it_alone(
    api: str, framing: Framing, before: list[Any], last: Any, after: list[Any], several: bool
) -> None:
    once = b"".join(follow([FORMS[framing](*before, last, *after)], api=api, framing=framing, several=several))
    assert once.count(b"refusal_verdict") == 1
    assert b"".join(follow([once], api=api, framing=framing, several=several)) == once


def test_a_finish_reason_with_every_chunk() -> None:
    """Older models of Gemini."""
    said = ["Of course. ", "I'm sorry, but I can't ", "help with that.", ""]
    pieces = [sse(part(text, finishReason="STOP")) for text in said]
    keys = [re.findall(rb',"refusal_verdict":(\{[^{}]*\})', out) for out in follow(pieces, api="gemini")]
    assert [[json.loads(key)["label"] for key in found] for found in keys] == [
        ["answer"],
        ["hard_refusal"],
        ["hard_refusal"],
        [],  # nothing was said in the last
        [],
    ]


def test_what_is_filtered_after_its_end_gets_a_second_key() -> None:
    """Azure's asynchronous filter."""
    late = STOP.replace(b'"stop"', b'"content_filter"')
    passed = b"".join(follow([SAY.replace(b"No.", b"Of course: 12."), STOP, late, late]))
    labels = [json.loads(key)["label"] for key in re.findall(rb',"refusal_verdict":(\{[^{}]*\})', passed)]
    assert labels == ["answer", "hard_refusal"]


# Whatever comes, in whichever framing and however it is cut: what goes on is what came, but for the keys.
@settings(deadline=None, max_examples=500)
@given(
    st.sampled_from(["ollama.chat", "gemini", "anthropic.messages", "openai.responses"]),
    st.sampled_from(["lines", "array", "sse"]),
    st.lists(
        st.sampled_from([FORMS[form](*before, last, *after) for _, form, before, last, after in STREAMS.values()])
        | st.sampled_from([b"[", b"]", b",", b"{", b"}", b'"', b"\\", b"\n", b"\r\n"])
        | st.binary(max_size=3),
        max_size=8,
    ),
    st.lists(st.integers(0, 2000), max_size=12),
    st.booleans(),
)
def test_without_the_keys_it_is_the_upstreams_stream_in_any_framing(
    api: str, framing: Framing, parts: list[bytes], cuts: list[int], several: bool
) -> None:
    stream = b"".join(parts)
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(bounds)]
    passed = b"".join(follow(pieces, several=several, api=api, framing=framing))
    assert re.sub(rb',"refusal_verdict":\{[^{}]*\}', b"", passed) == stream


def chat(index: int, text: str = "", finish: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": {"content": text}, "finish_reason": finish}


@pytest.mark.parametrize(
    ("events", "places"),
    [
        ([[chat(0, "Yes.")], [chat(0, "", "stop")]], ["top"]),
        ([[chat(0, "Yes.")], [chat(1, "No.")], [chat(0, "", "stop")], [chat(1, "", "stop")]], ["in", "in"]),
        ([[chat(0, "Yes.")], [chat(0, "", "stop")], [chat(1, "No.")], [chat(1, "", "stop")]], ["top", "in"]),
        ([[chat(0, "Yes.", "stop"), chat(1, "No.")], [chat(1, "", "stop")]], ["in", "in"]),
        ([[chat(1, "No.", "stop")], [chat(0, "Yes.", "stop")]], ["in", "in"]),
    ],
    ids=["one", "side by side", "one after the other", "in one event", "the second first"],
)
def test_where_keys_stand_is_told_by_the_stream_however_it_is_cut(events: list[Any], places: list[str]) -> None:
    stream = sse(*({"id": "c", "model": "m", "choices": choices} for choices in events))
    for size in (1, 7, 50, 200, len(stream)):
        passed = b"".join(follow([stream[at : at + size] for at in range(0, len(stream), size)]))
        keyed = [json.loads(line[6:]) for line in passed.splitlines() if b"refusal_verdict" in line]
        assert ["top" if "refusal_verdict" in chunk else "in" for chunk in keyed] == places
