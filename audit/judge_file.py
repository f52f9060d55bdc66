"""A judge's codings of a corpus, kept in a file while it works: JSON Lines, one coding a line, of one judge.

A line is {"id", "hash", "judge", "prompt_version", "coding"}: the row's own id for people, a hash of what was coded to
find it again in any corpus. A later line on the same text replaces an earlier one. A run that was cut off may leave
half a line at the end, which counts for nothing. Whatever else stands in a file is somebody's: it is told, and left.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import SEEK_END, FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from demur.audit.coding import SETTLED, Coding
from demur.classifier.replies import judged_text
from demur.classifier.trace import Trace

if sys.platform != "win32":
    from fcntl import LOCK_EX, LOCK_NB, flock

#: How each line begins, up to a text or a number, and how it goes on after that.
_BEGIN, _ID, _THEN = b'{"id": ', re.compile(rb'"(?:[^"\\]|\\.)*\\?"?|[-+.\w]*'), b', "hash": "'


class JudgeFileError(Exception):
    """A file of codings that can't be used. The message names the file, and the line where there is one."""


@dataclass(frozen=True, slots=True)
class Codings:
    """What one judge, asked in one version of its prompt, said of texts, by their hash."""

    judge: str
    prompt_version: str
    by_hash: Mapping[str, Coding] = field(default_factory=dict)

    @property
    def who(self) -> str:
        return f"{self.judge} (prompt {self.prompt_version})"


def content_hash(trace: Trace, index: int) -> str:
    """A hash of what is coded: the ask, and the response in the choice of that index."""
    text = next((judged_text(choice) for choice in trace.choices if choice.index == index), "")
    return hashlib.sha256(json.dumps([trace.ask.system, trace.ask.prompt, text]).encode()).hexdigest()


def read_codings(path: Path) -> Codings | None:
    """All codings of a file; None when it has none yet. Raises JudgeFileError, and OSError."""
    _be_regular(path)
    return _parsed(path, path.read_bytes())[0]


def _be_regular(path: Path) -> None:
    # A pipe would be waited for without end, and nothing can be read again from a device.
    if path.exists() and not path.is_file():
        raise JudgeFileError(f"{path}: is no regular file")


def _parsed(path: Path, data: bytes) -> tuple[Codings | None, int]:
    """The codings, and where the last whole line ends."""
    who: tuple[str, str] | None = None
    codings: dict[str, Coding] = {}
    *lines, rest = data.split(b"\n")
    for number, line in enumerate((*lines, rest), 1):
        if not line.strip():
            continue
        try:
            wrote, digest, coding = _line(line)
        except ValueError as error:
            if number > len(lines) and _is_torn(line, first=who is None):
                return _codings(who, codings), len(data) - len(rest)
            raise JudgeFileError(f"{path}:{number}: not a judge's coding: {error}") from None
        if who not in (None, wrote):
            here, above = Codings(*wrote).who, Codings(*who).who
            raise JudgeFileError(f"{path}:{number}: by {here}, the lines above by {above}; a file is of one judge")
        who = wrote
        codings[digest] = coding
    return _codings(who, codings), len(data)


def _line(line: bytes) -> tuple[tuple[str, str], str, Coding]:
    """Whose coding of which text a line holds. Raises ValueError that says what is wrong."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("it can't be read as JSON") from None
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    if missing := [key for key in ("judge", "prompt_version", "hash") if not isinstance(found.get(key), str)]:
        raise ValueError(f"{missing[0]} is missing, or no text")
    return (found["judge"], found["prompt_version"]), found["hash"], Coding.from_dict(found.get("coding"))


def _is_torn(line: bytes, *, first: bool) -> bool:
    """Whether what can't be read at the end of a file is the beginning of a line of ours: a run was cut off there. With
    no line of ours above, the `first` must show more of itself."""
    if not line.startswith(_BEGIN):
        return not first and _BEGIN.startswith(line)
    value = _ID.match(line, len(_BEGIN))
    rest = line[value.end() :] if value else line
    return rest.startswith(_THEN) or (not first and _THEN.startswith(rest))


def _codings(who: tuple[str, str] | None, by_hash: Mapping[str, Coding]) -> Codings | None:
    return None if who is None else Codings(*who, by_hash)


class JudgeFile:
    """The file of a judge at work: what it holds so far, and a place at its end for more.

    Entering it makes the file, if it is not there, and keeps other runs away from it, where the system has locks. It
    raises JudgeFileError when the file is another run's at the moment, another judge's, of another version of the
    prompt, or none of codings: then it stays as it was.
    """

    def __init__(self, path: Path, judge: str, prompt_version: str) -> None:
        self._path, self._who = path, {"judge": judge, "prompt_version": prompt_version}
        self.by_hash: dict[str, Coding] = {}
        self._stream: FileIO | None = None

    @property
    def codings(self) -> Codings:
        return Codings(self._who["judge"], self._who["prompt_version"], self.by_hash)

    def settled(self, digest: str) -> bool:
        return digest in self.by_hash and self.by_hash[digest].outcome in SETTLED

    def add(self, id: str | float, digest: str, coding: Coding) -> None:
        """Keeps a coding. What was over budget was not asked: it is not written, so that it still is to do."""
        self.by_hash[digest] = coding
        if coding.outcome == "over_budget":
            return
        if self._stream is None:
            raise RuntimeError("a JudgeFile is written within `with`")
        line: dict[str, Any] = {"id": id, "hash": digest, **self._who, "coding": coding.to_dict()}
        self._write(self._stream, json.dumps(line).encode() + b"\n")

    def _write(self, stream: FileIO, line: bytes) -> None:
        """The whole line, or none of it: a full disk may take a part."""
        end = stream.seek(0, SEEK_END)
        try:
            while line:
                line = line[stream.write(line) or 0 :]
        except OSError as error:
            stream.truncate(end)
            raise JudgeFileError(f"{self._path}: can't be written: {error.strerror}") from error

    def __enter__(self) -> Self:
        _be_regular(self._path)
        # Unbuffered: a line is in the file before the next answer is waited for.
        stream = self._path.open("a+b", buffering=0)
        try:
            self._lock(stream)
            self._take(stream)
        except BaseException:
            stream.close()
            raise
        self._stream = stream
        return self

    def _lock(self, stream: FileIO) -> None:
        if sys.platform == "win32":
            return
        try:
            flock(stream, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            raise JudgeFileError(f"{self._path}: another run is writing to it") from None
        except OSError:  # a file system without locks
            return

    def _take(self, stream: FileIO) -> None:
        """Reads what is there, and leaves the file at the end of a whole line."""
        stream.seek(0)
        data = stream.readall()
        found, end = _parsed(self._path, data)
        mine = self.codings.who
        if found is not None and found.who != mine:
            raise JudgeFileError(f"{self._path}: by {found.who}, and asked is {mine}; give it another --judge-file")
        if found is not None:
            self.by_hash = dict(found.by_hash)
        if end < len(data):
            stream.truncate(end)
        elif data and not data.endswith(b"\n"):
            stream.write(b"\n")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
