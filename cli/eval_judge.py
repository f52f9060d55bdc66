"""`demur eval --judge`: a judge codes the rows of the corpora. What it said is kept in a file, and read from files."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from demur.cli.classify import listed
from demur.cli.judge_places import keep_apart
from demur.cli.judge_progress import progress, requests, spent
from demur.cli.judge_settings import judge_options
from demur.cli.main import needs_extra
from demur.cli.output_files import writable
from demur.config import Settings

if TYPE_CHECKING:
    from demur.audit.coding import Coding
    from demur.audit.evaluation import Case
    from demur.audit.judge import Judge, JudgeOptions
    from demur.audit.judge_file import Codings, JudgeFile
    from demur.audit.judge_run import Task

#: The settings that say which judge is asked, and how; `judge_below` is no matter here, where all rows are coded.
SETTINGS = (
    *("judge_url", "judge_model", "judge_key_env", "judge_cache", "judge_concurrency", "judge_timeout"),
    *("judge_max_tokens", "judge_input_price", "judge_output_price"),
)

Command = TypeVar("Command", bound=Callable[..., Any])


def judge_flags(command: Command) -> Command:
    """Adds the flags that say whether a judge is asked, about what, and where its codings are."""
    refusals_only = click.option(
        "--judge-refusals-only",
        is_flag=True,
        help="With --judge: only rows that are labelled or judged a refusal; the layers below stand for no others.",
    )
    files = click.option(
        *("--judge-file", "judge_files"),
        multiple=True,
        callback=_places,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A judge's codings, one a line, to compare with; may be repeated. With --judge the first is written.",
    )
    ask = click.option(
        "--judge", is_flag=True, help="Send every row to the judge of the settings, and keep its codings."
    )
    return ask(files(refusals_only(command)))


def _places(ctx: click.Context, parameter: click.Parameter, given: tuple[Path, ...]) -> tuple[Path, ...]:
    if len({path.absolute() for path in given}) < len(given):
        raise click.BadParameter("one of them was given twice")
    return tuple(map(writable, given))


class Judges:
    """The judges of one evaluation: files of codings, the first of them at work if one is asked.

    What is wrong with them becomes the command's error at once, before anything is judged.
    """

    def __init__(self, settings: Settings, files: Sequence[Path], *, ask: bool, refusals_only: bool) -> None:
        if ask and not files:
            raise click.UsageError("--judge needs --judge-file FILE, where its codings are kept as they come")
        if refusals_only and not ask:
            raise click.UsageError("--judge-refusals-only says what --judge asks about; give that too")
        keep_apart(settings, files)
        self._options = self._asked(settings) if ask else None
        self._refusals_only = refusals_only
        self._own = files[0] if ask else None
        self._read = {path: _read(path) for path in files[int(ask) :]}

    def codings(self, cases: Sequence[Case]) -> dict[str, Codings]:
        """What each judge said, by its name, the one that was asked first. Asks it, where it has not said all."""
        found: dict[Path, Codings] = {}
        if self._options is not None and self._own is not None:
            found[self._own] = self._coded(self._options, self._own, cases)
        for path, codings in self._read.items():
            if not any(case.hash in codings.by_hash for case in cases):
                raise click.ClickException(f"{path}: codes none of these rows")
            found[path] = codings
        times = Counter(codings.judge for codings in found.values())
        return {
            codings.judge if times[codings.judge] == 1 else f"{codings.judge} in {path}": codings
            for path, codings in found.items()
        }

    def _asked(self, settings: Settings) -> JudgeOptions:
        if (options := judge_options(settings, "eval --judge")) is None:
            raise click.UsageError("--judge needs a judge: --judge-url and --judge-model, or the settings of that name")
        return options

    def _coded(self, options: JudgeOptions, path: Path, cases: Sequence[Case]) -> Codings:
        with needs_extra("judge", "eval --judge"):
            from demur.audit.judge import Judge, JudgeError
        from demur.audit.judge_file import JudgeFile, JudgeFileError

        judge = Judge(options)
        try:
            with JudgeFile(path, judge.name, judge.prompt_version) as file:
                try:
                    _ask(judge, self._tasks(cases), file, options.concurrency)
                except (JudgeError, JudgeFileError) as error:
                    raise click.ClickException(f"{error}\n{_goes_on(file, path)}") from error
                except KeyboardInterrupt:
                    click.echo(f"demur eval: {_goes_on(file, path)}", err=True)
                    raise
                return file.codings
        except JudgeFileError as error:
            raise click.ClickException(str(error)) from error

    def _tasks(self, cases: Sequence[Case]) -> list[Task]:
        from demur.audit.judge_run import Task

        wanted = [case for case in cases if not self._refusals_only or "refusal" in (case.row.gold, case.outcome.got)]
        return [
            Task(case.id, digest, case.trace, case.verdict.index)
            for case in wanted
            if (digest := case.hash) is not None
        ]


def _read(path: Path) -> Codings:
    from demur.audit.judge_file import JudgeFileError, read_codings

    try:
        codings = read_codings(path)
    except JudgeFileError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror or error}") from error
    if codings is None:
        raise click.ClickException(f"{path}: holds no coding")
    return codings


def _goes_on(file: JudgeFile, path: Path) -> str:
    return f"what was coded so far ({len(file.by_hash)}) is in {path}; the same command goes on from there"


def _ask(judge: Judge, tasks: Sequence[Task], file: JudgeFile, at_once: int) -> None:
    from demur.audit.judge_run import code_all, to_do

    left, texts = to_do(tasks, file), len({task.hash for task in tasks})
    outcomes: Counter[str] = Counter()
    asked = 0

    async def ask() -> None:
        async with judge:
            with progress(judge, len(left)) as coded:

                def done(coding: Coding) -> None:
                    nonlocal asked
                    outcomes[coding.outcome.replace("_", " ")] += 1
                    asked += bool(coding.usage.requests or coding.usage.cached)
                    coded()

                await code_all(judge, left, file, at_once=at_once, done=done)

    if left:
        asyncio.run(ask())
    known = f"; {texts - len(left)} were settled before" if texts > len(left) else ""
    took = f"asked about {asked} of {len(left)} texts{listed(outcomes)}; {requests(judge)}, {spent(judge)}"
    click.echo(f"demur eval: judge {judge.name}: {took}{known}", err=True)
