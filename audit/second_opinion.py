"""The judge as the tie-breaker of `classify`: asked only where the rules are not sure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from threading import Lock
from types import TracebackType
from typing import Self

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal

from demur.audit.judge import Judge, JudgeOptions
from demur.audit.review import reviewed
from demur.classifier.doubt import is_unsure
from demur.classifier.trace import Trace
from demur.classifier.verdict import Verdict

Pair = tuple[Trace, Verdict]


class SecondOpinion:
    """Asks a judge about verdicts whose confidence is below `below` (0 to 1; 1: about all), and returns the verdict to
    report.

    Synchronous; the asking is done by an event loop in a thread of its own. `asked` counts the verdicts about which the
    judge, or its cache, was really asked.

        with SecondOpinion(JudgeOptions(url, model), below=0.7) as judge:
            classify(trace, judge=judge)

    Raises JudgeError for what makes every call fail; a judge that fails otherwise leaves the rules' verdict as it is.
    """

    def __init__(self, options: JudgeOptions, below: float, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.judge, self._below = Judge(options, transport), below
        self.asked = 0
        self._open, self._opening = ExitStack(), Lock()
        self._portal: BlockingPortal | None = None

    def __call__(self, trace: Trace, verdict: Verdict) -> Verdict:
        return self.review([(trace, verdict)])[0]

    def review(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """The verdicts to report, in the same order; the judge is asked about several at once."""
        wanted = [at for at, (_, verdict) in enumerate(pairs) if self.wants(verdict)]
        out = [verdict for _, verdict in pairs]
        if wanted:
            for at, verdict in zip(wanted, self._started().call(self._all, [pairs[at] for at in wanted]), strict=True):
                out[at] = verdict
        return out

    def wants(self, verdict: Verdict) -> bool:
        """Whether the judge would be asked about this verdict."""
        return is_unsure(verdict, self._below)

    def close(self) -> None:
        """Ends the thread. A later call starts it again."""
        self._portal = None
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._portal = None
        self._open.__exit__(kind, error, traceback)  # with the error, so that what is under way is cancelled

    def _started(self) -> BlockingPortal:
        with self._opening:
            if self._portal is None:
                with ExitStack() as stack:
                    portal = stack.enter_context(start_blocking_portal())
                    stack.enter_context(portal.wrap_async_context_manager(self.judge))
                    self._open, self._portal = stack.pop_all(), portal
            return self._portal

    async def _all(self, pairs: Sequence[Pair]) -> list[Verdict]:
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(self._one(*pair)) for pair in pairs]
        except ExceptionGroup as errors:  # the first ends them all
            raise errors.exceptions[0] from None
        return [task.result() for task in running]

    async def _one(self, trace: Trace, verdict: Verdict) -> Verdict:
        coding = await self.judge.code(trace, index=verdict.index)
        self.asked += bool(coding.usage.requests or coding.usage.cached)
        return reviewed(trace, verdict, coding, self.judge.name)
