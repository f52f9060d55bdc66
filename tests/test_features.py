from __future__ import annotations

from collections import Counter

from demur.classifier.features import LEARNED, NAMES, features
from demur.classifier.judge import default_classifier
from demur.classifier.trace import Ask
from demur.classifier.weights import load_weights


def of(text: str) -> dict[str, float]:
    session = default_classifier().session(Ask())
    session.feed(text)
    return features(session.evidence())


def test_every_number_has_its_weight_and_every_weight_its_number() -> None:
    weights = load_weights()
    for table in (weights.points, weights.worded, weights.shape):
        assert set(table) == {*NAMES, "bias"}


def test_all_numbers_but_the_learned_one_lie_between_0_and_1() -> None:
    for text in ("Fine.", "I can't help with that.", "It is wrong. " * 400, "- a\n- b\n- c\n- d", "1. a\n2. b\n3. c\n"):
        assert all(0 < value <= 1 for name, value in of(text).items() if name != LEARNED), text


def test_a_bare_refusal() -> None:
    numbers = Counter(of("I can't help with that."))
    assert numbers["hard_refusal_lexicon"] >= 0.9
    assert numbers["reserved_share"] == numbers["reserved_first"] == 1
    assert numbers["unreserved"] == numbers["listed"] == numbers["pivot"] == 0


def test_a_turn_counts_unless_it_turns_to_an_objection() -> None:
    assert "pivot" in of("I can't see it. That said, here is how it works: pull, then push.")
    assert "pivot" not in of("I can't see it. That said, stealing is illegal and wrong.")


def test_a_list_is_seen() -> None:
    assert of("Take:\n- one\n- two\n- three\n")["listed"] == 1
