"""The copy: what is sent on is decoded, taken apart and judged. Nothing here sends, holds or changes bytes.

Nothing here may fail traffic either: whatever goes wrong ends the inspection, with a verdict that says why.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Literal, TypeVar

from demur.classifier.judge import Classifier, combine
from demur.classifier.plain import lines_of
from demur.classifier.records import ArrayReader, LineReader, Reader
from demur.classifier.request import MAX_BYTES, read_ask
from demur.classifier.shapes import read_body
from demur.classifier.sse import SSEReader
from demur.classifier.stream import Finish, StreamJudge
from demur.classifier.trace import Ask, Trace
from demur.classifier.verdict import Status, Verdict
from demur.proxy.coding import Decoder, OversizedError, UndecodableError

logger = logging.getLogger("demur.inspection")

#: Longest piece of a text, in characters or bytes, that is worked on before other requests get their turn.
PIECE = 16 * 1024
#: Bytes of a stream that are judged before others may get their turn; as tiny events as they get take 20 ms.
TURN = 4 * 1024
#: Bytes that one piece of a coded stream may decode to: compressed well, 64 KB of events are one or two million.
MAX_DECODED = 4 * 1024 * 1024
#: Seconds of judging after which a long answer gives way.
SLICE = 0.002

_T = TypeVar("_T", bytes, str)

#: How a stream sets its events apart: server-sent events, JSON Lines, or the objects of one JSON array.
Framing = Literal["sse", "lines", "array"]
_READERS: Mapping[Framing, Callable[[], Reader]] = {"sse": SSEReader, "lines": LineReader, "array": ArrayReader}


@dataclass(frozen=True, slots=True)
class Judged:
    """The outcome of an inspection; `seconds` is the time it took. `trace` is None when the answer was not read."""

    verdict: Verdict
    trace: Trace | None = None
    seconds: float = 0.0


def unjudged(status: Status, reason: str, ask: Ask) -> Judged:
    """No label, and why."""
    return Judged(Verdict(None, status, reason=reason, model=ask.model))


def too_large(limit: int, ask: Ask) -> Judged:
    """No label, since the answer is too large for one."""
    return unjudged("not_classified", f"the answer is over {limit} bytes (inspect_bytes)", ask)


async def ask_of(body: bytes, api: str | None, coding: bytes | None) -> Ask:
    """The ask of a request body; an empty one when it can't be read, which says why where that is its coding.

    Only ever waits to give way to others (in an asyncio loop)."""
    try:
        return read_ask(await readable(body, coding), api)
    except UndecodableError as exc:
        return Ask(unread=f"ask not read: {exc}")
    except Exception:
        logger.exception("a request could not be read; it passes unchanged, its answer is judged without it")
        return Ask()


async def readable(body: bytes, coding: bytes | None) -> bytes:
    """A request's body as it reads, without its content coding. Raises UndecodableError when that is not known, or it
    decodes to more than is read of any request."""
    if coding is None:
        return body
    decoded = await _decode(body, coding, MAX_BYTES, _Turns())
    if decoded is None:
        raise UndecodableError(f"the request decodes to over {MAX_BYTES} bytes")
    return decoded


class StreamInspection:
    """Reads and judges a copy of one stream. `first_event` is the time (perf_counter) of the first event.

    Judging can wait, which costs less than one by one: `later` keeps pieces that finish nothing, `feed` reads and
    judges what waits and one piece more. Each piece goes to one of the two, in order.
    """

    def __init__(
        self,
        classifier: Classifier,
        ask: Ask,
        api: str,
        *,
        status: int,
        coding: bytes | None,
        inspect_chars: int,
        framing: Framing = "sse",
    ) -> None:
        self.first_event: float | None = None
        self._ask = ask
        self._seconds = 0.0
        self._failure: Judged | None = None
        self._reader = _READERS[framing]()
        self._decoder: Decoder | None = None
        self._waiting = bytearray()  # many small objects kept alive cost more than their copy
        self._enough = 0  # bytes that may wait; none before the first event, for its time
        try:
            self._judge = StreamJudge(ask, api, status=status, classifier=classifier, inspect_chars=inspect_chars)
            self._decoder = Decoder(coding) if coding else None
        except Exception as exc:
            self._failure = _failed(exc, ask)

    @property
    def offset(self) -> int:
        """Bytes read so far, decoded; meaningless when the inspection has failed."""
        return self._reader.offset

    @property
    def pending(self) -> int:
        """Bytes of the unfinished event so far; 0 when the inspection has failed."""
        return 0 if self._failure else self._reader.pending

    @property
    def done(self) -> bool | None:
        """Whether the API's end marker has come; None when the stream could not be read."""
        self.feed(b"")
        return None if self._failure else self._judge.answer.done

    @property
    def heard(self) -> float:
        """Characters of answer judged so far, as `StreamAnswer.heard` counts them; endless when judging has failed:
        no more is to be waited for."""
        self.feed(b"")
        return math.inf if self._failure else self._judge.answer.heard

    def later(self, chunk: bytes) -> None:
        """Takes a piece to be judged, now or with those that follow."""
        waiting = self._waiting
        waiting += chunk
        if len(waiting) > self._enough:
            self.feed(b"")

    def feed(self, chunk: bytes) -> list[Finish]:
        """Judges the events that end in `chunk`, and those that wait; returns the ones that finished a choice."""
        waiting = bytes(self._waiting)
        self._waiting.clear()
        return [event for piece in (waiting, chunk) if piece for event in self._read(piece)]

    def _read(self, piece: bytes) -> list[Finish]:
        finished: list[Finish] = []
        if self._failure is None:
            begun = perf_counter()
            try:
                data = self._decoder.feed(piece, MAX_DECODED) if self._decoder else piece
                reader = self._reader
                if not reader.pending and (lines := lines_of(data)) and self._judge.feed_plain(lines):
                    reader.offset += len(data)  # whole events, read there
                elif events := reader.feed(data):
                    self._enough = TURN
                    if self.first_event is None:
                        self.first_event = begun
                    finished = self._judge.feed_all(events)
            except Exception as exc:
                self._failure = _failed(exc, self._ask)
            self._seconds += perf_counter() - begun
        return finished

    def close(self) -> list[Finish]:
        """The stream has ended: a last event without its blank line counts."""
        finished = self.feed(b"")
        if self._failure is None:
            try:
                if self._decoder:
                    self._decoder.close()
                finished += self._judge.feed_all(self._reader.close())
            except Exception as exc:
                self._failure = _failed(exc, self._ask)
        return finished

    def so_far(self) -> Verdict | None:
        """The verdict on what arrived, None if judging has failed."""
        if self._failure is None:
            begun = perf_counter()
            try:
                return self._judge.so_far()
            except Exception as exc:
                self._failure = _failed(exc, self._ask)
            finally:
                self._seconds += perf_counter() - begun
        return None

    def finish(self, *, cut: bool) -> Judged:
        """The verdict on what arrived; `cut`: the stream ended abnormally."""
        self.feed(b"")
        begun = perf_counter()
        if self._failure is None:
            try:
                judged = Judged(self._judge.finish(cut=cut), self._judge.trace)
            except Exception as exc:
                self._failure = _failed(exc, self._ask)
        return _told(self._failure or judged, self._ask, self._seconds + perf_counter() - begun)


