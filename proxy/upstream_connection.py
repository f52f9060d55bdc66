"""Connections to upstreams: aiohttp's own, mended where a client would wait without end or half an answer look whole.

Knows aiohttp's insides, and nothing else; its methods keep aiohttp's names.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader
from aiohttp.tracing import Trace

#: Headers that aiohttp adds by itself otherwise. Host and the framing headers are its business.
NOT_ADDED = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")


class _Protocol(ResponseHandler):
    """One upstream connection.

    * The time for a head runs from the end of the upload to the head that counts: neither an interim answer nor a
      piece of the head begins it anew.
    * A fault in the framing ends the body in which it is found, and takes nothing away that stands before it.
    * Only a connection that was closed in order ends a body that it delimits; a reset does not.
    * It is closed in order only when all that was sent is read: otherwise such a close would wait without end.
    """

    _awaits_head = False
    _head_clock: asyncio.TimerHandle | None = None
    _before = b""  # the last bytes of an unfinished head

    def set_response_params(self, **params: Any) -> None:
        self._awaits_head, self._before = True, b""
        super().set_response_params(**params)

    def start_timeout(self) -> None:
        """The request has gone out."""
        if not self._awaits_head:
            super().start_timeout()
        elif self.read_timeout is not None and self._head_clock is None:
            self._head_clock = self._loop.call_later(self.read_timeout, self._on_read_timeout)

    def _reschedule_timeout(self) -> None:
        if not self._awaits_head:
            super()._reschedule_timeout()

    def data_received(self, data: bytes) -> None:
        while self._awaits_head and data and self.exception() is None:
            # Fed on its own, a head is known before a fault behind it.
            known = self._before + data
            end = known.find(b"\r\n\r\n") + 4
            if end < 4:
                self._before = known[-3:]
                break
            end -= len(self._before)
            self._before = b""
            super().data_received(data[:end])
            data = data[end:]
            if not data:
                return
        super().data_received(data)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """A head has come."""
        if data[0].code >= 200 or data[0].code == 101:
            self._awaits_head = False
            self._stop_head_clock()
        super().feed_data(data, size)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        payload = self._payload
        if isinstance(exc, HttpProcessingError) and payload is not None and not payload.is_eof():
            payload.set_exception(aiohttp.ClientPayloadError(str(exc)), exc)
        super().set_exception(exc, *cause)

    def close(self) -> None:
        if self.transport is not None and self.transport.get_write_buffer_size():
            self.abort()
        else:
            super().close()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_head_clock()
        payload = self._payload
        if isinstance(exc, OSError) and payload is not None and not payload.is_eof():
            payload.set_exception(aiohttp.ClientOSError(*exc.args), exc)
        super().connection_lost(exc)

    def _stop_head_clock(self) -> None:
        if self._head_clock is not None:
            self._head_clock.cancel()
            self._head_clock = None


class Connector(aiohttp.TCPConnector):
    """Reuses no connection on which anything came while it was idle: those bytes would answer the next request.

    aiohttp asks `should_close` only when a connection comes back, and lets the old parser go on reading until the next
    request brings its own. Without a parser, whatever comes is kept as a tail, of which `should_close` knows.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        protocol: type[ResponseHandler] = _Protocol
        self._factory = partial(protocol, loop=self._loop)

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        super()._release(key, protocol, should_close=should_close)
        protocol._parser = None

    def _update_proxy_auth_header_and_build_proxy_req(self, req: aiohttp.ClientRequest) -> aiohttp.ClientRequest:
        """The request for a tunnel, without the headers that tell the proxy by which program it is asked for."""
        connect = super()._update_proxy_auth_header_and_build_proxy_req(req)
        for name in NOT_ADDED:
            connect.headers.popall(name, None)
        return connect

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        while (connection := await super()._get(key, traces)) is not None:
            if connection.protocol is None or not connection.protocol.should_close:
                return connection
            connection.close()
        return None
