"""Plain chunks are told from their bytes: whole events of one object each, and text of one choice in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conversations import chunk
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.classifier.plain import lines_of, read_plain
from demur.classifier.sse import SSEReader

PLAIN = json.dumps(chunk({"content": "two"})).encode()


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_whole_events_give_their_lines(newline: bytes) -> None:
    assert lines_of(b"".join([b"data: {%b}" % data + 2 * newline for data in (b"1", b"", b"3")])) == b"{1}\n{}\n{3}"


@pytest.mark.parametrize(
    "chunk",
    [
        b"",
        b"data: [DONE]\n\n",
        b"data: {}\n",
        b"data: {}\r\r",
        b"data:{}\n\n",
        b": hi\ndata: {}\n\n",
        b"data: {}\n\n\n",
        b"data: {}\n\n: hi\n\ndata: {}\n\n",
        b"data: {\ndata: }\n\n",
        b"data: {}\n\ndata: [{}]\n\ndata: {}\n\n",
        b"data: {}\r\n\r\ndata: {}\n\ndata: {}\r\n\r\n",
        b"data: {}\rdata: {}\n\n",
    ],
)
def test_anything_else_gives_none(chunk: bytes) -> None:
    assert lines_of(chunk) is None


PIECES = [
    b"data: ",
    b"{",
    b"}",
    b"}\n\ndata: {",
    b"\n\n",
    b"\r\n\r\n",
    b"\n",
    b"\r",
    b"[",
    b",",
    b'{"a":1}',
    b"x",
    PLAIN,
]


@settings(deadline=None, max_examples=500)
@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_the_lines_are_what_the_reader_reads(pieces: list[bytes]) -> None:
    stream = b"data: {" + b"".join(pieces) + b"}\n\n"
    lines = lines_of(stream)
    if lines is not None:
        assert lines.split(b"\n") == [event.data for event in SSEReader().feed(stream)]
        choices = read_plain(lines)
        if choices is not None:
            singly = [read_plain(line) for line in lines.split(b"\n")]
            assert [choice for one in singly for choice in one or ()] == choices


def test_read_plain() -> None:
    other = json.dumps(chunk({"content": None}, index=3)).encode()
    choices = read_plain(PLAIN + b"\n" + other)
    assert choices is not None
    assert [(choice.index, choice.delta.content) for choice in choices] == [(0, "two"), (3, None)]
    assert read_plain(PLAIN + PLAIN) is read_plain(PLAIN + b"\n") is None, "one value in each line"


@pytest.mark.parametrize("odd", [{"choices": []}, {"usage": {}}, {"error": "x"}, {"id": 1}, {"base_resp": {}}])
def test_read_plain_takes_nothing_else(odd: dict[str, Any]) -> None:
    assert read_plain(PLAIN + b"\n" + json.dumps(json.loads(PLAIN) | odd).encode()) is None
    assert read_plain(json.dumps(json.loads(PLAIN) | {"obfuscation": "x"}).encode()) is not None
