from __future__ import annotations

import pytest
from exchanges import exchange

from demur.classifier.verdict import Verdict
from demur.proxy.observe import Exchange, Observers
from demur.proxy.store import PENDING, VerdictStore


class Sink:
    def __init__(self, *, broken: bool = False) -> None:
        self.seen: list[Exchange] = []
        self.broken = broken

    def ended(self, exchange: Exchange) -> None:
        if self.broken:
            raise RuntimeError("disk full")
        self.seen.append(exchange)


def test_every_sink_hears_of_an_exchange_once_whatever_another_does(caplog: pytest.LogCaptureFixture) -> None:
    first, last = Sink(), Sink()
    store = VerdictStore(ttl=10, keep=10)
    observers = Observers([first, Sink(broken=True), last], store=store)
    assert observers.idle.is_set()
    for _ in range(3):
        observers.began()
    assert (observers.in_flight, observers.idle.is_set()) == (3, False)
    record = exchange()
    for _ in range(3):
        observers.ended(record, None)
    assert first.seen == last.seen == [record] * 3
    assert (observers.in_flight, observers.idle.is_set()) == (0, True)
    assert caplog.text.count("Sink failed") == 1  # not for every request


def test_a_verdict_can_be_looked_up_before_the_exchange_has_ended() -> None:
    store = VerdictStore(ttl=10, keep=10)
    observers = Observers(store=store)
    observers.pending("abc")
    assert store.get("abc") is PENDING
    verdict = Verdict("answer", "complete", id="abc")
    observers.judged(verdict)
    assert store.get("abc") == verdict


def test_what_fails_gives_nothing() -> None:
    def fails() -> int:
        raise ValueError

    assert Observers().attempt("x", fails) is None
    assert Observers().attempt("x", lambda: 1) == 1
