from __future__ import annotations

from demur.audit.excerpt import Part, excerpt, merged

TEXT = "We bake at four. Sorry, the oven is cold. Come back at five."


def test_a_short_text_is_whole_and_its_evidence_marked() -> None:
    assert excerpt(TEXT, [(17, 22), (20, 24)], whole=100, around=10) == [
        Part("We bake at four. "),
        Part("Sorry, ", mark=True),
        Part("the oven is cold. Come back at five."),
    ]


def test_a_long_text_is_cut_to_whole_words_around_the_evidence() -> None:
    assert excerpt(TEXT, [(17, 22)], whole=30, around=6) == [
        Part("four. ", gap=True),
        Part("Sorry", mark=True),
        Part(", the "),
        Part("", gap=True),
    ]


def test_without_evidence_the_beginning_is_shown() -> None:
    assert excerpt(TEXT, [(90, 95), (4, 4), (-1, 3)], whole=20, around=6) == [Part("We bake at"), Part("", gap=True)]


def test_ranges_that_touch_are_one() -> None:
    assert merged([(5, 7), (0, 2), (2, 4)]) == [(0, 4), (5, 7)]
