from __future__ import annotations

import pytest

from demur.audit.quotations import find, shown

TEXT = "I’m sorry — I **really can't**\n  do that. The “plan” is know-how; no."


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("I'm sorry", ["I’m sorry"]),
        ("i'm SORRY - I", ["I’m sorry — I"]),
        ("I really can't do that.", ["I **really can't**\n  do that."]),
        ('"The "plan" is"', ["The “plan” is"]),
        ("I'm sorry … do that", ["I’m sorry", "do that"]),
        ("sorry [...] the plan?", []),
        ("No", ["no"]),
        ("know how", []),
        ("i'm so", []),
        ("**SORRY** - _I_ really", ["sorry — I **really"]),
        ("____", []),
        ("sorry … ____ … do that", ["sorry", "do that"]),
        ("do this", []),
        ("", []),
        (" … ", []),
    ],
)
def test_a_quotation_is_found_however_it_is_set(quote: str, found: list[str]) -> None:
    assert [TEXT[start:end] for start, end in find(TEXT, quote, 1000)] == found


def test_a_script_without_spaces_is_found_within_its_words() -> None:
    assert find("很抱歉，我不能帮你。", "我不能", 1000) == [(4, 7)]


@pytest.mark.parametrize("before", range(7))
def test_of_a_long_quotation_the_beginning_is_looked_for(before: int) -> None:
    text = "x" * before + "I cannot help with this, because it would endanger people around you." * 9
    ((start, end),) = find(text, text, 12_000)
    assert start == 0
    assert 300 < end <= 400


def test_what_was_not_shown_is_not_quoted() -> None:
    text = f"begin {'a' * 500} middle {'b' * 500} end"
    head, tail = shown(text, 90)
    assert (len(head), len(tail)) == (60, 30)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert find(text, "begin", 90) == [(0, 5)]
    assert [text[start:end] for start, end in find(text, "END", 90)] == ["end"]
    assert find(text, "middle", 90) == []
    assert shown("short", 5) == ("short", "")


def test_signs_of_a_pattern_are_only_signs() -> None:
    assert find("(a+)+$ costs [b].", "(a+)+$ costs [b]", 100) == [(0, 16)]


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        (("_" * 12 + " ") * 12, "_ " * 6 + "z"),
        ("a " + "*** " * 60, "a " + "* " * 60 + "z"),
        ("I can't. " + "Name: ____________ " * 600, "Name: ______ " * 30 + "Nope"),
        ("a" * 12_000, "a" * 400),
    ],
)
def test_no_text_makes_the_search_long(text: str, quote: str) -> None:
    """Each would not end within any patience if what may differ were left to a pattern that backtracks."""
    assert find(text, quote, 12_000) == []


def test_letters_that_fold_to_several_keep_their_place() -> None:
    text = "İ ﬁne Straße: no"
    assert [text[start:end] for start, end in find(text, "STRASSE: No", 100)] == ["Straße: no"]
    assert [text[start:end] for start, end in find(text, "FINE", 100)] == ["ﬁne"]
