"""uvicorn's HTTP protocol for clients, with what a proxy owes them beyond it.

* A request that asks for another protocol (`Upgrade: h2c`) is an ordinary request (RFC 9110, 7.8). The parser stops
  behind such a head; it is read again without the wish.
* A client that pipelines and leaves is gone for all its requests, not for the last one only.
* Few requests of a client wait for their turn: what it sends beyond them stays unparsed, then unread, so that it takes
  neither memory nor the time of others.
* Heads and trailers have limits, which also bound what is kept of a head that never ends; a head has its time as well.
* Trailers are no headers: they are dropped.
* An HTTP/1.0 client gets no chunks: its answer ends with the connection, and one that broke off with a reset.
* What can't be read is refused in our words, in JSON, and never in the middle of another answer; so is what has no
  `Host` that is one (RFC 9112, 3.2), or another HTTP than 1.x.
* A connection that we close is aborted where its client reads no more of what was sent.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import chain
from typing import Any, cast

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from demur.proxy import errors, headers
from demur.proxy.errors import OwnError
from demur.proxy.urls import EMPTY_QUERY

logger = logging.getLogger("demur.server")

#: Limits of a request's head, far above what is sent: servers take 8 to 64 KB, cookies and tokens reach some tens.
MAX_HEAD_BYTES = 256 * 1024
MAX_TARGET_BYTES = 64 * 1024
#: The longest method that is repeated to who sent it.
MAX_METHOD_BYTES = 64
#: Requests that may wait behind a running one while we go on reading: only who reads sees the client leave.
MAX_WAITING = 100
#: Bytes parsed at a time. The parser stops nowhere by itself, and the shortest request takes 24: so many more may wait.
PIECE = 2048
#: Seconds in which a refused client may read why, while what it still sends is dropped.
LINGER = 2.0
#: Seconds between two looks at a connection that we have closed: if nothing of what it still has went out, it is
#: aborted. As long as a slow reader may leave the system's own buffer full.
STALLED = 30.0

# RFC 3986, 3.2.2 and 3.2.3: a name, which may be empty, or an address in brackets; then perhaps a port.
_HOST = re.compile(rb"(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})*(?::[0-9]*)?|\[[0-9A-Za-z:.]+\](?::[0-9]*)?")
# What may be the method of a request (RFC 9110, 5.6.2), at the beginning of its line; a part, if no more came yet.
_METHOD = re.compile(rb"[\r\n]*([A-Za-z0-9!#$%&'*+\-.^_`|~]+)( |\Z)")

# Statuses outside of RFC 9110's range go on as they came.
STATUS_LINE.update({status: b"HTTP/1.1 %d \r\n" % status for status in range(600, 1000)})


class ClientProtocol(HttpToolsProtocol):
    """One client connection. `head_timeout`: seconds that a request's head may take, from the connection or its first
    byte on. The time for a body is the application's business, until it has answered.
    """

    head_timeout = 60.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._clock: asyncio.TimerHandle | None = None
        self._in_head = self._in_body = False
        self._cycles: deque[RequestResponseCycle] = deque()  # those not yet answered, and perhaps the one before
        self._unparsed = memoryview(b"")
        self._refused = False
        self._advanced = False  # the parser got a head, a piece of a body or the end of a message
        self._unfinished = 0  # bytes since then
        self._new_parser()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, _Transport(transport, self.loop)))
        self.flow = _Flow(transport, self._full)
        self._start_clock()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._unset_keepalive_if_required()
        self._unparsed = memoryview(bytes(self._unparsed) + data if self._unparsed else data)
        self._parse_on()
        if self.pipeline:  # whose last has paused the reading
            self.flow.resume_reading()

    def _parse_on(self) -> None:
        """Parses what came as far as its requests may wait."""
        while self._unparsed and len(self.pipeline) < MAX_WAITING:
            piece, self._unparsed = self._unparsed[:PIECE], self._unparsed[PIECE:]
            self._parse_piece(piece)

    def _full(self) -> bool:
        """Whether no more is read before a request is answered: so many wait, or so long is the body of one of them."""
        return bool(self._unparsed or len(self.pipeline) >= MAX_WAITING) or (
            bool(self.pipeline) and len(self.cycle.body) > HIGH_WATER_LIMIT
        )

    def _parse_piece(self, piece: memoryview) -> None:
        self._advanced = False
        try:
            self._parse(piece)
        except httptools.HttpParserError as exc:
            self._refuse(exc.__context__ if isinstance(exc.__context__, OwnError) else self._fault(exc, piece))
            return
        if self._advanced:
            self._unfinished = 0
            return
        self._unfinished += len(piece)
        if self._unfinished > MAX_HEAD_BYTES:
            self._refuse(self._too_long())
        elif not self._in_body:
            self._start_clock()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._stop_clock()  # it may run since an empty line before
        self._start_clock()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value.rstrip(b" \t"))  # blanks at its end are no part of it (RFC 9112, 5.1)

    def on_headers_complete(self) -> None:
        """Raises OwnError, which `data_received` gets as the context of the parser's error."""
        self._advanced = True
        size = sum(map(len, chain.from_iterable(self.headers)))
        if len(self.url) > MAX_TARGET_BYTES or size > MAX_HEAD_BYTES:
            raise self._too_long()
        version = self.parser.get_http_version()
        if not version.startswith("1."):
            raise errors.no_such_version(version)
        if self.parser.get_method() == b"CONNECT":
            raise errors.no_tunnel()
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) > 1 or (version != "1.0" and not hosts) or not all(map(_HOST.fullmatch, hosts)):
            raise errors.no_host(len(hosts))
        if self.url == b"*":
            raise errors.no_such_target()
        if self.parser.should_upgrade():
            return  # it comes again, see data_received
        self._stop_clock()
        self._in_head, self._in_body = False, True
        if self.url.partition(b"#")[0].partition(b"?")[1:] == (b"?", b""):  # to the parser that is none
            self.scope["extensions"] = {EMPTY_QUERY: {}}
        if not self.url.startswith(b"/"):  # the absolute form, whose path may be empty (RFC 9112, 3.2.2)
            target = httptools.parse_url(self.url)
            self.url = (target.path or b"/") + (b"?" + target.query if target.query else b"")
        super().on_headers_complete()
        if version not in ("1.0", "1.1"):  # RFC 9110, 2.5: it is read as the highest that we know
            self.scope["http_version"] = "1.1"
        self.headers = []  # for trailers
        while self._cycles and self._cycles[0].response_complete:
            self._cycles.popleft()
        self._cycles.append(self.cycle)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if cycle.scope["http_version"] == "1.0":
            app = _unchunked(app, cycle)

        async def closing(scope: Any, receive: Any, send: Any) -> None:
            await app(scope, receive, send)
            if cycle.response_started and not cycle.response_complete:
                self._give_up()  # uvicorn need not say what our application has said: it broke the answer off
                self.transport.close()

        super()._start_asgi_task(cycle, closing)

    def on_body(self, body: bytes) -> None:
        self._advanced = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._advanced = True
        if not self.parser.should_upgrade():
            self._in_body = False
            self._stop_clock()
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            return
        self._parse_on()
        self.flow.resume_reading()
        if self._in_body:
            self._start_clock()  # nobody reads the rest of the body

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        self._give_up()
        self._unparsed = memoryview(b"")
        super().connection_lost(exc)

    def _start_clock(self) -> None:
        if self._clock is None:
            self._clock = self.loop.call_later(self.head_timeout, self._too_late)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _too_late(self) -> None:
        self._clock = None
        if self.flow.read_paused:  # it is us who do not read
            self._start_clock()
        elif self._in_head:
            self._refuse(errors.client_timeout(self.head_timeout))
        elif all(cycle.response_complete for cycle in self._cycles):
            self.transport.close()

    def _give_up(self) -> None:
        """Tells every request that has no answer yet that its client is gone."""
        for cycle in self._cycles:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    def _parse(self, rest: memoryview) -> None:
        while rest:
            try:
                self.parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as upgrade:
                rest = rest[upgrade.args[0] :]
                head = self._head_without_upgrade()
                self._new_parser()
                self.parser.feed_data(head)

    def _head_without_upgrade(self) -> bytes:
        """The head behind which the parser has stopped, as that of an ordinary request."""
        lines = [
            b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode("ascii"))
        ]
        for name, value in self.headers:
            if name == b"connection":
                value = b",".join(token for token in value.split(b",") if token.strip().lower() != b"upgrade")
            lines.append(name + b": " + value)
        return b"\r\n".join([*lines, b"", b""])

    def _new_parser(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        # The first of several requests is answered though the connection ends with it; any version comes to us.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True, lenient_version=True)

    def _fault(self, exc: httptools.HttpParserError, piece: memoryview) -> OwnError:
        """What the parser could not read."""
        if self._in_head and self.parser.get_method() == b"PRI":  # how a client of HTTP/2 begins
            return errors.no_such_version("2.0")
        unknown = isinstance(exc, httptools.HttpParserInvalidMethodError) and not self._advanced
        if unknown and (method := _METHOD.match(piece)):
            whole = method[2] and not self._unfinished and len(method[1]) <= MAX_METHOD_BYTES
            return errors.no_such_method(method[1].decode("ascii") if whole else None)
        return errors.malformed()

    def _too_long(self) -> OwnError:
        if len(self.url) > MAX_TARGET_BYTES:
            return errors.target_too_long(MAX_TARGET_BYTES)
        return errors.head_too_large(MAX_HEAD_BYTES)

    def _refuse(self, error: OwnError) -> None:
        """Answers with `error` if the request that it is about is the next to be answered; reads no more."""
        self._refused = True
        self._unparsed = memoryview(b"")
        logger.debug("a request from a client was refused: %s", error)
        cycle = self.cycle
        if (
            cycle is None
            or cycle.response_complete
            or (cycle.more_body and not cycle.response_started and not self.pipeline)
        ):
            body = error.body()
            head = [*errors.json_headers(len(body)), (b"connection", b"close")]
            lines = [name + b": " + value + b"\r\n" for name, value in head]
            self.transport.write(b"".join([STATUS_LINE[error.status], *lines, b"\r\n", body]))
            self.transport.write_eof()
            self._give_up()
            self.loop.call_later(LINGER, self.transport.close)
        elif cycle.more_body:
            self.transport.close()
        else:
            cycle.keep_alive = False  # what stands before it is answered, then the connection closes


class _Flow(FlowControl):
    """Reads on only while there is room: uvicorn does so after each answer, and for each request that is awaited."""

    def __init__(self, transport: asyncio.Transport, full: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._full = full

    def resume_reading(self) -> None:
        if not self._full():
            super().resume_reading()


class _Transport:
    """A client's transport. Closing it waits until all is sent, but not for a client that reads no more."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self.write = transport.write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        if not self._transport.is_closing():
            self._transport.close()
            self._look_again()

    def _look_again(self) -> None:
        if left := self._transport.get_write_buffer_size():
            self._loop.call_later(STALLED, self._look, left)

    def _look(self, before: int) -> None:
        if self._transport.get_write_buffer_size() < before:
            self._look_again()
        else:
            self._transport.abort()


def _unchunked(app: Any, cycle: RequestResponseCycle) -> Any:
    """The application for a client that knows no chunks: a body without a length goes out as it is."""

    async def unchunked(scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        unframed = False

        async def send_unchunked(message: Any) -> None:
            nonlocal unframed
            if message["type"] == "http.response.start":
                unframed = headers.get(message["headers"], b"content-length") is None
                if unframed:
                    cycle.chunked_encoding = False
            elif unframed:
                cycle.expected_content_length = len(message.get("body", b""))  # uvicorn counts down what is to come
            await send(message)

        await app(scope, receive, send_unchunked)
        if unframed and not cycle.response_complete:
            _reset(cycle.transport)

    return unchunked


def _reset(transport: asyncio.Transport) -> None:
    """Closes the connection as no orderly end does: without this option the system would end it in order."""
    if transport.is_closing():
        return
    if (sock := transport.get_extra_info("socket")) is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
