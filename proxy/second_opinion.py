"""A second opinion on verdicts that are not sure: asked for in the background, once the exchange has ended.

By then the client has the whole response, so nothing here can delay, change or fail it. Who gives the opinion is not
known here; what it says, and what becomes of its faults, goes to the observers of the exchange as a reviewed verdict.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from demur.classifier.doubt import is_unsure
from demur.classifier.replies import judged_text
from demur.classifier.trace import Trace
from demur.classifier.verdict import Review, Verdict
from demur.proxy.logs import Seldom
from demur.proxy.observe import Exchange

logger = logging.getLogger("demur.second_opinion")

#: Verdicts that may wait to be reviewed, and the characters of their texts, those being read included. Beyond either
#: the newest are dropped: at one second a review and four at a time, a thousand are four minutes behind.
QUEUE_LIMIT = 1000
CHARACTERS_LIMIT = 8_000_000
#: Seconds that breaking off may take at the end.
CLOSE_SECONDS = 2.0

Tell = Callable[[Verdict], None]


class SecondOpinionError(Exception):
    """There is no second opinion. The message says why, and is written to the program's log: no texts in it."""


class SecondOpinion(Protocol):
    """Who reads a trace and our verdict, and returns the verdict to report. It has time limits of its own; whoever made
    it closes it."""

    @property
    def name(self) -> str: ...

    async def __call__(self, trace: Trace, verdict: Verdict) -> Verdict:
        """The verdict that stands, with its `review`; without one if there was nothing to say. May raise
        SecondOpinionError."""
        ...


class Reviews:
    """The verdicts that wait for a second opinion, and those being read: at most `workers` at a time.

    Offered is every ended exchange; taken are those whose verdict is not sure (`doubt.is_unsure`) and that have a text.
    `dropped` counts those for which the queue was full or time was up at the end.
    Lives in one event loop.
    """

    def __init__(self, opinion: SecondOpinion, *, below: float, workers: int) -> None:
        self.dropped = 0
        self._opinion = opinion
        self._below = below
        self._limit = workers
        self._waiting: deque[tuple[Trace, Verdict, Tell]] = deque()
        self._characters = 0
        self._workers: set[asyncio.Task[None]] = set()
        self._closed = False
        self._seldom = Seldom()

    def offer(self, exchange: Exchange, tell: Tell) -> None:
        """Returns at once. If `exchange` is reviewed, `tell` gets the verdict that stands then."""
        trace, verdict = exchange.trace, exchange.verdict
        if (
            trace is None
            or verdict is None
            or not is_unsure(verdict, self._below)
            or not any(map(judged_text, trace.choices))
        ):
            return
        size = _size(trace)
        if self._closed or len(self._waiting) >= QUEUE_LIMIT or self._characters + size > CHARACTERS_LIMIT:
            self.dropped += 1
            if not self._closed and self._seldom.due("dropped"):
                words = "%s does not keep up: verdicts left as they are so far: %d (said once a minute at most)"
                logger.warning(words, self._opinion.name, self.dropped)
            return
        self._characters += size
        self._waiting.append((trace, verdict, tell))
        if sum(not worker.done() for worker in self._workers) < self._limit:
            worker = asyncio.get_running_loop().create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def settled(self) -> None:
        """Returns when nothing waits and nothing is being read."""
        while self._workers:
            await asyncio.wait(self._workers)

    async def aclose(self) -> None:
        """Drops what is still open, and counts it; takes seconds at most. Nothing is taken from then on."""
        self._closed = True
        before = self.dropped
        self.dropped += len(self._waiting)
        self._waiting.clear()
        if self._workers:
            for worker in self._workers:
                worker.cancel()
            await asyncio.wait(self._workers, timeout=CLOSE_SECONDS)
        if lost := self.dropped - before:
            logger.warning("verdicts left as they are, as %s had not read them: %d", self._opinion.name, lost)

    async def _work(self) -> None:
        while self._waiting:
            trace, verdict, tell = self._waiting.popleft()
            try:
                verdict = await self._review(trace, verdict)
                if verdict.review is not None:
                    tell(verdict)
            except asyncio.CancelledError:
                self.dropped += 1
                raise
            finally:
                self._characters -= _size(trace)

    async def _review(self, trace: Trace, verdict: Verdict) -> Verdict:
        """The verdict that stands. If there is no second opinion, it is ours, and its review says so."""
        try:
            return await self._opinion(trace, verdict)
        except Exception as error:
            fault = None if isinstance(error, SecondOpinionError) else error
            reason = type(error).__name__ if fault else str(error)
            if self._seldom.due("failed"):
                words = "no second opinion from %s: %s; traffic is not affected (said once a minute at most)"
                logger.error(words, self._opinion.name, reason, exc_info=fault)
            review = Review(
                self._opinion.name,
                "failed",
                reason=reason,
                rules_label=verdict.label,
                rules_confidence=verdict.confidence,
            )
            return replace(verdict, review=review)


def _size(trace: Trace) -> int:
    """Characters of the texts that a waiting trace keeps in memory."""
    ask = len(trace.ask.prompt) + len(trace.ask.system)
    calls = sum(len(call.arguments) for choice in trace.choices for call in choice.tool_calls)
    return ask + calls + sum(len(choice.text) + len(choice.refusal) for choice in trace.choices)
