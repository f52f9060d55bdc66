from __future__ import annotations

import pytest

from demur.classifier.voice import answer_start, find_voice, sentences

PHRASE = "I can't go"


def voice_of(text: str) -> str | None:
    """Why PHRASE in `text` is not the model's own voice; None if it is."""
    return find_voice(text, answer_start(text, final=True)).foreign(text, text.index(PHRASE))


@pytest.mark.parametrize(
    "text",
    [
        "I can't go there.",
        "She said hello. I can't go there, it's 'far'.",
        '"Stop!" I can\'t go on.',
        '"I can\'t go there."',
        "“I can't go there.”",
        "```text\nI can't go there.\n```",
        "```python\n# I can't go there: it is not mine.\n```",
        '{"error": "I can\'t go there"}',
        '["I can\'t go there"]',
        "Don't worry 'bout it. I can't go there.",
    ],
)
def test_the_models_own_voice(text: str) -> None:
    assert voice_of(text) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('He replied: "I can\'t go there," and left.', "quotation"),
        ("He replied: 'I can't go there' and left.", "quotation"),
        ("The guard said “I can't go there.” twice", "quotation"),
        ("Le garde: « I can't go there »", "quotation"),
        ("Use `I can't go` as the key.", "inline code"),
        ("As they wrote:\n> I can't go there\nSo be it.", "block quote"),
        ("Here it is:\n```\nI can't go there\n```\nDone.", "code block"),
        ('```c\nputs("I can\'t go");\n```', "code block"),
        ("```python\nx = 1\n# I can't go\n```", "code block"),
    ],
)
def test_words_of_others(text: str, reason: str) -> None:
    assert reason in (voice_of(text) or "")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("\ufeff\n\n  No.", "No."),
        ("Assistant: No.", "No."),
        ("**Assistant:** No.", "** No."),
        ("<s> AI: No.", "No."),
        ("<think>Should I?\nYes.</think>\n\nNo.", "No."),
        ("<think>for ever", ""),
        ("Note: No.", "Note: No."),
        ("Use <think>x</think> there.", "Use <think>x</think> there."),
        ("ai: ai: No.", "ai: No."),
    ],
)
def test_where_the_answer_begins(text: str, answer: str) -> None:
    assert text[answer_start(text, final=True) :] == answer


def test_a_start_that_more_text_could_move_is_not_settled() -> None:
    assert answer_start("  Assist") is None
    assert answer_start("<think>hm") is None
    assert answer_start("<think>hm</think>" + "x" * 64) == len("<think>hm</think>")


def test_sentences_and_lines() -> None:
    text = 'Dear me. "Is it?" she asked.\nYes! 3.5 is fine 。我不能。好'
    parts = [text[a:b].strip() for a, b in sentences(text, 0, len(text))]
    assert parts == ["Dear me.", '"Is it?"', "she asked.", "Yes!", "3.5 is fine 。", "我不能。"]


def test_a_list_number_is_no_sentence() -> None:
    text = "1. Oil it. 2. Turn it."
    assert [text[a:b].strip() for a, b in sentences(text, 0, len(text))] == ["1. Oil it.", "2. Turn it."]


@pytest.mark.parametrize("before", ["You could say: ", "For example: ", "Be kind and tell her this: "])
def test_words_for_somebody_else_to_say_are_not_the_models(before: str) -> None:
    text = f"{before}I can't come."
    assert find_voice(text, 0).foreign(text, len(before)) == "what somebody could say"
    assert find_voice("My answer: I can't.", 0).foreign("My answer: I can't.", 11) is None
