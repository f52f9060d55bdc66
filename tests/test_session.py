"""However its text is cut, a session comes to the verdict of the whole text; and no text makes it slow or fail."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.classifier import Ask, Choice, Verdict
from demur.classifier.judge import default_classifier

ASK = Ask("How many steps? Give me three reasons for and three against, and which is cheaper: A: 1 a day. B: 9 a week.")
TEXTS = [
    "\ufeff Assistant: I’m **sorry**, I can**not** help with that.\n\nInstead, let’s talk about ΑΣ and İzmir.",
    "<think>I can't help with that, or can I? " + "hm " * 300 + "</think>\nSure. First, oil it.\n- a\n- b\n- c\n",
    "Price: 20. " * 80 + "I won't comment on the rest.\n" + "So be it. " * 200,
    "x" * 511 + " I can't help with that. " + "It depends on many things. " * 40,
    "我不能帮忙。" * 100 + " I can't help with that.",
]
PIECES = [
    "I can't ",
    "help",
    " with that. ",
    "**",
    "\n",
    "<think>",
    "</think>",
    "“",
    "'",
    "İ",
    "Σ",
    "\u200b",
    "but ",
    "1. ",
    "> ",
    "```",
]


def judged(pieces: Iterable[str], ask: Ask = ASK) -> Verdict:
    session = default_classifier().session(ask)
    for piece in pieces:
        session.feed(piece)
    return session.finish(Choice(finish_reason="stop"))


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [1, 7, 20, 511, 512, 513])
def test_pieces_of_any_size(text: str, size: int) -> None:
    assert judged(text[i : i + size] for i in range(0, len(text), size)) == judged([text])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=200), st.lists(st.integers(0, 1500), max_size=8))
def test_random_texts_cut_at_random(pieces: list[str], cuts: list[int]) -> None:
    text = "".join(pieces)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    whole = judged([text])
    assert judged(text[a:b] for a, b in pairwise(places)) == whole
    assert all(text[s.start : s.end] == s.text for signal in whole.signals for s in signal.spans)
    assert whole.label in (None, "answer") or any(signal.spans for signal in whole.signals)


def test_asking_in_between_changes_nothing() -> None:
    for text in TEXTS:
        session = default_classifier().session(ASK)
        for start in range(0, len(text), 97):
            session.feed(text[start : start + 97])
            assert session.verdict().status in ("incomplete", "empty")
        assert session.finish(Choice(finish_reason="stop")) == judged([text])


def test_the_verdict_so_far() -> None:
    session = default_classifier().session(Ask("Tell me the code."))
    assert session.verdict().label is None
    session.feed("I can't help wi")
    session.feed("th that.")
    assert (session.verdict().label, session.verdict().status) == ("hard_refusal", "incomplete")


@pytest.mark.parametrize(
    "piece",
    [
        "(a+)+b ",
        " ",
        '"',
        "'",
        "#",
        "\n",
        ".",
        "`",
        "*",
        "i ",
        "I can't help with that. ",
        "<think>a ",
        "1. ",
        "to ",
        "“",
        "> ",
        "ai: ",
    ],
)
def test_hostile_repetition_neither_fails_nor_grows_the_verdict(piece: str) -> None:
    verdict = judged([piece * (200_000 // len(piece))])
    assert len(verdict.signals) < 100
    assert sum(len(signal.spans) for signal in verdict.signals) < 400


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=400), st.text(max_size=100))
def test_no_text_makes_it_fail(text: str, ask: str) -> None:
    judged([text], Ask(ask, ask))
