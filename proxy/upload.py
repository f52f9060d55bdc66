"""The client's request on its way up: what of it is read, what is turned away, which headers go with it.

The body of a judged request is read whole first, for its ask and for `stream`; so is any other JSON body whose model
decides where it goes. The rest goes up as it comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import httpx

from demur.classifier.request import read_model
from demur.proxy import coding, errors, headers
from demur.proxy.coding import UndecodableError
from demur.proxy.errors import OwnError
from demur.proxy.inspection import ask_of, readable
from demur.proxy.leash import Cut, Leash
from demur.proxy.passage import coding_of
from demur.proxy.record import Record
from demur.proxy.routes import Destination

#: Bytes of a body that are not joined and read in one go.
LARGE = 4 * 1024 * 1024


class Upload(httpx.AsyncByteStream):
    """A body passed up piece by piece. What stops it ends the exchange: the HTTP client, which reads it in a task of
    its own, hides why it stopped, and says nothing at all once the answer has begun."""

    def __init__(self, leash: Leash, limit: int) -> None:
        self._leash = leash
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in _pieces(self._leash, self._limit):
                yield piece
        except (OwnError, Cut) as exc:
            self._leash.cut(exc)
            raise
        self._leash.watch()


async def body_of(record: Record, leash: Leash, limit: int, *, ask_model: bool) -> bytes | Upload:
    """The request's body. Raises OwnError when it is over `limit` bytes, Cut when the client leaves.

    Of a judged request it reads the ask into `record`; of any other the model, where `ask_model` says so.
    """
    length = headers.get(record.headers, b"content-length")
    if length is not None and int(length) > limit:
        raise errors.too_large(limit)
    if record.api is not None:
        body = await _whole(leash, limit)
        record.asked(await ask_of(body, record.api, coding_of(record.headers)))
        return body
    if length in (None, b"0") and headers.get(record.headers, b"transfer-encoding") is None:
        leash.watch()
        return b""
    if ask_model and record.model is None and _may_be_json(record):
        body = await _whole(leash, limit)
        with suppress(UndecodableError):
            record.model = read_model(await readable(body, coding_of(record.headers)))
        return body
    return Upload(leash, limit)


def headers_of(
    record: Record, destination: Destination, body: bytes | Upload, trace: Sequence[tuple[bytes, bytes]]
) -> headers.Headers:
    """The headers that go up with it; `trace` replaces the client's trace context."""
    up = [(b"host", destination.base.netloc), *headers.upstream(record.headers)]
    if headers.get(up, b"content-length") is None:
        if isinstance(body, Upload):
            up.append((b"transfer-encoding", b"chunked"))
        elif body:
            up.append((b"content-length", str(len(body)).encode("ascii")))
    if record.api is not None:
        accepted = headers.get(up, b"accept-encoding")
        accepted = b"identity" if record.ask.stream else headers.accept_encoding(accepted, coding.DECODABLE)
        up = headers.without(up, b"accept-encoding")
        if accepted is not None:
            up.append((b"accept-encoding", accepted))
    if trace:
        up = [*headers.without(up, b"traceparent", b"tracestate"), *trace]
    return destination.headers(record.method, up)


def _may_be_json(record: Record) -> bool:
    """By its content type; curl calls what it sends a form, whatever that is."""
    kind = (headers.get(record.headers, b"content-type") or b"").lower()
    return not kind or b"json" in kind or kind.startswith(b"application/x-www-form-urlencoded")


async def _whole(leash: Leash, limit: int) -> bytes:
    body = b"".join([piece async for piece in _pieces(leash, limit)])
    leash.watch()
    if len(body) > LARGE:
        await asyncio.sleep(0)  # joining and reading take milliseconds each: others get their turn between
    return body


async def _pieces(leash: Leash, limit: int) -> AsyncIterator[bytes]:
    size, more = 0, True
    while more:
        piece, more = await leash.receive()
        size += len(piece)
        if size > limit:
            raise errors.too_large(limit)
        if piece:
            yield piece
