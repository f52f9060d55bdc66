"""Codings kept in a file, so that no response is paid for twice. Several processes may share it."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock
from typing import TypeVar

from demur.audit.coding import SETTLED, Coding
from demur.audit.judge_options import JudgeError

# "demu": SQLite's own field for whose file it is.
_OURS = 0x64656D75
#: Seconds to wait while another process writes, and between two looks whether it still does.
WAIT = 2.0
_LOOK = 0.01
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

Result = TypeVar("Result")


class _Locked(Exception):
    """Another process holds the file, or we are closing it."""


class JudgeCache:
    """Codings by content key in an SQLite file, which is made if there is none. Methods may be called from any thread.

    While another process holds the file, nothing is known and nothing is kept. Raises JudgeError, which names the file,
    when it can't be used or is not ours.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock, self._closing = path, Lock(), Event()
        with self._errors():
            # No waiting within SQLite: that could not be ended.
            self._db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            with self._errors():
                self._patiently(self._open)
        except BaseException as error:
            self._db.close()
            if isinstance(error, _Locked):
                raise JudgeError(f"{path}: another process holds this cache of codings") from None
            raise

    def _open(self) -> None:
        # In this order: who makes the file says whose it is before there is a table.
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (owner,) = self._db.execute("PRAGMA application_id").fetchone()
        if owner != _OURS and (owner or tables):
            raise JudgeError(f"{self._path}: is a database of another program, not a cache of codings")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")  # a power cut may cost the last codings, never the file
        if owner != _OURS:
            self._db.execute(f"PRAGMA application_id = {_OURS}")
        self._db.execute("CREATE TABLE IF NOT EXISTS coding (key TEXT PRIMARY KEY, coding TEXT NOT NULL) WITHOUT ROWID")

    def get(self, key: str) -> Coding | None:
        """The coding; None also for a row that no judge's answer can have led to: the next `put` replaces it."""
        ask = "SELECT coding FROM coding WHERE key = ?"
        try:
            with self._errors():
                row = self._patiently(lambda: self._db.execute(ask, (key,)).fetchone())
        except _Locked:
            return None
        try:
            coding = Coding.from_dict(json.loads(row[0])) if row else None
        except (ValueError, TypeError, RecursionError):
            return None
        return coding if coding is not None and coding.outcome in SETTLED else None

    def put(self, key: str, coding: Coding) -> None:
        row, write = (key, json.dumps(coding.to_dict())), "INSERT OR REPLACE INTO coding VALUES (?, ?)"
        try:
            with self._errors():
                self._patiently(lambda: self._db.execute(write, row))
        except _Locked:
            return

    def close(self) -> None:
        """Ends the waiting too."""
        self._closing.set()
        with self._lock:
            self._db.close()

    def _patiently(self, work: Callable[[], Result]) -> Result:
        """What `work` returns. Raises _Locked if the file is locked all the while."""
        until = time.monotonic() + WAIT
        while True:
            try:
                with self._lock:
                    if self._closing.is_set():
                        raise _Locked
                    return work()
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _LOCKED:
                    raise
            if time.monotonic() > until:
                raise _Locked
            self._closing.wait(_LOOK)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError) as error:
            raise JudgeError(f"{self._path}: can't be used as a cache of codings: {error}") from error
