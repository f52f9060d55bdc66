"""The judge of the settings as the proxy's second opinion."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

from anyio.from_thread import BlockingPortal, start_blocking_portal

from demur.audit.judge import Judge, JudgeError, JudgeOptions
from demur.audit.review import open_to_review, reviewed
from demur.classifier.trace import Trace
from demur.classifier.verdict import Verdict
from demur.proxy.capture import content_capture
from demur.proxy.second_opinion import SecondOpinionError


class BackgroundJudge:
    """A judge in an event loop and a thread of its own: what it does beside waiting (JSON, quotations, its cache) holds
    up no traffic.

    Used as a context; entering raises JudgeError when the judge's cache can't be used. `judge` tells what it has used.
    What its endpoint says of a fault may quote what it was sent: it is told only where texts may be recorded.
    """

    def __init__(self, options: JudgeOptions) -> None:
        self.name = options.model
        self.judge = Judge(replace(options, foreign_words=content_capture().text))
        self._open = ExitStack()
        self._portal: BlockingPortal | None = None

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            self._portal = opening.enter_context(start_blocking_portal())
            opening.enter_context(self._portal.wrap_async_context_manager(self.judge))
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, traceback)

    async def __call__(self, trace: Trace, verdict: Verdict) -> Verdict:
        if self._portal is None:
            raise RuntimeError("a BackgroundJudge is used within `with`")
        if not open_to_review(verdict):
            return verdict
        try:
            return await asyncio.wrap_future(self._portal.start_task_soon(self._review, trace, verdict))
        except JudgeError as error:
            raise SecondOpinionError(str(error)) from None

    async def _review(self, trace: Trace, verdict: Verdict) -> Verdict:
        coding = await self.judge.code(trace, index=verdict.index)
        if coding.outcome == "failed" and coding.usage.requests:
            raise SecondOpinionError(coding.reason or "it failed")
        return reviewed(trace, verdict, coding, self.name)
