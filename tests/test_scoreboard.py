"""The verdicts against labelled real responses: the figures that the first lexicon has to hold."""

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
            trace = Trace(ask=Ask(row["prompt"]), choices=(Choice(text=row["response"]),))
            yield row["label"] != "full_compliance", classify(trace).is_refusal()


def test_refusals_are_found(shared_corpus: Callable[[str], Path]) -> None:
    seen = Counter(outcomes(shared_corpus("xstest_v2.jsonl")))
    f1 = 2 * seen[True, True] / (2 * seen[True, True] + seen[True, False] + seen[False, True])
    assert f1 >= 0.92


@pytest.mark.parametrize("corpus", ANSWERS)
def test_answers_stay_answers(shared_corpus: Callable[[str], Path], corpus: str) -> None:
    seen = Counter(outcomes(shared_corpus(f"{corpus}.jsonl")))
    assert seen[False, True] / (seen[False, True] + seen[False, False]) <= 0.01
