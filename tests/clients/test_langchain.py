"""LangChain's ChatOpenAI behind the proxy gives what it gives in front of the vendor; verdicts are in metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from both_ways import Ways, same
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel
from vendor import ANSWER

PROMPT = "Name three fruits."
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


class Fruits(BaseModel):
    """Some fruits."""

    fruits: list[str]
    count: int


def weather(city: str) -> str:
    """The weather in a city."""
    return "22 degrees"


def llm(url: str, model: str, **more: Any) -> Any:
    settings: dict[str, Any] = {"api_key": "sk-none", "max_retries": 0, "timeout": 60, **more}
    return ChatOpenAI(model=model, base_url=f"{url}/v1", **settings)


def told(message: Any) -> Any:
    """A message as plain data, without an id that LangChain makes up."""
    return message.model_dump(mode="json", exclude={"id"})


def streamed(model: Any) -> Any:
    return [told(chunk) for chunk in model.stream(PROMPT)]


def invoke(url: str) -> Any:
    message = llm(url, "answer").invoke(PROMPT)
    assert message.content == ANSWER
    return told(message)


def asynchronous(url: str) -> Any:
    async def call() -> Any:  # in one loop: LangChain keeps its HTTP client for those that come later
        whole = told(await llm(url, "answer").ainvoke(PROMPT))
        return [whole, [told(chunk) async for chunk in llm(url, "answer").astream(PROMPT)]]

    return asyncio.run(call())


def invoke_responses(url: str) -> Any:
    return told(llm(url, "answer", use_responses_api=True).invoke(PROMPT))


def choices(url: str) -> Any:
    [found] = llm(url, "answer", n=3).generate([[HumanMessage(PROMPT)]]).generations
    return [one.text for one in found]


def logprobs(url: str) -> Any:
    return told(llm(url, "answer", logprobs=True).invoke(PROMPT))


def tools(url: str) -> Any:
    message = llm(url, "tools").bind_tools([weather]).invoke(PROMPT)
    assert message.tool_calls[0]["args"] == {"city": "Oslo"}
    return told(message)


def structured(url: str) -> Any:
    found = llm(url, "json").with_structured_output(Fruits).invoke(PROMPT)
    return found.model_dump()


def images(url: str) -> Any:
    return told(llm(url, "answer").invoke([HumanMessage([{"type": "text", "text": "What is it?"}, IMAGE])]))


def stream(url: str) -> Any:
    return streamed(llm(url, "answer", stream_usage=True))


def stream_tools(url: str) -> Any:
    return streamed(llm(url, "tools").bind_tools([weather]))


def stream_responses(url: str) -> Any:
    return streamed(llm(url, "answer", use_responses_api=True))


def embeddings(url: str) -> Any:
    settings: Any = {"api_key": "sk-none", "check_embedding_ctx_length": False}  # which would load a tokenizer
    return OpenAIEmbeddings(model="embed", base_url=f"{url}/v1", **settings).embed_query("pear")


def failure(call: Callable[[], Any]) -> Any:
    with pytest.raises(Exception) as caught:
        call()
    return [type(caught.value).__name__, str(caught.value)]


def errors(url: str) -> Any:
    return [
        failure(lambda status=status, how=how: how(llm(url, f"error-{status}")))  # type: ignore[misc]
        for status in (400, 401, 429, 500)
        for how in (lambda model: model.invoke(PROMPT), streamed)
    ]


def error_inside_a_stream(url: str) -> Any:
    return failure(lambda: streamed(llm(url, "error-in-stream")))


def retries(url: str) -> Any:
    patient = {"max_retries": 2}
    return [
        told(llm(url, "flaky-429", **patient).invoke(PROMPT)),
        told(llm(url, "flaky-500", **patient).invoke(PROMPT)),
        failure(lambda: llm(url, "error-429", **patient).invoke(PROMPT)),
    ]


SCENARIOS = [
    invoke, asynchronous, invoke_responses, choices, logprobs, tools, structured, images,
    stream, stream_tools, stream_responses, embeddings, errors, error_inside_a_stream, retries,
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
        found = failure(lambda: llm(url, "stall", timeout=0.5).invoke(PROMPT))
        assert ways.vendor.left.wait(20)
        ways.vendor.left.clear()
        chunks = llm(url, "endless").stream(PROMPT)
        first = told(next(chunks))
        chunks.close()
        assert ways.vendor.left.wait(20)
        return [found, first]

    assert same(ways, call)[0][0] == "OpenAITimeoutError"


@pytest.mark.parametrize("use_responses_api", [False, True])
def test_an_answer_has_the_verdict_in_its_metadata(ways: Ways, use_responses_api: bool) -> None:
    model = llm(ways.proxied, "refusal", include_response_headers=True, use_responses_api=use_responses_api)
    assert model.invoke(PROMPT).response_metadata["headers"]["x-refusal-verdict"] == "hard_refusal"


def test_a_stream_has_the_id_in_its_metadata(ways: Ways) -> None:
    """LangChain keeps no key that it does not know: the verdict of a stream is looked up."""
    whole = None
    for chunk in llm(ways.proxied, "refusal", include_response_headers=True).stream(PROMPT):
        whole = chunk if whole is None else whole + chunk
    assert whole is not None
    headers = whole.response_metadata["headers"]
    assert headers["x-refusal-verdict"] == "pending"
    assert ways.looked_up(headers["x-refusal-id"])["label"] == "hard_refusal"
