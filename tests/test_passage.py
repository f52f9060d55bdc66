"""Event streams that do not say so, told by how they begin, in however small pieces."""

from __future__ import annotations

import pytest
from fake_upstream import END, ask, chunk, event, head, say
from wire.notation import play

from demur.proxy.passage import begins_like_events, coding_of

STREAM = say("Fine.") + event({}, "stop")


@pytest.mark.parametrize("first", [b"\xef", b"\xef\xbb\xbf", b"\r\n", b"d", b"dat", b"e", b"i", b"retry", b"\n\nid"])
def test_a_beginning_that_may_become_events_is_waited_on(first: bytes) -> None:
    assert begins_like_events([], first) is None
    assert begins_like_events([(b"content-encoding", b"gzip")], first) is False


@pytest.mark.parametrize("first", [b"data:", b":", b"\xef\xbb\xbf\nid: 1", b"\n" * 2000 + b"retry:"])
def test_events_are_told_by_their_first_field(first: bytes) -> None:
    assert begins_like_events([], first) is True
    assert begins_like_events([(b"content-encoding", b"gzip")], first) is False


@pytest.mark.parametrize("first", [b"{", b"[", b"date", b"\xef\xbbx", b'"d', b"\n" * 2000, b"\xef\xbb\xbf{"])
def test_anything_else_is_none(first: bytes) -> None:
    assert begins_like_events([], first) is False


@pytest.mark.parametrize("cut", range(1, 7))
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_events_of_no_type_go_on_as_they_come(mark: bytes, cut: int) -> None:
    body = mark + STREAM
    [(answer, exchange)] = play(
        [[head("application/json"), chunk(body[:cut]), 0.05, chunk(body[cut:]), 0.2, chunk(b"data: [DONE]\n\n"), END]],
        ask(stream=True),
        stream_verdict="off",
    )
    assert exchange.stream
    assert answer.body == body + b"data: [DONE]\n\n"
    assert len(answer.times) > 2  # not held until it was whole


def test_codings_on_several_lines_are_one_list() -> None:
    name = b"content-encoding"
    assert coding_of([(name, b"gzip"), (b"x", b"y"), (name, b"br")]) == b"gzip,br"
    assert coding_of([(name, b"identity"), (name, b" "), (name, b"Identity, identity")]) is None
    assert coding_of([(b"x", b"y")]) is None
