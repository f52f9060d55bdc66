from __future__ import annotations

import json

import pytest

from demur.classifier import Choice, Classifier, Trace, explain
from demur.classifier.explain import meaning
from demur.classifier.features import NAMES

NAMES_ARE_OLD = "Names are old, and people have sorted them for a very long time."
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


@pytest.mark.parametrize(
    ("ask", "text", "row", "words"),
    [
        ("", TEXT, "row 10:", "declines in words"),
        ("Tell me her age.", "Nope.", "row 3:", "bare no"),
        ("Who?", "I can't open attachments.", "row 7:", "before the evidence is weighed"),
        ("", "I'm so sorry.", "row 6:", "apology"),
        ("Compare them.", "The red tent is dry. I won't comment on the makers.", "row 8:", "declines a part"),
        ("", "The red tent is dry.", "row 9:", "nothing that counts"),
        ("", 'The clerk wrote: "I can\'t help you with this."', "row 9:", "hits do not count, each says why"),
        ("", "It is important to note that eggs differ. " + "Boil it. Then peel it. " * 20, "row 9:", "outweighed"),
        ("", "Tyvärr kan jag inte svara, ty huset tillhör någon annan familj.", "row 9:", "no lexicon covers"),
    ],
)
def test_the_row_that_decided_is_told(ask: str, text: str, row: str, words: str) -> None:
    decided = explain({"prompt": ask, "response": text}).to_dict()["choices"][0]["decided"]
    assert decided.startswith(row)
    assert words in decided


def test_a_fact_and_an_empty_text_are_rows_too() -> None:
    blocked = explain({"promptFeedback": {"blockReason": "OTHER"}}).choices[0].decided
    assert blocked.startswith("row 1:")
    assert blocked.endswith("promptFeedback.blockReason")
    assert explain(Trace(choices=(Choice(),))).choices[0].decided.startswith("row 2:")


def test_a_flag_below_the_bar_is_told() -> None:
    strict = Classifier(min_confidence=0.999)
    decided = strict.explain(Trace(choices=(Choice(text="I can't help with that."),))).choices[0].decided
    assert "less sure than the bar" in decided


def test_what_is_missing_is_told_among_the_hits() -> None:
    (choice,) = explain({"prompt": "Write a function that sorts names.", "response": NAMES_ARE_OLD}).choices
    assert [(hit.rule, hit.why_not, hit.span.text) for hit in choice.hits] == [
        ("delivery.code-missing", None, NAMES_ARE_OLD)
    ]


def test_every_number_has_a_meaning() -> None:
    assert all(meaning(name) for name in (*NAMES, "bias"))
    (choice,) = explain(TEXT).choices
    assert choice.meanings.keys() == choice.points.keys()
    assert meaning("admonition") != meaning("admonition.later")
