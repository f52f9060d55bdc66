from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.classifier.fold import OffsetMap, clean, fold, plain


def test_folding_keeps_the_place_of_every_character_there_is() -> None:
    for start in range(0, sys.maxunicode, 4096):
        text = "".join(map(chr, range(start, min(start + 4096, sys.maxunicode + 1))))
        assert len(fold(text)) == len(text)


@given(st.text(), st.integers(0, 40))
def test_folding_pieces_is_folding_the_whole(text: str, cut: int) -> None:
    assert fold(text[:cut]) + fold(text[cut:]) == fold(text)
    assert clean(text[:cut]) + clean(text[cut:]) == clean(text)


@pytest.mark.parametrize("mark", ["’", "ʼ", "＇", "`", "‘"])
def test_every_apostrophe_is_the_plain_one(mark: str) -> None:
    assert fold(f"I CAN{mark}T") == "i can't"


def test_phrases_cross_a_line_break_but_not_a_paragraph() -> None:
    assert fold("cannot\nhelp") == "cannot help"
    assert fold("cannot\n\nhelp") == "cannot  help"


def test_cleaning_drops_marks_and_undresses_letters() -> None:
    assert clean("I **can\u200bnot** ｈｅｌｐ, _sorry_ \U0001d400") == "I cannot help, sorry A"
    assert clean("plain") == "plain"


@given(st.one_of(st.text(), st.text(alphabet="aŠéÉ’‘“`*_\xad\u200b\xa0\n—…€ " + "\x81\x8d")))
def test_plain_is_clean_and_folded(text: str) -> None:
    assert plain(text) == fold(clean(text))


@given(st.text(alphabet="ab*_\u200b ", max_size=60), st.integers(0, 5), st.integers(1, 20))
def test_spans_lead_back_to_the_original(text: str, begin: int, size: int) -> None:
    begin = min(begin, len(text))
    cleaned, blocks = "", [(0, 0)]
    for at in range(begin, len(text), size):
        cleaned += clean(text[at : at + size])
        blocks.append((len(cleaned), min(at + size, len(text)) - begin))
    places = OffsetMap(text, begin, blocks)
    for at, char in enumerate(cleaned):
        start, end = places.span(at, at + 1)
        assert text[start] == char
        assert end == start + 1


def test_a_span_takes_in_the_marks_inside_it() -> None:
    text = "I **can**not"
    start, end = OffsetMap(text, 0, [(0, 0), (len(clean(text)), len(text))]).span(2, 8)
    assert text[start:end] == "can**not"


def test_marks_of_direction_and_rarer_spaces_say_nothing() -> None:
    assert plain("I\u200e can\u2009not\u200f help") == "i can not help"
    assert plain("لا\u200f أستطيع") == plain("لا أستطيع")


@pytest.mark.parametrize(
    "space", [chr(code) for code in range(sys.maxunicode) if chr(code).isspace() and chr(code) != "\r"]
)
def test_every_space_is_the_plain_one(space: str) -> None:
    assert plain(f"cannot{space}help") == "cannot help"


def test_a_line_end_is_one_space_however_it_is_written() -> None:
    assert plain("cannot\r\nhelp") == plain("cannot\nhelp") == "cannot help"
