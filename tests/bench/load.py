"""The load generator: keep-alive connections on uvloop that check every answer and count only inside the window.

One window: connect, run until warm, count for the given seconds, then let what is under way finish. A wrong status, a
wrong body or a lost connection ends the benchmark: a fast wrong answer is not a figure.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
from array import array
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from time import perf_counter
from typing import Any, cast

import httptools
from payloads import Exchange, stream_exchange

#: Seconds that open exchanges get to finish after a window; a healthy candidate needs a few hundredths.
DRAIN = 20.0


class LoadError(Exception):
    """The candidate answered wrongly, hung up, or did not finish in time."""


@dataclass(frozen=True, slots=True)
class Window:
    """What one window measured. Times in milliseconds, CPU in microseconds; `cpu_*` is the measured process's own.

    `per_second` and `cpu_us` are per request for JSON, per event for streams. `shared` is the share of events that
    did not arrive in a read of their own.
    """

    count: int
    seconds: float
    per_second: float
    cpu_us: float
    cpu_busy: float
    p50_ms: float
    p99_ms: float
    first_p50_ms: float
    first_p99_ms: float
    shared: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


def quantile(values: Sequence[float], q: float) -> float:
    """The nearest-rank quantile; 0.0 of nothing."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)] if ordered else 0.0


class Tally:
    """What all connections of a window have done so far."""

    def __init__(self) -> None:
        self.requests = 0
        self.events = 0
        self.reads = 0
        self.latencies: list[float] = []
        self.firsts: list[float] = []
        self.running = True
        self.fault: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def fail(self, why: str) -> None:
        if not self.fault.done():
            self.fault.set_exception(LoadError(why))


