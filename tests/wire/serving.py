"""The proxy in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

_SERVE = """
import json, sys
from demur.config import Settings
from demur.proxy.server import serve
sys.exit(serve(Settings(**json.loads(sys.argv[1])), lambda *urls: print(*urls, flush=True)))
"""


class Serving:
    """A proxy in a process of its own, on two free ports."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, admin_port: int) -> None:
        self.port = port
        self.admin_port = admin_port
        self._process = process

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def ended(self) -> tuple[str, str]:
        """What it wrote until it ended by itself, which it must do soon."""
        out, err = await asyncio.wait_for(self._process.communicate(), 60)
        return out.decode(), err.decode()

    async def stop(self) -> tuple[str, str]:
        """Ends it by a signal; what it wrote."""
        self.signal(signal.SIGTERM)
        return await self.ended()

    def reset_peak(self) -> None:
        """The highest use of memory is counted anew."""
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5", encoding="ascii")

    def peak(self) -> int:
        """The highest use of memory, in bytes."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024


@asynccontextmanager
async def serving(url: str, variables: dict[str, str] | None = None, **settings: Any) -> AsyncIterator[Serving]:
    """The proxy in front of `url`; it does not outlive the block."""
    # One language starts in a third of the time of all.
    given = json.dumps({"upstream": url, "port": 0, "admin_port": 0, "languages": ["en"], **settings})
    environment = {**os.environ, "PYTHONUTF8": "1", **(variables or {})}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _SERVE, given, stdout=-1, stderr=-1, env=environment
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            said = (await process.stdout.readline()).decode()
        port, admin_port = (int(port) for port in re.findall(r"http://\S+:(\d+)", said))
        yield Serving(process, port, admin_port)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
