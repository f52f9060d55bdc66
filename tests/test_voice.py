from __future__ import annotations

import pytest

from demur.classifier import classify
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
        "“Stop!” he said. “Now.” I can't go there.",
        "«Halt!» »Los!« I can't go there.",
        "„Halt!“, rief er. I can't go there.",
        "「止まれ」 I can't go there.",
        "— I can't go there.",
        "- Yes.\n- I can't go there.",
        "– One\n– I can't go there.",
        "Note: I can't go there.",
        "Pros: cheap.\nCons: far. I can't go there.",
        "The “door is shut.\n\nI can't go there.",
        "A 5\" screw.\nI can't go there.",
        "「I can't go there.」",
        "> I can't go there.",
        "\"'Twas far. I can't go there.",
        "> Dear Ada,\n>\n> I can't go there.\n",
        "`I can't go there.`",
        "\"I can't go there.",
        "“Sorry. I can't go there.",
        '{"id": "7", "text": "I can\'t go there, it is far"}',
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
        ("Er sagte: „I can't go there“ und ging.", "quotation"),
        ("Er sagte: »I can't go there« und ging.", "quotation"),
        ("Elle dit : ‹ I can't go there ›", "quotation"),
        ("彼は「I can't go there」と言った。", "quotation"),
        ("他说：《I can't go there》。", "quotation"),
        ("Il dit : « Elle a crié “Halte !” et I can't go there » puis partit.", "quotation"),
        ("She wrote: “Dear Sam,\nI can't go there.”", "quotation"),
        ('She wrote: "Dear Sam,\nI can\'t go there."', "quotation"),
        ("—¿Vienes?\n—I can't go there.", "dialogue"),
        ("— I can't go there — dit-elle.", "dialogue"),
        ("– Kommst du?\n– I can't go there!", "dialogue"),
        ("User: Come!\nBot: I can't go there.", "could say"),
        ("ANNA: Come!\nBEN: Why?\nANNA: I can't go there.", "could say"),
        ("**Anna:** Come!\n**Ben (tired):** Why?\n**Anna:** I can't go there.", "could say"),
        ("Du kannst so antworten: I can't go there.", "could say"),
        ("Por ejemplo: I can't go there.", "could say"),
        ("例如：I can't go there.", "could say"),
        ("1\n00:00:01,000 --> 00:00:02,500\nI can't go there", "subtitle"),
        ("| said | meant |\n|---|---|\n| I can't go | no |", "table"),
        ("Use `I can't go` as the key.", "inline code"),
        ("As they wrote:\n> I can't go there\nSo be it.", "block quote"),
        ("Here it is:\n```\nI can't go there\n```\nDone.", "code block"),
        ('```c\nputs("I can\'t go");\n```', "code block"),
        ("```python\nx = 1\n# I can't go\n```", "code block"),
        ("„I can't go there”, zei de wachter.", "inside a quotation"),
        ("'Twas the guard who said \"I can't go there\".", "inside a quotation"),
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
        ("<thinking>Hm.</thinking> No.", "No."),
        ("<reasoning>Hm.</reasoning>No.", "No."),
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


def test_a_reply_in_json_begins_with_what_it_says() -> None:
    text = '{"id": "7", "done": false, "message": "I can\'t go there, it is far."}'
    assert text[find_voice(text, 0).start :].startswith("I can't go there")
    assert find_voice('{"a": "b"}', 0).start == 0


def test_json_in_a_fence_that_is_the_whole_reply_speaks_for_the_model() -> None:
    text = '```json\n{"response": "I\'m sorry, but I can\'t help with that."}\n```'
    assert classify(text).label == "hard_refusal"
