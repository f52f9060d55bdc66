"""One exchange that somebody else carries, seen from beside: told what comes by, a witness says what goes on.

The middleware (in an application) and the client transport (in a script) both carry exchanges this way. Nothing here
knows ASGI or an HTTP client, sends a byte or waits for one. Whatever fails in adding a stream's key, its bytes come
back as they were.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import perf_counter

from demur.classifier.judge import Classifier
from demur.classifier.trace import Ask
from demur.classifier.verdict import Status, Verdict
from demur.config import Settings
from demur.proxy import headers, passage
from demur.proxy.finish import FinishChunk
from demur.proxy.headers import Headers
from demur.proxy.inspection import Framing, StreamInspection, ask_of, judge_body, too_large, unjudged
from demur.proxy.observe import End
from demur.proxy.passage import Way, coding_of, way_of
from demur.proxy.record import Record

logger = logging.getLogger("demur.witness")


@dataclass(frozen=True, slots=True)
class Server:
    """Where the answers of an exchange come from."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Judging:
    """What every exchange is judged with; safe to share between threads."""

    settings: Settings
    classifier: Classifier

    @classmethod
    def by(cls, settings: Settings, classifier: Classifier | None = None) -> Judging:
        """Raises LexiconError for a bad file among `settings.lexicons`."""
        return cls(settings, classifier or _compiled(settings.lexicons, settings.languages, settings.min_confidence))


@lru_cache(maxsize=4)  # compiling takes a second, and a program may have many clients
def _compiled(lexicons: tuple[Path, ...], languages: tuple[str, ...], min_confidence: float) -> Classifier:
    return Classifier(lexicons=lexicons, languages=languages or None, min_confidence=min_confidence)


