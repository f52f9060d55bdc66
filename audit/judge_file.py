"""A judge's codings of a corpus, kept in a file while it works: JSON Lines, one coding a line, of one judge.

A line is {"id", "hash", "judge", "prompt_version", "coding"}: the row's own id for people, a hash of what was coded to
find it again in any corpus. A later line on the same text replaces an earlier one. A run that was cut off may leave
half a line at the end, which counts for nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from demur.audit.coding import Coding
from demur.classifier.replies import judged_text
from demur.classifier.trace import Trace

#: What is settled: these codings are not asked for again. What failed may succeed another time.
SETTLED = ("coded", "declined")


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
    return _parsed(path, path.read_bytes())[0]


def _parsed(path: Path, data: bytes) -> tuple[Codings | None, int]:
    """The codings, and where the last whole line ends."""
    who: tuple[str, str] | None = None
    codings: dict[str, Coding] = {}
    *lines, rest = data.split(b"\n")
    for number, line in enumerate((*lines, rest), 1):
        if not line.strip():
            continue
        last = number > len(lines)
        try:
            found = json.loads(line)
            wrote, digest = (str(found["judge"]), str(found["prompt_version"])), str(found["hash"])
            coding = Coding.from_dict(found["coding"])
        except (ValueError, KeyError, TypeError) as error:
            if last:  # half a line: the run was cut off while it wrote
                return _codings(who, codings), len(data) - len(rest)
            why = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
            raise JudgeFileError(f"{path}:{number}: not a judge's coding: {why}") from None
        if who not in (None, wrote):
            here, above = Codings(*wrote).who, Codings(*who).who
            raise JudgeFileError(f"{path}:{number}: by {here}, the lines above by {above}; a file is of one judge")
        who = wrote
        codings[digest] = coding
    return _codings(who, codings), len(data)


def _codings(who: tuple[str, str] | None, by_hash: Mapping[str, Coding]) -> Codings | None:
    return None if who is None else Codings(*who, by_hash)


class JudgeFile:
    """The file of a judge at work: what it holds so far, and a place at its end for more.

    Raises JudgeFileError when it is another judge's, or of another version of the prompt. Entering it makes the file,
    if it is not there.
    """

    def __init__(self, path: Path, judge: str, prompt_version: str) -> None:
        self._path, self._who = path, {"judge": judge, "prompt_version": prompt_version}
        data = path.read_bytes() if path.exists() else b""
        found, end = _parsed(path, data)
        mine = Codings(judge, prompt_version)
        if found is not None and found.who != mine.who:
            raise JudgeFileError(f"{path}: by {found.who}, and asked is {mine.who}; give it another --judge-file")
        self.by_hash: dict[str, Coding] = dict(found.by_hash) if found else {}
        self._torn_at = end if end < len(data) else None
        self._unended = self._torn_at is None and bool(data) and not data.endswith(b"\n")
        self._stream: BinaryIO | None = None

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
        self._stream.write(json.dumps(line).encode() + b"\n")

    def __enter__(self) -> Self:
        if self._torn_at is not None:
            os.truncate(self._path, self._torn_at)
        # Unbuffered: a line is in the file before the next answer is waited for.
        self._stream = self._path.open("ab", buffering=0)
        if self._unended:
            self._stream.write(b"\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
