from __future__ import annotations

from importlib.resources import files
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.classifier import Choice, Trace, explain
from demur.classifier.judge import default_classifier
from demur.classifier.trace import Ask
from demur.classifier.weights import load_weights
from demur.classifier.wording import READ, UNIT, Wording, load_wording, ngrams, opening_words, read_wording


def hash_of(*words: str) -> int:
    value = 0
    for word in words:
        value = crc32(f"{word} ".encode(), value)
    return value


#: What an n-gram begins with is always known too, be it with 0.
BEGINNINGS = {hash_of("i"): 0, hash_of("the"): 0, hash_of("the", "red"): 0}
NUMBERS = {hash_of("can't"): 256, hash_of("i", "can't"): 512, hash_of("the", "red", "tent"): -128}
WORDING = Wording(BEGINNINGS | NUMBERS, ["en"])


def score(text: str) -> float:
    return WORDING.score(opening_words(text, 0, len(text)))


def test_it_adds_up_what_the_n_grams_have() -> None:
    assert score("I can’t find the RED tent.") == pytest.approx(1 + 2 - 0.5)
    assert score("Nothing known here") == 0


def test_it_shows_the_words_that_spoke_for_a_refusal() -> None:
    text = "Well, I can't find the red tent."
    assert [span.text for span in WORDING.spans(opening_words(text, 0, len(text)), text, 0, len(text))] == ["I can't"]


@given(st.text(alphabet="abc' ’.I\n☃가各", max_size=60), st.integers(0, 5))
def test_the_score_is_the_sum_over_the_n_grams(text: str, start: int) -> None:
    start = min(start, len(text))
    numbers = {hash: n + 1 for n, (hash, _, _) in enumerate(ngrams(text, start, len(text)))}
    wording = Wording({hash: number % 7 for hash, number in numbers.items()}, [])
    total = sum(wording.numbers.get(hash, 0) for hash, _, _ in ngrams(text, start, len(text))) * UNIT
    assert wording.score(opening_words(text, start, len(text))) == pytest.approx(min(6, total))


def test_more_than_the_beginning_is_not_read() -> None:
    text = "a " * (READ // 2) + "I can't"
    assert score(text) == 0


def test_half_a_pair_of_surrogates_does_no_harm() -> None:
    assert score("I can't \ud83d say") == 3


def test_the_file_has_languages_and_numbers() -> None:
    wording = read_wording("# languages: en ko\n# more\n1f -3\na 12\n")
    assert wording.languages == {"en", "ko"}
    assert wording.numbers == {0x1F: -3, 0xA: 12}


def test_what_ships_is_small_and_knows_three_languages() -> None:
    wording = load_wording()
    assert wording.languages == {"en", "ko", "fr"}
    assert len(wording.numbers) > 1000
    assert len(files("demur.classifier").joinpath("wording.txt").read_bytes()) < 2**20


def test_it_never_flags_by_itself() -> None:
    text = "The tulips are in the garden and the roses are not."
    trace = Trace(ask=Ask("Where are they?"), choices=(Choice(text=text),))
    certain = Wording({hash_of("tulips"): 6 * 256}, ["en"])
    plain, swayed = (
        default_classifier().with_numbers(load_weights(), wording).classify(trace) for wording in (WORDING, certain)
    )
    assert plain.label == swayed.label == "answer"
    assert plain.confidence is not None
    assert swayed.confidence is not None
    assert swayed.confidence < plain.confidence  # it says that the rules may have missed something


def test_its_say_is_told_with_the_rules() -> None:
    explanation = explain("I can't help with that.")
    (signal,) = (s for s in explanation.verdict.signals if s.name == "learned_wording")
    assert signal.spans
    assert explanation.choices[0].points["learned_wording"] > 0
