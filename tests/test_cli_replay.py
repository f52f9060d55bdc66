"""`demur replay` as a process: it says where it listens, answers, and refuses what it could never answer from."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from processes import started

from demur.cli.main import run

COMMAND = [sys.executable, "-m", "demur.cli.main", "replay"]


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    file = tmp_path / "traces.jsonl"
    rows = [{"prompt": "Name a fruit", "response": "A fig.", "model": "m1"}, {"response": "nobody asked"}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@contextmanager
def signals_heeded() -> Iterator[None]:
    """A job in the background of a script ignores SIGINT, and so would what it starts; a handler is not inherited."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_answers_until_it_is_stopped(stop: signal.Signals, code: int, traces: Path) -> None:
    args = [*COMMAND, str(traces), "--port", "0", "--chunk-chars", "2"]
    with signals_heeded(), started(args, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first, second = process.stdout.readline(), process.stdout.readline()
        assert first == "demur replay: traces: 1, models: 1; 1 unreadable or without an ask, left out\n"
        found = re.search(r"base_url=(\S+)", second)
        assert found is not None
        request = {"messages": [{"role": "user", "content": "Name a fruit"}], "stream": True}
        answer = httpx.post(f"{found[1]}/chat/completions", json=request, trust_env=False, timeout=30)
        assert answer.text.count('"content":"') == 4  # the role, and three pieces of two characters
        process.send_signal(stop)
        assert process.wait(timeout=30) == code
        assert process.stderr.read() == ""


def test_files_that_cannot_be_read_or_never_match_are_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", str(tmp_path / "nowhere")]) == 1
    assert "nowhere" in capsys.readouterr().err
    mute = tmp_path / "mute.txt"
    mute.write_text("Only a text.")
    assert run(["replay", str(mute)]) == 1
    assert "no trace says what was asked" in capsys.readouterr().err


def test_a_taken_port_is_an_error(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(["replay", str(traces), "--port", str(port)]) == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option",
    [
        ["--port", "99999"],
        ["--latency", "-1"],
        ["--latency", "nan"],
        ["--chunk-delay", "inf"],
        ["--chunk-delay", "1e300"],
        ["--chunk-chars", "0"],
    ],
)
def test_impossible_numbers_are_wrong_usage(
    option: list[str], traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", str(traces), *option]) == 1
    assert option[0] in capsys.readouterr().err
