"""Servers of others, as processes: started, waited for, and their output kept."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from processes import started


@dataclass
class Server:
    """`url` is the root URL, without /v1; `lines` is what it has said so far."""

    url: str
    lines: list[str] = field(default_factory=list)
    said: threading.Condition = field(default_factory=threading.Condition)
    ended: bool = False

    def says(self, pattern: str, seconds: float = 60) -> bool:
        """Whether a line matches, now or within `seconds`."""
        with self.said:
            self.said.wait_for(lambda: self.ended or self._said(pattern), seconds)
            return self._said(pattern)

    def _said(self, pattern: str) -> bool:
        return any(re.search(pattern, line) for line in self.lines)


@contextmanager
def serving(command: list[str], *, port: int, ready: str, env: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A server on `port`, once it has said `ready`."""
    server = Server(f"http://127.0.0.1:{port}")
    environment = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", **(env or {})}
    with started(command, stderr=subprocess.STDOUT, seconds=1200, env=environment) as process:

        def listen() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                with server.said:
                    server.lines.append(line)
                    server.said.notify_all()
            with server.said:
                server.ended = True
                server.said.notify_all()

        listener = threading.Thread(target=listen)
        listener.start()
        try:
            assert server.says(ready, 180), "".join(server.lines[-20:])
            yield server
            assert process.poll() is None, f"it ended by itself: {process.poll()}\n" + "".join(server.lines[-20:])
        finally:
            process.kill()
            listener.join()


def free_port() -> int:
    """For servers that can't choose one themselves."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])
