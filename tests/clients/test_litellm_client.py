"""The LiteLLM client behind the proxy gives what it gives in front of the vendor; verdicts are in hidden fields."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import litellm
import pytest
from both_ways import Ways, same
from vendor import ANSWER

ASK: Any = [{"role": "user", "content": "Name three fruits."}]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": CITY}}]
SETTINGS: dict[str, Any] = {"api_key": "sk-none", "num_retries": 0, "max_retries": 0, "timeout": 60}


def ask(url: str, model: str, messages: Any = ASK, **more: Any) -> Any:
    """By the name of the model: `openai/…` is called as OpenAI, `anthropic/…` as Anthropic."""
    base = url if model.startswith("anthropic/") else f"{url}/v1"
    return litellm.completion(model=model, api_base=base, messages=messages, **(SETTINGS | more))


def told(value: Any) -> Any:
    """Plain data without what LiteLLM makes up."""
    found = value.model_dump(mode="json", warnings=False)
    return {key: item for key, item in found.items() if key not in {"id", "created"}}


def streamed(url: str, model: str, **more: Any) -> Any:
    return [told(chunk) for chunk in ask(url, model, stream=True, **more)]


def answer(url: str) -> Any:
    result = ask(url, "openai/answer", n=2, logprobs=True)
    assert result.choices[0].message.content == ANSWER
    return told(result)


def answer_async(url: str) -> Any:
    async def call() -> Any:
        arguments: Any = {"api_base": f"{url}/v1", "messages": ASK, **SETTINGS}
        whole = told(await litellm.acompletion(model="openai/answer", **arguments))
        chunks = await litellm.acompletion(model="openai/answer", stream=True, **arguments)
        return [whole, [told(chunk) async for chunk in chunks]]

    return asyncio.run(call())


def answer_of_anthropic(url: str) -> Any:
    return [told(ask(url, "anthropic/answer")), streamed(url, "anthropic/answer")]


def tools(url: str) -> Any:
    return [told(ask(url, "openai/tools", tools=TOOLS)), streamed(url, "openai/tools", tools=TOOLS)]


def images(url: str) -> Any:
    parts = [{"type": "text", "text": "What is it?"}, IMAGE]
    return told(ask(url, "openai/answer", messages=[{"role": "user", "content": parts}]))


def stream(url: str) -> Any:
    return streamed(url, "openai/answer", stream_options={"include_usage": True})


def text_completion(url: str) -> Any:
    arguments: Any = {"model": "text-completion-openai/answer", "prompt": "Go on.", "api_base": f"{url}/v1"}
    return told(litellm.text_completion(**arguments, **SETTINGS))


def responses(url: str) -> Any:
    arguments: Any = {"model": "openai/answer", "input": "Name fruits.", "api_base": f"{url}/v1", **SETTINGS}
    return told(litellm.responses(**arguments))


def embeddings(url: str) -> Any:
    arguments: Any = {"model": "openai/embed", "input": ["pear"], "api_base": f"{url}/v1", **SETTINGS}
    return told(litellm.embedding(**arguments))


def failure(call: Callable[[], Any]) -> Any:
    with pytest.raises(Exception) as caught:
        call()
    return [type(caught.value).__name__, str(caught.value), getattr(caught.value, "status_code", None)]


def errors(url: str) -> Any:
    found = []
    for status in (400, 401, 429, 500):
        for model in (f"openai/error-{status}", f"anthropic/error-{status}"):
            found += [failure(lambda m=model: ask(url, m)), failure(lambda m=model: streamed(url, m))]  # type: ignore[misc]
    return found


def error_inside_a_stream(url: str) -> Any:
    return failure(lambda: streamed(url, "openai/error-in-stream"))


def retries(url: str) -> Any:
    patient = {"max_retries": 2, "num_retries": None}
    return [
        told(ask(url, "openai/flaky-429", **patient)),
        told(ask(url, "openai/flaky-500", **patient)),
        failure(lambda: ask(url, "openai/error-429", **patient)),
    ]


SCENARIOS = [
    answer, answer_async, answer_of_anthropic, tools, images, stream, text_completion, responses, embeddings,
    errors, error_inside_a_stream, retries,
]  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_client_sees_no_difference(ways: Ways, scenario: Callable[[str], Any]) -> None:
    same(ways, scenario)


def test_retries_are_the_client_s_own(ways: Ways) -> None:
    ways.vendor.forget()
    retries(ways.proxied)
    assert len(ways.vendor.requests) == 2 + 2 + 3


def test_a_timeout_and_a_client_that_leaves_reach_the_vendor(ways: Ways) -> None:
    def call(url: str) -> Any:
        found = failure(lambda: ask(url, "openai/stall", timeout=0.5))
        assert ways.vendor.left.wait(20)
        ways.vendor.left.clear()
        chunks = ask(url, "openai/endless", stream=True)
        first = told(next(iter(chunks)))
        chunks.completion_stream.close()
        assert ways.vendor.left.wait(20)
        return [found[0], first]

    assert same(ways, call)[0] == "Timeout"


@pytest.mark.parametrize("model", ["openai/refusal", "anthropic/refusal"])
def test_an_answer_has_the_verdict_in_its_headers(ways: Ways, model: str) -> None:
    headers = ask(ways.proxied, model)._hidden_params["additional_headers"]
    assert headers["llm_provider-x-refusal-verdict"] == "hard_refusal"


def test_a_stream_has_the_verdict_in_its_last_chunk(ways: Ways) -> None:
    *_, last = ask(ways.proxied, "openai/refusal", stream=True)
    assert last.choices[0].finish_reason == "stop"
    assert last.refusal_verdict["label"] == "hard_refusal"
    assert last._hidden_params["additional_headers"]["llm_provider-x-refusal-id"] == last.refusal_verdict["id"]
