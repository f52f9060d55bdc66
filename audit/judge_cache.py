"""Codings kept in a file, so that no response is paid for twice. Several processes may share it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from demur.audit.coding import Coding
from demur.audit.judge_options import JudgeError

# "demu": SQLite's own field for whose file it is.
_OURS = 0x64656D75
#: Seconds to wait while another process writes.
_WAIT = 30.0


class JudgeCache:
    """Codings by content key in an SQLite file, which is made if there is none. Methods may be called from any thread.

    Raises JudgeError, which names the file, when it can't be used or is not ours.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, Lock()
        with self._errors():
            self._db = sqlite3.connect(path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
        try:
            with self._errors():
                self._open()
        except BaseException:
            self._db.close()
            raise

    def _open(self) -> None:
        (owner,) = self._db.execute("PRAGMA application_id").fetchone()
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if owner != _OURS and (owner or tables):
            raise JudgeError(f"{self._path}: is a database of another program, not a cache of codings")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")  # a power cut may cost the last codings, never the file
        self._db.execute(f"PRAGMA application_id = {_OURS}")
        self._db.execute("CREATE TABLE IF NOT EXISTS coding (key TEXT PRIMARY KEY, coding TEXT NOT NULL) WITHOUT ROWID")

    def get(self, key: str) -> Coding | None:
        with self._lock, self._errors():
            row = self._db.execute("SELECT coding FROM coding WHERE key = ?", (key,)).fetchone()
            return Coding.from_dict(json.loads(row[0])) if row else None

    def put(self, key: str, coding: Coding) -> None:
        with self._lock, self._errors():
            self._db.execute("INSERT OR REPLACE INTO coding VALUES (?, ?)", (key, json.dumps(coding.to_dict())))

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError) as error:
            raise JudgeError(f"{self._path}: can't be used as a cache of codings: {error}") from error
