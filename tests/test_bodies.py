"""Recognising an API by the keys of a body, and an error in any spelling."""

from __future__ import annotations

from typing import Any

import pytest
from conversations import PAIRS

from demur.classifier.bodies import error_of, read_event, read_into, reader_of
from demur.classifier.draft import Draft

APIS = {
    "chat": "openai.chat",
    "legacy": "openai.completions",
    "responses": "openai.responses",
    "anthropic": "anthropic.messages",
    "gemini": "gemini",
}


@pytest.mark.parametrize("name", PAIRS)
def test_known_bodies(name: str) -> None:
    assert reader_of(PAIRS[name][0])[0] == APIS.get(name.split(",")[0])


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"choices": ["a", "b"]},
        {"choices": "a"},
        {"output": "text"},
        {"output": [{"type": "message"}]},
        {"output": ["text"], "status": "ok"},
        {"output": {"message": "text"}},
        {"content": [{"type": "text", "text": "x"}]},
        {"type": "message", "content": "x"},
        {"candidates": "x"},
        {"candidates": ["a", "b"]},
        {"done": True},
        {"message": {"content": "x"}},
        {"prompt": "p", "response": "r"},
    ],
)
def test_bodies_of_no_api(body: dict[str, Any]) -> None:
    assert reader_of(body) == (None, None)
    draft = Draft()
    read_into(body, draft)
    assert (draft.readable, draft.unread, draft.choices) == (False, 1, {})


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"error": {"code": 1}}, {"code": 1}),
        ({"error": "boom", "code": 2}, {"error": "boom", "code": 2, "message": "boom"}),
        ({"error": [{"code": 3}]}, {"code": 3}),
        ({"errors": [{"code": 3}, {"code": 4}]}, {"code": 3}),
        ({"object": "error", "message": "x"}, {"object": "error", "message": "x"}),
        ({"type": "error", "error": {"type": "x"}}, {"type": "x"}),
        ({"code": 5, "message": "x"}, {"code": 5, "message": "x"}),
        ({"code": 5, "msg": "x"}, {"code": 5, "msg": "x"}),
        ({"base_resp": {"status_code": 6, "status_msg": "x"}}, {"status_code": 6, "message": "x"}),
        ({"error": None}, None),
        ({"error": {}}, None),
        ({"error": ""}, None),
        ({"error": False, "errors": []}, None),
        ({"error": 5}, None),
        ({"base_resp": {"status_code": 0}}, None),
        ({"code": 0, "message": {"content": "x"}}, None),
    ],
)
def test_errors(body: dict[str, Any], error: dict[str, Any] | None) -> None:
    assert error_of(body) == error


def test_an_http_error_is_one_whatever_it_holds() -> None:
    draft = Draft()
    read_into(PAIRS["chat"][0], draft, 500)
    assert (draft.choices, draft.readable) == ({}, True)


def test_events_by_type_and_by_name() -> None:
    draft = Draft()
    read_event({"type": "ping"}, "ping", draft)
    assert (draft.api, draft.readable, draft.unread) == ("anthropic.messages", True, 0)
    draft = Draft()
    read_event({"type": "keepalive"}, None, draft)
    assert (draft.readable, draft.unread) == (False, 1)
    draft = Draft()
    read_event({"whatever": 1}, "error", draft)
    assert draft.readable
