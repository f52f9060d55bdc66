"""One call of an application by the middleware: what it reads and sends, seen on the way, message by message.

The messages go on as they came and when they came, with these exceptions: a start that gets our headers; a complete
answer, which waits until it is whole; the finish chunk of a stream; the beginning of one, if the settings say so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

from demur.proxy.application import Listeners
from demur.proxy.observe import End
from demur.proxy.passage import Way
from demur.proxy.witness import Witness

logger = logging.getLogger("demur.middleware")

Message = MutableMapping[str, Any]

#: Messages that send a body from a file instead of carrying it (ASGI extensions).
_FROM_FILE = frozenset({"http.response.pathsend", "http.response.zerocopysend"})


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
        self._held: list[Message] = []  # of a complete answer until it is whole, of a stream as its hold says
        self._parts: list[bytes] = []
        self._length = 0
        self._late = b""  # to be judged once it has gone on
        self._whole = False  # all of it has come
        self._over = False
        self._sending = asyncio.Lock()  # held messages may be due while the application sends the next one
        self._timer: asyncio.TimerHandle | None = None
        self._opening: asyncio.Task[None] | None = None
        self._observers.began()

    async def receive(self) -> Message:
        message = await self._receive()
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
        try:
            ready = await self._take(message)
        except Exception:
            logger.exception("an answer could not be observed; it passes unchanged")
            ready = self._give_up(message)
        if self._whole:
            self._tell_early()
        try:
            for each in ready:
                await self._send(each)
        except OSError:
            self._left = True
            raise
        if self._late:
            late, self._late = self._late, b""
            self._witness.later(late)
        if self._whole:
            self._end()

    async def returned(self) -> None:
        """The application is done."""
        await self._cut("upstream_error", "the application returned before its answer was complete")

    async def broken(self, error: BaseException) -> None:
        """The application has raised `error`."""
        if isinstance(error, asyncio.CancelledError):
            self._left = True  # so do servers, and applications within each other, when a client has gone
        await self._cut("upstream_error", f"the application failed: {type(error).__name__}")

    async def _cut(self, end: End, error: str) -> None:
        """Ends the exchange, if its answer has not ended by itself. What was held goes on: it has been sent."""
        if self._over:
            return
        self._over = True
        if self._left:
            end, error = "client_disconnect", "the client closed its connection"
        ready: list[Message] = []
        try:
            if not self._started:
                self._read_ask()
            rest = self._witness.release()
            self._witness.ended(end, error)
            ready = [*self._release(), *_piece(rest)]
        except Exception:
            logger.exception("the end of an exchange could not be observed")
            ready = self._held
        self._tell_early()
        self._end()
        if not self._left:
            async with self._sending:
                await self._send_on(ready)

    async def _take(self, message: Message) -> list[Message]:
        """What goes on now that the application has sent `message`."""
        kind = message["type"]
        if kind == "http.response.start":
            return self._take_start(message)
        if not self._started:  # early hints, pushes
            return [message]
        if kind in _FROM_FILE:
            return self._take_file(message)
        if kind != "http.response.body":
            if self._held:
                self._held.append(message)
                return []
            return [message]
        body, self._whole = message.get("body", b""), not message.get("more_body", False)
        match self._witness.way:
            case Way.WHOLE if self._held:
                return await self._take_part(message, body)
            case Way.STREAM:
                return self._take_piece(message, body)
        return [message]

    def _take_start(self, message: Message) -> list[Message]:
        self._started = True
        self._read_ask()
        head = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
        if self._witness.answered(message["status"], head) is Way.WHOLE:
            self._held = [message]
            return []
        self._start_spans()
        self._observers.pending(self._record.id)
        hold = self._listeners.hold
        if hold is None or self._witness.way is not Way.STREAM:
            return [self._with_head(message)]
        self._held = [message]
        if hold.seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(hold.seconds, self._due)
        return []

    async def _take_part(self, message: Message, body: bytes) -> list[Message]:
        """Of a complete answer."""
        self._held.append(message)
        self._parts.append(body)
        self._length += len(body)
        if not self._witness.too_large(self._length):
            if not self._whole:
                return []
            await self._witness.whole(b"".join(self._parts))
        return self._release()

    def _take_piece(self, message: Message, body: bytes) -> list[Message]:
        """Of a stream."""
        witness = self._witness
        if self._held:
            return self._hold_piece(message, body)
        if self._whole:
            ready = (witness.feed(body) if body else b"") + witness.close()
            witness.stream_ended(cut=False)
            return [message if ready == body else {**message, "body": ready}]
        if witness.passes(body):
            self._late = body
            return [message]
        ready = witness.feed(body)
        if ready == body:
            return [message]
        return [{**message, "body": ready}] if ready else []

    def _hold_piece(self, message: Message, body: bytes) -> list[Message]:
        """Of a stream whose head waits for an early verdict, or for the final one."""
        witness, hold = self._witness, self._listeners.hold
        ready = witness.feed(body) if body else b""
        if self._whole:
            ready += witness.close()
            witness.stream_ended(cut=False)
        self._held.append({**message, "body": ready})
        self._length += len(ready)
        if self._whole or hold is None or hold.is_over(witness.heard, self._length):
            return self._release()
        return []

    def _due(self) -> None:
        """The head of a stream has waited long enough."""
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        async with self._sending:
            if self._over:
                return
            try:
                ready = self._release()
            except Exception:
                logger.exception("the beginning of a stream could not be observed; it passes unchanged")
                ready, self._held = self._held, []
            await self._send_on(ready)

    async def _send_on(self, messages: list[Message]) -> None:
        """What the application has sent before; it hears of no fault in that."""
        try:
            for each in messages:
                await self._send(each)
        except OSError:
            self._left = True
        except Exception:
            logger.exception("a message could not be sent")

    def _take_file(self, message: Message) -> list[Message]:
        """Of an answer that the server sends from a file: nobody here has seen it."""
        self._whole = message["type"] == "http.response.pathsend" or not message.get("more_body", False)
        rest = self._witness.release()
        self._witness.stream_ended(cut=True)
        self._witness.unjudged("not_classified", "the answer was sent from a file")
        return [*self._release(), *_piece(rest), message]

    def _release(self) -> list[Message]:
        """All that was held, the start with the verdict."""
        if not self._held:
            return []
        self._start_spans()
        ready = [self._with_head(self._held[0], early=True), *self._held[1:]]
        self._held, self._parts = [], []
        return ready

    def _with_head(self, start: Message, *, early: bool = False) -> Message:
        return {**start, "headers": self._witness.head(early=early)}

    def _give_up(self, message: Message) -> list[Message]:
        """Observing has failed: all that was held, as it came, and `message`; nothing is held from now on."""
        self._witness.way = Way.UNREADABLE
        rest = self._witness.release()
        ready = [*(each for each in self._held if each is not message), *_piece(rest)]
        self._held, self._parts = [], []
        if self._witness.verdict is None:
            self._witness.unjudged("not_classified", "it could not be observed")
        return [*ready, message]

    def _take_request(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._listeners.most_request_bytes:
            self._body = None
        elif self._body is not None:
            self._body.append(piece)

    def _read_ask(self) -> None:
        """At the last moment: now the application answers."""
        if self._body is None:
            why = f"the request is over {self._listeners.most_request_bytes} bytes (max_request_bytes)"
            self._witness.asked(None, why)
        elif not self._read:
            self._witness.asked(None, "the application did not read the request")
        else:
            self._witness.asked(b"".join(self._body))

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
        self._observers.ended(self._record.exchange(), self._record.spans)


def _piece(body: bytes) -> list[Message]:
    """A message with `body`, if there is any."""
    return [{"type": "http.response.body", "body": body, "more_body": True}] if body else []