def _failed(exc: Exception, ask: Ask) -> Judged:
    """Whatever judging raised, as a verdict without a label."""
    if isinstance(exc, OversizedError):
        return unjudged("not_classified", str(exc), ask)
    if isinstance(exc, UndecodableError):
        return unjudged("unparsed", str(exc), ask)
    logger.error("judging failed; the answer passes unchanged", exc_info=exc)
    return unjudged("not_classified", f"the classifier failed: {type(exc).__name__}", ask)


def _told(judged: Judged, ask: Ask, seconds: float) -> Judged:
    """With the time it took, and with the reason why it was judged without its ask, if it was."""
    verdict = judged.verdict
    if ask.unread and verdict.reason is None:
        verdict = replace(verdict, reason=ask.unread)
    return replace(judged, verdict=verdict, seconds=seconds)


class _Turns:
    """Keeps long work from holding up others: `await turns.give_way()` lets them run after each slice of time."""

    def __init__(self) -> None:
        self._worked = 0.0
        self._begun = perf_counter()

    async def give_way(self) -> None:
        worked = perf_counter() - self._begun
        if worked > SLICE:
            self._worked += worked
            await asyncio.sleep(0)
            self._begun = perf_counter()

    def seconds(self) -> float:
        """The time spent at work."""
        return self._worked + perf_counter() - self._begun


async def in_turns(chunk: bytes, take: Callable[[bytes], None]) -> None:
    """Gives a piece of a stream to `take`, part by part where it is long, so that others get their turn meanwhile.

    All of it is given, also when this is cancelled while it waits: what has gone on to a client is judged.
    """
    if len(chunk) <= TURN:
        take(chunk)
        return
    turns, parts = _Turns(), parts_of(chunk)
    try:
        for part in parts:
            take(part)
            await turns.give_way()
        if len(chunk) > PIECE:
            await asyncio.sleep(0)  # in a flood
    finally:
        for part in parts:
            take(part)


def parts_of(chunk: bytes) -> Iterator[bytes]:
    """A piece of a stream in parts of TURN bytes at most, cut between events where that can be told: whole events are
    read the quick way."""
    start = 0
    while len(chunk) - start > TURN:
        stop = start + TURN
        for ending in (b"\n\n", b"\r\n\r\n", b"\n"):
            if (found := chunk.rfind(ending, start, stop)) >= 0:
                stop = found + len(ending)
                break
        yield chunk[start:stop]
        start = stop
    yield chunk[start:]


async def judge_body(
    classifier: Classifier, ask: Ask, api: str, *, status: int, body: bytes, coding: bytes | None, limit: int
) -> Judged:
    """The verdict on one complete answer. A long one is decoded and judged in pieces that give way to other requests.

    `limit`: bytes of decoded body beyond which it is not judged.
    """
    turns = _Turns()
    try:
        if coding is not None:
            decoded = await _decode(body, coding, limit, turns)
            if decoded is None:
                return too_large(limit, ask)
            body = decoded
        trace = read_body(ask, api, status, body)
        verdicts = []
        for choice in trace.choices:
            session = classifier.session(ask)
            for text in pieces(choice.text):
                session.feed(text)
                await turns.give_way()
            verdicts.append(replace(session.finish(choice), index=choice.index))
        judged = Judged(replace(combine(verdicts, trace), rules_version=classifier.rules_version), trace)
    except Exception as exc:
        judged = _failed(exc, ask)
    return _told(judged, ask, turns.seconds())


async def _decode(body: bytes, coding: bytes, limit: int, turns: _Turns) -> bytes | None:
    """The decoded body, None when it is over `limit` bytes."""
    decoder, decoded = Decoder(coding), bytearray()
    try:
        for piece in pieces(body):
            decoded += decoder.feed(piece, limit - len(decoded))
            await turns.give_way()
        decoder.close()
    except OversizedError:
        return None
    return bytes(decoded)


def pieces(whole: _T) -> Iterator[_T]:
    """`whole`, cut into parts of bounded work."""
    for start in range(0, len(whole), PIECE):
        yield whole[start : start + PIECE]
