from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from exchanges import PROMPT, REFUSAL, REPLY, TRACE, exchange, unjudged

from demur.classifier.verdict import Review
from demur.proxy import verdict_log
from demur.proxy.capture import Capture
from demur.proxy.verdict_log import VerdictLog, VerdictLogError, record


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def lost(log: VerdictLog, count: int) -> bool:
    return log.lost == count


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("waited 10 s in vain")


def test_one_line_per_exchange_in_order(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    log = VerdictLog(path)
    for n in range(50):
        log.ended(exchange(id=f"id-{n}"))
    log.close()
    assert [r["id"] for r in read(path)] == [f"id-{n}" for n in range(50)]
    assert log.lost == 0


def test_a_record_says_who_what_how_long_and_the_verdict() -> None:
    it = record(exchange(started_ns=1_764_000_000_123_000_000))
    verdict = it.pop("verdict")
    assert it == {
        "time": "2025-11-24T16:00:00.123Z",
        "id": "id-1",
        "model": "gpt-x",
        "response_model": "gpt-x-2026",
        "provider": "openai",
        "api": "openai.chat",
        "method": "POST",
        "path": "/v1/chat/completions",
        "upstream": "api.example.test:443",
        "tag": "team-a",
        "stream": False,
        "status_code": 200,
        "end": "complete",
        "error": None,
        "duration_seconds": 1.5,
        "first_byte_seconds": 0.5,
        "first_event_seconds": None,
        "classify_seconds": 0.0002,
        "usage": {"input_tokens": 11, "output_tokens": 7, "cached_tokens": 3, "reasoning_tokens": 0},
    }
    assert verdict["label"] == "hard_refusal"
    assert verdict["signals"][0]["spans"] == [{"start": 0, "end": 13}]
    assert (verdict["rationale"], verdict["strategy"]) == ("policy", "explicit")
    assert verdict["features"] == {"apology": True, "hedge": False, "negative_stance": True}
    (code,) = verdict["codes"]
    assert (code["layer"], code["code"], code["spans"]) == ("rationale", "policy", [{"start": 14, "end": 32}])


def test_no_text_of_prompt_answer_or_evidence_by_default(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    log = VerdictLog(path)
    log.ended(exchange())
    log.close()
    assert "zebra" not in path.read_text()
    assert "won't" not in path.read_text()


def test_texts_when_content_capture_is_on(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    log = VerdictLog(path, capture=Capture.EVENT_ONLY)
    log.ended(exchange())
    log.close()
    (it,) = read(path)
    assert (it["prompt"], it["response"]) == (PROMPT, [REPLY])
    assert it["verdict"]["signals"][0]["spans"][0]["text"] == "I won't share"
    assert it["verdict"]["codes"][0]["spans"][0]["text"] == "the zebra password"


def test_a_reviewed_verdict_is_a_second_line_that_can_take_the_first_ones_place(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    log = VerdictLog(path)
    it = exchange()
    review = Review("gpt-y", "coded", "answer", REPLY, "hard_refusal", 0.6)
    log.ended(it)
    log.ended(exchange(id="id-2"))
    log.reviewed(replace(it, verdict=replace(REFUSAL, label="answer", review=review)))
    log.close()
    first, other, second = read(path)
    assert "reviewed" not in first | other
    assert second["reviewed"] is True
    assert second.keys() - first.keys() == {"reviewed"}
    assert {name for name in first if first[name] != second[name]} == {"verdict"}
    assert (second["verdict"]["label"], second["verdict"]["review"]["rules_label"]) == ("answer", "hard_refusal")
    assert "zebra" not in path.read_text()
    assert [line["id"] for line in read(path) if not line.get("reviewed")] == ["id-1", "id-2"]  # one per exchange


def test_an_unjudged_exchange_is_a_record_too() -> None:
    it = record(unjudged(), text=True)
    assert (it["verdict"], it["usage"], it["model"], it["response"]) == (None, {}, None, [])


def test_a_lone_surrogate_in_an_answer_is_written_escaped(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    log = VerdictLog(path, capture=Capture.SPAN_ONLY)
    choice = replace(TRACE.choices[0], text="half \ud800 a pair")
    log.ended(exchange(trace=replace(TRACE, choices=(choice,))))
    log.close()
    assert read(path)[0]["response"] == ["half \ud800 a pair"]


def test_an_existing_file_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    path.write_text('{"id": "old"}\n')
    log = VerdictLog(path)
    log.ended(exchange())
    log.close()
    assert [r["id"] for r in read(path)] == ["old", "id-1"]


def test_rotation_by_rename_starts_a_new_file(tmp_path: Path) -> None:
    path, rotated = tmp_path / "v.jsonl", tmp_path / "v.jsonl.1"
    log = VerdictLog(path)
    log.ended(exchange(id="before"))
    wait_for(lambda: path.stat().st_size > 0)
    path.rename(rotated)
    log.ended(exchange(id="after"))
    log.close()
    assert [r["id"] for r in read(rotated)] == ["before"]
    assert [r["id"] for r in read(path)] == ["after"]


def test_rotation_by_copy_and_truncate_goes_on_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    log = VerdictLog(path)
    log.ended(exchange(id="before"))
    wait_for(lambda: path.stat().st_size > 0)
    os.truncate(path, 0)
    log.ended(exchange(id="after"))
    log.close()
    assert [r["id"] for r in read(path)] == ["after"]


def test_an_unwritable_path_is_a_clear_error_at_start(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "v.jsonl"
    with pytest.raises(VerdictLogError, match=r"verdict_log: cannot append to .*missing.*: No such file"):
        VerdictLog(path)


def test_a_full_disk_is_counted_said_once_and_never_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    log = VerdictLog(tmp_path / "v.jsonl")
    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(os, "write", full)
        for n in range(1, 4):
            log.ended(exchange())
            wait_for(partial(lost, log, n))
    log.ended(exchange(id="later"))
    log.close()
    assert [r["id"] for r in read(tmp_path / "v.jsonl")] == ["later"]
    assert [r.message for r in caplog.records if "No space left" in r.message] == [
        f"{tmp_path / 'v.jsonl'}: 1 records lost so far: No space left on device (said once a minute at most)"
    ]


def test_a_torn_line_does_not_swallow_the_next_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    steps = iter([10, None])

    def half(fd: int, data: memoryview) -> int:
        length = next(steps)
        if length is None:
            raise OSError(28, "No space left on device")
        return real(fd, data[:length])

    path = tmp_path / "v.jsonl"
    log = VerdictLog(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        log.ended(exchange(id="torn"))
        wait_for(lambda: log.lost == 1)
    log.ended(exchange(id="whole"))
    log.close()
    torn, whole = path.read_text().splitlines()
    assert len(torn) == 10
    assert json.loads(whole)["id"] == "whole"


def test_a_queue_overrun_loses_the_newest_and_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict_log, "QUEUE_LIMIT", 2)
    monkeypatch.setattr(verdict_log, "GATHER", 30.0)
    log = VerdictLog(tmp_path / "v.jsonl")
    for n in range(5):
        log.ended(exchange(id=str(n)))
    assert log.lost == 3
    log.close()
    assert [r["id"] for r in read(tmp_path / "v.jsonl")] == ["0", "1"]


def test_after_close_a_record_is_lost_quietly(tmp_path: Path) -> None:
    log = VerdictLog(tmp_path / "v.jsonl")
    log.close()
    log.ended(exchange())
    assert log.lost == 1
    log.close()


def test_a_pipe_that_nobody_reads_is_an_error_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(VerdictLogError, match=r"cannot append to .*pipe: it is a pipe that nobody reads"):
        VerdictLog(tmp_path / "pipe")


def test_a_pipe_with_a_reader_gets_the_lines_and_a_reader_that_leaves_costs_only_lines(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    log = VerdictLog(path)
    log.ended(exchange(id="read"))
    got: list[bytes] = []

    def arrived() -> bool:
        with contextlib.suppress(BlockingIOError):
            got.append(os.read(reader, 65536))
        return b"".join(got).endswith(b"\n")

    wait_for(arrived)
    assert json.loads(b"".join(got))["id"] == "read"
    os.close(reader)
    log.ended(exchange(id="unread"))
    wait_for(partial(lost, log, 1))
    log.close()


def test_a_reader_that_does_not_read_does_not_hold_up_the_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    log = VerdictLog(path)
    for _ in range(500):
        log.ended(exchange(id="x" * 1000))
    log.close(timeout=0.3)
    os.close(reader)


@pytest.mark.skipif(not Path("/dev/stderr").exists(), reason="there is no /dev/stderr here")
def test_a_standard_stream_will_do(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from demur.proxy.verdict_log import VerdictLog; from exchanges import exchange;"
        "log = VerdictLog(Path('/dev/stderr')); log.ended(exchange(id='seen')); log.close()"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=env)
    assert json.loads(done.stderr)["id"] == "seen"


def test_what_is_neither_file_nor_pipe_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(VerdictLogError, match="Is a directory"):
        VerdictLog(tmp_path)
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(tmp_path / "s"))
        with pytest.raises(VerdictLogError, match="or a socket"):
            VerdictLog(tmp_path / "s")
