"""The program's log, on standard error: lines of text, or one JSON object a line. No keys, queries or texts in it."""

from __future__ import annotations

import logging
import sys
import time

import msgspec

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

#: Seconds between two log lines about the same trouble.
COMPLAIN_EVERY = 60.0


class Seldom:
    """Keeps trouble that goes on from flooding the log: each subject is `due` once a minute at most."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def due(self, subject: str = "") -> bool:
        """Whether it is time to speak of `subject`; who asks will."""
        now = time.monotonic()
        due = now - self._last.get(subject, -COMPLAIN_EVERY) >= COMPLAIN_EVERY
        if due:
            self._last[subject] = now
        return due


class JsonFormatter(logging.Formatter):
    """`{"time", "level", "logger", "message"}` and, for a fault, `"exception"` with its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode("utf-8")


def configure(level: str, form: str) -> None:
    """Sets up logging for the whole process, by the settings `log_level` and `log_format`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("demur").setLevel(level.upper())
    # Starts, stops and malformed requests of strangers are no news.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
