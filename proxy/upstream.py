"""The way to the upstream: httpx's transport seam over aiohttp's client, without what a transparent proxy must not do.

Knows HTTP and aiohttp, nothing of clients, verdicts or settings. No cookies, redirects, decompression, added headers,
netrc, connection cap or repeated POST; bytes and repeated headers stay as they are. Two extensions of a request are
read, both httpx's own: `target` (the raw path and query, sent as given) and `timeout` (`connect`, and `read`, which
here limits the wait for the head); the gap between two pieces of a body is limited by `idle_timeout`.

Errors are httpx's (`ConnectError`, `ConnectTimeout`, `ReadTimeout`, `RemoteProtocolError`, …); their texts name host
and port, never a path, a query or a header. httpx.AsyncHTTPTransport can stand in (`tests/test_upstream.py` runs both).
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import aiohttp
import httpx
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader
from aiohttp.tracing import Trace
from multidict import CIMultiDict
from yarl import URL

from demur.proxy.outbound import OutboundError, outbound_proxy
from demur.proxy.tls import client_context
from demur.proxy.urls import Base

#: Limits for response heads, far above any seen (rate limit and policy headers reach tens of KB); aiohttp's are 8 KB.
MAX_HEADER_BYTES = 256 * 1024
MAX_HEADERS = 1000
#: Bytes of a body that are sent or received at once at most.
PIECE = 64 * 1024

# aiohttp adds these by itself otherwise. Host and the framing headers are its business.
_NOT_ADDED = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")

# The alerts of a server that got no certificate from us, or one that it does not take.
_NO_CERTIFICATE = re.compile(r"ALERT_.*(CERTIFICATE|HANDSHAKE_FAILURE|UNKNOWN_CA|ACCESS_DENIED)").search


class AiohttpTransport(httpx.AsyncBaseTransport):
    """One pool of upstream connections. Made anywhere, used in one event loop.

    `idle_timeout` in seconds; `tls` is the context for https, by default that of `client_context()`.
    """

    def __init__(self, *, idle_timeout: float | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._idle_timeout = idle_timeout
        self._ssl = tls or client_context()
        self._session: aiohttp.ClientSession | None = None
        self._proxies: dict[str, URL | None] = {}
        self._timeouts: dict[tuple[float | None, float | None], aiohttp.ClientTimeout] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends the request and returns once the head has arrived; the body comes raw from `response.stream`."""
        session = self._session or self._open()
        url = request.url
        extensions = request.extensions
        target: bytes = extensions.get("target") or url.raw_path
        origin = f"{url.scheme}://{url.netloc.decode('ascii')}"
        limits = extensions.get("timeout") or {}
        where = origin.partition("://")[2]
        try:
            response = await session.request(
                request.method,
                _url(url, target),
                headers=CIMultiDict(_headers(request)),
                data=_payload(request),
                allow_redirects=False,
                proxy=self._proxy(origin),
                timeout=self._timeout(limits.get("connect"), limits.get("read")),
            )
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            raise _translate(exc, where, tls=url.scheme == "https") from exc
        if (fault := _unanswerable(response)) is not None:
            response.close()
            raise httpx.RemoteProtocolError(f"{where} answered {fault}, which can't be passed on")
        if (connection := response.connection) is not None and (protocol := connection.protocol) is not None:
            protocol.read_timeout = self._idle_timeout
            protocol.start_timeout()
        # Without its request, whose body (an image, say) would stay in memory as long as the answer.
        return httpx.Response(response.status, headers=list(response.raw_headers), stream=_Body(response, where))

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        self._session = aiohttp.ClientSession(
            connector=_Connector(limit=0, ssl=self._ssl),
            request_class=_Request,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_NOT_ADDED,
            auto_decompress=False,
            trust_env=False,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
        )
        return self._session

    def _timeout(self, connect: float | None, read: float | None) -> aiohttp.ClientTimeout:
        known = self._timeouts.get((connect, read))
        if known is None:
            # aiohttp's `connect` spans name lookup, TCP and TLS; `sock_read` runs from the end of the upload.
            known = aiohttp.ClientTimeout(total=None, connect=connect, sock_read=read)
            self._timeouts[connect, read] = known
        return known

    def _proxy(self, origin: str) -> URL | None:
        """The outbound proxy for `origin`; the environment is read once."""
        if origin not in self._proxies:
            try:
                self._proxies[origin] = outbound_proxy(Base.parse(origin))
            except OutboundError as error:
                raise httpx.ProxyError(str(error)) from None
        return self._proxies[origin]


def _url(url: httpx.URL, target: bytes) -> URL:
    """The upstream's URL with that path and query as they are."""
    path, origin = target.decode("latin-1"), f"{url.scheme}://{url.netloc.decode('ascii')}"
    if path.find("?") == len(path) - 1:  # yarl drops a query that is empty, but not as a part of the path
        return URL(origin).with_path(path, encoded=True)
    return URL(origin + path, encoded=True)


def _unanswerable(response: aiohttp.ClientResponse) -> str | None:
    """What of an answer has no meaning here: another protocol, no status at all, a body in a coding of the hop."""
    if response.status < 200:
        return f"with status {response.status}"
    codings = response.headers.getall("Transfer-Encoding", ())
    # "identity" is of the first days of HTTP/1.1; the body is as it is.
    if codings and ",".join(codings).strip().lower() not in ("chunked", "identity"):
        return "in a transfer coding besides chunked"
    return None


