"""openai-python behind the proxy gives what it gives in front of the vendor; the verdict is where the docs say.

Each scenario is called both ways, by the synchronous and by the asynchronous client.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import openai
import pytest
from both_ways import Ways, both_ways, same, verdicts_in
from pydantic import BaseModel
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
from vendor import ANSWER, REFUSAL

ASK: Any = [{"role": "user", "content": "Name three fruits."}]
SEE: Any = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is on it?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        ],
    }
]
WEATHER = {
    "name": "weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}
TOOLS: Any = [{"type": "function", "function": WEATHER}]
RESPONSES_TOOLS: Any = [{"type": "function", **WEATHER}]


class Fruits(BaseModel):
    fruits: list[str]
    count: int


@pytest.fixture(scope="module")
def ways() -> Iterator[Ways]:
    with both_ways() as pair:
        yield pair


async def chat(client: Client, model: str = "answer", messages: Any = ASK, **more: Any) -> Any:
    return plain(await settled(client.chat.completions.create(model=model, messages=messages, **more)))


async def stream(client: Client, model: str = "answer", **more: Any) -> list[Any]:
    return await items(await settled(client.chat.completions.create(model=model, messages=ASK, stream=True, **more)))


async def chat_answer(client: Client) -> Any:
    return await chat(client)


async def chat_choices_and_logprobs(client: Client) -> Any:
    result = await chat(client, n=3, logprobs=True, top_logprobs=1, seed=7, temperature=0.5)
    assert len(result["choices"]) == 3
    assert result["choices"][2]["logprobs"]["content"]
    return result


async def chat_tools(client: Client) -> Any:
    result = await chat(client, "tools", tools=TOOLS)
    assert result["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"city": "Oslo"}'
    return result


async def chat_image(client: Client) -> Any:
    return await chat(client, messages=SEE)


async def chat_structured_refusal(client: Client) -> Any:
    result = await chat(client, "refusal-field")
    assert result["choices"][0]["message"]["refusal"] == REFUSAL
    return result


async def chat_thinking(client: Client) -> Any:
    result = await chat(client, "thinking")
    assert result["choices"][0]["message"]["reasoning_content"] == REFUSAL
    return [result, await stream(client, "thinking")]


async def chat_parsed(client: Client) -> Any:
    parsed = await settled(client.chat.completions.parse(model="json", messages=ASK, response_format=Fruits))
    assert parsed.choices[0].message.parsed == Fruits(fruits=["apple", "pear"], count=2)
    return plain(parsed)


async def stream_answer(client: Client) -> Any:
    chunks = await stream(client, stream_options={"include_usage": True})
    assert chunks[-1]["usage"]["total_tokens"] == 14
    return chunks


async def stream_choices_and_logprobs(client: Client) -> Any:
    return await stream(client, n=3, logprobs=True)


async def stream_tools(client: Client) -> Any:
    return await stream(client, "tools", tools=TOOLS)


async def stream_structured_refusal(client: Client) -> Any:
    return await stream(client, "refusal-field")


async def stream_raw_response(client: Client) -> Any:
    raw = await settled(client.chat.completions.with_raw_response.create(model="answer", messages=ASK, stream=True))
    return await items(raw.parse())


async def stream_streaming_response(client: Client) -> Any:
    async def lines(response: Any) -> Any:
        return [line for line in await items(response.iter_lines()) if '"finish_reason": "stop"' not in line]

    create = client.chat.completions.with_streaming_response.create
    return await within(create(model="answer", messages=ASK, stream=True), lines)


async def helper(client: Client, **more: Any) -> Any:
    """The events of `chat.completions.stream`, and the completion that it assembles."""

    async def read(events: Any) -> Any:
        seen = [event["type"] for event in await items(events)]
        return [seen, plain(await settled(events.get_final_completion()))]

    return await within(client.chat.completions.stream(messages=ASK, **more), read)


async def helper_answer(client: Client) -> Any:
    seen, completion = await helper(client, model="answer", n=2)
    assert completion["choices"][0]["message"]["content"] == ANSWER
    return [seen, completion]


async def helper_parsed(client: Client) -> Any:
    return await helper(client, model="json", response_format=Fruits)


async def helper_tools(client: Client) -> Any:
    seen, completion = await helper(client, model="tools", tools=TOOLS)
    assert completion["choices"][0]["message"]["tool_calls"][0]["function"]["parsed_arguments"] == {"city": "Oslo"}
    return [seen, completion]


async def completions(client: Client) -> Any:
    return plain(await settled(client.completions.create(model="answer", prompt="Name three fruits.", n=2)))


async def completions_stream(client: Client) -> Any:
    return await items(await settled(client.completions.create(model="answer", prompt="Go on.", stream=True)))


async def responses(client: Client) -> Any:
    result = await settled(client.responses.create(model="answer", input="Name three fruits."))
    assert result.output_text == ANSWER
    return plain(result)


async def responses_refusal(client: Client) -> Any:
    return plain(await settled(client.responses.create(model="refusal-field", input="Name three fruits.")))


async def responses_parsed(client: Client) -> Any:
    result = await settled(client.responses.parse(model="json", input="Name fruits.", text_format=Fruits))
    assert result.output_parsed == Fruits(fruits=["apple", "pear"], count=2)
    return plain(result)


async def responses_stream(client: Client, model: str = "answer", **more: Any) -> Any:
    return await items(await settled(client.responses.create(model=model, input="Name.", stream=True, **more)))


async def responses_stream_tools(client: Client) -> Any:
    return await responses_stream(client, "tools", tools=RESPONSES_TOOLS)


async def responses_stream_refusal(client: Client) -> Any:
    return await responses_stream(client, "refusal-field")


async def responses_helper(client: Client) -> Any:
    async def read(events: Any) -> Any:
        seen = [event["type"] for event in await items(events)]
        return [seen, plain(await settled(events.get_final_response()))]

    return await within(client.responses.stream(model="json", input="Name fruits.", text_format=Fruits), read)


async def embeddings(client: Client) -> Any:
    result = await settled(client.embeddings.create(model="embed", input=["pear", "plum"]))
    assert result.data[1].embedding == [0.5, -0.25, 1.0]
    return plain(result)


async def models(client: Client) -> Any:
    return [await items(client.models.list()), plain(await settled(client.models.retrieve("answer")))]


async def file_upload(client: Client) -> Any:
    content = bytes(range(256)) * 800 + b"\r\n--"
    result = await settled(client.files.create(file=("notes.jsonl", content), purpose="batch"))
    assert result.id == f"file-{hashlib.sha256(content).hexdigest()}"
    return plain(result)


async def audio(client: Client) -> Any:
    content = b"\x00\xff\r\n--" * 5000
    written = await settled(client.audio.transcriptions.create(model="whisper", file=("a.wav", content)))
    assert written.text == hashlib.sha256(content).hexdigest()
    spoken = await settled(client.audio.speech.create(model="tts", voice="alloy", input="Pears."))
    return [plain(written), hashlib.sha256(spoken.content).hexdigest()]


async def error(call: Awaitable[Any]) -> Any:
    return await failure(call, openai.OpenAIError)


async def errors(client: Client) -> Any:
    return [await error(chat(client, f"error-{status}")) for status in (400, 401, 429, 500)]


async def errors_of_streams(client: Client) -> Any:
    return [await error(stream(client, f"error-{status}")) for status in (400, 401, 429, 500)]


async def error_inside_a_stream(client: Client) -> Any:
    return await error(stream(client, "error-in-stream"))


SCENARIOS: list[Scenario] = [
    chat_answer, chat_choices_and_logprobs, chat_tools, chat_image, chat_structured_refusal, chat_thinking, chat_parsed,
    stream_answer, stream_choices_and_logprobs, stream_tools, stream_structured_refusal,
    stream_raw_response, stream_streaming_response, helper_answer, helper_parsed, helper_tools,
    completions, completions_stream,
    responses, responses_refusal, responses_parsed, responses_stream, responses_stream_tools, responses_stream_refusal,
    responses_helper, embeddings, models, file_upload, audio,
    errors, errors_of_streams, error_inside_a_stream,
]  # fmt: skip


def by_sync(scenario: Scenario, url: str, **options: Any) -> Any:
    http = openai.DefaultHttpxClient(verify=TLS)
    return synchronous(scenario, openai.OpenAI(base_url=f"{url}/v1", http_client=http, **(SETTINGS | options)))


def by_async(scenario: Scenario, url: str, **options: Any) -> Any:
    http = openai.DefaultAsyncHttpxClient(verify=TLS)
    return asynchronous(scenario, openai.AsyncOpenAI(base_url=f"{url}/v1", http_client=http, **(SETTINGS | options)))


SETTINGS: dict[str, Any] = {"api_key": "sk-none", "max_retries": 0, "timeout": 60}
both_clients = pytest.mark.parametrize("run", [by_sync, by_async])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@both_clients
def test_the_client_sees_no_difference(ways: Ways, run: Callable[..., Any], scenario: Scenario) -> None:
    same(ways, lambda url: run(scenario, url))


# Where the verdict is.


@both_clients
@pytest.mark.parametrize(
    ("model", "label"),
    [("answer", "answer"), ("thinking", "answer"), ("refusal", "hard_refusal"), ("refusal-field", "hard_refusal")],
)
def test_a_json_answer_has_the_verdict_in_its_headers(
    ways: Ways, run: Callable[..., Any], model: str, label: str
) -> None:
    async def calls(client: Client) -> list[Any]:
        return [
            await settled(client.chat.completions.with_raw_response.create(model=model, messages=ASK)),
            await settled(client.responses.with_raw_response.create(model=model, input="Name three fruits.")),
        ]

    for raw in run(calls, ways.proxied):
        assert raw.headers["x-refusal-verdict"] == label
        assert raw.headers["x-refusal-status"] == "complete"
        assert ways.looked_up(raw.headers["x-refusal-id"])["label"] == label


@both_clients
@pytest.mark.parametrize(
    ("model", "label"), [("answer", "answer"), ("thinking", "answer"), ("refusal", "hard_refusal")]
)
def test_a_stream_has_the_verdict_in_its_finish_chunk(
    ways: Ways, run: Callable[..., Any], model: str, label: str
) -> None:
    async def call(client: Client) -> Any:
        raw = await settled(client.chat.completions.with_raw_response.create(model=model, messages=ASK, stream=True))
        return raw.headers, await items(raw.parse())

    headers, chunks = run(call, ways.proxied)
    assert headers["x-refusal-verdict"] == "pending"
    [verdict] = verdicts_in(chunks)
    assert verdicts_in(chunks[-1]) == [verdict]
    assert verdict["label"] == label
    assert verdict["id"] == headers["x-refusal-id"]
    assert ways.looked_up(verdict["id"])["label"] == label


def test_each_choice_of_a_stream_has_its_own(ways: Ways) -> None:
    async def call(client: Client) -> Any:
        return await stream(client, "refusal", n=3)

    ends = [choice for chunk in by_sync(call, ways.proxied) for choice in chunk["choices"] if verdicts_in(choice)]
    assert [choice["index"] for choice in ends] == [0, 1, 2]
    assert {choice["refusal_verdict"]["label"] for choice in ends} == {"hard_refusal"}


@both_clients
def test_a_helper_shows_the_verdict_on_its_chunks(ways: Ways, run: Callable[..., Any]) -> None:
    """`chat.completions.stream` hands the raw chunks through, in events of type `chunk`."""

    async def call(client: Client) -> Any:
        async def chunks(events: Any) -> list[Any]:
            return [event["chunk"] for event in await items(events) if event["type"] == "chunk"]

        return await within(client.chat.completions.stream(model="refusal", messages=ASK), chunks)

    [verdict] = verdicts_in(run(call, ways.proxied))
    assert verdict["label"] == "hard_refusal"


@both_clients
def test_a_stream_of_responses_has_the_verdict_in_its_last_event(ways: Ways, run: Callable[..., Any]) -> None:
    async def call(client: Client) -> Any:
        raw = await settled(client.responses.with_raw_response.create(model="refusal", input="Name.", stream=True))
        return raw.headers, await items(raw.parse())

    headers, events = run(call, ways.proxied)
    assert headers["x-refusal-verdict"] == "pending"
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["refusal_verdict"]["label"] == "hard_refusal"
    assert verdicts_in(events) == [events[-1]["refusal_verdict"]]
    assert ways.looked_up(headers["x-refusal-id"])["label"] == "hard_refusal"


# Retries, timeouts, clients that leave.


@both_clients
@pytest.mark.parametrize(("model", "requests"), [("flaky-429", 2), ("flaky-500", 2), ("error-429", 3)])
def test_retries_are_the_client_s_own(ways: Ways, run: Callable[..., Any], model: str, requests: int) -> None:
    async def call(client: Client) -> Any:
        return await (error(chat(client, model)) if model == "error-429" else chat(client, model))

    def counted(url: str) -> Any:
        return [run(call, url, max_retries=2), len(ways.vendor.requests)]

    assert same(ways, counted)[1] == requests


@both_clients
def test_a_timeout_reaches_the_vendor(ways: Ways, run: Callable[..., Any]) -> None:
    """The client gives up on a silent answer, the proxy lets go of the vendor, and nobody asks twice."""

    async def call(client: Client) -> Any:
        return await error(chat(client, "stall"))

    def timed(url: str) -> Any:
        result = run(call, url, timeout=0.5)
        assert ways.vendor.left.wait(20)
        return result

    assert same(ways, timed)[0] == "APITimeoutError"


@both_clients
@pytest.mark.parametrize("model", ["stall", "endless"])
def test_a_client_that_leaves_a_stream_is_left_upstream_too(ways: Ways, run: Callable[..., Any], model: str) -> None:
    async def call(client: Client) -> Any:
        return await first(await settled(client.chat.completions.create(model=model, messages=ASK, stream=True)))

    def left(url: str) -> Any:
        first = run(call, url)
        assert ways.vendor.left.wait(20)
        return first

    same(ways, left)


@both_clients
def test_a_stream_that_breaks_off_breaks_off(ways: Ways, run: Callable[..., Any]) -> None:
    """What had arrived is there, and then the client's own error for a lost connection, not a short success."""

    async def call(client: Client) -> Any:
        seen: list[Any] = []

        chunks = await settled(client.chat.completions.create(model="cut", messages=ASK, stream=True))
        return [await error(until_broken(chunks, seen)), seen]

    broken, seen = same(ways, lambda url: run(call, url))
    assert broken[0] == "APIConnectionError"
    assert len(seen) == 5
