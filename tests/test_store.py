from __future__ import annotations

from demur.classifier.verdict import Verdict
from demur.proxy.store import PENDING, VerdictStore, new_id

ANSWER = Verdict(label="answer", status="complete")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def held(store: VerdictStore) -> int:
    """Entries in memory, whether they can still be looked up or not."""
    return len(store._pending) + len(store._done)


def test_an_exchange_is_pending_until_its_verdict_arrives() -> None:
    store = VerdictStore(ttl=60, keep=10)
    assert store.get("a") is None
    store.pending("a")
    assert store.get("a") is PENDING
    store.put("a", ANSWER)
    assert store.get("a") is ANSWER
    assert held(store) == 1


def test_a_verdict_expires_and_is_forgotten() -> None:
    clock = Clock()
    store = VerdictStore(ttl=60, keep=10, clock=clock)
    store.put("a", ANSWER)
    clock.now += 59
    assert store.get("a") is ANSWER
    clock.now += 1
    assert store.get("a") is None
    store.put("b", ANSWER)
    assert held(store) == 1


def test_a_running_exchange_does_not_age() -> None:
    clock = Clock()
    store = VerdictStore(ttl=60, keep=10, clock=clock)
    store.pending("long")
    clock.now += 1200
    assert store.get("long") is PENDING
    store.put("long", ANSWER)
    clock.now += 59
    assert store.get("long") is ANSWER


def test_the_oldest_verdict_goes_first_when_full() -> None:
    store = VerdictStore(ttl=60, keep=3)
    store.pending("running")
    for id in ("a", "b", "c", "d"):
        store.put(id, ANSWER)
    assert [store.get(id) for id in ("running", "a", "b", "c", "d")] == [PENDING, None, ANSWER, ANSWER, ANSWER]


def test_a_crowd_of_running_exchanges_is_bounded_and_pushes_no_verdict_out() -> None:
    store = VerdictStore(ttl=60, keep=3)
    store.put("done", ANSWER)
    for id in "abcde":
        store.pending(id)
    assert held(store) == 4
    assert store.get("a") is None
    assert store.get("done") is ANSWER
    store.put("a", ANSWER)
    assert store.get("a") is ANSWER


def test_a_second_verdict_replaces_the_first_and_renews_it() -> None:
    clock = Clock()
    store = VerdictStore(ttl=60, keep=10, clock=clock)
    store.put("a", ANSWER)
    clock.now += 40
    refusal = Verdict(label="hard_refusal", status="complete")
    store.put("a", refusal)
    clock.now += 40
    assert store.get("a") is refusal
    assert held(store) == 1


def test_ids_are_long_distinct_and_plain() -> None:
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(id) == 32 and id.isalnum() and id.isascii() for id in ids)
