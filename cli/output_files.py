"""The files that a command reads and writes: what stands in their way is told before the work, not after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click


def writable(path: Path) -> Path:
    """The path. Raises click.BadParameter when it is a folder, or would be in one that is not there."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise click.BadParameter(f"{path}: {'is a folder' if path.is_dir() else 'there is no such folder'}")
    return path


def reports(*suffixes: str) -> Callable[[click.Context, click.Parameter, tuple[Path, ...]], tuple[Path, ...]]:
    """What checks the option of the reports to write: the end of a name says what is written, one of `suffixes`."""

    def check(ctx: click.Context, parameter: click.Parameter, given: tuple[Path, ...]) -> tuple[Path, ...]:
        for path in map(writable, given):
            if path.suffix not in suffixes:
                raise click.BadParameter(f"{path}: the name of a report ends in {' or '.join(suffixes)}")
        return given

    return check


def check_files(read: Sequence[str], written: Sequence[Path], what: str) -> None:
    """Raises click.UsageError when a file is given twice, under whatever names, or is to be read and written. `what`
    the ones to read are, such as "is a corpus"."""
    known: dict[object, str] = {}
    for path in read:
        if (first := known.get(_identity(path))) is not None:
            twice = "given twice" if first == path else f"given twice, once as {first}"
            raise click.UsageError(f"{path} is {twice}, and would count twice")
        known[_identity(path)] = path
    if len({path.resolve() for path in written}) < len(written):
        raise click.UsageError("two of the files to write are one")
    for output in written:
        if output.exists() and _identity(str(output)) in known:
            raise click.UsageError(f"{output} {what}; the report would overwrite it")


def write(path: Path, data: bytes) -> None:
    """Writes the file. Raises click.ClickException, which names it: not every error of the system does."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror or error}") from error


def _identity(path: str) -> object:
    """What is equal for two names of one file: links count as what they lead to; - is standard input."""
    try:
        found = None if path == "-" else Path(path).stat()
    except OSError:
        found = None
    return path if found is None else (found.st_dev, found.st_ino)
