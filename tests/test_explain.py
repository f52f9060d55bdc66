from __future__ import annotations

import json

import pytest

from demur.classifier import Choice, Trace, explain

TEXT = "I can't help with that. He said: \"I can't help with that.\""


def test_every_hit_is_told_with_its_reason() -> None:
    (choice,) = explain(TEXT).choices
    told = {(hit.span.start < 24, hit.why_not) for hit in choice.hits if hit.rule == "en.cannot-do-request"}
    assert (True, None) in told
    assert (False, "inside a quotation") in told
    assert all(TEXT[hit.span.start : hit.span.end] == hit.span.text for hit in choice.hits)


def test_the_points_add_up_to_the_confidence() -> None:
    explanation = explain(TEXT)
    confidence = explanation.verdict.confidence
    assert confidence is not None
    odds = sum(explanation.choices[0].points.values())
    assert 1 / (1 + 2.718281828**-odds) == pytest.approx(confidence, abs=0.005)


def test_each_choice_is_explained() -> None:
    explanation = explain(Trace(choices=(Choice(text="Seven."), Choice(index=1, text=TEXT))))
    assert [choice.verdict.label for choice in explanation.choices] == ["answer", "hard_refusal"]


def test_it_is_ready_for_json_even_without_text() -> None:
    for trace in (TEXT, Trace(problem="unparsed"), Trace(choices=(Choice(blocked_by="SAFETY"),))):
        assert json.loads(json.dumps(explain(trace).to_dict()))["verdict"]["schema_version"] == 1
