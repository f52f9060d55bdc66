"""The way to the upstream: httpx's transport seam over aiohttp's client, without what a transparent proxy must not do.

Knows HTTP and aiohttp, nothing of clients, verdicts or settings. No cookies, redirects, decompression, added headers,
netrc, connection cap or repeated POST; bytes and repeated headers stay as they are. Two extensions of a request are
read, both httpx's own: `target` (the raw path and query, sent as given) and `timeout` (`connect`, and `read`, which
here limits the wait for the head); the gap between two pieces of a body is limited by `idle_timeout`.

Errors are httpx's (`ConnectError`, `ConnectTimeout`, `ReadTimeout`, `RemoteProtocolError`, …); their texts name host
and port, never a path, a query or a header. httpx.AsyncHTTPTransport can stand in (`tests/test_upstream.py` runs both).
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator

import aiohttp
import httpx
from multidict import CIMultiDict
from yarl import URL

from demur.proxy.outbound import OutboundError, outbound_proxy
from demur.proxy.tls import client_context
from demur.proxy.upstream_connection import NOT_ADDED, Connector
from demur.proxy.upstream_errors import translate
from demur.proxy.urls import Base

#: Limits for response heads, far above any seen (rate limit and policy headers reach tens of KB); aiohttp's are 8 KB.
MAX_HEADER_BYTES = 256 * 1024
MAX_HEADERS = MAX_HEADER_BYTES // 4  # the shortest line takes so many bytes
#: Bytes of a body that are sent or received at once at most.
PIECE = 64 * 1024


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
            raise translate(exc, where, tls=url.scheme == "https") from exc
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
            connector=Connector(limit=0, ssl=self._ssl),
            request_class=_Request,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=NOT_ADDED,
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
            raise translate(exc, self._where, in_body=True) from exc

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
