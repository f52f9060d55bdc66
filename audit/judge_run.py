"""A judge codes the rows of a corpus, several at once; every coding is kept as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from demur.audit.coding import Coding
from demur.audit.judge_file import JudgeFile
from demur.classifier.trace import Trace


class Coder(Protocol):
    """What codes a response: a judge."""

    async def code(self, trace: Trace, *, index: int | None = None) -> Coding: ...


@dataclass(frozen=True, slots=True)
class Task:
    """A text to be coded: the choice of that index. `id` is its row's, `hash` that of the text."""

    id: str | int | float
    hash: str
    trace: Trace
    index: int


def to_do(tasks: Iterable[Task], file: JudgeFile) -> list[Task]:
    """What is not settled in the file, each text once."""
    first: dict[str, Task] = {}
    for task in tasks:
        first.setdefault(task.hash, task)
    return [task for digest, task in first.items() if not file.settled(digest)]


async def code_all(
    judge: Coder, tasks: Iterable[Task], file: JudgeFile, *, at_once: int, done: Callable[[Coding], None]
) -> None:
    """Codes every text, so many at once, and tells of each. What ends the judge (JudgeError) ends this."""
    left = iter(tasks)

    async def work() -> None:
        for task in left:
            coding = await judge.code(task.trace, index=task.index)
            file.add(task.id, task.hash, coding)
            done(coding)

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(at_once):
                workers.create_task(work())
    except ExceptionGroup as group:
        raise group.exceptions[0] from None  # one worker's fault ended the others
