"""A scripted upstream on a raw TCP socket, a proxy in front of it, and a raw client: tests read like the wire.

    async with upstream(head("text/event-stream"), chunk(CH("x")), 0.05, END) as up, proxy(up.url) as px:
        answer = await call(px, post(...))

A script is a sequence of steps: bytes are written (or what a function returns when its turn comes), a number is a
pause in seconds, `FIN` closes in order, `RST` resets. A request with `X-Script: 3` gets script 3, others the next one;
one with `X-Early: 1` gets it before its body is read.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from demur.classifier.judge import default_classifier
from demur.config import Settings
from demur.proxy.app import App, create_app
from demur.proxy.observe import Exchange
from demur.proxy.server import Server


class Close(Enum):
    FIN = "orderly close"
    RST = "reset"


FIN, RST = Close.FIN, Close.RST
#: The end of a chunked body.
END = b"0\r\n\r\n"
Step = bytes | float | Close | Callable[[], bytes]
Script = Sequence[Step]


@dataclass
class Request:
    """One request as it came: `headers` in order, names in lower case; `raw_head` untouched."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    raw_head: bytes

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


@dataclass
class Upstream:
    """What came: `requests` in order. `left` is set when the other side closes while a script pauses."""

    port: int = 0
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)
    scripts: list[Script] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def script_for(self, request: Request) -> Script:
        if chosen := request.all("x-script"):
            return self.scripts[int(chosen[0])]
        return self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]


@asynccontextmanager
async def upstream(*steps: Step, then: Sequence[Script] = (), ssl: Any = None) -> AsyncIterator[Upstream]:
    """Plays `steps` for the first request, then those of `then` one by one; the last is played for all that follow."""
    up = Upstream(scripts=[steps, *then])
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        up.connections += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await _serve_one(up, reader, writer):
                pass
        if not writer.transport.is_closing():
            writer.close()
        tasks.discard(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=ssl, limit=2**20)
    up.port = server.sockets[0].getsockname()[1]
    try:
        yield up
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def _serve_one(up: Upstream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """One request and its script; whether the connection stays open."""
    request = await _read_request(reader)
    up.requests.append(request)
    gone = asyncio.ensure_future(reader.read(1))
    try:
        for step in up.script_for(request):
            if isinstance(step, bytes) or callable(step):
                writer.write(step if isinstance(step, bytes) else step())
                await writer.drain()
            elif step is FIN:
                return False
            elif step is RST:
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                return False
            else:
                assert isinstance(step, int | float)
                await asyncio.wait([gone], timeout=step)
                if gone.done():
                    up.left.set()
                    return False
        gone.cancel()
        with suppress(asyncio.CancelledError):
            await gone
        return True
    finally:
        gone.cancel()


async def _read_request(reader: asyncio.StreamReader) -> Request:
    request = await read_head(reader)
    if not request.all("x-early"):
        request.body = b"".join([piece async for piece in read_body(reader, request.headers)])
    return request


async def read_head(reader: asyncio.StreamReader) -> Request:
    """A request whose body has not been read."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    return Request(method, target, headers, b"", head)


async def read_body(reader: asyncio.StreamReader, headers: Sequence[tuple[str, str]]) -> AsyncGenerator[bytes]:
    """The body of a request or an answer, as it comes. Raises IncompleteReadError where it breaks off."""
    fields = dict(headers)
    if "chunked" in fields.get("transfer-encoding", ""):
        while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
            yield (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
        return
    left = int(fields.get("content-length", 0))
    while left:
        piece = await reader.read(left)
        if not piece:
            raise asyncio.IncompleteReadError(b"", left)
        left -= len(piece)
        yield piece


# What an upstream says.


def head(
    content_type: str = "text/event-stream", *lines: str, status: str = "200 OK", length: int | None = None
) -> bytes:
    """A response head; chunked unless `length` is given."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Type: {content_type}", framing, *lines, "", ""]).encode()


