"""How far a judge has come with many texts, on standard error: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from demur.audit.judge import Judge

#: Where no bar can be shown, it is told each time that so many more texts are coded.
EACH = 50


@contextmanager
def progress(judge: Judge, total: int) -> Iterator[Callable[[], None]]:
    """Yields what to call after each of `total` texts."""
    begin, count = time.monotonic(), 0

    def rate() -> float:
        return count / max(time.monotonic() - begin, 1e-6)

    def line() -> None:
        nonlocal count
        count += 1
        if count % EACH == 0:
            left = (total - count) / rate()
            said = f"{count} of {total} texts, {rate():.1f} a second, about {left:.0f} s left, {spent(judge)}"
            click.echo(f"demur eval: judge: {said}", err=True)

    if not sys.stderr.isatty():
        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    counts = MofNCompleteColumn(), TimeRemainingColumn()
    look = TextColumn("judge"), BarColumn(), *counts, TextColumn("{task.description}")
    with Progress(*look, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=total)

        def bar() -> None:
            nonlocal count
            count += 1
            bars.update(task, advance=1, description=f"{rate():.1f}/s, {spent(judge)}")

        yield bar


def spent(judge: Judge) -> str:
    """What the judge has used so far; its cost where prices are set."""
    cost = "" if judge.cost is None else f", cost {judge.cost:.4f}"
    return f"{judge.usage.tokens:,} tokens{cost}"


def requests(judge: Judge) -> str:
    """How often the endpoint was asked, and how often its cache had the answer."""
    count, cached = judge.usage.requests, judge.usage.cached
    return f"{count} request{'' if count == 1 else 's'}{f' and {cached} cached' if cached else ''}"
