"""One exchange: the client's request goes up, the upstream's answer comes down, byte for byte; a copy is judged.

`Relay.__call__` is the whole flow. How an answer is passed on depends on what it is:

* stream: each piece at once, its copy judged after it; the finish chunk gets one key more, and on demand the head waits
  for an early verdict (`hold`);
* complete JSON on a judged path: held until whole, so that its headers carry the verdict;
* anything else: each piece at once, unread.

Whatever ends an exchange, its observers hear of it once. Observing never delays, changes or fails traffic.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, nullcontext, suppress
from functools import partial
from time import perf_counter
from typing import Any

import httpx

from demur.classifier.judge import Classifier
from demur.config import Settings
from demur.proxy import errors, headers, passage
from demur.proxy.credentials import ClientToken
from demur.proxy.errors import OwnError
from demur.proxy.headers import Headers
from demur.proxy.hold import Gate, Hold, until
from demur.proxy.inspection import Framing, in_turns, judge_body, too_large, unjudged
from demur.proxy.leash import Cut, Leash, Receive
from demur.proxy.observe import TURNED_AWAY, Observers
from demur.proxy.passage import Way, coding_of, way_of
from demur.proxy.record import Record
from demur.proxy.routes import Router
from demur.proxy.upload import Room, Upload, body_of, headers_of
from demur.proxy.urls import EMPTY_QUERY

logger = logging.getLogger("demur.relay")

#: Seconds in which the last bytes of an exchange that was cut may still go out.
PARTING = 1.0

Scope = dict[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Relay:
    """ASGI application for all that goes to the upstream. While `draining`, new requests are turned away."""

    def __init__(
        self,
        settings: Settings,
        *,
        transport: httpx.AsyncBaseTransport,
        classifier: Classifier,
        observers: Observers,
    ) -> None:
        self.draining = False
        self.observers = observers
        self._settings = settings
        self._transport = transport
        self._classifier = classifier
        self._signed = f"{classifier.name}/{classifier.rules_version}".encode("ascii")
        self._router = Router(settings, os.environ)
        token = settings.client_token
        self._token = ClientToken(token.get_secret_value()) if token else None
        self._hold = Hold.of(settings)
        self._room = Room(settings.max_request_bytes)
        self._timeout = {"connect": settings.connect_timeout, "read": settings.first_byte_timeout}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = Record(scope, self._router.default)
        self.observers.began()
        try:
            limits = self._settings.total_timeout, self._settings.client_timeout
            async with Leash(receive, *limits) as leash:
                response = await self._send_up(record, scope, leash)
                async with aclosing(response.stream):  # type: ignore[type-var]
                    await self._pass_on(record, response, send)
        except Cut as cut:
            if cut.reason == "total_timeout":
                await self._fail(record, errors.total_timeout(self._settings.total_timeout), send)
            elif cut.reason == "client_timeout":
                await self._fail(record, errors.client_timeout(self._settings.client_timeout), send)
            elif not record.done_marker:  # a client may hang up as soon as it has read the end marker
                record.ended("client_disconnect", "the client closed its connection")
        except OwnError as error:
            await self._fail(record, error, send)
        except httpx.TransportError as exc:
            await self._fail(record, errors.in_body(exc), send)
        except Exception as exc:
            logger.exception("a fault of demur's own")
            await self._fail(record, errors.internal(exc), send)
        except asyncio.CancelledError:  # a forced stop; raised again, it would be logged as a fault
            await self._fail(record, errors.stopped(), send)
        finally:
            if not record.traced and record.end not in TURNED_AWAY:  # its client left before it could go up
                self._start_spans(record, b"")
            self.observers.ended(record.exchange(), record.spans)

    async def _send_up(self, record: Record, scope: Scope, leash: Leash) -> httpx.Response:
        """Returns once the head of the upstream's answer is there."""
        if self.draining:
            raise errors.draining()
        path, query = scope["raw_path"], scope["query_string"]
        if self._token is not None:
            record.headers, query = self._token.admit(record.headers, query, preflight=record.preflight)
        most = self._settings.max_exchanges
        if most is not None and self.observers.in_flight > most:
            raise errors.overloaded(most)
        if headers.wants_websocket(record.headers):
            raise errors.no_websocket()
        if (headers.get(record.headers, b"transfer-encoding") or b"chunked").lower() != b"chunked":
            raise errors.no_transfer_coding()
        limit, ask_model = self._settings.max_request_bytes, self._router.asks_for_model(path)
        body = await body_of(record, leash, limit, self._room, ask_model=ask_model)
        destination = self._router.choose(path, record.model)
        record.comes_from(destination)
        if record.method == "TRACE" and destination.adds_key:
            raise errors.no_trace()
        trace = self._start_spans(record, body)
        if record.api is not None:
            self.observers.pending(record.id)
        target = destination.target(path, query)
        if EMPTY_QUERY in scope.get("extensions", ()):
            target += b"?"
        request = httpx.Request(
            record.method,
            destination.base.url,
            headers=headers_of(record, destination, body, trace),
            stream=httpx.ByteStream(body) if isinstance(body, bytes) else body,
            extensions={"target": target, "timeout": self._timeout},
        )
        try:
            response = await self._transport.handle_async_request(request)
        except httpx.TransportError as exc:
            raise errors.before_head(exc) from exc
        record.first_byte = perf_counter()
        return response

    def _start_spans(self, record: Record, body: bytes | Upload) -> list[tuple[bytes, bytes]]:
        """Begins the request's spans; returns the headers that carry them upstream."""
        tracer = self.observers.tracer
        if tracer is None:
            return []
        read = body if isinstance(body, bytes) else b""
        self.observers.attempt("telemetry", partial(record.start_spans, tracer, read))
        return list(self.observers.attempt("telemetry", record.spans.headers) or ()) if record.spans else []

    async def _pass_on(self, record: Record, response: httpx.Response, send: Send) -> None:
        """Chooses how the answer goes to the client."""
        head = headers.downstream(response.headers.raw, response.status_code)
        if passage.is_event_stream(head):
            head = headers.for_event_stream(head)
        match way_of(record.api, record.path, response.status_code, head):
            case Way.STREAM:
                framing = passage.framing_of(record.path, response.status_code, head) or "sse"
                await self._stream(record, response, headers.for_event_stream(head), framing, send)
            case Way.WHOLE:
                if hidden := await _hidden_framing(record, response, head):
                    await self._stream(record, response, headers.for_event_stream(head), hidden, send)
                else:
                    await self._complete(record, response, head, send)
            case Way.UNREAD:
                record.stream = passage.is_event_stream(head)
                await self._begin(record, response, head, [], send=send)
                await _copy(_body(response), send)
            case Way.UNREADABLE:
                verdict = record.judge(unjudged("unparsed", passage.unread_reason(head), record.ask))
                await self._begin(record, response, head, headers.verdict(verdict, self._signed), send=send)
                await _copy(_body(response), send)

    async def _stream(
        self, record: Record, response: httpx.Response, head: Headers, framing: Framing, send: Send
    ) -> None:
        """A stream: events go on as they come. A finish chunk waits for its verdict, with a `Hold` the head too."""
        record.stream = True
        assert record.api is not None
        inspection, finish = passage.open_stream(
            self._settings,
            self._classifier,
            ask=record.ask,
            api=record.api,
            framing=framing,
            status=response.status_code,
            head=head,
            id=record.id,
        )
        if finish:
            head = headers.changed(head)
        gate = Gate(partial(self._begin, record, response, head, send=send), send)
        pieces: AsyncIterator[bytes | None] = _body(response)
        if self._hold is None:
            await gate.open(headers.pending(record.id, self._signed))
        elif self._hold.seconds is not None:
            assert record.first_byte is not None
            pieces = until(_body(response), record.first_byte + self._hold.seconds)
        broken: BaseException | None = None
        cut, rest, ready = True, b"", bytearray()

        def take(piece: bytes) -> None:
            if finish:
                ready.extend(finish.feed(piece))
            else:
                inspection.later(piece)

        try:
            async with aclosing(pieces) if isinstance(pieces, AsyncGenerator) else nullcontext():
                async for chunk in pieces:
                    if self._hold and gate.shut:
                        if chunk is not None:
                            await in_turns(chunk, take)
                            gate.held += ready if finish else chunk
                            ready.clear()
                        if chunk is None or self._hold.is_over(inspection.heard, len(gate.held)):
                            await gate.open(passage.early(inspection, record.id, self._signed))
                    elif chunk is None:
                        continue
                    elif finish is None or finish.passes(chunk):
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
                        await in_turns(chunk, inspection.later)
                    else:
                        await in_turns(chunk, take)
                        if ready:
                            await send({"type": "http.response.body", "body": bytes(ready), "more_body": True})
                            ready.clear()  # not before: of a send that is cancelled nothing has gone out
            cut = False
            rest = finish.close() if finish else b""
            inspection.close()
        except (httpx.TransportError, asyncio.CancelledError) as exc:
            broken = exc
            rest = bytes(ready) + (finish.release() if finish else b"")
        finally:
            verdict = record.streamed(inspection, cut=cut)
            if isinstance(broken, httpx.TransportError):  # what broke off empty has another verdict, in every place
                error = errors.in_body(broken)
                verdict = record.ended(error.end, str(error)) or verdict
            self.observers.judged(verdict)
        if gate.shut and (broken is None or (isinstance(broken, httpx.TransportError) and (gate.held or rest))):
            await gate.open(headers.verdict(verdict, self._signed))
        if broken is None or (rest and not gate.shut):
            # Once the exchange was cut, nothing else ends the wait for a client that does not read.
            with suppress(TimeoutError):
                async with asyncio.timeout(PARTING if isinstance(broken, asyncio.CancelledError) else None):
                    await send({"type": "http.response.body", "body": rest, "more_body": broken is not None})
        if broken is not None:
            raise broken

    async def _complete(self, record: Record, response: httpx.Response, head: Headers, send: Send) -> None:
        """A complete answer: held until it is whole and judged, unless it is too large for that."""
        limit = self._settings.inspect_bytes
        body, parts, size = _body(response), [], 0
        async for piece in body:
            parts.append(piece)
            size += len(piece)
            if size > limit:
                verdict = record.judge(too_large(limit, record.ask))
                await self._begin(record, response, head, headers.verdict(verdict, self._signed), send=send)
                await send({"type": "http.response.body", "body": b"".join(parts), "more_body": True})
                await _copy(body, send)
                return
        whole = b"".join(parts)
        assert record.api is not None
        judged = await judge_body(
            self._classifier,
            record.ask,
            record.api,
            status=response.status_code,
            body=whole,
            coding=coding_of(head),
            limit=limit,
        )
        verdict = record.judge(judged)
        self.observers.judged(verdict)
        await self._begin(record, response, head, headers.verdict(verdict, self._signed), send=send)
        await send({"type": "http.response.body", "body": whole, "more_body": False})

    async def _begin(
        self, record: Record, response: httpx.Response, head: Headers, ours: Headers, *, send: Send
    ) -> None:
        """Sends the head."""
        head = headers.added(head, ours, record.headers)
        record.status_code = response.status_code
        await send({"type": "http.response.start", "status": response.status_code, "headers": head})

    async def _fail(self, record: Record, error: OwnError, send: Send) -> None:
        """Answers with our own error; once a head has gone out it breaks off: the server closes without a clean end."""
        record.ended(error.end, str(error))
        log = logger.info if error.end in TURNED_AWAY else logger.warning
        log("%s %s ended by %s: %s", record.method, record.path, error.end, error)
        if record.status_code is None:
            body = error.body()
            head = [*errors.json_headers(len(body)), *error.headers]
            if self.draining:
                head.append((b"connection", b"close"))
            if record.judged is not None:
                head += headers.verdict(record.judged.verdict, self._signed)
            record.status_code = error.status
            await send({"type": "http.response.start", "status": error.status, "headers": head})
            await send({"type": "http.response.body", "body": body, "more_body": False})


async def _copy(body: AsyncIterator[bytes], send: Send) -> None:
    async for chunk in body:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _hidden_framing(record: Record, response: httpx.Response, head: Headers) -> Framing | None:
    """Reads as much of the body as it takes to tell; the body still begins with it."""
    body, first = _body(response), b""
    while (told := passage.hidden_framing(head, first, record.api, record.ask)) is None:
        if not (more := await anext(body, b"")):
            break
        first += more
    response.stream = _Again(first, body)
    return None if told == "none" else told


class _Again(httpx.AsyncByteStream):
    """A body of which a piece was read, from its beginning."""

    def __init__(self, first: bytes, rest: AsyncIterator[bytes]) -> None:
        self._first = first
        self._rest = rest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._first:
            yield self._first
        async for piece in self._rest:
            yield piece


def _body(response: httpx.Response) -> AsyncIterator[bytes]:
    assert isinstance(response.stream, httpx.AsyncByteStream)
    return response.stream.__aiter__()
