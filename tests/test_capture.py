from __future__ import annotations

import logging

import pytest

from demur.proxy.capture import VARIABLE, Capture, content_capture


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", Capture.NO_CONTENT),
        ("NO_CONTENT", Capture.NO_CONTENT),
        ("SPAN_ONLY", Capture.SPAN_ONLY),
        ("event_only", Capture.EVENT_ONLY),
        (" SPAN_AND_EVENT ", Capture.SPAN_AND_EVENT),
        ("true", Capture.SPAN_AND_EVENT),
        ("False", Capture.NO_CONTENT),
    ],
)
def test_the_switch(value: str, expected: Capture) -> None:
    assert content_capture({VARIABLE: value}) is expected


def test_unset_records_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert content_capture() is Capture.NO_CONTENT


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "SPAN_ONLY")
    assert content_capture() is Capture.SPAN_ONLY


def test_an_unknown_value_records_nothing_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert content_capture({VARIABLE: "EVERYTHING"}) is Capture.NO_CONTENT
    assert VARIABLE in caplog.text
    assert "EVERYTHING" in caplog.text


def test_several_readers_give_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        content_capture({VARIABLE: "ALL_OF_IT"})
    assert len(caplog.records) == 1


def test_which_places_may_hold_text() -> None:
    assert [c for c in Capture if c.text] == [Capture.SPAN_ONLY, Capture.EVENT_ONLY, Capture.SPAN_AND_EVENT]
    assert [c for c in Capture if c.spans] == [Capture.SPAN_ONLY, Capture.SPAN_AND_EVENT]
