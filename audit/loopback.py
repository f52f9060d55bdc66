"""Runs an ASGI app on a port of this machine, inside a running loop: for a test, the demo, or `demur replay`."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs the loop: several servers may share it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def listening(app: Callable[..., Awaitable[None]], host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serves `app` while the block runs; gives its base address, such as `http://127.0.0.1:40123` (port 0: a free one).

    Raises OSError when the port is taken. At the end open responses get a second to finish.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.closing(socket.create_server((host, port), family=family)) as sock:
        # "critical": that a stream is cut on purpose is not worth a line of uvicorn's log.
        config = uvicorn.Config(
            app, log_config=None, log_level="critical", access_log=False, timeout_graceful_shutdown=1
        )
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        try:
            while not server.started and not serving.done():  # noqa: ASYNC110  uvicorn has no event for it
                await asyncio.sleep(0.005)
            bound_host, bound_port = sock.getsockname()[:2]
            yield f"http://{f'[{bound_host}]' if ':' in bound_host else bound_host}:{bound_port}"
        finally:
            server.should_exit = True
            await serving
