"""Verdicts waiting to be looked up by id, for clients of streams (`GET /-/verdicts/{id}`).

Used from the event loop only (no lock); every operation is O(1), amortised.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from enum import Enum

from demur.classifier.verdict import Verdict


class Pending(Enum):
    """What the store answers while the exchange still runs."""

    PENDING = "pending"


PENDING = Pending.PENDING


def new_id() -> str:
    """An unguessable exchange id: 128 random bits as 32 hex digits."""
    return secrets.token_hex(16)


class VerdictStore:
    """Keeps each verdict `ttl` seconds after its exchange ended, and at most `keep` of them; the oldest goes first.

    Running exchanges do not age; at most `keep` of them are known as pending, beside the verdicts, so that a crowd of
    long streams does not push finished verdicts out. `clock` gives seconds.
    """

    def __init__(self, *, ttl: float, keep: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._ttl = ttl
        self._keep = keep
        self._clock = clock
        # Both in order of arrival, the oldest first: expiry and eviction only ever look at the first.
        self._pending: dict[str, None] = {}
        self._done: dict[str, tuple[float, Verdict]] = {}

    def pending(self, id: str) -> None:
        self._pending[id] = None
        if len(self._pending) > self._keep:
            del self._pending[next(iter(self._pending))]

    def put(self, id: str, verdict: Verdict) -> None:
        self._pending.pop(id, None)
        self._done.pop(id, None)
        self._done[id] = (self._clock() + self._ttl, verdict)
        self._forget()

    def get(self, id: str) -> Verdict | Pending | None:
        """The verdict, `PENDING` while the exchange runs, None when the id is unknown, expired or evicted."""
        if id in self._pending:
            return PENDING
        expires, verdict = self._done.get(id, (0.0, None))
        return verdict if verdict is not None and expires > self._clock() else None

    def _forget(self) -> None:
        now = self._clock()
        while self._done:
            oldest = next(iter(self._done))
            if len(self._done) <= self._keep and self._done[oldest][0] > now:
                return
            del self._done[oldest]
