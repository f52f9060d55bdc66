"""A judge at work on many texts: so many at once, each once, all of them kept, and one fault ends it."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from demur.audit.coding import Coding
from demur.audit.judge_file import JudgeFile, read_codings
from demur.audit.judge_run import Task, code_all, to_do
from demur.classifier import Choice, Trace
from demur.classifier.trace import Ask

DECLINED = Coding("declined", reason="rather not")


class Scripted:
    """Codes each text by its outcome in `script`; raises what stands there instead."""

    def __init__(self, script: dict[str, Coding | Exception] | None = None) -> None:
        self.script = script or {}
        self.asked: Counter[str] = Counter()
        self.open_now = self.most_at_once = 0

    async def code(self, trace: Trace, *, index: int | None = None) -> Coding:
        text = next(choice.text for choice in trace.choices if choice.index == index)
        self.asked[text] += 1
        self.open_now += 1
        self.most_at_once = max(self.most_at_once, self.open_now)
        await asyncio.sleep(0)
        self.open_now -= 1
        said = self.script.get(text, DECLINED)
        if isinstance(said, Exception):
            raise said
        return said


def tasks(*texts: str) -> list[Task]:
    return [Task(n, f"hash-{text}", Trace(Ask(), (Choice(0, text),)), 0) for n, text in enumerate(texts)]


def code(judge: Scripted, what: list[Task], path: Path, at_once: int = 3) -> list[str]:
    done: list[str] = []
    with JudgeFile(path, "m", "v1") as file:
        asyncio.run(
            code_all(judge, to_do(what, file), file, at_once=at_once, done=lambda coding: done.append(coding.outcome))
        )
    return done


def test_each_text_is_coded_once_and_so_many_at_once(tmp_path: Path) -> None:
    path, judge = tmp_path / "j.jsonl", Scripted()
    texts = [f"t{n % 20}" for n in range(30)]
    assert code(judge, tasks(*texts), path) == ["declined"] * 20
    assert judge.asked == Counter(set(texts))
    assert judge.most_at_once == 3
    found = read_codings(path)
    assert found is not None
    assert set(found.by_hash) == {f"hash-{text}" for text in texts}


def test_a_second_run_asks_about_the_rest_and_about_what_failed(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    failed, over = Coding("failed", reason="x"), Coding("over_budget", reason="y")
    code(Scripted({"b": failed, "c": over}), tasks("a", "b", "c"), path)
    judge = Scripted()
    assert code(judge, tasks("a", "b", "c", "d"), path) == ["declined"] * 3
    assert judge.asked == Counter("bcd")
    assert code(Scripted(), tasks("a", "b", "c", "d"), path) == []
    found = read_codings(path)
    assert found is not None
    assert {coding.outcome for coding in found.by_hash.values()} == {"declined"}


def test_what_ends_the_judge_ends_the_run_and_what_was_coded_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    judge = Scripted({"c": LookupError("wrong key")})
    with pytest.raises(LookupError, match="wrong key"):
        code(judge, tasks(*"abcdefgh"), path, at_once=1)
    assert judge.asked == Counter("abc")
    found = read_codings(path)
    assert found is not None
    assert set(found.by_hash) == {"hash-a", "hash-b"}


def test_the_order_is_that_of_the_rows(tmp_path: Path) -> None:
    with JudgeFile(tmp_path / "j.jsonl", "m", "v1") as file:
        assert [task.id for task in to_do(tasks("b", "a", "b", "c"), file)] == [0, 1, 3]
