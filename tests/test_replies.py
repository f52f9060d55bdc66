from __future__ import annotations

import json

import pytest

from demur.classifier import Choice, Trace, classify, explain
from demur.classifier.replies import reply_text
from demur.classifier.trace import ToolCall

NO = "I'm sorry, but I can't help with that."


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("final_answer", {"text": NO}, NO),
        ("sendMessage", {"to": "user", "message": NO}, NO),
        ("reply", NO, NO),
        ("respond-to-user", {"other": NO}, ""),
        ("get_weather", {"text": NO}, ""),
        ("answer", {"text": "  "}, ""),
        ("answer", {"text": 7}, ""),
        ("answer", [NO], ""),
    ],
)
def test_what_a_function_hands_over(name: str, arguments: object, text: str) -> None:
    assert reply_text([ToolCall(name, json.dumps(arguments))]) == text


def test_arguments_that_are_no_json_are_no_reply() -> None:
    assert reply_text([ToolCall("reply", '{"text": '), ToolCall("reply", json.dumps({"text": "Yes."}))]) == "Yes."


def test_a_refusal_in_a_reply_function_is_judged_like_text() -> None:
    call = ToolCall("final_answer", json.dumps({"answer": NO}))
    verdict = classify(Trace(choices=(Choice(tool_calls=(call,)),)))
    assert (verdict.label, verdict.status) == ("hard_refusal", "complete")
    assert any(span.text == "I'm sorry" or "can't help" in span.text for s in verdict.signals for span in s.spans)


def test_any_other_call_is_an_action() -> None:
    call = ToolCall("book_table", json.dumps({"message": NO}))
    assert classify(Trace(choices=(Choice(tool_calls=(call,)),))).status == "tool_call"


def test_text_beside_the_call_is_what_is_judged() -> None:
    call = ToolCall("reply", json.dumps({"text": NO}))
    assert classify(Trace(choices=(Choice(text="Done: the table is booked.", tool_calls=(call,)),))).label == "answer"


def test_the_explanation_is_of_that_reply_too() -> None:
    call = ToolCall("final_answer", json.dumps({"answer": NO}))
    (explained,) = explain(Trace(choices=(Choice(tool_calls=(call,)),))).choices
    assert explained.decided.startswith("row 10: declines in words")
    assert all(NO[hit.span.start : hit.span.end] == hit.span.text for hit in explained.hits)
