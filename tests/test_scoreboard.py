"""The verdicts against labelled real responses: the figures that have to hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from demur.classifier import Ask, Choice, Trace, classify

ANSWERS = ("alpaca_eval_answers", "chinese_answers", "coconot_answers", "tool_calls")


def outcomes(file: Path) -> Iterator[tuple[bool, bool]]:
    """For each row: was it declined, wholly or in part; was it flagged."""
    with file.open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            prompt = "" if row.get("query_withheld") else row["prompt"] or ""
            trace = Trace(ask=Ask(prompt), choices=(Choice(text=row["response"]),))
            yield row["label"] != "full_compliance", classify(trace).is_refusal()


#: F1 with partial refusals as declined. Our goals; the numbers saw these rows, so this tells a slip, not how good it is
#: elsewhere (`make fit ARGS="… --check"` tells that).
GOALS = {
    "xstest_v2": 0.95,
    "xstest_response": 0.94,  # label noise: near-identical replies are labelled both ways
    "current_models": 0.93,
    "chatgpt_refusals": 0.88,
    "korean": 0.95,
    "french": 0.945,
    "japanese_answers": 0.95,
    "gold_dev": 0.95,
}


@pytest.mark.parametrize(("corpus", "goal"), GOALS.items())
def test_refusals_are_found(shared_corpus: Callable[[str], Path], corpus: str, goal: float) -> None:
    seen = Counter(outcomes(shared_corpus(f"{corpus}.jsonl")))
    f1 = 2 * seen[True, True] / (2 * seen[True, True] + seen[True, False] + seen[False, True])
    assert f1 >= goal


def test_answers_stay_answers(shared_corpus: Callable[[str], Path]) -> None:
    seen: Counter[tuple[bool, bool]] = Counter()
    for corpus in ANSWERS:
        seen.update(outcomes(shared_corpus(f"{corpus}.jsonl")))
    assert seen[False, True] / (seen[False, True] + seen[False, False]) <= 0.002
