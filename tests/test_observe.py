from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from exchanges import exchange

from demur.classifier.verdict import Review, Verdict
from demur.proxy.observe import Exchange, Observers
from demur.proxy.store import PENDING, VerdictStore


class Sink:
    def __init__(self, *, broken: bool = False) -> None:
        self.seen: list[Exchange] = []
        self.reviews: list[Exchange] = []
        self.broken = broken

    def ended(self, exchange: Exchange) -> None:
        if self.broken:
            raise RuntimeError("disk full")
        self.seen.append(exchange)

    def reviewed(self, exchange: Exchange) -> None:
        if self.broken:
            raise RuntimeError("disk full")
        self.reviews.append(exchange)


class Reviewer:
    """Takes what is offered; fails if it is told to."""

    def __init__(self, *, broken: bool = False) -> None:
        self.offered: list[tuple[Exchange, Callable[[Verdict], None]]] = []
        self.broken = broken

    def offer(self, exchange: Exchange, tell: Callable[[Verdict], None]) -> None:
        if self.broken:
            raise RuntimeError("no")
        self.offered.append((exchange, tell))


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


def test_a_review_reaches_store_and_sinks_under_the_id_of_the_exchange() -> None:
    sink, reviewer, store = Sink(), Reviewer(), VerdictStore(ttl=10, keep=10)
    observers = Observers([Sink(broken=True), sink], store=store, reviewer=reviewer)
    observers.began()
    it = exchange()
    observers.ended(it, None)
    ((offered, tell),) = reviewer.offered
    assert (offered, observers.idle.is_set()) == (it, True)
    stands = Verdict("answer", "complete", 0.8, review=Review("gpt-y", "coded", "answer"), id="another")
    tell(stands)
    assert sink.seen == [it]
    assert sink.reviews == [replace(it, verdict=replace(stands, id="id-1"))]
    assert store.get("id-1") == replace(stands, id="id-1")


def test_a_reviewer_that_fails_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    sink = Sink()
    observers = Observers([sink], reviewer=Reviewer(broken=True))
    observers.began()
    observers.ended(exchange(), None)
    assert len(sink.seen) == 1
    assert observers.idle.is_set()
    assert "second opinion failed" in caplog.text


def test_what_fails_gives_nothing() -> None:
    def fails() -> int:
        raise ValueError

    assert Observers().attempt("x", fails) is None
    assert Observers().attempt("x", lambda: 1) == 1
