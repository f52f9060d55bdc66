"""A model endpoint that costs nothing: prebuilt bytes from a uvloop protocol, so that the proxy in front is the limit.

`?events=N` asks for a stream of N events, one write each, on every turn of the loop to every open stream (never N in
one go: that would measure a file transfer); `&pace_ms=20` leaves that much time between them. Any other request gets
the JSON answer. `/v1/traces` and its kin take OTLP exports; `/count` tells how many came. Its argument is
the port. It ends when its stdin closes, so it cannot outlive the run.
"""

from __future__ import annotations

import asyncio
import sys
from functools import cache
from typing import cast
from urllib.parse import parse_qs, urlsplit

import httptools
import uvloop
from payloads import json_body, stream_events

EXPORTS = ("/v1/traces", "/v1/metrics", "/v1/logs")


def plain(body: bytes, media_type: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n"
    return head % (media_type, len(body)) + body


JSON = plain(json_body(), b"application/json")


@cache
def answer(url: bytes) -> tuple[tuple[bytes, ...], float]:
    """The writes that answer a request to `url`, and the seconds between them."""
    query = parse_qs(urlsplit(url.decode()).query)
    if "events" not in query:
        return (JSON,), 0.0
    chunks = [b"%x\r\n%b\r\n" % (len(event), event) for event in stream_events(int(query["events"][0]))]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    pace = float(query.get("pace_ms", ["0"])[0]) / 1000
    return (head + chunks[0], *chunks[1:-1], chunks[-1] + b"0\r\n\r\n"), pace


class Pump:
    """Writes one event to each running stream per turn of the loop; counts the exports that came."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.streams: set[Stub] = set()
        self.scheduled = False
        self.exports = 0

    def add(self, stub: Stub) -> None:
        self.streams.add(stub)
        if not self.scheduled:
            self.scheduled = True
            self.loop.call_soon(self.turn)

    def turn(self) -> None:
        for stub in tuple(self.streams):
            if not stub.write_next():
                self.streams.discard(stub)
        self.scheduled = bool(self.streams)
        if self.scheduled:
            self.loop.call_soon(self.turn)


class Stub(asyncio.Protocol):
    def __init__(self, pump: Pump) -> None:
        self.pump = pump
        self.parser = httptools.HttpRequestParser(self)
        self.url = b""
        self.writes: tuple[bytes, ...] = ()
        self.at = 0
        self.pace = 0.0
        self.due = 0.0
        self.paused = False
        self.timer: asyncio.TimerHandle | None = None
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
            self.pump.exports += 1
            self.transport.write(plain(b"", b"application/x-protobuf"))
        elif path == "/count":
            self.transport.write(plain(b"%d" % self.pump.exports, b"text/plain"))
        else:
            self.writes, self.pace = answer(self.url)
            self.at = 0
            if self.write_next():
                self.go_on()

    def go_on(self) -> None:
        if self.pace:
            self.due = self.pump.loop.time() + self.pace
            self.timer = self.pump.loop.call_at(self.due, self.tick)
        else:
            self.pump.add(self)

    def tick(self) -> None:
        if self.write_next():
            self.due += self.pace
            self.timer = self.pump.loop.call_at(self.due, self.tick)

    def write_next(self) -> bool:
        """Writes the next piece; False when none is left to write or the client reads too slowly for now."""
        if self.at == len(self.writes) or self.transport.is_closing():
            return False
        self.transport.write(self.writes[self.at])
        self.at += 1
        return self.at < len(self.writes) and not self.paused

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        if self.at < len(self.writes):
            self.go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer:
            self.timer.cancel()


async def main() -> None:
    loop = asyncio.get_running_loop()
    pump = Pump(loop)
    server = await loop.create_server(lambda: Stub(pump), "127.0.0.1", int(sys.argv[1]), backlog=1024)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
