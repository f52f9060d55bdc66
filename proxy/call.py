"""One call of an application by the middleware: what it reads and sends, seen on the way, message by message.

The messages go on as they came and when they came, with these exceptions: a start that gets our headers; a complete
answer, which waits until it is whole; the finish chunk of a stream; the beginning of one, if the settings say so.

Every message that the application sends is put into one queue, in one place, and goes on from there, in another: so
each goes on exactly once, whatever fails in looking at it, and whatever ends the application.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from demur.proxy import headers
from demur.proxy.application import Listeners
from demur.proxy.observe import End
from demur.proxy.passage import Way
from demur.proxy.witness import Witness

logger = logging.getLogger("demur.middleware")

Message = MutableMapping[str, Any]

#: Messages that send a body from a file instead of carrying it (ASGI extensions).
_FROM_FILE = frozenset({"http.response.pathsend", "http.response.zerocopysend"})
#: Seconds that an application's cancellation waits for a client to take what is held.
_PATIENCE = 1.0


class Call:
    """`receive` and `send` are for the application; `returned` or `broken` is called once it is done."""

    def __init__(
        self,
        witness: Witness,
        listeners: Listeners,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        self._witness = witness
        self._record = witness.record
        self._listeners = listeners
        self._observers = listeners.observers
        self._span = listeners.current_span()
        self._receive = receive
        self._send = send
        # The request.
        self._body: list[bytes] | None = []  # None: there is too much of it
        self._size = 0
        self._read = False
        self._left = False
        # The answer.
        self._started = False
        self._signed = False  # the start has its headers
        self._failed = False  # nothing is looked at any more
        self._waits = False  # a complete answer until it is whole, a stream as its hold says
        self._held: deque[Message] = deque()  # what has not gone on
        self._parts: list[bytes] = []
        self._length = 0
        self._whole = False  # all of it has come
        self._over = False
        self._sending = asyncio.Lock()  # held messages may be due while the application sends the next one
        self._timer: asyncio.TimerHandle | None = None
        self._opening: asyncio.Task[None] | None = None
        self._observers.began()

    async def receive(self) -> Message:
        message = await self._receive()
        with self._looking():
            match message["type"]:
                case "http.request":
                    self._take_request(message.get("body", b""))
                    self._read = not message.get("more_body", False)
                case "http.disconnect":
                    self._left = True
        return message

    async def send(self, message: Message) -> None:
        if self._over:  # trailers, or what the application says too much
            await self._send(message)
            return
        async with self._sending:
            await self._pass_on(message)

    async def _pass_on(self, message: Message) -> None:
        if passes := self._passes(message):
            self._held.append(message)
        else:
            await self._take(message)
        try:
            await self._flush()
        except OSError:
            self._left = True
            raise
        if passes:
            try:
                self._witness.later(message["body"])
            except Exception as error:
                self._held += _piece(self._give_up(error))
        elif self._whole:
            self._end()

    def _passes(self, message: Message) -> bool:
        """Whether it is a piece of a stream that goes on as it is. Most messages are: this is short for their sake."""
        if self._witness.way is not Way.STREAM or self._waits or not message.get("more_body"):
            return False
        try:
            body = message.get("body")
            return message["type"] == "http.response.body" and type(body) is bytes and self._witness.passes(body)
        except Exception as error:
            self._held += _piece(self._give_up(error))
            return False

    async def _take(self, message: Message) -> None:
        """Any other message. What goes on in its place, at once or when the wait is over, is held from then on."""
        try:
            message = _copy(message)
            instead = await self._look_at(message)
        except Exception as error:
            instead = [*_piece(self._give_up(error)), message]
        except asyncio.CancelledError:  # while others had their turn; it has been sent all the same
            self._held.append(message)
            raise
        self._held += instead
        if not self._waits:
            self._sign(early=True)
        if self._whole:
            self._tell_early()

    async def returned(self) -> None:
        """The application is done."""
        await self._cut("upstream_error", "the application returned before its answer was complete")

    async def broken(self, error: BaseException) -> None:
        """The application has raised `error`."""
        failed = f"the application failed: {type(error).__name__}"
        match error:
            case Exception():
                await self._cut("upstream_error", failed)
            case asyncio.CancelledError():  # most who do that do it when a client has gone, but some for other reasons
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PATIENCE):
                        await self._cut("client_disconnect", "the application was cancelled")
            case _:  # the process ends, or its loop has: nothing can be waited for
                self._close("upstream_error", failed)

    async def _cut(self, end: End, error: str) -> None:
        """Ends the exchange, if its answer has not ended by itself. What was held goes on: it has been sent."""
        if self._over:
            return
        try:
            if not self._started:
                with self._looking():
                    await self._read_ask()
        finally:
            self._close(end, error)
        try:
            if not self._left:
                async with self._sending:
                    await self._send_on()
        finally:
            if self._opening is not None:
                self._opening.cancel()

    def _close(self, end: End, error: str) -> None:
        """Tells how the exchange has ended; nothing that is held waits any longer."""
        if self._over:
            return
        self._over = True
        if self._left:
            end, error = "client_disconnect", "the client closed its connection"
        with self._looking():
            self._held += _piece(self._witness.release())
        with self._looking():
            self._witness.ended(end, error)
        self._waits = False
        self._sign(early=True)
        self._tell_early()
        self._end()

    async def _look_at(self, message: Message) -> list[Message]:
        """What goes on in the place of `message`."""
        kind = message["type"]
        if kind == "http.response.start":
            return await self._take_start(message)
        if not self._started:  # early hints, pushes
            return [message]
        if kind in _FROM_FILE:
            return self._take_file(message)
        if kind != "http.response.body":
            return [message]
        self._whole = not message.get("more_body", False)
        way = self._witness.way
        if way is Way.WHOLE and self._waits:
            body = message.get("body", b"")
            way = self._witness.begins(body)
            if way is Way.WHOLE:
                await self._take_part(body)
            else:
                self._join(message)
                self._begin_stream()
        if way is Way.STREAM:
            return self._take_piece(message, message.get("body", b""))
        return [message]

    async def _take_start(self, message: Message) -> list[Message]:
        if self._started:  # that is for the server to refuse
            return [*_piece(self._give_up(None)), message]
        with self._looking():
            await self._read_ask()
        self._started = True
        if self._failed:
            return [message]
        match self._witness.answered(message["status"], message.get("headers", [])):
            case Way.WHOLE:
                self._waits = True
            case Way.STREAM:
                self._begin_stream()
            case _:
                self._start_spans()
                self._observers.pending(self._record.id)
        return [message]

    def _join(self, message: Message) -> None:
        """Puts what has come of an answer before it was told to be a stream to the front of `message`."""
        if self._parts:
            message["body"] = b"".join([*self._parts, message.get("body", b"")])
            self._held = deque(each for each in self._held if each["type"] != "http.response.body")
            self._parts, self._length = [], 0

    def _begin_stream(self) -> None:
        self._start_spans()
        self._observers.pending(self._record.id)
        hold = self._listeners.hold
        self._waits = hold is not None
        if not self._waits:
            self._sign()
        elif hold is not None and hold.seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(hold.seconds, self._due)

    async def _take_part(self, body: bytes) -> None:
        """Of a complete answer."""
        self._parts.append(body)
        self._length += len(body)
        if self._witness.too_large(self._length):
            self._waits = False
        elif self._whole:
            await self._witness.whole(b"".join(self._parts))
            self._waits = False

    def _take_piece(self, message: Message, body: bytes) -> list[Message]:
        """Of a stream."""
        witness, hold = self._witness, self._listeners.hold
        ready = witness.feed(body) if body else b""
        try:
            if self._whole:
                ready += witness.close()
                witness.stream_ended(cut=False)
            self._length += len(ready)
            if self._waits:
                over = hold is None or hold.is_over(witness.heard, self._length)
                self._waits = not (self._whole or over)
        except Exception as error:
            ready += self._give_up(error)
        if ready == body:
            return [message]
        return [{**message, "body": ready}] if ready or self._whole else []

    def _due(self) -> None:
        """The head of a stream has waited long enough."""
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        async with self._sending:
            if not self._over:
                self._waits = False
                self._sign(early=True)
                await self._send_on()

    async def _flush(self) -> None:
        """Sends what is held, if it need not wait."""
        while self._held and not self._waits:
            try:
                await self._send(self._held.popleft())
            except asyncio.CancelledError:
                self._held.clear()  # nobody knows whether it has gone out: nothing may go on behind it
                raise

    async def _send_on(self) -> None:
        """Sends what the application has sent before; it hears of no fault in that."""
        try:
            await self._flush()
        except OSError:
            self._left = True
        except Exception:
            logger.exception("a message could not be sent")

    def _take_file(self, message: Message) -> list[Message]:
        """Of an answer that the server sends from a file: nobody here has seen it."""
        self._whole = message["type"] == "http.response.pathsend" or not message.get("more_body", False)
        self._held += _piece(self._witness.release())
        self._waits = False
        self._witness.stream_ended(cut=True)
        self._witness.unjudged("not_classified", "the answer was sent from a file")
        return [message]

    def _sign(self, *, early: bool = False) -> None:
        """Gives the start, which is the first of what is held, its headers."""
        if self._signed or not self._started or not self._held:
            return
        self._signed = True
        self._parts = []
        start, head = self._held[0], None
        with self._looking():
            self._start_spans()
            head = None if self._failed else self._witness.head(early=early)
        if head is None:
            head = start.get("headers", [])
            if self._record.stream:  # it may have got its key before the fault
                head = headers.changed(head)
        self._held[0] = {**start, "headers": head}

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """A fault in it ends the looking, and nothing else."""
        try:
            yield
        except Exception as error:
            self._held += _piece(self._give_up(error))

    def _give_up(self, error: Exception | None) -> bytes:
        """Looking has failed, or makes no sense: nothing more is judged or held. What is left of a stream."""
        logger.error("an answer could not be observed; it passes unchanged", exc_info=error)
        self._failed = True
        self._waits = False
        return self._witness.give_up()

    def _take_request(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._listeners.most_request_bytes:
            self._body = None
        elif self._body is not None:
            self._body.append(piece)

    async def _read_ask(self) -> None:
        """At the last moment: now the application answers."""
        if self._body is None:
            why = f"the request is over {self._listeners.most_request_bytes} bytes (max_request_bytes)"
            await self._witness.asked(None, why)
        elif not self._read:
            await self._witness.asked(None, "the application did not read the request")
        else:
            await self._witness.asked(b"".join(self._body))

    def _start_spans(self) -> None:
        """Spans of our own, where nobody else has begun one."""
        tracer = self._observers.tracer
        if tracer is not None and self._span is None and self._record.spans is None:
            body = b"".join(self._body) if self._body is not None and self._read else b""
            self._observers.attempt("telemetry", partial(self._record.start_spans, tracer, body))
        self._body = []

    def _tell_early(self) -> None:
        """Before the last byte: then a client may look up the verdict, and somebody else's span may be over."""
        if (verdict := self._witness.verdict) is not None:
            self._observers.judged(verdict)
        if (span := self._span) is not None:
            self._span = None
            self._observers.attempt("telemetry", lambda: span.tell(self._record.exchange()))

    def _end(self) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        try:
            exchange = self._record.exchange()
        except Exception:
            logger.exception("an exchange could not be summed up; nobody hears of it")
            self._observers.lost()
        else:
            self._observers.ended(exchange, self._record.spans)


def _copy(message: Message) -> Message:
    """The application may use a message, its buffer or its list of headers again, once it was sent."""
    copy = {**message}
    if "body" in copy:
        copy["body"] = bytes(copy["body"])
    if "headers" in copy:
        copy["headers"] = [(bytes(name), bytes(value)) for name, value in copy["headers"]]
    return copy


def _piece(body: bytes) -> list[Message]:
    """A message with `body`, if there is any."""
    return [{"type": "http.response.body", "body": body, "more_body": True}] if body else []
