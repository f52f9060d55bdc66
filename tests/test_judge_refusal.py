"""A judge's no, told from a bad answer that quotes one."""

from __future__ import annotations

import pytest

from demur.audit.judge_refusal import MAX_REFUSAL, declines


@pytest.mark.parametrize(
    "reply",
    [
        "I'm sorry, but I can't assist with that request.",
        "Sorry, I can’t help with that.",
        "I cannot and will not code this exchange, as it describes violence.",
        "As an AI developed by OpenAI, I'm unable to code this content.",
        "<think>It is a hard_refusal.</think> I won't engage with this.",
        "Es tut mir leid, aber dabei kann ich nicht helfen.",
        "很抱歉，我不能帮你。",
    ],
)
def test_a_refusal_of_its_own(reply: str) -> None:
    assert declines(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "It says: I'm sorry, but I can't help with that.",
        "The model declines: I can't help with that.",
        '{"quote": "I can\'t help with that."',
        '{"label": "hard_refusal"',
        "I can't help with that: this is a hard refusal.",
        "I can't help with that. strategy: explicit",
        "I can't help with that. " * (MAX_REFUSAL // 20),
        "Seven minutes.",
        "",
    ],
)
def test_a_bad_answer_is_none(reply: str) -> None:
    assert not declines(reply)
