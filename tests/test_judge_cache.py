"""Codings outlive a run: what is known is not asked for again, and a file that is no cache is left as it is."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_judge import Script, coded, completion, scripted_judge, status

from demur.audit import judge_cache
from demur.audit.coding import Coding, Usage
from demur.audit.judge import Judge, JudgeError, JudgeOptions
from demur.audit.judge_cache import JudgeCache
from demur.classifier import Choice, Trace

TRACE = Trace(choices=(Choice(text="I can't help with that."),))
CODING = Coding("coded", label="answer", confidence=0.5, quotes={"label": ("a", "b")}, usage=Usage(7, 3, 1))

WRITER = """
import sys
from pathlib import Path
from demur.audit import judge_cache
from demur.audit.coding import Coding
from demur.audit.judge_cache import JudgeCache
cache = JudgeCache(Path(sys.argv[1]))
for number in range(200):
    cache.put(f"{sys.argv[2]}{number}", Coding("declined", reason=str(number)))
cache.close()
"""


def code(
    file: Path, *script: Script, model: str = "m", trace: Trace = TRACE, **options: Any
) -> tuple[Coding, Judge, int]:
    """One coding with the cache in `file`, the judge, and how many requests it took."""
    with scripted_judge(*script) as endpoint:

        async def run() -> tuple[Coding, Judge]:
            async with Judge(JudgeOptions(endpoint.url, model, cache=file, **options)) as judge:
                return await judge.code(trace), judge

        return *asyncio.run(run()), len(endpoint.requests)


@pytest.mark.parametrize("answer", [coded(), completion("I can't assist with that request.")])
def test_what_was_coded_or_declined_is_not_asked_for_again(answer: Script, tmp_path: Path) -> None:
    first, _, asked = code(tmp_path / "c.db", answer)
    assert asked == 1
    again, judge, asked = code(tmp_path / "c.db", answer)  # another port: the endpoint's address does not matter
    assert asked == 0
    assert again == first.with_usage(Usage(cached=1))
    assert judge.usage == Usage(cached=1)


@pytest.mark.parametrize("answer", [completion("{"), status(413)])
def test_what_failed_is_asked_for_again(answer: Script, tmp_path: Path) -> None:
    assert code(tmp_path / "c.db", answer)[0].outcome == "failed"
    assert code(tmp_path / "c.db", coded())[0].outcome == "coded"


def test_what_is_over_the_budget_is_asked_for_again_and_what_is_known_costs_nothing(tmp_path: Path) -> None:
    assert code(tmp_path / "c.db", coded(), max_tokens=1)[0].outcome == "over_budget"
    assert code(tmp_path / "c.db", coded())[0].outcome == "coded"
    assert code(tmp_path / "c.db", coded(), max_tokens=1)[0].outcome == "coded"


def test_another_model_or_text_is_another_coding(tmp_path: Path) -> None:
    other = Trace(choices=(Choice(text="I can't do this."),))
    for more in ({}, {"model": "n"}, {"trace": other}):
        assert code(tmp_path / "c.db", coded(), **more)[2] == 1


def test_two_processes_share_a_file(tmp_path: Path) -> None:
    file = tmp_path / "c.db"
    processes = [subprocess.Popen([sys.executable, "-c", WRITER, str(file), name]) for name in ("a", "b")]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    cache = JudgeCache(file)
    for name in ("a", "b"):
        known = [cache.get(f"{name}{number}") for number in range(200)]
        assert [coding.reason if coding else None for coding in known] == [str(number) for number in range(200)]
    cache.close()


def test_a_coding_comes_back_as_it_was(tmp_path: Path) -> None:
    cache = JudgeCache(tmp_path / "c.db")
    assert cache.get("k") is None
    cache.put("k", CODING)
    assert cache.get("k") == CODING
    cache.close()


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_broken_file_is_named_and_kept(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "c.db"
    file.write_bytes(content)
    with pytest.raises(JudgeError, match=r"c\.db: can't be used as a cache of codings"):
        JudgeCache(file)
    assert file.read_bytes() == content


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "c.db"
    with sqlite3.connect(file) as db:
        db.execute("CREATE TABLE theirs (x)")
    db.close()
    before = file.read_bytes()
    with pytest.raises(JudgeError, match="another program"):
        JudgeCache(file)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "row",
    [
        *("{", "[]", "null", "5", b"\xff\xfe\x00", "[" * 100_000),
        *('{"outcome": "maybe"}', '{"outcome": "coded"}', '{"outcome": "over_budget"}', '{"outcome": "failed"}'),
        '{"outcome": "coded", "label": "hard_refusal", "confidence": 0.5}',
        '{"outcome": "coded", "label": "answer", "confidence": NaN}',
        '{"outcome": "coded", "label": "answer", "confidence": 9}',
        '{"outcome": "coded", "label": "answer", "confidence": 0.5, "rationale": "bare"}',
        '{"outcome": "coded", "label": "answer", "confidence": 0.5, "quotes": {"xx": ["can"]}}',
        '{"outcome": "declined", "label": "answer"}',
        '{"outcome": "declined", "usage": {"input_tokens": -1}}',
    ],
)
def test_a_row_that_no_judge_can_have_led_to_is_unknown_and_replaced(row: str | bytes, tmp_path: Path) -> None:
    cache = JudgeCache(tmp_path / "c.db")
    cache._db.execute("INSERT INTO coding VALUES ('k', ?)", (row,))
    assert cache.get("k") is None
    cache.put("k", CODING)
    assert cache.get("k") == CODING
    cache.close()


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A cache that holds nothing, and another connection that writes all the while."""
    file = tmp_path / "c.db"
    JudgeCache(file).close()
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    yield file
    writer.rollback()
    writer.close()


def test_a_lock_of_another_process_is_waited_for_shortly(locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_cache, "WAIT", 0.05)
    first, _, _ = code(locked, coded())
    assert first.outcome == "coded"
    assert code(locked, coded())[2] == 1  # it was not kept


def test_closing_ends_the_waits_for_a_lock(locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_cache, "WAIT", 600.0)
    cache = JudgeCache(locked)
    waiting = [threading.Thread(target=cache.put, args=(str(n), CODING)) for n in range(8)]
    for thread in waiting:
        thread.start()
    cache.close()
    for thread in waiting:
        thread.join(20)
    assert not any(thread.is_alive() for thread in waiting)


def test_a_file_that_is_locked_for_readers_too_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_cache, "WAIT", 0.05)
    file = tmp_path / "c.db"
    with sqlite3.connect(file, isolation_level=None) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(JudgeError, match=r"c\.db: another process holds this cache"):
            JudgeCache(file)
    writer.close()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match=r"no/c\.db: can't be used as a cache of codings: unable to open"):
        JudgeCache(tmp_path / "no" / "c.db")
