"""The copy: what is sent on is decoded, taken apart and judged. Nothing here sends, holds or changes bytes.

Nothing here may fail traffic either: whatever goes wrong ends the inspection, with a verdict that says why.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self, TypeVar

from demur.classifier.judge import Classifier, combine
from demur.classifier.request import read_ask
from demur.classifier.shapes import read_body
from demur.classifier.sse import Event, SSEReader
from demur.classifier.stream import StreamJudge
from demur.classifier.trace import Ask, Trace
from demur.classifier.verdict import Status, Verdict
from demur.proxy.coding import Decoder, UndecodableError

logger = logging.getLogger("demur.inspection")

#: Longest piece of a text, in characters or bytes, that is worked on before other requests get their turn.
PIECE = 16 * 1024
#: Seconds of judging after which a batch of events gives way.
SLICE = 0.002

_T = TypeVar("_T", bytes, str)

#: The events that finished a choice, and which.
Finished = list[tuple[Event, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class Judged:
    """The outcome of an inspection; `seconds` is the time it took. `trace` is None when the answer was not read."""

    verdict: Verdict
    trace: Trace | None = None
    seconds: float = 0.0


def unjudged(status: Status, reason: str, ask: Ask) -> Judged:
    """No label, and why."""
    return Judged(Verdict(None, status, reason=reason, model=ask.model))


def ask_of(body: bytes, api: str | None) -> Ask:
    """The ask of a request body; an empty one when it can't be read."""
    with _Guard(Ask()):
        return read_ask(body, api)
    return Ask()


class _Guard:
    """Runs judging: measures it, and turns whatever it raises into a verdict without a label."""

    def __init__(self, ask: Ask) -> None:
        self.failure: Judged | None = None
        self.seconds = 0.0
        self._ask = ask
        self._begun = 0.0

    def __enter__(self) -> Self:
        self._begun = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> bool:
        self.seconds += time.perf_counter() - self._begun
        if exc is None or not isinstance(exc, Exception):
            return False
        if isinstance(exc, UndecodableError):
            self.failure = unjudged("unparsed", str(exc), self._ask)
        else:
            logger.error("judging failed; the answer passes unchanged", exc_info=exc)
            self.failure = unjudged("not_classified", f"the classifier failed: {type(exc).__name__}", self._ask)
        return True

    async def give_way(self) -> None:
        """Lets other requests run if this one has had its slice."""
        worked = time.perf_counter() - self._begun
        if worked > SLICE:
            self.seconds += worked
            await asyncio.sleep(0)
            self._begun = time.perf_counter()


class StreamInspection:
    """Reads and judges a copy of one event stream. `first_event` is the time (perf_counter) of the first event."""

    def __init__(
        self, classifier: Classifier, ask: Ask, api: str, *, status: int, coding: bytes | None, inspect_chars: int
    ) -> None:
        self.first_event: float | None = None
        self._reader = SSEReader()
        self._guard = _Guard(ask)
        self._decoder: Decoder | None = None
        with self._guard:
            self._judge = StreamJudge(ask, api, status=status, classifier=classifier, inspect_chars=inspect_chars)
            self._decoder = Decoder(coding) if coding else None

    @property
    def pending(self) -> int:
        """Bytes of the unfinished event so far; 0 when the inspection has failed."""
        return 0 if self._guard.failure else self._reader.pending

    @property
    def done(self) -> bool | None:
        """Whether the API's end marker has come; None when the stream could not be read."""
        return None if self._guard.failure else self._judge.answer.done

    async def feed(self, chunk: bytes) -> Finished:
        """Judges the events that end in `chunk`. A large batch gives way to other requests."""
        finished: Finished = []
        if self._guard.failure is None:
            with self._guard:
                for event in self._reader.feed(self._decoder.feed(chunk) if self._decoder else chunk):
                    self._event(event, finished)
                    await self._guard.give_way()
        return finished

    def close(self) -> Finished:
        """The stream has ended: a last event without its blank line counts."""
        finished: Finished = []
        if self._guard.failure is None:
            with self._guard:
                for event in self._reader.close():
                    self._event(event, finished)
        return finished

    def choice_verdict(self, index: int) -> Verdict | None:
        """The verdict of a finished choice, None if judging has failed."""
        if self._guard.failure is None:
            with self._guard:
                return self._judge.choice_verdict(index)
        return None

    def finish(self, *, cut: bool) -> Judged:
        """The verdict on what arrived; `cut`: the stream ended abnormally."""
        if self._guard.failure is None:
            with self._guard:
                judged = Judged(self._judge.finish(cut=cut), self._judge.answer.trace(cut=cut))
        return replace(self._guard.failure or judged, seconds=self._guard.seconds)

    def _event(self, event: Event, finished: Finished) -> None:
        if self.first_event is None:
            self.first_event = time.perf_counter()
        indexes = self._judge.feed(event)
        if indexes:
            finished.append((event, indexes))


async def judge_body(
    classifier: Classifier, ask: Ask, api: str, *, status: int, body: bytes, coding: bytes | None, limit: int
) -> Judged:
    """The verdict on one complete answer. A long one is decoded and judged in pieces that give way to other requests.

    `limit`: bytes of decoded body beyond which it is not judged.
    """
    guard = _Guard(ask)
    with guard:
        if coding is not None:
            decoder, pieces, size = Decoder(coding), [], 0
            for piece in _pieces(body):
                pieces.append(decoder.feed(piece))
                size += len(pieces[-1])
                if size > limit:
                    return unjudged("not_classified", f"the answer is over {limit} bytes (inspect_bytes)", ask)
                await guard.give_way()
            body = b"".join(pieces)
        trace = read_body(ask, api, status, body)
        verdicts = []
        for choice in trace.choices:
            session = classifier.session(ask)
            for text in _pieces(choice.text):
                session.feed(text)
                await guard.give_way()
            verdicts.append(replace(session.finish(choice), index=choice.index))
        verdict = replace(combine(verdicts, trace), rules_version=classifier.rules_version)
        judged = Judged(verdict, trace)
    return replace(guard.failure or judged, seconds=guard.seconds)


def _pieces(whole: _T) -> Iterator[_T]:
    for start in range(0, len(whole), PIECE):
        yield whole[start : start + PIECE]