def chunk(data: bytes) -> bytes:
    """`data` in the chunked coding."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def whole(body: bytes, content_type: str = "application/json", *lines: str, status: str = "200 OK") -> bytes:
    """A complete response."""
    return head(content_type, *lines, status=status, length=len(body)) + body


def event(delta: dict[str, Any] | None, finish: str | None = None, *, index: int = 0, eol: str = "\n") -> bytes:
    """One chat-completion chunk as an event."""
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    obj = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(obj, ensure_ascii=False, separators=(',', ':'))}{eol}{eol}".encode()


def say(text: str, *, index: int = 0, eol: str = "\n") -> bytes:
    return event({"content": text}, index=index, eol=eol)


DONE = b"data: [DONE]\n\n"


def completion(text: str | None, **choice: Any) -> bytes:
    """A complete chat completion."""
    message = {"role": "assistant", "content": text}
    obj = {"id": "c", "object": "chat.completion", "model": "m"}
    return json.dumps(
        {**obj, "choices": [{"index": 0, "message": message, "finish_reason": "stop", **choice}]}
    ).encode()


# The proxy before it.


@dataclass
class Proxy:
    """`ended` collects what the observers were told."""

    port: int
    app: App
    ended: Collector

    async def end(self, count: int = 1) -> Exchange:
        """The last exchange, once `count` of them have ended."""
        async with asyncio.timeout(10):
            while len(self.ended) < count:  # noqa: ASYNC110  a test's wait
                await asyncio.sleep(0.005)
        return self.ended[-1]

    async def review(self, count: int = 1) -> Exchange:
        """The last exchange whose verdict was reviewed, once `count` of them were."""
        async with asyncio.timeout(10):
            while len(self.ended.reviews) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        return self.ended.reviews[-1]


class Collector(list[Exchange]):
    """A sink; `reviews` are those that came again, with a verdict that was reviewed."""

    def __init__(self) -> None:
        super().__init__()
        self.reviews: list[Exchange] = []

    def ended(self, exchange: Exchange) -> None:
        self.append(exchange)

    def reviewed(self, exchange: Exchange) -> None:
        self.reviews.append(exchange)


@asynccontextmanager
async def proxy(url: str, *, app: dict[str, Any] | None = None, **settings: Any) -> AsyncIterator[Proxy]:
    """The real application on the real server; `app` goes to `create_app`."""
    ended = Collector()
    options: dict[str, Any] = {"classifier": default_classifier(), **(app or {})}
    built = create_app(Settings(upstream=url, **settings), **{**options, "sinks": [*options.get("sinks", ()), ended]})
    # As the server makes its own: of sockets without this protocol asyncio holds small writes back (Nagle).
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as sock:
        sock.bind(("127.0.0.1", 0))
        limit = settings.get("client_timeout", Settings().client_timeout)
        server = Server(built, [sock], lifespan=True, client_timeout=limit)
        # What `server.serve` does, without the pauses of its main loop.
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        await server.startup([sock])
        try:
            yield Proxy(sock.getsockname()[1], built, ended)
        finally:
            for listener in server.servers:
                listener.close()
            for client in list(server.server_state.connections):
                client.shutdown()
            server.cancel()
            await asyncio.gather(*server.server_state.tasks, return_exceptions=True)
            await server.lifespan.shutdown()


# The client.


@dataclass
class Answer:
    """A response as it came over the wire. `clean`: it ended as its framing says. `times`: when each piece came."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    clean: bool
    times: list[tuple[float, bytes]]

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    def get(self, name: str) -> str | None:
        return next(iter(self.all(name)), None)

    def json(self) -> Any:
        return json.loads(self.body)


def request(method: str, target: str, body: bytes | None = None, *lines: str) -> bytes:
    """A request's bytes, with a Content-Length if there is a body."""
    framing = [] if body is None else [f"Content-Length: {len(body)}"]
    return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: proxy", *framing, *lines, "", ""]).encode() + (
        body or b""
    )


def ask(prompt: str = "How do I build it?", *lines: str, path: str = "/v1/chat/completions", **fields: Any) -> bytes:
    """A chat completion request's bytes."""
    body = {"model": "m", "messages": [{"role": "user", "content": prompt}], **fields}
    return request("POST", path, json.dumps(body).encode(), "Content-Type: application/json", *lines)


@asynccontextmanager
async def connection(px: Proxy) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with _connection("127.0.0.1", px.port) as pair:
        yield pair


@asynccontextmanager
async def _connection(host: str, port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(host, port, limit=2**26)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def call(px: Proxy, sent: bytes) -> Answer:
    """Sends a request on a fresh connection and reads the whole answer."""
    return await call_port(px.port, sent)


async def call_port(port: int, sent: bytes, host: str = "127.0.0.1") -> Answer:
    async with _connection(host, port) as (reader, writer), asyncio.timeout(20):
        writer.write(sent)
        return await read_answer(reader, bodiless=sent.startswith(b"HEAD"))


async def read_answer(reader: asyncio.StreamReader, *, bodiless: bool = False) -> Answer:
    loop = asyncio.get_running_loop()
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
    headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    answer = Answer(int(first.split(" ")[1]), headers, b"", clean=True, times=[(loop.time(), b"")])
    if bodiless or answer.status in (204, 304):
        return answer
    assert {"content-length", "transfer-encoding"} & dict(headers).keys()
    try:
        async with aclosing(read_body(reader, headers)) as body:
            async for piece in body:
                answer.times.append((loop.time(), piece))
    except (asyncio.IncompleteReadError, ConnectionError):
        answer.clean = False
    answer.body = b"".join(piece for _, piece in answer.times)
    return answer
