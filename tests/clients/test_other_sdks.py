"""google-genai and ollama behind the proxy give what they give in front of the vendor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ollama
import pytest
from both_ways import Ways, same
from google.genai import Client
from vendor import ANSWER

ASK: Any = [{"role": "user", "content": "Name three fruits."}]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def failure(call: Callable[[], Any]) -> Any:
    with pytest.raises(Exception) as caught:
        call()
    return [type(caught.value).__name__, str(caught.value)]


# google-genai.


def google(url: str) -> Any:
    return Client(api_key="none", http_options={"base_url": url, "timeout": 60_000})


def told(answer: Any) -> Any:
    return answer.model_dump(mode="json", exclude={"sdk_http_response"}, exclude_none=True)


def gemini_answer(url: str) -> Any:
    client = google(url)  # which closes its connections when it goes
    answer = client.models.generate_content(model="answer", contents="Name three fruits.")
    assert answer.text == ANSWER
    return told(answer)


def gemini_stream(url: str) -> Any:
    client = google(url)
    return [told(part) for part in client.models.generate_content_stream(model="answer", contents="Name fruits.")]


def gemini_tools(url: str) -> Any:
    tool = {"name": "weather", "description": "The weather.", "parameters_json_schema": CITY}
    config = {"tools": [{"function_declarations": [tool]}]}
    client = google(url)  # which closes its connections when it goes
    answer = client.models.generate_content(model="tools", contents="Weather?", config=config)
    assert answer.function_calls[0].args == {"city": "Oslo"}
    return told(answer)


def gemini_errors(url: str) -> Any:
    client = google(url)
    ask = client.models.generate_content
    return [
        failure(lambda s=status: ask(model=f"error-{s}", contents="Name fruits."))  # type: ignore[misc]
        for status in (400, 401, 429, 500)
    ]


# ollama.


def ollama_client(url: str) -> Any:
    return ollama.Client(host=url, timeout=60)


def ollama_answer(url: str) -> Any:
    answer = ollama_client(url).chat(model="answer", messages=ASK)
    assert answer.message.content == ANSWER
    return answer.model_dump(mode="json")


def ollama_stream(url: str) -> Any:
    parts = ollama_client(url).chat(model="answer", messages=ASK, stream=True)
    return [part.model_dump(mode="json") for part in parts]


def ollama_tools(url: str) -> Any:
    tool = {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": CITY}}
    return ollama_client(url).chat(model="tools", messages=ASK, tools=[tool]).model_dump(mode="json")


def ollama_errors(url: str) -> Any:
    ask = ollama_client(url).chat
    return [failure(lambda s=status: ask(model=f"error-{s}", messages=ASK)) for status in (400, 401, 429, 500)]  # type: ignore[misc]


SCENARIOS = [
    gemini_answer, gemini_stream, gemini_tools, gemini_errors,
    ollama_answer, ollama_stream, ollama_tools, ollama_errors,
]  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_client_sees_no_difference(ways: Ways, scenario: Callable[[str], Any]) -> None:
    same(ways, scenario)


def test_an_answer_of_gemini_has_the_verdict_in_its_headers(ways: Ways) -> None:
    client = google(ways.proxied)
    answer = client.models.generate_content(model="refusal", contents="Name three fruits.")
    assert answer.sdk_http_response.headers["x-refusal-verdict"] == "hard_refusal"


def test_a_stream_of_gemini_has_the_id_in_its_headers(ways: Ways) -> None:
    client = google(ways.proxied)
    *_, last = client.models.generate_content_stream(model="refusal", contents="Name three fruits.")
    headers = last.sdk_http_response.headers
    assert headers["x-refusal-verdict"] == "pending"
    assert ways.looked_up(headers["x-refusal-id"])["label"] == "hard_refusal"
