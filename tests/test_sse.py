"""Server-sent events: each conversation is read whole, byte by byte, and with an event after it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.classifier.sse import Event, SSEReader

Seen = tuple[str | None, bytes]

CONVERSATIONS: dict[str, tuple[bytes, list[Seen]]] = {
    "lf": (b"data: a\n\ndata: b\n\n", [(None, b"a"), (None, b"b")]),
    "crlf": (b"data: a\r\n\r\ndata: b\r\n\r\n", [(None, b"a"), (None, b"b")]),
    "cr": (b"data: a\r\rdata: b\r\r", [(None, b"a"), (None, b"b")]),
    "mixed": (b"data: a\n\r\ndata: b\r\n\ndata: c\r\n\r", [(None, b"a"), (None, b"b"), (None, b"c")]),
    "lf then cr": (b"data: a\n\rdata: b\n\r", [(None, b"a"), (None, b"b")]),
    "crlf is one line end": (b"event: x\r\ndata: a\r\n\r\n", [("x", b"a")]),
    "no space": (b"data:{}\n\n", [(None, b"{}")]),
    "two spaces": (b"data:  {}\n\n", [(None, b" {}")]),
    "several lines": (b"data: {\ndata:   1\ndata: }\n\n", [(None, b"{\n  1\n}")]),
    "several lines, crlf": (b"data: {\r\ndata: }\r\n\r\n", [(None, b"{\n}")]),
    "empty data": (b"data:\n\n", [(None, b"")]),
    "data without a colon": (b"data\n\n", [(None, b"")]),
    "two empty lines of data": (b"data\ndata\n\n", [(None, b"\n")]),
    "named": (b"event: ping\ndata: {}\n\n", [("ping", b"{}")]),
    "named after its data": (b"data: {}\nevent:ping\n\n", [("ping", b"{}")]),
    "an empty name is none": (b"event:\ndata: {}\n\n", [(None, b"{}")]),
    "the last name counts": (b"event: a\nevent: b\ndata: 1\n\n", [("b", b"1")]),
    "a name alone is no event": (b"event: ping\n\ndata: a\n\n", [(None, b"a")]),
    "comments": (b": keep-alive\n\n:\n\n:\ndata: a\n: more\n\n", [(None, b"a")]),
    "other fields": (b"id: 7\nretry: 10\nnonsense\ndata: a\n\n", [(None, b"a")]),
    "a lone cr among crlf": (b"data: a\rdata: b\r\n\r\n", [(None, b"a\nb")]),
    "plain, then several lines": (b"data: a\n\ndata: b\ndata: c\n\n", [(None, b"a"), (None, b"b\nc")]),
    "plain, then a name": (b"data: a\r\n\r\ndata: b\r\nevent: x\r\n\r\n", [(None, b"a"), ("x", b"b")]),
    "a field that begins alike": (b"database: x\ndata: a\n\n", [(None, b"a")]),
    "bom": (b"\xef\xbb\xbfdata: a\n\n", [(None, b"a")]),
    "bom before a name": (b"\xef\xbb\xbfevent: x\ndata: a\n\n", [("x", b"a")]),
    "bom and blank lines": (b"\xef\xbb\xbf\n\r\ndata: a\n\n", [(None, b"a")]),
    "a bom in the middle is no bom": (b"data: a\n\n\xef\xbb\xbfdata: b\n\ndata: c\n\n", [(None, b"a"), (None, b"c")]),
    "blank lines before, between and after": (b"\n\n\ndata: a\n\n\n\ndata: b\n\n\n", [(None, b"a"), (None, b"b")]),
    "utf-8": ("data: 北京🙂\n\n".encode(), [(None, "北京🙂".encode())]),
    "not utf-8": (b"event: \xff\ndata: \xff\n\n", [("\ufffd", b"\xff")]),
    "nul": (b"data: a\x00b\n\n", [(None, b"a\x00b")]),
    "a chunk of one event and a half": (b"data: a\n\ndata: b", [(None, b"a"), (None, b"b")]),
    "end without a blank line": (b"data: a\n", [(None, b"a")]),
    "end without a line end": (b"data: a", [(None, b"a")]),
    "end inside crlf": (b"data: a\r", [(None, b"a")]),
    "end after a comment": (b"data: a\n\n: bye", [(None, b"a")]),
    "nothing": (b"", []),
    "only blank lines": (b"\n\r\n\r", []),
}
CASES = pytest.mark.parametrize(("stream", "expected"), CONVERSATIONS.values(), ids=CONVERSATIONS)


def read(*chunks: bytes, cap: int = 1 << 20) -> list[Event]:
    reader = SSEReader(cap)
    return [event for chunk in chunks for event in reader.feed(chunk)] + reader.close()


def seen(events: list[Event]) -> list[Seen]:
    return [(event.name, event.data) for event in events]


@CASES
def test_whole(stream: bytes, expected: list[Seen]) -> None:
    assert seen(read(stream)) == expected


@CASES
def test_byte_by_byte(stream: bytes, expected: list[Seen]) -> None:
    assert seen(read(*(stream[i : i + 1] for i in range(len(stream))))) == expected


@CASES
def test_in_two_pieces_cut_anywhere(stream: bytes, expected: list[Seen]) -> None:
    for cut in range(len(stream) + 1):
        assert seen(read(stream[:cut], b"", stream[cut:])) == expected


@CASES
def test_followed_by_another_event(stream: bytes, expected: list[Seen]) -> None:
    assert seen(read(stream + b"\n\n" + b"data: last\n\n")) == [*expected, (None, b"last")]


def test_an_event_does_not_wait_for_more_than_its_blank_line() -> None:
    for end in (b"\n\n", b"\r\n\r", b"\r\r", b"\n\r"):
        reader = SSEReader()
        assert reader.feed(b"data: a" + end[:-1]) == []
        assert seen(reader.feed(end[-1:])) == [(None, b"a")]
        # The CR may have been half of a CR LF.
        assert reader.feed(b"\n") == []
        assert reader.pending == 0


def test_offsets_cut_out_exactly_one_event() -> None:
    stream = b"\xef\xbb\xbf: hi\n\nevent: x\ndata: a\n\n\ndata: b\r\n\r\ndata: c"
    events = read(stream)
    assert [stream[event.start : event.end] for event in events] == [
        b"event: x\ndata: a\n\n",
        b"data: b\r\n\r\n",
        b"data: c",
    ]


def test_a_comment_in_front_belongs_to_its_block() -> None:
    stream = b": hi\ndata: a\n\n"
    assert read(stream) == [Event(None, b"a", 0, len(stream))]


def test_pending_counts_the_unfinished_event() -> None:
    reader = SSEReader()
    pending = []
    for byte in b"data: a\n\n\ndata: b":
        reader.feed(bytes([byte]))
        pending.append(reader.pending)
    assert pending == [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 1, 2, 3, 4, 5, 6, 7]
    reader.close()
    assert reader.pending == 0


def test_an_event_over_the_cap_is_skipped_and_framing_stays_right() -> None:
    big = b"data: " + b"x" * 100
    stream = b"data: a\n\n" + big + b"\n\ndata: b\n\n"
    expected = [
        Event(None, b"a", 0, 9),
        Event(None, b"", 9, 9 + len(big) + 2, skipped=len(big)),
        Event(None, b"b", 9 + len(big) + 2, len(stream)),
    ]
    for step in (len(stream), 40, 7, 1):
        reader = SSEReader(50)
        events = [e for i in range(0, len(stream), step) for e in reader.feed(stream[i : i + step])]
        assert events == expected


def test_the_cap_is_exact_and_what_is_skipped_is_not_held() -> None:
    line = b"data: " + b"x" * 44
    assert [event.skipped for event in read(line + b"\n\n", cap=50)] == [0]
    assert [event.skipped for event in read(line + b"x\n\n", cap=50)] == [51]
    assert [event.skipped for event in read(line + b"x", cap=50)] == [51]
    reader = SSEReader(50)
    for _ in range(1000):
        reader.feed(b"y" * 100)
    assert reader.pending == 100_000
    assert len(reader._held) <= 52


def test_a_long_line_in_many_pieces() -> None:
    body = b"x" * (8 * 1024 * 1024)
    stream = b"data: " + body + b"\n\n"
    reader = SSEReader()
    events = [e for i in range(0, len(stream), 65536) for e in reader.feed(stream[i : i + 65536])]
    assert [len(event.data) for event in events] == [len(body)]


# Any cut of any bytes gives the same events; only whether the LF of a cut CR LF counts to the event may differ.
PIECES = st.lists(
    st.sampled_from(
        [b"\r", b"\n", b"\r\n", b"\n\n", b"data: x", b"data:", b"data", b"event: e", b": c", b"\xef\xbb\xbf", b"y" * 20]
        + [b"data: x\n\n", b"data: y\r\n\r\n"] * 4  # in a row they are read another way
    )
    | st.binary(max_size=4),
    max_size=12,
)


@settings(deadline=None, max_examples=300)
@given(PIECES, st.lists(st.integers(0, 100), max_size=6), st.sampled_from([16, 1000]))
def test_any_cut_gives_the_same_events(pieces: list[bytes], cuts: list[int], cap: int) -> None:
    stream = b"".join(pieces)
    bounds = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    whole = read(stream, cap=cap)
    for ends in (bounds, range(len(stream) + 1)):
        cut = read(*(stream[a:b] for a, b in pairwise(ends)), cap=cap)
        assert [e._replace(end=0) for e in cut] == [e._replace(end=0) for e in whole]
        for one, other in zip(cut, whole, strict=True):
            assert stream[one.end : other.end] in (b"", b"\n")
    gaps = [0, *(offset for event in whole for offset in (event.start, event.end)), len(stream)]
    assert gaps == sorted(gaps)
