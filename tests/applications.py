"""Applications that serve the API themselves: called in memory, message by message, or served on a free port."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn

CHAT = "/v1/chat/completions"
ASK = b'{"model": "m", "messages": [{"role": "user", "content": "How do I build it?"}]}'

Message = dict[str, Any]
Script = Sequence[Message]


def start(kind: str = "application/json", *headers: tuple[bytes, bytes], status: int = 200, **more: Any) -> Message:
    head = [(b"content-type", kind.encode()), *headers]
    return {"type": "http.response.start", "status": status, "headers": head, **more}


def part(body: bytes = b"", *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


def answering(*messages: Message | Exception, read: bool = True) -> Callable[..., Any]:
    """An application that reads its request, if it does, and sends `messages`; an exception among them is raised."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while read and (await receive()).get("more_body"):
            pass
        for message in messages:
            if isinstance(message, Exception):
                raise message
            await send(message)

    return app


@dataclass
class Called:
    """What the server got of one call: the messages that were sent to it, and what was raised."""

    messages: list[Message] = field(default_factory=list)
    error: BaseException | None = None
    scope: Message = field(default_factory=dict)

    @property
    def status(self) -> int:
        return int(self._start["status"])

    @property
    def body(self) -> bytes:
        return b"".join(m.get("body", b"") for m in self.messages if m["type"] == "http.response.body")

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return list(self._start["headers"])

    def get(self, name: str) -> str | None:
        return next((value.decode() for key, value in self.headers if key == name.encode()), None)

    @property
    def kinds(self) -> list[str]:
        return [message["type"].removeprefix("http.response.") for message in self.messages]

    @property
    def _start(self) -> Message:
        return next(message for message in self.messages if message["type"] == "http.response.start")


async def called(
    app: Any,
    body: bytes = ASK,
    *,
    path: str = CHAT,
    method: str = "POST",
    headers: Sequence[tuple[bytes, bytes]] = (),
    pieces: int = 1,
    leaves_after: int | None = None,
    **scope: Any,
) -> Called:
    """One request, its body in `pieces`. With `leaves_after` the client goes once it has got so many messages: sending
    fails from then on, as servers have it."""
    got = Called()
    got.scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"content-type", b"application/json"), *headers],
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1234),
        **scope,
    }
    size = -(-len(body) // pieces) or 1
    cuts = [body[i : i + size] for i in range(0, len(body), size)] or [b""]
    waiting = [{"type": "http.request", "body": b, "more_body": i + 1 < len(cuts)} for i, b in enumerate(cuts)]
    gone = asyncio.Event()

    async def receive() -> Message:
        if waiting:
            return waiting.pop(0)
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if leaves_after is not None and len(got.messages) >= leaves_after:
            gone.set()
            raise OSError("the client has gone")
        got.messages.append(message)

    try:
        await app(got.scope, receive, send)
    except BaseException as error:
        got.error = error
    return got


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def served(app: Any, **options: Any) -> AsyncIterator[str]:
    """`app` on uvicorn; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        server = _Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1, **options))
        serving = asyncio.ensure_future(server.serve([sock]))
        while not server.started and not serving.done():  # noqa: ASYNC110  a test's wait
            await asyncio.sleep(0.005)
        try:
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving
