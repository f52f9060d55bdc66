"""The pragmatic layers, row by row: own wording in every language, each with the codes that a careful reader gives.

A row of `data/layers/<language>.jsonl` has `id`, `response`, `rationale`, `strategy` and `features` (those that are
there), and a `prompt` where it matters. `known_miss` lists the codes that come out wrong today: a fix must take the
mark away.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from demur.classifier.coder import code
from demur.classifier.examples import shows
from demur.classifier.lexicon import LANGUAGES, our_acts
from demur.classifier.rulebook import Rulebook
from demur.classifier.session import Session
from demur.classifier.trace import Ask
from demur.classifier.verdict import FEATURES

DATA = Path(__file__).parent / "data" / "layers"
ROWS = [json.loads(line) for path in sorted(DATA.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines()]

ACTS = [act for language in LANGUAGES for act in our_acts(language)]


@pytest.fixture(scope="module")
def book() -> Rulebook:
    return Rulebook.load()


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_each_row_gets_the_codes_of_a_careful_reader(row: dict[str, Any], book: Rulebook) -> None:
    session = Session(Ask(row.get("prompt", "")), book, 0.5)
    session.feed(row["response"])
    coding = code(session.evidence())
    wrong = {name for name in FEATURES if coding.features[name] != (name in row["features"])}
    wrong |= {"rationale"} if coding.rationale != row["rationale"] else set()
    wrong |= {"strategy"} if coding.strategy != row["strategy"] else set()
    assert wrong == set(row.get("known_miss", [])), [(c.name, c.rule, [s.text for s in c.spans]) for c in coding.codes]


def test_the_examples_of_every_act_hold(book: Rulebook) -> None:
    wrong = [
        (act.id, wanted, text)
        for act in ACTS
        for wanted, texts in ((True, act.yes), (False, act.no))
        for text in texts
        if shows(act, text, book) is not wanted
    ]
    assert wrong == []


def test_the_ids_of_our_acts_are_unique_and_tell_the_language() -> None:
    assert len({act.id for act in ACTS}) == len(ACTS)
    assert all(act.id.startswith(f"{act.language}.act.") for act in ACTS)
    assert {act.language for act in ACTS} == set(LANGUAGES)
