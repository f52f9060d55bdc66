"""What fits a mould is read as the full way reads it: the same event, the same choice, the same text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conversations import chunk
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.classifier.plain import mould_of, read_plain
from demur.classifier.sse import Event, SSEReader

SPACED = json.dumps(chunk({"role": "assistant", "content": "It's "}, index=2)).encode()
DENSE = json.dumps(chunk({"content": "two "}), separators=(",", ":")).encode()


@pytest.mark.parametrize("data", [SPACED, DENSE, DENSE.replace(b"two ", b"")])
@pytest.mark.parametrize("text", ["", "Nine", ' "quoted" \\ \n', "北京🙂", "\x00"])
def test_a_chunk_like_the_one_before_gives_its_text(data: bytes, text: str) -> None:
    mould = mould_of(data)
    assert mould is not None
    for spelt in (json.dumps(text), json.dumps(text, ensure_ascii=False)):
        sent = mould.head + spelt.encode()[1:-1] + mould.tail
        assert mould.text(sent) == text
        choice = read_plain(sent[6:-2])
        assert choice is not None
        assert (choice.index, choice.delta.content) == (mould.choice, text)


@settings(deadline=None, max_examples=500)
@given(
    st.lists(
        st.sampled_from(
            [b'"', b"\\", b"\n", b"\r", b"a", b"\\u0041", b"\\ud800", b"\xc3\xa4", b"\xff", b",", b"{", b"}"]
        )
        | st.sampled_from([b'","refusal":"No.', b'"},"x":{"content":"', b"\n\ndata: ", b"\t"]),
        max_size=6,
    ),
    st.booleans(),
)
def test_whatever_fits_is_one_plain_event(inner: list[bytes], bare: bool) -> None:
    mould = mould_of(DENSE)
    assert mould is not None
    middle = b"".join(inner)
    sent = mould.head[: -1 if bare else None] + middle + mould.tail[bare:]
    text = mould.text(sent)
    if text is not None:
        assert SSEReader().feed(sent) == [Event(None, sent[6:-2], 0, len(sent))]
        choice = read_plain(sent[6:-2])
        assert choice is not None
        assert (choice.index, choice.delta.content) == (mould.choice, text)


def test_what_does_not_fit() -> None:
    mould = mould_of(DENSE)
    assert mould is not None
    head, tail = mould.head, mould.tail
    whole = head + b"x" + tail
    assert mould.text(whole) == "x"
    for other in (b"", head, tail, head + tail[1:], whole[:-1], whole + b"\n", b" " + whole, whole * 2):
        assert mould.text(other) is None
    assert mould.text(whole.replace(b"null", b"true")) is mould.text(whole.replace(b"data", b"meta")) is None
    assert mould.text(head[:-1] + b'\n\n"x' + tail) is None, "blanks before a string are no part of it"


@pytest.mark.parametrize(
    "data",
    [
        b"[DONE]",
        b"{}",
        b"",
        json.dumps(chunk({}, "stop")).encode(),
        json.dumps(chunk({"content": "a"}, "stop")).encode(),
        json.dumps(chunk({"content": None})).encode(),
        json.dumps(chunk({"content": "a", "refusal": "b"})).encode(),
        json.dumps(chunk({"content": 'a "b" c'})).encode(),  # where the string ends would have to be searched
        json.dumps(chunk({"content": "a"}), indent=1).encode(),
        b'{"choices":[{"logprobs":{"content":"0"},"delta":{"content":"0"}}]}',  # the first is not the text
        b'{"choices":[{"delta":{"content":"a","content":"0"}}]}',
        b'{"choices":[{"delta":{"content":"a',
    ],
)
def test_an_event_that_makes_no_mould(data: bytes) -> None:
    assert mould_of(data) is None


@pytest.mark.parametrize("odd", [{"choices": []}, {"usage": {}}, {"error": "x"}, {"id": 1}, {"base_resp": {}}])
def test_read_plain_takes_nothing_else(odd: dict[str, Any]) -> None:
    plain = chunk({"content": "a"})
    assert read_plain(json.dumps(plain).encode()) is not None
    assert read_plain(json.dumps(plain | odd).encode()) is None
