"""Keys and verdicts do not depend on the cut, nor on what comes after the end."""

from __future__ import annotations

import re

import pytest
from test_finish import SAY, STOP, followed

from demur.proxy.inspection import Framing

# By API and framing: what ends the answer, and what an upstream says after that.
CUTS: list[tuple[str, Framing, list[bytes]]] = [
    ("openai.chat", "sse", [SAY.replace(b"No.", b"Of course: 12."), STOP, b"data: [DONE]\n\n"]),
    ("ollama.chat", "lines", [b'{"message":{"content":"Of course: 12."},"done":true}\n']),
]
LATE = [
    SAY.replace(b"No.", b"I'm sorry, but I can't help with that."),
    b'data: {"error":{"code":"content_filter"}}\n\n',
    b'{"message":{"content":"I can\'t help with that."},"done":true}\n',
    b'{"error":{"code":"content_filter"}}\n',
]


def judged_and_told(pieces: list[bytes], api: str, framing: Framing) -> tuple[bytes, str | None]:
    """What goes on, and the label of the look-up."""
    passed, inspection = followed(pieces, api=api, framing=framing)
    return b"".join(passed), inspection.finish(cut=False).verdict.label


def any_cut(stream: bytes, api: str, framing: Framing) -> tuple[bytes, str | None]:
    """The same for every cut in two, which is the same for all."""
    whole = judged_and_told([stream], api, framing)
    for cut in range(1, len(stream)):
        assert judged_and_told([stream[:cut], stream[cut:]], api, framing) == whole
    assert judged_and_told([stream[i : i + 1] for i in range(len(stream))], api, framing) == whole
    return whole


@pytest.mark.parametrize(("api", "framing", "events"), CUTS, ids=["chat", "ollama"])
@pytest.mark.parametrize("late", LATE)
def test_what_follows_the_end_marker_changes_no_verdict(
    api: str, framing: Framing, events: list[bytes], late: bytes
) -> None:
    passed, label = any_cut(b"".join([*events, late]), api, framing)
    assert re.findall(rb'"refusal_verdict":{"label":"(\w+)"', passed) == [b"answer"]
    assert label == "answer"


@pytest.mark.parametrize(
    ("late", "keys", "label"),
    [
        (LATE[0], [b"answer"], "hard_refusal"),
        (LATE[1], [b"answer"], "hard_refusal"),
        (STOP.replace(b'"stop"', b'"content_filter"'), [b"answer", b"hard_refusal"], "hard_refusal"),
        (LATE[0].replace(b"null", b'"stop"'), [b"answer", b"hard_refusal"], "hard_refusal"),
    ],
    ids=["text", "error", "filter", "text with a reason"],
)
def test_a_key_tells_of_what_had_come_by_then(late: bytes, keys: list[bytes], label: str) -> None:
    start, stop, done = CUTS[0][2]
    passed, judged = any_cut(start + stop + late + done, "openai.chat", "sse")
    assert re.findall(rb'"refusal_verdict":{"label":"(\w+)"', passed) == keys
    assert judged == label


@pytest.mark.parametrize(
    ("api", "framing", "event"),
    [
        ("ollama.chat", "lines", b'{"done":false,"choices":[{"index":0,"finish_reason":"stop"}]}\n'),
        ("openai.chat", "sse", b'data: {"message":{"content":"x"},"done":true,"done_reason":"stop"}\n\n'),
        ("openai.chat", "sse", STOP.replace(b"finish_reason", b"finish\\u005freason")),
        ("ollama.chat", "sse", b': "done":true\ndata: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'),
    ],
)
def test_an_end_in_the_words_of_another_api_gets_no_key_at_any_cut(api: str, framing: Framing, event: bytes) -> None:
    passed, _ = any_cut(event, api, framing)
    assert passed == event


def test_the_key_of_an_end_over_two_lines() -> None:
    split = b'data: {"message":{"content":"x"},"done":\ndata: true}\n\n'
    passed, _ = any_cut(split, "ollama.chat", "sse")
    assert b"refusal_verdict" in passed


def test_a_key_that_can_not_be_added_changes_no_byte(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> bytes:
        raise RuntimeError("out of luck")

    monkeypatch.setattr("demur.proxy.finish.splice", fail)
    api, framing, events = CUTS[0]
    assert any_cut(b"".join(events), api, framing) == (b"".join(events), "answer")
    assert "could not be added to a stream" in caplog.text
