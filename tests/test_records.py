"""JSON objects in a row: each stream is read whole, byte by byte, cut anywhere, and with another object after it."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.classifier.records import ArrayReader, LineReader, Reader
from demur.classifier.sse import Event

LINES: dict[str, tuple[bytes, list[bytes]]] = {
    "lf": (b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
    "crlf": (b'{"a":1}\r\n{"b":2}\r\n', [b'{"a":1}\r', b'{"b":2}\r']),
    "blank lines": (b'\n\r\n {"a":1}\n \n', [b' {"a":1}']),
    "the last without its line end": (b'{"a":1}\n{"b":2}', [b'{"a":1}', b'{"b":2}']),
    "a broken line costs no other": (b'{"a":"\n{"b":2}\n', [b'{"a":"', b'{"b":2}']),
    "text": ('{"a":"北京🙂\\n"}\n'.encode(), ['{"a":"北京🙂\\n"}'.encode()]),
    "nothing": (b"", []),
}
ARRAYS: dict[str, tuple[bytes, list[bytes]]] = {
    "array": (b'[{"a":1},{"b":2}]', [b'{"a":1}', b'{"b":2}']),
    "as Google writes it": (
        b'[{\n  "a": [{"x": {}}]\n}\n,\r\n{\n"b":2}\n]\n',
        [b'{\n  "a": [{"x": {}}]\n}', b'{\n"b":2}'],
    ),
    "braces in strings": (b'[{"a":"}{"},{"}":"{"}]', [b'{"a":"}{"}', b'{"}":"{"}']),
    "escapes": (rb'[{"a":"\"}\\"},{"b":"\\\""}]', [rb'{"a":"\"}\\"}', rb'{"b":"\\\""}']),
    "one object": (b' {"a":1} ', [b'{"a":1}']),
    "one after another": (b'{"a":1}{"b":2}\n{}', [b'{"a":1}', b'{"b":2}', b"{}"]),
    "a string is no object": (b'["{", 1, null, {"a":1}]', [b'{"a":1}']),
    "a brace too many": (b'}}[{"a":1}', [b'{"a":1}']),
    "half an object": (b'[{"a":1},{"b":', [b'{"a":1}']),
    "text": ('[{"a":"北京🙂"}]'.encode(), ['{"a":"北京🙂"}'.encode()]),
    "empty": (b"[]", []),
}
CASES = [(LineReader, *case) for case in LINES.values()] + [(ArrayReader, *case) for case in ARRAYS.values()]
IDS = [f"lines, {name}" for name in LINES] + [f"array, {name}" for name in ARRAYS]
EACH = pytest.mark.parametrize(("make", "stream", "expected"), CASES, ids=IDS)
Make = Callable[..., Reader]


def read(make: Make, *chunks: bytes, cap: int = 1 << 20) -> list[Event]:
    reader = make(cap)
    return [event for chunk in chunks for event in reader.feed(chunk)] + reader.close()


@EACH
def test_whole_byte_by_byte_and_cut_anywhere(make: Make, stream: bytes, expected: list[bytes]) -> None:
    events = read(make, stream)
    assert [event.data for event in events] == expected
    assert read(make, *(stream[i : i + 1] for i in range(len(stream)))) == events
    for cut in range(len(stream) + 1):
        assert read(make, stream[:cut], stream[cut:]) == events


@EACH
def test_offsets_are_those_of_the_stream(make: Make, stream: bytes, expected: list[bytes]) -> None:
    for event in read(make, stream):
        assert stream[event.start : event.end].rstrip(b"\n") == event.data
        assert (event.name, event.skipped) == (None, 0)


def test_pending_tells_what_is_still_arriving() -> None:
    lines = LineReader()
    lines.feed(b'{"a":1}\n{"b"')
    assert (lines.offset, lines.pending) == (12, 4)
    lines.feed(b":2}\n")
    assert lines.pending == 0
    array = ArrayReader()
    array.feed(b'[{"a":1}, {"b')
    assert (array.offset, array.pending) == (13, 3)
    array.feed(b'":2},')
    assert array.pending == 0


@pytest.mark.parametrize(
    ("make", "large", "small"),
    [
        (LineReader, b'{"a":"%b"}\n' % (b"x" * 900), b'{"b":2}\n'),
        (ArrayReader, b'{"a":"%b"}' % (b"x" * 900), b'{"b":2}'),
    ],
)
def test_what_is_over_the_cap_is_counted_not_kept(make: Make, large: bytes, small: bytes) -> None:
    stream = small + large + small
    for size in (1, 7, 500, 10_000):
        chunks = [stream[i : i + size] for i in range(0, len(stream), size)]
        first, middle, last = read(make, *chunks, cap=100)
        assert (first.skipped, last.skipped) == (0, 0)
        assert (middle.data, middle.skipped) == (b"", len(large))
        assert (middle.start, middle.end) == (len(small), len(small) + len(large))
    reader = make(100)
    for _ in range(1000):
        reader.feed(b'{"' + b"x" * 998)
        assert len(reader._held) <= 1100  # type: ignore[attr-defined]


OBJECTS = st.lists(
    st.dictionaries(
        st.text(max_size=3), st.recursive(st.text(max_size=4) | st.none() | st.integers(), st.lists), max_size=3
    ),
    max_size=5,
)


@settings(deadline=None)
@given(OBJECTS, st.lists(st.integers(0, 300), max_size=8), st.booleans())
def test_what_was_written_is_read(objects: list[object], cuts: list[int], ascii: bool) -> None:
    texts = [json.dumps(obj, ensure_ascii=ascii) for obj in objects]
    for make, text in ((LineReader, "\n".join(texts)), (ArrayReader, f"[{', '.join(texts)}]")):
        stream = text.encode("utf-8", "surrogatepass")
        bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
        events = read(make, *(stream[a:b] for a, b in pairwise(bounds)))
        assert [event.data.decode("utf-8", "surrogatepass") for event in events] == texts


# Whatever the bytes and however they are cut: no exception, the same events.
@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.sampled_from([b"{", b"}", b'"', b"\\", b"\n", b"[", b"]", b",", b"x"]) | st.binary(max_size=3), max_size=40
    ),
    st.lists(st.integers(0, 80), max_size=6),
    st.sampled_from([3, 10, 1000]),
)
def test_any_bytes(parts: list[bytes], cuts: list[int], cap: int) -> None:
    stream = b"".join(parts)
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    for make in (LineReader, ArrayReader):
        events = read(make, stream, cap=cap)
        assert read(make, *(stream[a:b] for a, b in pairwise(bounds)), cap=cap) == events
        assert all(a.end <= b.start for a, b in pairwise(events))
