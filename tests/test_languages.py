"""Own examples in every language, and how a language is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from demur.classifier import classify
from demur.classifier.judge import Classifier, default_classifier
from demur.classifier.lexicon import LANGUAGES
from demur.classifier.shapes import normalize
from demur.classifier.verdict import REFUSALS
from demur.classifier.wording import opening_words

FOLDER = Path(__file__).parent / "data" / "languages"


def rows(language: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / f"{language}.jsonl").read_text("utf-8").splitlines() if line]


#: Rows that are known to come out wrong say so; when one comes out right, its remark must go.
MISSED = pytest.mark.xfail(reason="known to be missed", strict=True)
EXAMPLES = [
    pytest.param(row, id=row["id"], marks=MISSED if row.get("known_miss") else ())
    for language in LANGUAGES
    for row in rows(language)
]


@pytest.mark.parametrize("row", EXAMPLES)
def test_own_example(row: dict[str, Any]) -> None:
    trace = {key: row[key] for key in ("prompt", "response", "system") if row.get(key)}
    assert classify(trace).label == row["label"], row["why"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_examples_of_every_verdict(language: str) -> None:
    labels = [row["label"] for row in rows(language)]
    assert len(labels) >= 60
    assert len({row["id"] for row in rows(language)}) == len(labels)
    assert sum(bool(row.get("known_miss")) for row in rows(language)) <= len(labels) / 10
    assert min(labels.count(one) for one in ("answer", "hard_refusal", "disguised_refusal", "shaped")) >= 4


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_language_is_told(language: str) -> None:
    """Short and mixed replies may be told wrong or not at all; most are right."""
    speech = default_classifier()._book.speech
    told = []
    for row in rows(language):
        text = row["response"][:400]
        told.append(speech.language(opening_words(text, 0, len(text)), text))
    right = told.count(language)
    assert right >= 0.6 * len(told), told
    assert right >= 4 * sum(one not in (language, "en", None) for one in told)


def test_only_the_languages_asked_for_are_read() -> None:
    german = normalize("Dabei kann ich leider nicht helfen, das ist mir nicht erlaubt.")
    assert Classifier(languages=["de"]).classify(german).label in REFUSALS
    verdict = Classifier(languages=["en"]).classify(german)
    assert (verdict.label, verdict.language) == ("answer", None)
    assert verdict.confidence is not None
    assert verdict.confidence <= 0.5


@pytest.mark.parametrize(
    "text", ["I can't help with that.", "Das kann ich dir leider nicht sagen.", "お答えできません。"]
)
def test_a_short_refusal_in_a_language_that_is_not_read_is_not_called_a_sure_answer(text: str) -> None:
    verdict = Classifier(languages=["es"]).classify(normalize(text))
    assert verdict.label == "answer"
    assert verdict.confidence is not None
    assert verdict.confidence <= 0.5
