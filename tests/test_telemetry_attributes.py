from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from exchanges import REFUSAL, TRACE, exchange
from msgspec import structs

from demur.classifier.trace import Choice, ToolCall
from demur.classifier.verdict import FEATURES, Verdict
from demur.proxy.telemetry_attributes import (
    LIST_LIMIT,
    PARAMETERS_LIMIT,
    TEXT_LIMIT,
    content_attributes,
    request_attributes,
    response_attributes,
    verdict_attributes,
)


@pytest.mark.parametrize(
    ("request_body", "expected"),
    [
        ({}, {}),
        ({"temperature": 1, "n": 3}, {"temperature": 1.0, "choice.count": 3}),
        ({"max_completion_tokens": 5, "seed": -1}, {"max_tokens": 5, "seed": -1}),
        ({"max_output_tokens": 5, "input": "x"}, {"max_tokens": 5}),
        ({"n": 1}, {}),
        ({"temperature": None, "top_p": "0.5", "max_tokens": True, "seed": 1.5, "n": [2]}, {}),
        (
            {"generationConfig": {"temperature": 0.2, "topP": 0.9, "maxOutputTokens": 7, "candidateCount": 2}},
            {"temperature": 0.2, "top_p": 0.9, "max_tokens": 7, "choice.count": 2},
        ),
        ({"inferenceConfig": {"maxTokens": 7, "temperature": 0}}, {"max_tokens": 7, "temperature": 0.0}),
        ({"options": {"num_predict": 7, "seed": 1}}, {"max_tokens": 7, "seed": 1}),
        ({"options": None, "temperature": 0.5}, {"temperature": 0.5}),
    ],
)
def test_request_parameters_of_every_api(request_body: dict[str, Any], expected: dict[str, Any]) -> None:
    found = request_attributes(json.dumps(request_body).encode())
    assert found == {f"gen_ai.request.{key}": value for key, value in expected.items()}
    assert [type(v) for v in found.values()] == [type(v) for v in expected.values()]


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
def test_a_conversation_is_named(conversation: object) -> None:
    body = json.dumps({"conversation": conversation}).encode()
    assert request_attributes(body) == {"gen_ai.conversation.id": "conv_1"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"[1]",
        b"\xff\xfe",
        b'{"temperature": 1',
        b'{"options": 5}',
        b'{"seed": 1e999}',
        b"[" * 100_000,
    ],
)
def test_an_unreadable_body_has_no_parameters(body: bytes) -> None:
    assert request_attributes(body) == {}


def test_a_huge_body_is_not_decoded_again() -> None:
    body = b'{"temperature": 1, "x": "' + b"x" * PARAMETERS_LIMIT + b'"}'
    assert request_attributes(body) == {}


def test_lists_are_bounded_and_without_repeats() -> None:
    signals = tuple(structs.replace(REFUSAL.signals[0], rule=f"r{n}") for n in range(100))
    found = verdict_attributes(replace(REFUSAL, signals=signals))
    assert found["refusal.rules"] == [f"r{n}" for n in range(LIST_LIMIT)]
    assert found["refusal.signals"] == ["refusal_phrase"]


def test_a_response_without_a_label_has_a_status_and_no_verdict() -> None:
    assert verdict_attributes(Verdict(label=None, status="empty", rules_version="1", id="i")) == {
        "refusal.id": "i",
        "refusal.status": "empty",
        "refusal.classifier.name": "demur-rules",
        "refusal.classifier.version": "1",
    }


def test_an_answer_is_not_a_refusal() -> None:
    found = verdict_attributes(Verdict(label="answer", status="complete", features={"apology": False}))
    assert (found["refusal.is_refusal"], found["refusal.action"], found["refusal.features"]) == (
        False,
        "full_compliance",
        [],
    )


def test_the_layers_are_strings_and_the_features_a_list_of_names_or_absent() -> None:
    found = verdict_attributes(REFUSAL)
    layers = {name: found.get(f"refusal.{name}") for name in ("rationale", "strategy", "features")}
    assert layers == {"rationale": "policy", "strategy": "explicit", "features": ["apology", "negative_stance"]}
    bare = verdict_attributes(replace(REFUSAL, features=dict.fromkeys(FEATURES, False)))
    assert bare["refusal.features"] == []
    uncoded = verdict_attributes(Verdict(label="shaped", status="complete"))
    assert not {"refusal.rationale", "refusal.strategy", "refusal.features"} & uncoded.keys()


def test_finish_reasons_are_those_that_were_given() -> None:
    choices = (Choice(finish_reason="stop"), Choice(index=1), Choice(index=2, finish_reason="length"))
    found = response_attributes(exchange(trace=replace(TRACE, choices=choices)))
    assert found["gen_ai.response.finish_reasons"] == ["stop", "length"]


def test_captured_content_is_bounded_valid_json_and_knows_tool_calls() -> None:
    calls = (ToolCall("look_up", '{"a": 1}'),)
    choice = Choice(text="\ud800" + "y" * 2 * TEXT_LIMIT, finish_reason="tool_calls", tool_calls=calls)
    found = content_attributes(exchange(trace=replace(TRACE, choices=(choice,))))
    (message,) = json.loads(str(found["gen_ai.output.messages"]))
    text, call = message["parts"]
    assert text["content"] == "?" + "y" * (TEXT_LIMIT - 1)
    assert call == {"type": "tool_call", "name": "look_up", "arguments": '{"a": 1}'}
    assert message["finish_reason"] == "tool_calls"
    assert json.loads(str(found["gen_ai.system_instructions"])) == [{"type": "text", "content": "guard the zebra"}]


def test_content_of_an_exchange_without_an_answer() -> None:
    found = content_attributes(exchange(trace=None, verdict=None))
    assert found["gen_ai.output.messages"] == "[]"
    assert "refusal.evidence" not in found
