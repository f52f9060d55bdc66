"""The files that a judge's codings are kept in: none of them may be another file of the same command."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import click

from demur.config import Settings
from demur.config.load import DEFAULT_FILE

Place = tuple[str, Path]


def keep_apart(settings: Settings, files: Sequence[Path] = ()) -> None:
    """Raises UsageError that names the file and both of its uses. `files` are those of --judge-file."""
    ours = [("--judge-file", path) for path in files]
    if settings.judge_cache is not None:
        ours.append(("--judge-cache", settings.judge_cache))
    others = [*_others(settings), *(("a file beside --judge-cache", path) for path in _beside(settings.judge_cache))]
    pairs = [*combinations(ours, 2), *((one, other) for one in ours for other in others)]
    for (use, path), (other_use, other) in pairs:
        if _same(path, other):
            raise click.UsageError(f"{path} can't be {use} and {other_use} at once")


def _beside(cache: Path | None) -> list[Path]:
    """What SQLite keeps beside a cache, and deletes."""
    return [] if cache is None else [Path(f"{cache}{end}") for end in ("-wal", "-shm", "-journal")]


def _others(settings: Settings) -> Iterator[Place]:
    """What else the running command reads and writes."""
    yield from (("--lexicon", path) for path in settings.lexicons)
    yield from (("--verdict-log", path) for path in [settings.verdict_log] if path is not None)
    context = click.get_current_context(silent=True)
    given = context.params if context is not None else {}
    yield "the settings file", given.get("config") or DEFAULT_FILE
    yield from (("the input", Path(path)) for name in ("corpora", "files") for path in given.get(name) or ())
    yield from (("--output", path) for path in given.get("outputs") or ())
    yield from (("--errors-file", path) for path in [given.get("errors_file")] if path is not None)


def _same(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)