class Witness:
    """One exchange. `record.api` is None when its path is not judged: then nothing else here is to be called.

    In this order: `asked`, `answered`, then for a `Way.STREAM` each piece to `passes` and `later`, or to `feed`, and at
    the end `close` (or `release`, when it broke off) and `stream_ended`; for a `Way.WHOLE` each piece to `begins`, and
    the whole body to `whole`. `head` is what the client gets; of a whole answer once it is judged. Who meets an
    exception of any of these calls `give_up`. `path` has no query; names in `headers` (of the request) are lower case.
    """

    def __init__(self, judging: Judging, *, method: str, path: bytes, headers: Headers, server: Server) -> None:
        self.record = Record({"method": method, "raw_path": path, "headers": headers}, server)
        self.way = Way.UNREAD
        self._judging = judging
        self._given: Headers = []  # the answer's
        self._head: Headers = []  # the same, names in lower case
        self._beginning: bytes | None = None  # of a whole answer, while it may still turn out to be a stream
        self._inspection: StreamInspection | None = None
        self._finish: FinishChunk | None = None
        self._grows = False  # by a key, now or before

    async def asked(self, body: bytes | None, why_not: str = "") -> None:
        """The request's body; None when it was not seen as a whole, and why. Waits as `whole` does."""
        record = self.record
        if body is None:
            record.asked(Ask(unread=f"ask not read: {why_not}"))
        else:
            record.asked(await ask_of(body, record.api, coding_of(record.headers)))

    def answered(self, status: int, head: Headers) -> Way:
        """The head of the answer has come."""
        record = self.record
        assert record.api is not None
        record.status_code = status
        record.first_byte = perf_counter()
        self._given = head
        self._head = head = [(name.lower(), value) for name, value in head]
        self.way = way_of(record.api, record.path, status, head)
        match self.way:
            case Way.STREAM:
                self._open_stream(passage.framing_of(record.path, status, head) or "sse")
            case Way.WHOLE:
                self._beginning = b""
            case Way.UNREADABLE:
                self.unjudged("unparsed", passage.unread_reason(head))
        return self.way

    def begins(self, piece: bytes) -> Way:
        """The way of a whole answer now that one more piece is there: it may be a stream that does not say so. Then all
        pieces, from the first on, are a stream's."""
        if self._beginning is not None:
            self._beginning += piece
            told = passage.hidden_framing(self._head, self._beginning, self.record.api, self.record.ask)
            if told is not None:
                self._beginning = None
                if told != "none":
                    self.way = Way.STREAM
                    self._open_stream(told)
        return self.way

    def _open_stream(self, framing: Framing) -> None:
        record = self.record
        assert record.api is not None
        assert record.status_code is not None
        record.stream = True
        self._inspection, self._finish = passage.open_stream(
            self._judging.settings,
            self._judging.classifier,
            ask=record.ask,
            api=record.api,
            framing=framing,
            status=record.status_code,
            head=self._head,
            id=record.id,
        )
        self._grows = self._finish is not None

    def head(self, *, early: bool = False) -> Headers:
        """The answer's headers with ours; where the body gets a key more, without those that it would make untrue.
        `early`: of a stream that goes on, with what can be said so far."""
        kept = [(name, value) for name, value in self._given if not name.lower().startswith(headers.PREFIX)]
        if self._grows:
            kept = headers.changed(kept)
        signed = f"{self._judging.classifier.name}/{self._judging.classifier.rules_version}".encode("ascii")
        if (judged := self.record.judged) is not None:
            ours = headers.verdict(judged.verdict, signed)
        elif early and self._inspection is not None:
            ours = passage.early(self._inspection, self.record.id, signed)
        else:
            ours = headers.pending(self.record.id, signed)
        return headers.added(kept, ours, self.record.headers)

    @property
    def heard(self) -> float:
        """Characters of a stream that were judged so far."""
        return self._inspection.heard if self._inspection is not None else math.inf

    def passes(self, chunk: bytes) -> bool:
        """Whether a piece of a stream may go on as it is, now; then it belongs to `later`, else to `feed`."""
        return self._finish is None or self._finish.passes(chunk)

    def later(self, chunk: bytes) -> None:
        """A piece that has gone on."""
        if self._inspection is not None:
            self._inspection.later(chunk)

    def feed(self, chunk: bytes) -> bytes:
        """What goes on now that this piece has come."""
        if (finish := self._finish) is None:
            self.later(chunk)
            return chunk
        held = finish.held
        try:
            return finish.feed(chunk)
        except Exception as error:
            self._give_up_key(error)
            return held + chunk

    def close(self) -> bytes:
        """What is left once a stream has ended in order."""
        rest = b""
        if (finish := self._finish) is not None:
            rest = finish.held
            try:
                rest = finish.close()
            except Exception as error:
                self._give_up_key(error)
        self._finish = None
        return rest

    def release(self) -> bytes:
        """What is left of a stream that broke off, or is read no further."""
        rest = self._finish.held if self._finish else b""
        self._finish = None
        return rest

    def stream_ended(self, *, cut: bool) -> None:
        """No more pieces come; `cut`: though the stream had not ended."""
        if (inspection := self._inspection) is None:
            return
        record, self._inspection = self.record, None
        if not cut:
            inspection.close()
        record.streamed(inspection, cut=cut)

    async def whole(self, body: bytes) -> None:
        """Judges a complete answer. Only ever waits to give way to others (in an asyncio loop)."""
        record, limit = self.record, self._judging.settings.inspect_bytes
        assert record.api is not None
        assert record.status_code is not None
        judged = await judge_body(
            self._judging.classifier,
            record.ask,
            record.api,
            status=record.status_code,
            body=body,
            coding=coding_of(self._head),
            limit=limit,
        )
        record.judge(judged)

    def too_large(self, size: int) -> bool:
        """Whether an answer that has reached `size` bytes is judged no more; then it has its verdict."""
        limit = self._judging.settings.inspect_bytes
        if size > limit:
            self.record.judge(too_large(limit, self.record.ask))
        return size > limit

    def unjudged(self, status: Status, reason: str) -> None:
        """The answer gets no label, and why."""
        self.record.judge(unjudged(status, reason, self.record.ask))

    def ended(self, end: End, error: str) -> None:
        """The exchange did not end well. A stream whose end marker came has ended all the same."""
        self.stream_ended(cut=True)
        if not (end == "client_disconnect" and self.record.done_marker):
            self.record.ended(end, error)

    def give_up(self) -> bytes:
        """Looking has failed: nothing more is judged or added. What is left of a stream, as it came."""
        self.way, self._inspection = Way.UNREADABLE, None
        rest = self.release()
        if self.verdict is None:
            try:
                self.unjudged("not_classified", "it could not be observed")
            except Exception as error:
                logger.error("an exchange is left without a verdict", exc_info=error)
        return rest

    @property
    def verdict(self) -> Verdict | None:
        return self.record.judged.verdict if self.record.judged else None

    def _give_up_key(self, error: Exception) -> None:
        logger.error("the verdict could not be added to a stream; it passes without it", exc_info=error)
        self._finish = None
