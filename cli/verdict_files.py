"""Files of verdicts, read twice: first for what was reviewed later, then record by record.

A file is JSON Lines, or one JSON document (a list of records, or one), told by how it begins. JSON Lines are read in
bounded memory. What can't be read twice, such as a pipe, is kept in a temporary file meanwhile.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from demur.audit.verdicts import Record, Reviews, VerdictError, read_record, review_id
from demur.cli.traces import MAX_FILE, MAX_LINE, InputError, Item, decode, display_name, line_batches, sniff

_STDIN = "-"
#: A list, or an object that goes on below its first line.
_DOCUMENT = re.compile(rb"(\xef\xbb\xbf)?\s*(\[|\{[ \t]*\r?\n)")
_HEAD = 4096
#: What the line of a review holds, so that no other has to be decoded to find the reviews.
_REVIEWED = b'"reviewed"'


def records(paths: Sequence[str], bad: Callable[[str], None], replaced: Callable[[], None]) -> Iterator[Record]:
    """The records to count. `bad` is told what can't be read, `replaced` of each in place of which a review counts.

    Raises InputError for a file that can't be read at all.
    """
    with ExitStack() as opened:
        files: list[tuple[str, BinaryIO]] = []
        for path in paths:
            try:
                files.append((path, opened.enter_context(_rereadable(path))))
            except OSError as error:
                raise InputError(f"{display_name(path)}: {error.strerror or error}") from error
        reviews = Reviews(id for path, stream in files for id in _reviewed(path, stream))
        for path, stream in files:
            for item in _items(path, stream):
                try:
                    if item.problem is not None:
                        raise VerdictError(f"{item.source}: {item.problem}")
                    record = read_record(item.obj, item.source)
                except VerdictError as error:
                    bad(str(error))
                    continue
                if not reviews.replace(record):
                    yield record
                elif not record.reviewed:
                    replaced()


@contextmanager
def _rereadable(path: str) -> Iterator[BinaryIO]:
    with nullcontext(sys.stdin.buffer) if path == _STDIN else Path(path).open("rb") as stream:
        if path != _STDIN and stream.seekable():
            yield cast(BinaryIO, stream)
            return
        with tempfile.TemporaryFile() as kept:
            shutil.copyfileobj(stream, kept)
            yield cast(BinaryIO, kept)


def _reviewed(path: str, stream: BinaryIO) -> Iterator[str]:
    """The ids of the reviews in a file."""
    if _is_document(stream):
        objects: Iterator[object] = (item.obj for item in _items(path, stream))
    else:
        stream.seek(0)
        lines = iter(partial(stream.readline, MAX_LINE), b"")
        objects = (_decoded(line) for line in lines if _REVIEWED in line)
    yield from (id for obj in objects if (id := review_id(obj)) is not None)


def _decoded(line: bytes) -> object:
    try:
        return decode(line)
    except ValueError:  # told when the line is counted
        return None


def _items(path: str, stream: BinaryIO) -> Iterator[Item]:
    document = _is_document(stream)
    stream.seek(0)
    if not document:
        for batch in line_batches(path, stream):
            yield from batch
        return
    name = display_name(path)
    data = stream.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise InputError(f"{name}: is larger than {MAX_FILE >> 20} MiB; JSON Lines of any size are read")
    yield from sniff(data, name)


def _is_document(stream: BinaryIO) -> bool:
    stream.seek(0)
    return _DOCUMENT.match(stream.read(_HEAD)) is not None
