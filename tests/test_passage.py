"""Event streams that do not say so, told by how they begin, in however small pieces."""

from __future__ import annotations

import pytest
from fake_upstream import END, ask, chunk, event, head, say
from wire.notation import play

from demur.proxy.passage import begins_like_events, may_begin_like_events

STREAM = say("Fine.") + event({}, "stop")


@pytest.mark.parametrize("first", [b"\xef", b"\xef\xbb\xbf", b"\r\n", b"d", b"dat", b"e", b"i", b"retry", b"\n\nid"])
def test_a_beginning_that_may_become_events_is_waited_on(first: bytes) -> None:
    assert may_begin_like_events(first)
    assert not begins_like_events(first)


@pytest.mark.parametrize(
    "first", [b"{", b"[", b"data:", b"date", b":", b"\xef\xbbx", b'"d', b"\n" * 2000, b"\xef\xbb\xbf{"]
)
def test_any_other_is_not(first: bytes) -> None:
    assert not may_begin_like_events(first)


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
