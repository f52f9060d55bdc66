"""One exchange of a client process, whichever library carries it: httpx or httpx2, synchronous or not.

Takes what the transports read, says what goes on. Neither library is imported: their requests, answers and errors are
alike, and are told apart by nothing but their names. Nothing here fails an exchange: a fault is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from demur.classifier.verdict import Verdict
from demur.proxy.logs import Seldom
from demur.proxy.observe import End, Exchange
from demur.proxy.passage import Way
from demur.proxy.witness import Witness

logger = logging.getLogger("demur.client")

#: Where the verdict stands in `response.extensions`.
VERDICT = "demur.verdict"

#: Called once for each exchange that is judged, when it is over, in the thread that read the answer.
OnVerdict = Callable[[Verdict, Exchange], None]

# Errors by name, before the head of the answer and after it; any other is the upstream's.
_BEFORE: dict[str, End] = {"ConnectTimeout": "connect_timeout", "ReadTimeout": "first_byte_timeout"}
_AFTER: dict[str, End] = {"ReadTimeout": "idle_timeout"}

_seldom = Seldom()


def complain(what: str, error: Exception) -> None:
    if _seldom.due(what):
        logger.error("%s (said once a minute at most)", what, exc_info=error)


class Watch:
    """`asks` first, then `answered`; then, of a whole answer, each piece to `takes`, and `judge`; what the client reads
    after that is `kept`, then goes through `passing` and `close`. `failed`, `broken` and `closed` end it early."""

    def __init__(self, witness: Witness, request: Any, on_verdict: OnVerdict | None) -> None:
        self.error: Exception | None = None  # what the client is to meet once it has read what is kept
        self._kept: list[bytes] = []
        self._witness = witness
        self._request = request
        self._on_verdict = on_verdict
        self._size = 0
        self._extensions: dict[str, Any] = {}
        self._over = False
        self._late = b""  # has gone on, to be judged when there is time

    async def asks(self) -> None:
        """The request is about to go."""
        with self._looking():
            again = type(self._request.stream).__name__ == "ByteStream"  # others can be read only once
            await self._witness.asked(self._request.read() if again else None, "the request was sent as a stream")

    def answered(self, response: Any) -> Way:
        """The head has come. UNREAD: nobody will look at this answer."""
        with self._looking():
            return self._witness.answered(response.status_code, list(response.headers.raw))
        self._tell()
        return Way.UNREAD

    def takes(self, piece: bytes) -> bool:
        """Keeps a piece of a whole answer; False: the rest is not to be waited for, it is too large or a stream."""
        self._kept.append(bytes(piece))
        self._size += len(piece)
        with self._looking():
            return self._witness.begins(piece) is not Way.STREAM and not self._witness.too_large(self._size)
        return False

    async def judge(self) -> None:
        """The whole answer is kept, or what came of it before `error`, or the beginning of a stream."""
        if self.error is not None:
            self.failed(self.error)
        elif self._witness.way is Way.WHOLE and self._witness.verdict is None:
            with self._looking():
                await self._witness.whole(b"".join(self._kept))
            self._tell()

    def response(self, response: Any, stream: Any) -> Any:
        """The answer as the client gets it, with `stream` as its body."""
        try:
            head = self._witness.head()
            ours = type(response)(response.status_code, headers=head, stream=stream, extensions=response.extensions)
        except Exception as error:
            complain("an answer could not get its headers; it passes without them", error)
            response.stream = stream
            ours = response
        self._extensions = ours.extensions
        if (verdict := self._witness.verdict) is not None:
            self._extensions[VERDICT] = verdict
        return ours

    def kept(self) -> Iterator[bytes]:
        """What the client gets of what has been read already. Raises what was met after that."""
        for piece in self._kept:
            if ready := self.passing(piece):
                yield ready
        if self.error is not None:
            raise self.error

    def passing(self, piece: bytes) -> bytes:
        """What the client gets now that `piece` has come; which is judged once it asks for more, or for no more."""
        witness, piece = self._witness, bytes(piece)  # a transport may use its buffer again
        try:
            self._catch_up()
            if witness.way is Way.UNREADABLE:
                return piece
            if witness.passes(piece):
                self._late = piece
                return piece
            return witness.feed(piece)
        except Exception as error:
            return self._give_up(error) + piece

    def broken(self, error: BaseException) -> bytes:
        """The transport raised `error` instead of a piece; what the client has still to get before it meets that."""
        try:
            self._catch_up()
            rest = self._witness.release()
        except Exception as fault:
            rest = self._give_up(fault)
        self.failed(error)
        return rest

    def close(self) -> bytes:
        """All has come; what the client has still to get."""
        try:
            self._catch_up()
            rest = self._witness.close()
        except Exception as error:
            rest = self._give_up(error)
        with self._looking():
            self._witness.stream_ended(cut=False)
        self._tell()
        return rest

    def failed(self, error: BaseException) -> None:
        """The transport raised `error`."""
        if self._over:
            return
        before = self._witness.record.status_code is None
        name = type(error).__name__
        if isinstance(error, Exception):
            end: End = (_BEFORE if before else _AFTER).get(name, "upstream_error")
        else:  # cancelled, interrupted
            end = "client_disconnect"
        with self._looking():
            self._witness.ended(end, name)
        self._tell()

    def closed(self) -> None:
        """The client wants no more."""
        if not self._over:
            with self._looking():
                self._catch_up()
            with self._looking():
                self._witness.ended("client_disconnect", "the client closed its connection")
            self._tell()

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """A fault in it ends the looking, and nothing else. Not where bytes are kept back."""
        try:
            yield
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> bytes:
        """What is left of a stream."""
        complain("an exchange could not be observed; it passes unchanged", error)
        return self._witness.give_up()

    def _catch_up(self) -> None:
        if self._late:
            late, self._late = self._late, b""
            self._witness.later(late)

    def _tell(self) -> None:
        if self._over:
            return
        self._over = True
        if (verdict := self._witness.verdict) is None:
            return
        self._extensions[VERDICT] = verdict
        if self._on_verdict is not None:
            try:
                exchange = self._witness.record.exchange()
            except Exception as error:
                complain("on_verdict hears nothing of an exchange that could not be summed up", error)
                return
            try:
                self._on_verdict(verdict, exchange)
            except Exception as error:
                complain("on_verdict failed", error)
