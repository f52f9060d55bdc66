"""A server that really generates, llama-cpp-python's, as upstream: what openai-python gets is the same with the proxy.

The model is made here (`tiny_model.py`): it refuses after a question mark, and talks at random after anything else.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import both_ways
import openai
import pytest
from clients.servers import Server, free_port, serving
from sdk_calls import failure, plain

HERE = Path(__file__).parent
PYTHON = HERE.parent.parent / "build/model-server/bin/python"
REFUSAL = "I'm sorry, but I can't help with that."
FRUIT = {"type": "object", "properties": {"fruit": {"enum": ["apple", "pear"]}}, "required": ["fruit"]}
TOOL = {"type": "function", "function": {"name": "pick", "parameters": FRUIT}}


@dataclass(frozen=True)
class Model:
    server: Server
    proxied: str

    @property
    def direct(self) -> str:
        return self.server.url


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    file = tmp_path_factory.mktemp("model") / "tiny.gguf"
    subprocess.run([PYTHON, HERE / "tiny_model.py", file], check=True)
    port = free_port()
    command = [str(PYTHON), "-m", "llama_cpp.server", "--model", str(file), "--model_alias", "tiny", "--seed", "1"]
    command += ["--n_ctx", "2048", "--n_threads", "1", "--host", "127.0.0.1", "--port", str(port)]
    with serving(command, port=port, ready="Uvicorn running") as server, both_ways.serving(server.url) as url:
        yield Model(server, url)


def client(url: str) -> Any:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120)


def ask(url: str, prompt: str, **more: Any) -> Any:
    messages = [{"role": "user", "content": prompt}]
    with client(url) as used:
        answer = used.chat.completions.create(model="tiny", messages=messages, temperature=0, **more)
        return [plain(chunk) for chunk in answer] if more.get("stream") else plain(answer)


def without_ids(value: Any) -> Any:
    """Every answer has its own identifiers and time."""
    if isinstance(value, dict):
        return {key: without_ids(item) for key, item in value.items() if key not in {"id", "created"}}
    return [without_ids(item) for item in value] if isinstance(value, list) else value


def same(model: Model, call: Callable[[str], Any]) -> Any:
    """Makes the call both ways; gives what it returned behind the proxy, verdicts and all."""
    direct, proxied = call(model.direct), call(model.proxied)
    assert without_ids(both_ways.without_verdicts(proxied)) == without_ids(direct)
    return proxied


def test_a_refusal_is_generated_and_told(model: Model) -> None:
    answer = same(model, lambda url: ask(url, "May I?", max_tokens=50))
    assert answer["choices"][0]["message"]["content"].strip() == REFUSAL
    with client(model.proxied) as used:
        messages: Any = [{"role": "user", "content": "May I?"}]
        raw = used.chat.completions.with_raw_response.create(model="tiny", messages=messages, max_tokens=50)
    assert raw.headers["x-refusal-verdict"] == "hard_refusal"
    assert raw.headers["x-refusal-status"] == "complete"


def test_a_streamed_refusal_has_its_verdict_in_the_finish_chunk(model: Model) -> None:
    chunks = same(model, lambda url: ask(url, "May I?", stream=True, max_tokens=50))
    assert len(chunks) > len(REFUSAL.split())
    [verdict] = both_ways.verdicts_in(chunks)
    assert verdict["label"] == "hard_refusal"


@pytest.mark.parametrize("stream", [False, True])
def test_many_tokens(model: Model, stream: bool) -> None:
    """Cut by its limit, a text is judged on what is there."""
    answer = same(model, lambda url: ask(url, "Talk to me!", stream=stream, max_tokens=400))
    if stream:
        assert len(answer) > 400
        [verdict] = both_ways.verdicts_in(answer)
        assert (verdict["label"], verdict["status"]) == ("answer", "incomplete")
    else:
        assert answer["usage"]["completion_tokens"] == 400


def test_logprobs(model: Model) -> None:
    answer = same(model, lambda url: ask(url, "May I?", logprobs=True, top_logprobs=2, max_tokens=50))
    assert len(answer["choices"][0]["logprobs"]["content"]) == len(REFUSAL.split())


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_call_and_json_by_grammar(model: Model, stream: bool) -> None:
    def tool(url: str) -> Any:
        choice = {"type": "function", "function": {"name": "pick"}}
        return ask(url, "Pick!", tools=[TOOL], tool_choice=choice, stream=stream, max_tokens=50)

    def json(url: str) -> Any:
        form = {"type": "json_object", "schema": FRUIT}
        return ask(url, "Pick!", response_format=form, stream=stream, max_tokens=50)

    called = same(model, tool)
    written = same(model, json)
    if not stream:
        assert called["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"].startswith('{"fruit": "')
        assert written["choices"][0]["message"]["content"].startswith('{"fruit": "')
    else:
        [verdict] = both_ways.verdicts_in(called)
        assert (verdict["label"], verdict["status"]) == (None, "tool_call")


def test_a_legacy_completion(model: Model) -> None:
    def call(url: str) -> Any:
        with client(url) as used:
            return plain(used.completions.create(model="tiny", prompt="May I?", max_tokens=50, temperature=0))

    assert same(model, call)["choices"][0]["text"].strip() == REFUSAL


def test_an_error_is_the_server_s_own(model: Model) -> None:
    async def call(url: str) -> Any:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as used:
            bad: Any = {"model": "tiny", "messages": [{"role": "user", "content": "Hi!"}], "temperature": "hot"}
            kind, text, body, status, _, _ = await failure(used.chat.completions.create(**bad), openai.APIStatusError)
            return [kind, text, body, status]

    same(model, lambda url: asyncio.run(call(url)))


def test_generation_stops_when_the_client_leaves(model: Model) -> None:
    with client(model.proxied) as used:
        messages: Any = [{"role": "user", "content": "Talk to me!"}]
        chunks = used.chat.completions.create(model="tiny", messages=messages, stream=True, max_tokens=2000)
        with chunks:
            next(iter(chunks))
    assert model.server.says("Disconnected from client")
