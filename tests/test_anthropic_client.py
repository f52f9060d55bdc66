"""Anthropic's SDK behind the proxy gives what it gives in front of the vendor; verdicts are in headers or looked up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anthropic
import pytest
from both_ways import Ways, both_ways, same, verdicts_in
from sdk_calls import (
    TLS,
    Client,
    Scenario,
    asynchronous,
    failure,
    first,
    items,
    plain,
    settled,
    synchronous,
    until_broken,
    within,
)  # fmt: skip
from vendor import ANSWER

ASK: Any = [{"role": "user", "content": "Name three fruits."}]
SOURCE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
SEE: Any = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, {"type": "image", "source": SOURCE}]}]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Any = [{"name": "weather", "description": "The weather in a city.", "input_schema": CITY}]


@pytest.fixture(scope="module")
def ways() -> Iterator[Ways]:
    with both_ways() as pair:
        yield pair


def create(client: Client, model: str, messages: Any = ASK, **more: Any) -> Any:
    return client.messages.create(model=model, max_tokens=99, messages=messages, **more)


async def whole(client: Client, model: str, messages: Any = ASK, **more: Any) -> Any:
    return plain(await settled(create(client, model, messages, **more)))


async def events(client: Client, model: str, **more: Any) -> Any:
    return await items(await settled(create(client, model, stream=True, **more)))


async def error(call: Awaitable[Any]) -> Any:
    return await failure(call, anthropic.AnthropicError)


async def answer(client: Client) -> Any:
    result = await whole(client, "answer", system="Be brief.", stop_sequences=["END"])
    assert result["content"][0]["text"] == ANSWER
    return result


async def tools(client: Client) -> Any:
    result = await whole(client, "tools", tools=TOOLS)
    assert result["content"][0]["input"] == {"city": "Oslo"}
    back = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "22 degrees"}]
    talk = [*ASK, {"role": "assistant", "content": result["content"]}, {"role": "user", "content": back}]
    return [result, await whole(client, "tools", messages=talk, tools=TOOLS)]


async def images(client: Client) -> Any:
    return await whole(client, "answer", messages=SEE)


async def stream(client: Client) -> Any:
    found = await events(client, "answer")
    assert found[-1]["type"] == "message_stop"
    return found


async def stream_tools(client: Client) -> Any:
    return await events(client, "tools", tools=TOOLS)


async def helper(client: Client, model: str = "answer", **more: Any) -> Any:
    async def read(stream: Any) -> Any:
        seen = [event["type"] for event in await items(stream)]
        return [seen, plain(await settled(stream.get_final_message()))]

    return await within(client.messages.stream(model=model, max_tokens=99, messages=ASK, **more), read)


async def helper_text(client: Client) -> Any:
    async def read(stream: Any) -> Any:
        return await items(stream.text_stream)

    return await within(client.messages.stream(model="answer", max_tokens=99, messages=ASK), read)


async def helper_tools(client: Client) -> Any:
    seen, message = await helper(client, "tools", tools=TOOLS)
    assert message["content"][0]["input"] == {"city": "Oslo"}
    return [seen, message]


async def raw_response(client: Client) -> Any:
    raw = await settled(client.messages.with_raw_response.create(model="answer", max_tokens=99, messages=ASK))
    return plain(await settled(raw.parse()))


async def errors(client: Client) -> Any:
    return [await error(whole(client, f"error-{status}")) for status in (400, 401, 429, 500)]


async def errors_of_streams(client: Client) -> Any:
    return [await error(events(client, f"error-{status}")) for status in (400, 401, 429, 500)]


async def error_inside_a_stream(client: Client) -> Any:
    return await error(events(client, "error-in-stream"))


async def stream_that_breaks_off(client: Client) -> Any:
    """The SDK lets httpx's error through: of the vendor it is a reset, of the proxy a body that ends too soon."""
    seen: list[Any] = []
    broken = await failure(until_broken(await settled(create(client, "cut", stream=True)), seen), Exception)
    assert broken[0] in {"ReadError", "RemoteProtocolError"}
    assert len(seen) == 4  # of the five, the SDK keeps the ping to itself
    return seen


