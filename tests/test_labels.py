from __future__ import annotations

import pytest
from exchanges import exchange

from demur.proxy.labels import OTHER, LabelCap, clip, error_type, operation_of, route_of


@pytest.mark.parametrize(
    ("api", "path", "route"),
    [
        ("openai.chat", "/v1/chat/completions", "/v1/chat/completions"),
        ("openai.chat", "/chat/completions", "/chat/completions"),
        ("openai.chat", "/openai/deployments/mine/chat/completions", "/{prefix}/chat/completions"),
        ("anthropic.messages", "/v1/messages", "/v1/messages"),
        ("ollama.chat", "/api/chat", "/api/chat"),
        ("gemini", "/v1beta/models/gemini-9:streamGenerateContent", "/{prefix}/models/{model}:generateContent"),
        ("an.unknown.api", "/v1/somewhere", None),
        (None, "/v1/models", "/v1/models"),
        (None, "/v1/files/file-123/content", "/v1/files/{path}"),
        (None, "/v1/someone/else", None),
        (None, "/wp-login.php", None),
        (None, "/", None),
    ],
)
def test_a_route_never_holds_what_varies(api: str | None, path: str, route: str | None) -> None:
    assert route_of(api, path) == route


def test_operations_are_named_as_the_conventions_do() -> None:
    apis = ("openai.chat", "openai.responses", "anthropic.messages", "openai.completions", "gemini")
    assert [operation_of(api) for api in apis] == ["chat", "chat", "chat", "text_completion", "generate_content"]


@pytest.mark.parametrize(
    ("end", "status", "expected"),
    [
        ("complete", 200, None),
        ("complete", 429, "429"),
        ("complete", 503, "503"),
        ("idle_timeout", 200, "idle_timeout"),
        ("upstream_error", 502, "upstream_error"),
        ("client_disconnect", None, "client_disconnect"),
    ],
)
def test_error_type(end: str, status: int | None, expected: str | None) -> None:
    assert error_type(exchange(end=end, status_code=status, verdict=None)) == expected


def test_a_refusal_is_no_error_even_as_http_400() -> None:
    assert error_type(exchange(status_code=400)) is None
    assert error_type(exchange(end="idle_timeout")) == "idle_timeout"


def test_the_first_values_keep_their_label_and_the_rest_share_one() -> None:
    cap = LabelCap(2)
    assert [cap(v) for v in ("a", "b", "c", "a", "d", None, "")] == ["a", "b", OTHER, "a", OTHER, "", ""]


def test_an_endless_value_does_not_take_a_place() -> None:
    cap = LabelCap(1)
    assert cap("m" * 10_000) == OTHER
    assert cap("a") == "a"


def test_clip_bounds_and_makes_encodable() -> None:
    assert clip("abcdef", 3) == "abc"
    assert clip("né\ud800!", 10) == "né?!"
    assert LabelCap(9)("x\udfff") == "x?"
