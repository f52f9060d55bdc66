"""`demur demo` shows the whole chain and checks itself: a verdict, header or text that is not as expected fails it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from demur.cli import demo, demo_run
from demur.cli.demo import Call, load_calls
from demur.cli.main import run

LABELS = {"answer", "hard_refusal", "disguised_refusal", "shaped"}


def test_the_demo_shows_every_verdict_with_headers_evidence_and_a_span(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo"]) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    for label in LABELS:
        assert f"x-refusal-verdict: {label}\n" in out
    for call in load_calls():
        assert call.title.split()[0] in out
    assert "x-refusal-verdict: pending" in out
    assert '"refusal_verdict": {' in out
    assert "^^^^" in out
    assert 'refusal.verdict = "disguised_refusal"' in out
    assert 'base_url="http://127.0.0.1:8787/v1"' in out


def test_the_calls_are_of_every_kind() -> None:
    calls = load_calls()
    assert {call.expect for call in calls} == LABELS
    assert any(call.streamed for call in calls)
    assert any(isinstance(call.recorded["response"], dict) for call in calls)


def test_a_verdict_that_is_not_as_expected_fails_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = load_calls()
    wrong = [replace(calls[0], expect="shaped"), *calls[1:]]
    monkeypatch.setattr(demo, "load_calls", lambda: wrong)
    assert run(["demo"]) == 1
    assert "call 1: the verdict is answer, expected shaped" in capsys.readouterr().err


def test_a_demo_that_takes_too_long_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_run, "TIME_LIMIT", 0.0)
    assert run(["demo"]) == 1
    assert "broke off: TimeoutError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"text": "Another text."}, "the text is not the recorded one"),
        ({"headers": {"x-refusal-verdict": "answer", "x-refusal-id": "i"}}, "the verdict is answer, expected hard"),
        ({"headers": {"x-refusal-verdict": "hard_refusal", "x-refusal-id": "j"}}, "the ids differ"),
        ({"verdict": {"label": "hard_refusal", "signals": [], "id": "i"}}, "there is no evidence"),
    ],
)
def test_what_the_demo_would_notice(change: dict[str, Any], problem: str) -> None:
    call = Call("t", "p", "hard_refusal", False, {"response": "No."})
    verdict = {"label": "hard_refusal", "signals": [{"spans": [{"start": 0, "end": 3}]}], "id": "i"}
    reply = demo_run.Reply({"x-refusal-verdict": "hard_refusal", "x-refusal-id": "i"}, "No.", None, verdict)
    assert demo_run._wrong(call, reply) == []
    assert any(found.startswith(problem) for found in demo_run._wrong(call, replace(reply, **change)))