SCENARIOS: list[Scenario] = [
    answer, tools, images, stream, stream_tools, helper, helper_text, helper_tools, raw_response,
    errors, errors_of_streams, error_inside_a_stream, stream_that_breaks_off,
]  # fmt: skip
SETTINGS: dict[str, Any] = {"api_key": "sk-none", "max_retries": 0, "timeout": 60}


def by_sync(scenario: Scenario, url: str, **options: Any) -> Any:
    http = anthropic.DefaultHttpxClient(verify=TLS)
    return synchronous(scenario, anthropic.Anthropic(base_url=url, http_client=http, **(SETTINGS | options)))


def by_async(scenario: Scenario, url: str, **options: Any) -> Any:
    http = anthropic.DefaultAsyncHttpxClient(verify=TLS)
    return asynchronous(scenario, anthropic.AsyncAnthropic(base_url=url, http_client=http, **(SETTINGS | options)))


both_clients = pytest.mark.parametrize("run", [by_sync, by_async])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@both_clients
def test_the_client_sees_no_difference(ways: Ways, run: Callable[..., Any], scenario: Scenario) -> None:
    same(ways, lambda url: run(scenario, url))


@both_clients
@pytest.mark.parametrize(("model", "label"), [("answer", "answer"), ("refusal", "hard_refusal")])
def test_the_verdict_is_in_the_headers_or_in_the_last_event_but_one(
    ways: Ways, run: Callable[..., Any], model: str, label: str
) -> None:
    async def calls(client: Client) -> Any:
        ask = client.messages.with_raw_response.create
        whole = await settled(ask(model=model, max_tokens=99, messages=ASK))
        stream = await settled(ask(model=model, max_tokens=99, messages=ASK, stream=True))
        return [whole.headers, stream.headers, await items(await settled(stream.parse()))]

    whole, stream, found = run(calls, ways.proxied)
    assert whole["x-refusal-verdict"] == label
    assert ways.looked_up(whole["x-refusal-id"])["label"] == label
    assert stream["x-refusal-verdict"] == "pending"
    assert ways.looked_up(stream["x-refusal-id"])["label"] == label
    [verdict] = verdicts_in(found)
    assert (found[-2]["type"], found[-2]["refusal_verdict"]) == ("message_delta", verdict)
    assert verdict["label"] == label


@both_clients
def test_a_helper_shows_the_verdict_on_its_events(ways: Ways, run: Callable[..., Any]) -> None:
    async def call(client: Client) -> Any:
        return await within(client.messages.stream(model="refusal", max_tokens=99, messages=ASK), items)

    [verdict] = verdicts_in(run(call, ways.proxied))
    assert verdict["label"] == "hard_refusal"


@both_clients
@pytest.mark.parametrize(("model", "requests"), [("flaky-429", 2), ("flaky-500", 2), ("error-429", 3)])
def test_retries_are_the_client_s_own(ways: Ways, run: Callable[..., Any], model: str, requests: int) -> None:
    async def call(client: Client) -> Any:
        return await (error(whole(client, model)) if model == "error-429" else whole(client, model))

    def counted(url: str) -> Any:
        return [run(call, url, max_retries=2), len(ways.vendor.requests)]

    assert same(ways, counted)[1] == requests


@both_clients
@pytest.mark.parametrize("model", ["stall", "endless"])
def test_a_client_that_leaves_a_stream_is_left_upstream_too(ways: Ways, run: Callable[..., Any], model: str) -> None:
    async def call(client: Client) -> Any:
        return await first(await settled(create(client, model, stream=True)))

    def left(url: str) -> Any:
        found = run(call, url)
        assert ways.vendor.left.wait(20)
        return found

    assert same(ways, left)["type"] == "message_start"


@both_clients
def test_a_timeout_reaches_the_vendor(ways: Ways, run: Callable[..., Any]) -> None:
    async def call(client: Client) -> Any:
        return await error(whole(client, "stall"))

    def timed(url: str) -> Any:
        found = run(call, url, timeout=0.5)
        assert ways.vendor.left.wait(20)
        return found

    assert same(ways, timed)[0] == "APITimeoutError"
