"""Processes that tests start: none outlives its test, none keeps it waiting for ever."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def started(
    args: list[str], *, stderr: int | None = None, seconds: float = 120, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A process whose output is read; killed after `seconds`, so that reading it ends, and at the end of the block."""
    process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=stderr, text=True, encoding="utf-8", env=env)
    watchdog = threading.Timer(seconds, process.kill)
    with process:
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            process.kill()