class Steps:
    """Tells the stub which streams may send their next event: one write per turn of the loop to its standard input."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._ready: list[int] = []

    def go_on(self, stream: int) -> None:
        if not self._ready:
            asyncio.get_running_loop().call_soon(self._write)
        self._ready.append(stream)

    def _write(self) -> None:
        os.write(self._pipe, array("H", self._ready).tobytes())
        self._ready.clear()


class Connection(asyncio.Protocol):
    """One client: `first`, then `exchange` again and again while the tally is running."""

    def __init__(self, number: int, first: Exchange, exchange: Exchange, tally: Tally, steps: Steps) -> None:
        self.number = number
        self.exchange = first
        self.following = exchange
        self.steps = steps
        self.tally = tally
        self.idle = asyncio.Event()
        self.idle.set()
        self.body: list[bytes] = []
        self.parser = httptools.HttpResponseParser(self)
        self.sent = 0.0
        self.half = False  # the last piece ended between the two line feeds that end an event
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's own, no subclass

    def send(self) -> None:
        self.idle.clear()
        self.body.clear()
        self.half = False
        self.sent = perf_counter()
        self.transport.write(self.exchange.of_stream(self.number))

    def data_received(self, data: bytes) -> None:
        before = self.tally.events
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.tally.fail(f"not HTTP: {error!r}")
        self.tally.reads += self.tally.events > before

    def on_headers_complete(self) -> None:
        if (status := self.parser.get_status_code()) != 200:
            self.tally.fail(f"status {status}")

    def on_body(self, piece: bytes) -> None:
        if not self.body:
            self.tally.firsts.append(perf_counter() - self.sent)
        self.body.append(piece)
        if self.exchange.events:
            ends = piece.count(b"\n\n") + (self.half and piece.startswith(b"\n"))
            self.half = piece.endswith(b"\n") and not piece.endswith(b"\n\n")
            self.tally.events += ends
            if self.exchange.stepped:
                for _ in range(ends):
                    self.steps.go_on(self.number)

    def on_message_complete(self) -> None:
        if fault := self.exchange.fault(b"".join(self.body)):
            self.tally.fail(fault)
            return
        self.tally.requests += 1
        self.tally.latencies.append(perf_counter() - self.sent)
        self.exchange = self.following
        if self.tally.running:
            self.send()
        else:
            self.idle.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.idle.is_set():
            self.tally.fail(f"connection lost after {sum(map(len, self.body))} bytes: {exc!r}")


async def run_window(
    port: int,
    exchange: Exchange,
    connections: int,
    cpu: Callable[[], float],
    *,
    steps: Steps,
    warm: float,
    seconds: float,
) -> Window:
    """Keeps `connections` exchanges under way at the candidate on `port` and measures for `seconds`.

    `seconds` of 0 opens every exchange once, all at the same moment, and measures until the last has ended.
    `cpu` returns the CPU seconds that the measured process has used; `steps` leads to the stub.
    """
    tally = Tally()
    opened = await _connect(port, exchange, tally, steps, connections)
    try:
        if seconds:
            for connection in opened:
                connection.send()
            await _wait(tally, asyncio.sleep(warm))
        began, cpu_began = perf_counter(), cpu()
        requests, events, reads, firsts = tally.requests, tally.events, tally.reads, len(tally.firsts)
        if seconds:
            await _wait(tally, asyncio.sleep(seconds))
        else:
            tally.running = False
            for connection in opened:
                connection.send()
            await _finish(tally, opened)
        elapsed, cpu_used = perf_counter() - began, cpu() - cpu_began
        count = tally.events - events if exchange.events else tally.requests - requests
        done_firsts, done = tally.firsts[firsts:], tally.latencies[requests:]
        window_reads = tally.reads - reads
        tally.running = False
        await _finish(tally, opened)
    finally:
        for connection in opened:
            connection.idle.set()
            connection.transport.abort()
    if not count:
        raise LoadError(f"nothing arrived within {elapsed:.1f} s")
    return Window(
        count=count,
        seconds=elapsed,
        per_second=count / elapsed,
        cpu_us=cpu_used / count * 1e6,
        cpu_busy=cpu_used / elapsed,
        p50_ms=quantile(done, 0.5) * 1e3,
        p99_ms=quantile(done, 0.99) * 1e3,
        first_p50_ms=quantile(done_firsts, 0.5) * 1e3,
        first_p99_ms=quantile(done_firsts, 0.99) * 1e3,
        shared=1 - window_reads / count if exchange.events else 0.0,
    )


async def call_once(port: int, exchange: Exchange) -> tuple[dict[str, str], bytes]:
    """One exchange on a connection of its own: response headers (names in lower case) and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    headers: dict[str, str] = {}
    body: list[bytes] = []
    complete: list[bool] = []

    class Callbacks:
        def on_header(self, name: bytes, value: bytes) -> None:
            headers[name.decode().lower()] = value.decode()

        def on_body(self, piece: bytes) -> None:
            body.append(piece)

        def on_message_complete(self) -> None:
            complete.append(True)

    parser = httptools.HttpResponseParser(Callbacks())
    writer.write(exchange.request)
    try:
        async with asyncio.timeout(DRAIN):
            while not complete:
                if not (data := await reader.read(65536)):
                    raise LoadError("connection lost")
                parser.feed_data(data)
    except TimeoutError:
        raise LoadError(f"no complete answer within {DRAIN:.0f} s") from None
    finally:
        writer.close()
    if parser.get_status_code() != 200:
        raise LoadError(f"status {parser.get_status_code()}: {b''.join(body)[:300]!r}")
    return headers, b"".join(body)


def verdict_in(body: bytes) -> dict[str, object] | None:
    """The verdict that a stream's finish chunk carries, None when it carries none."""
    finish = json.loads(body.split(b"\n\n")[-3].removeprefix(b"data: "))
    verdict: dict[str, object] | None = finish.get("refusal_verdict")
    return verdict


async def _connect(port: int, exchange: Exchange, tally: Tally, steps: Steps, connections: int) -> list[Connection]:
    loop = asyncio.get_running_loop()
    opened: list[Connection] = []
    for number in range(connections):
        first = exchange
        if exchange.stepped:  # else all streams would end, and be judged, at the same moment
            first = stream_exchange(3 + (exchange.events - 3) * number // connections)
        make = partial(Connection, number, first, exchange, tally, steps)
        _, connection = await loop.create_connection(make, "127.0.0.1", port)
        opened.append(connection)
    return opened


async def _wait(tally: Tally, until: Coroutine[Any, Any, None]) -> None:
    """Waits for `until`, or raises what a connection reported, whichever comes first."""
    task = asyncio.ensure_future(until)
    await asyncio.wait({task, tally.fault}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
    if tally.fault.done():
        tally.fault.result()
    await task


async def _finish(tally: Tally, opened: Sequence[Connection]) -> None:
    async def all_idle() -> None:
        try:
            async with asyncio.timeout(DRAIN):
                for connection in opened:
                    await connection.idle.wait()
        except TimeoutError:
            left = sum(not connection.idle.is_set() for connection in opened)
            raise LoadError(f"{left} exchanges had not ended {DRAIN:.0f} s after the window") from None

    await _wait(tally, all_idle())
