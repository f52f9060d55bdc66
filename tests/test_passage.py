"""Event streams that do not say so, told by how they begin, in however small pieces."""

from __future__ import annotations

import pytest
from fake_upstream import END, Step, ask, chunk, event, head, say
from wire.notation import play

from demur.classifier.trace import Ask
from demur.proxy.passage import coding_of, hidden_framing

STREAM = say("Fine.") + event({}, "stop")


@pytest.mark.parametrize("first", [b"\xef", b"\xef\xbb\xbf", b"\r\n", b"d", b"dat", b"e", b"i", b"retry", b"\n\nid"])
def test_a_beginning_that_may_become_events_is_waited_on(first: bytes) -> None:
    assert hidden_framing([], first, "openai.chat", Ask()) is None
    assert hidden_framing([(b"content-encoding", b"gzip")], first, "openai.chat", Ask()) == "none"


@pytest.mark.parametrize("first", [b"data:", b":", b"\xef\xbb\xbf\nid: 1", b"\n" * 2000 + b"retry:"])
def test_events_are_told_by_their_first_field(first: bytes) -> None:
    assert hidden_framing([], first, "openai.chat", Ask()) == "sse"
    assert hidden_framing([(b"content-encoding", b"gzip")], first, "openai.chat", Ask()) == "none"


@pytest.mark.parametrize("first", [b"{", b"[", b"date", b"\xef\xbbx", b'"d', b"\n" * 2000, b"\xef\xbb\xbf{"])
def test_anything_else_is_none(first: bytes) -> None:
    assert hidden_framing([], first, "openai.chat", Ask()) == "none"


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


LINE = b'{"model":"m","message":{"content":"Fi"},"done":false}\n'


def test_lines_of_ollama_that_do_not_say_so() -> None:
    asked = Ask(stream=True)
    for size in range(len(LINE)):
        assert hidden_framing([], LINE[:size], "ollama.chat", asked) is None
    assert hidden_framing([], LINE, "ollama.chat", asked) == "lines"
    assert hidden_framing([(b"content-encoding", b"br")], LINE, "ollama.chat", asked) == "none"
    for api, request, body in (
        ("ollama.chat", Ask(), LINE),
        ("openai.chat", asked, LINE),
        ("ollama.chat", asked, LINE.replace(b"false", b"true")),  # a whole answer
        ("ollama.chat", asked, b'{\n  "done": false\n}'),
        ("ollama.chat", asked, b"{" + b" " * 20_000),
        ("ollama.chat", asked, b"\n" * 20_000),
    ):
        assert hidden_framing([], body, api, request) == "none"


BEGINNINGS = [b"", b"\xef\xbb\xbf", b"\n", b"\r\n", b"\xef\xbb\xbf\r\n\n", b" \t\n"]


@pytest.mark.parametrize("before", BEGINNINGS)
def test_a_byte_order_mark_and_blank_lines_may_come_before_lines_of_ollama(before: bytes) -> None:
    body = before + LINE
    for size in range(len(body)):
        assert hidden_framing([], body[:size], "ollama.chat", Ask(stream=True)) is None
    assert hidden_framing([], body, "ollama.chat", Ask(stream=True)) == "lines"
    assert hidden_framing([], before + LINE.replace(b"false", b"true"), "ollama.chat", Ask(stream=True)) == "none"


@pytest.mark.parametrize("before", BEGINNINGS)
def test_lines_said_to_be_json_go_on_as_they_come(before: bytes) -> None:
    """Ollama streams unless it is told otherwise; what stands before it may call its lines JSON."""
    last = b'{"model":"m","message":{"content":"ne."},"done":true}\n'
    gap = 1.0
    script: list[Step] = [head("application/json"), chunk(before + LINE[:20]), chunk(LINE[20:]), gap, chunk(last), END]
    [(answer, exchange)] = play([script], ask(path="/api/chat"))
    assert answer.times[-1][0] - answer.times[1][0] > gap / 2  # not held until it was whole
    assert b"refusal_verdict" in answer.body
    assert answer.body.startswith(before + LINE)
    assert exchange.stream is True
    assert exchange.verdict is not None
    assert exchange.verdict.label == "answer"