class _Request(aiohttp.ClientRequest):
    """A request without a body gets a length only where one is expected (RFC 9110, 8.6): POST, PUT, PATCH."""

    GET_METHODS = aiohttp.ClientRequest.GET_METHODS | {"DELETE", "PROPFIND", "QUERY"}


class _Protocol(ResponseHandler):
    """One upstream connection, where aiohttp would leave a client waiting or let half an answer look whole.

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


class _Connector(aiohttp.TCPConnector):
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

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        while (connection := await super()._get(key, traces)) is not None:
            if connection.protocol is None or not connection.protocol.should_close:
                return connection
            connection.close()
        return None


class _Body(httpx.AsyncByteStream):
    """The raw bytes of a response as they arrive, PIECE at most. Closing it before its end drops the connection."""

    def __init__(self, response: aiohttp.ClientResponse, where: str) -> None:
        self._response = response
        self._where = where

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = self._response.content.read
        try:
            while chunk := await read(PIECE):
                yield chunk
        except (aiohttp.ClientError, OSError) as exc:
            # What came before the fault; `read` says nothing but the fault once it is known.
            while rest := self._response.content._read_nowait(PIECE):
                yield rest
            raise _translate(exc, self._where, in_body=True) from exc

    async def aclose(self) -> None:
        self._response.close()  # a no-op once the body has ended: the connection is back in the pool then


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), PIECE):
        yield body[start : start + PIECE]


def _payload(request: httpx.Request) -> bytes | AsyncIterator[bytes] | None:
    """The body as aiohttp wants it; None when the request has none, so that no framing header is added."""
    stream = request.stream
    if isinstance(stream, httpx.ByteStream):
        body = b"".join(stream)
        if not body and "content-length" not in request.headers:
            return None
        return body if len(body) <= PIECE else _pieces(body)
    if not isinstance(stream, httpx.AsyncByteStream):
        raise TypeError("the request's stream is not an asynchronous one")
    return stream.__aiter__()


def _headers(request: httpx.Request) -> Iterator[tuple[str, str]]:
    for name, value in request.headers.raw:
        if name != b"transfer-encoding":  # aiohttp sets it by itself where a body has no length
            yield _text(name), _text(value)


def _text(raw: bytes) -> str:
    # aiohttp writes headers as UTF-8; other bytes can't be kept (they come from no known client).
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _translate(exc: BaseException, where: str, *, tls: bool = False, in_body: bool = False) -> httpx.TransportError:
    """aiohttp's exception as httpx's, in words that are safe to show. `tls`: it may have been about certificates."""
    match exc:
        case aiohttp.ConnectionTimeoutError():
            return httpx.ConnectTimeout(f"no connection to {where} in time")
        case TimeoutError():
            what = "the next bytes" if in_body else "an answer"
            return httpx.ReadTimeout(f"{where} did not send {what} in time")
        case aiohttp.ClientHttpProxyError():
            return httpx.ProxyError(f"the outbound proxy refused to connect to {where}: status {exc.status}")
        case aiohttp.ClientProxyConnectionError():
            return httpx.ProxyError(f"no connection to the outbound proxy for {where}: {_reason(exc)}")
        case aiohttp.ClientConnectorDNSError():
            return httpx.ConnectError(f"the name of {where} can't be resolved: {_reason(exc)}")
        case aiohttp.ClientConnectorCertificateError():
            why = f"{exc.certificate_error} (ca_file names the authorities that are trusted)"
            return httpx.ConnectError(f"the certificate of {where} is not valid: {why}")
        case aiohttp.ClientConnectorSSLError():
            return httpx.ConnectError(f"no TLS connection to {where}: {_why(exc)}{_asked(exc)}")
        case aiohttp.ClientConnectorError():
            return httpx.ConnectError(f"no connection to {where}: {_reason(exc)}{_asked(exc) if tls else ''}")
        case aiohttp.ServerDisconnectedError():
            return httpx.RemoteProtocolError(f"{where} closed the connection without answering")
        case aiohttp.ClientPayloadError():
            return httpx.RemoteProtocolError(f"{where} ended its answer too early")
        case aiohttp.ClientResponseError():
            return httpx.RemoteProtocolError(f"{where} did not answer in valid HTTP")
        case ValueError():
            return httpx.LocalProtocolError(f"the request for {where} can't be sent: {type(exc).__name__}")
        case _:
            what = "closed the TLS connection" if isinstance(_root(exc), ssl.SSLError) else "broke the connection"
            return httpx.ReadError(f"{where} {what}: {_why(exc)}{_asked(exc) if tls else ''}")


def _reason(exc: aiohttp.ClientConnectorError) -> str:
    return exc.strerror or str(exc.os_error) or type(exc.os_error).__name__


def _root(exc: BaseException) -> BaseException:
    while exc.__cause__ is not None:
        exc = exc.__cause__
    return exc


def _why(exc: BaseException) -> str:
    """Why a connection broke. Not in aiohttp's words: they may hold the URL, and with it a key in the query."""
    match root := _root(exc):
        case ssl.SSLError():
            return (root.reason or type(root).__name__).replace("_", " ").lower()
        case aiohttp.ClientConnectionResetError():
            return "it was closed while the request was sent"
        case OSError(errno=int(number)):
            return os.strerror(number)
        case _:
            return type(root).__name__


def _asked(exc: BaseException) -> str:
    """What may be missing where a server ends TLS at its start: one that wants a certificate need not say so."""
    root = _root(exc)
    if isinstance(root, ConnectionResetError) or (
        isinstance(root, ssl.SSLError) and _NO_CERTIFICATE(root.reason or "")
    ):
        return "; if it asks for a client certificate, client_cert names it"
    return ""
