"""The verdict log: one JSON object a line, one line per exchange, and a second one where its verdict was reviewed.

The event loop only encodes the record and hands the line over; one thread writes whole batches with a single append, so
that lines of several processes never mix. The file may be rotated by renaming it (the next batch goes to a new file) or
by copying and truncating it. A pipe or a terminal will do as well: lines for which its reader is gone or too slow are
lost and counted.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
import threading
from collections import deque
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from demur.classifier.replies import judged_text
from demur.proxy.capture import Capture
from demur.proxy.labels import clip
from demur.proxy.logs import Seldom
from demur.proxy.observe import Exchange

logger = logging.getLogger("demur.verdict_log")

#: Lines waiting for the disk; beyond it the newest are lost (and counted). About 20 MB at 2 kB a line.
QUEUE_LIMIT = 10_000
#: Seconds that the writer gathers lines before it writes them.
GATHER = 0.1


class VerdictLogError(Exception):
    """The file cannot be opened for appending."""


class VerdictLog:
    """A sink that appends each exchange to `path`, and again, under the same id and with `reviewed`, when a second
    opinion came later. `capture` decides whether texts are written. `close()` flushes.

    `lost` counts the records that could not be written (full disk, queue overrun); losing one is never an exception.
    """

    def __init__(self, path: Path, *, capture: Capture = Capture.NO_CONTENT) -> None:
        self.lost = 0
        self._path = path
        self._text = capture.text
        self._lines: deque[bytes] = deque()
        self._torn = False
        self._seldom = Seldom()
        self._losing = threading.Lock()
        try:
            self._fd = _open(path)
        except OSError as error:
            raise VerdictLogError(f"verdict_log: cannot append to {path}: {error.strerror}") from error
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="verdict-log", daemon=True)
        self._thread.start()

    def ended(self, exchange: Exchange) -> None:
        if len(self._lines) >= QUEUE_LIMIT or self._closing.is_set():
            self._lose(1, "the disk does not keep up" if not self._closing.is_set() else "the log is closed")
            return
        self._lines.append(_encode(record(exchange, text=self._text)))
        if not self._wake.is_set():
            self._wake.set()

    def reviewed(self, exchange: Exchange) -> None:
        self.ended(exchange)

    def close(self, timeout: float = 5.0) -> None:
        """Writes what is waiting, for at most `timeout` seconds."""
        self._closing.set()
        self._wake.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._lose(len(self._lines), "the disk did not keep up at shutdown")

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.wait()
            self._closing.wait(GATHER)
            self._wake.clear()
            self._write_waiting()
        self._write_waiting()
        os.close(self._fd)

    def _write_waiting(self) -> None:
        lines = [self._lines.popleft() for _ in range(len(self._lines))]
        if not lines:
            return
        try:
            self._follow_rotation()
            self._append(lines)
        except OSError as error:
            self._lose(len(lines), error.strerror or str(error))

    def _follow_rotation(self) -> None:
        try:
            moved = not os.path.samestat(self._path.stat(), os.fstat(self._fd))
        except FileNotFoundError:
            moved = True
        if moved:
            fresh = _open(self._path)
            os.close(self._fd)
            self._fd = fresh
            self._torn = False

    def _append(self, lines: list[bytes]) -> None:
        data = memoryview((b"\n" if self._torn else b"") + b"".join(lines))
        while data:
            written = os.write(self._fd, data)
            self._torn = data[written - 1] != ord("\n")  # a disk that fills up may stop in the middle of a line
            data = data[written:]

    def _lose(self, count: int, why: str) -> None:
        with self._losing:  # the event loop and the writer both lose records
            self.lost += count
            if not self._seldom.due():
                return
        logger.error("%s: %d records lost so far: %s (said once a minute at most)", self._path, self.lost, why)


def record(exchange: Exchange, *, text: bool = False) -> dict[str, Any]:
    """One exchange as JSON-ready data. Durations are seconds, `time` is its start. `text` adds the words.

    With a verdict that was reviewed it says `"reviewed": true`: it repeats a line, which it replaces, and counts no
    exchange. The first line has no such key.
    """
    trace, verdict, started = exchange.trace, exchange.verdict, exchange.started
    out: dict[str, Any] = {
        "time": _rfc3339(exchange.started_ns),
        "id": exchange.id,
        **({"reviewed": True} if verdict and verdict.review else {}),
        "model": exchange.ask.model and clip(exchange.ask.model),
        "response_model": trace.model and clip(trace.model) if trace else None,
        "provider": exchange.provider,
        "api": exchange.api,
        "method": exchange.method,
        "path": exchange.path,
        "upstream": f"{exchange.upstream_host}:{exchange.upstream_port}",
        "tag": exchange.tag,
        "stream": exchange.stream,
        "status_code": exchange.status_code,
        "end": exchange.end,
        "error": exchange.error,
        "duration_seconds": _since(started, exchange.ended),
        "first_byte_seconds": _since(started, exchange.first_byte),
        "first_event_seconds": _since(started, exchange.first_event),
        "classify_seconds": round(exchange.classify_seconds, 6),
        "usage": {k: v for k, v in asdict(trace.usage).items() if v is not None} if trace else {},
        "verdict": verdict.to_dict(text=text) if verdict else None,
    }
    if text:
        out["prompt"] = exchange.ask.prompt
        out["response"] = [judged_text(choice) for choice in trace.choices] if trace else []
    return out


def _encode(record: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(record) + b"\n"
    except UnicodeEncodeError:  # a lone surrogate: JSON can carry it, but only escaped
        return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _open(path: Path) -> int:
    """For appending: a file, a terminal, or a pipe that somebody reads (`/dev/stdout` is any of these)."""
    try:
        # Without O_NONBLOCK, a pipe that nobody reads would hold us up until somebody does.
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o640)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "it is a pipe that nobody reads, or a socket") from error
        raise
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is neither a file nor a pipe")
    os.set_blocking(fd, True)  # the writer's thread may wait
    return fd


def _rfc3339(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _since(start: float, moment: float | None) -> float | None:
    return None if moment is None else round(moment - start, 6)
