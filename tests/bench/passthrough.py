"""The bare pass-through: the project's own transport and server with nothing in between that looks at the traffic.

    python passthrough.py http://127.0.0.1:UPSTREAM PORT

It is what a relay on this stack costs at the least, so demur ÷ this is the price of the inspection. It forwards method,
path, headers and body as they are, streams the answer on as it arrives, and does nothing about errors.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import httpx
import uvicorn

from demur.proxy.upstream import AiohttpTransport

Message = MutableMapping[str, Any]
HOP_BY_HOP = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"host"})


class PassThrough:
    def __init__(self, upstream: str) -> None:
        self.upstream = httpx.URL(upstream)
        self.transport = AiohttpTransport(idle_timeout=300)  # as `demur serve` sets it by default

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            return
        body = await read_body(receive)
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        headers = [pair for pair in scope["headers"] if pair[0] not in HOP_BY_HOP]
        request = httpx.Request(
            scope["method"], self.upstream, headers=headers, content=body, extensions={"target": target}
        )
        response = await self.transport.handle_async_request(request)
        try:
            headers = [pair for pair in response.headers.raw if pair[0].lower() not in HOP_BY_HOP]
            await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
            assert isinstance(response.stream, httpx.AsyncByteStream)
            async for chunk in response.stream:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await response.aclose()


async def read_body(receive: Callable[[], Awaitable[Message]]) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


if __name__ == "__main__":
    upstream, port = sys.argv[1:]
    uvicorn.run(
        PassThrough(upstream),
        port=int(port),
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        proxy_headers=False,
        log_level="warning",
        server_header=False,
        date_header=False,
        backlog=1024,
    )
