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
        ("do this", []),
        ("", []),
        (" … ", []),
    ],
)
def test_a_quotation_is_found_however_it_is_set(quote: str, found: list[str]) -> None:
    assert [TEXT[start:end] for start, end in find(TEXT, quote, 1000)] == found


def test_a_script_without_spaces_is_found_within_its_words() -> None:
    assert find("很抱歉，我不能帮你。", "我不能", 1000) == [(4, 7)]


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
