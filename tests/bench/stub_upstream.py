"""A model endpoint that costs nothing: prebuilt bytes from a uvloop protocol, so that the proxy in front is the limit.

`?events=N` asks for a stream of N events, one write each. What lets the next event go is either time (`&pace_ms=20`) or
the load generator: with `&stream=K` it says on the stub's standard input, in two bytes, that stream K may go on. So an
event is never sent before the one ahead of it has come through the proxy, and none shares a read with another, however
slow the proxy is. Any other request gets the JSON answer. `/v1/traces` and its kin take OTLP exports; `/count` tells
how many came. The argument is the port. It ends when its standard input closes, so it cannot outlive the run.
"""

from __future__ import annotations

import asyncio
import sys
from functools import cache
from typing import cast
from urllib.parse import parse_qsl, urlsplit

import httptools
import uvloop
from payloads import json_body, stream_events

EXPORTS = ("/v1/traces", "/v1/metrics", "/v1/logs")


def plain(body: bytes, media_type: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n"
    return head % (media_type, len(body)) + body


JSON = plain(json_body(), b"application/json")


@cache
def stream_writes(count: int) -> tuple[bytes, ...]:
    """The writes that make up a stream: the head goes with the first event, the end with the last."""
    chunks = [b"%x\r\n%b\r\n" % (len(event), event) for event in stream_events(count)]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return (head + chunks[0], *chunks[1:-1], chunks[-1] + b"0\r\n\r\n")


@cache
def orders(url: bytes) -> tuple[int, float, int | None]:
    """What a URL asks for: the number of events, the seconds between them, the number of the stream."""
    query = dict(parse_qsl(urlsplit(url.decode()).query))
    stream = int(query["stream"]) if "stream" in query else None
    return int(query.get("events", 0)), float(query.get("pace_ms", 0)) / 1000, stream


class Stub:
    """What all connections share."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.exports = 0
        self.streams: dict[int, Connection] = {}


class Connection(asyncio.Protocol):
    def __init__(self, stub: Stub) -> None:
        self.stub = stub
        self.parser = httptools.HttpRequestParser(self)
        self.url = b""
        self.writes: tuple[bytes, ...] = ()
        self.at = 0
        self.due = 0.0
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's own, no subclass

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_begin(self) -> None:
        self.url = b""

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_message_complete(self) -> None:
        path = self.url.decode()
        if path in EXPORTS:
            self.stub.exports += 1
            self.transport.write(plain(b"", b"application/x-protobuf"))
        elif path == "/count":
            self.transport.write(plain(b"%d" % self.stub.exports, b"text/plain"))
        else:
            self.answer()

    def answer(self) -> None:
        events, pace, stream = orders(self.url)
        if not events:
            self.transport.write(JSON)
            return
        self.writes, self.at = stream_writes(events), 0
        if stream is not None:
            self.stub.streams[stream] = self
            self.go_on()
        else:
            self.due = self.stub.loop.time()
            self.tick(pace)

    def go_on(self) -> None:
        if self.at < len(self.writes) and not self.transport.is_closing():
            self.transport.write(self.writes[self.at])
            self.at += 1

    def tick(self, pace: float) -> None:
        self.go_on()
        if self.at < len(self.writes) and not self.transport.is_closing():
            self.due += pace
            self.stub.loop.call_at(self.due, self.tick, pace)


class Orders(asyncio.Protocol):
    """The standard input: numbers of streams that may send their next event, two bytes each."""

    def __init__(self, stub: Stub) -> None:
        self.stub = stub
        self.rest = b""
        self.closed: asyncio.Future[None] = stub.loop.create_future()

    def data_received(self, data: bytes) -> None:
        data = self.rest + data
        whole = len(data) // 2 * 2
        self.rest = data[whole:]
        for stream in memoryview(data[:whole]).cast("H"):
            self.stub.streams[stream].go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)


async def main() -> None:
    loop = asyncio.get_running_loop()
    stub = Stub(loop)
    server = await loop.create_server(lambda: Connection(stub), "127.0.0.1", int(sys.argv[1]), backlog=1024)
    _, standard_input = await loop.connect_read_pipe(lambda: Orders(stub), sys.stdin)
    await standard_input.closed
    server.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
