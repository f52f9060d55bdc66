"""The LiteLLM proxy as upstream, with a model that it mocks and the scripted vendor behind it."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic
import both_ways
import httpx
import openai
import pytest
from clients.servers import Server, free_port, serving
from sdk_calls import asynchronous, failure, first, items, plain, settled
from test_readme import blocks
from vendor import ANSWER, REFUSAL, Vendor, vendor

ASK: Any = [{"role": "user", "content": "Name three fruits."}]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Any = [{"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": CITY}}]
KEY = f"sk-{secrets.token_hex(32)}"
MOCKED = "As an AI, I'm not able to talk about fruit."


@dataclass(frozen=True)
class Chain:
    """demur, LiteLLM, vendor: `direct` leaves demur out."""

    vendor: Vendor
    litellm: Server
    proxied: str
    config: Path

    @property
    def direct(self) -> str:
        return self.litellm.url


def settings(folder: Path) -> dict[str, str]:
    return {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": KEY, "HOME": str(folder)}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    folder = tmp_path_factory.mktemp("litellm")
    port = free_port()
    with vendor() as up:
        there = {"api_base": f"{up.url}/v1", "api_key": "sk-none", "max_retries": 0}
        models = [
            {"model_name": "mocked", "litellm_params": {"model": "openai/mocked", "mock_response": MOCKED}},
            {"model_name": "*", "litellm_params": {"model": "openai/*", **there}},
        ]
        config = {"model_list": models, "litellm_settings": {"num_retries": 0}, "router_settings": {"num_retries": 0}}
        file = folder / "config.yaml"
        file.write_text(json.dumps(config), "utf-8")  # which is YAML too
        litellm = Path(sys.executable).with_name("litellm")
        command = [str(litellm), "--config", str(file), "--host", "127.0.0.1", "--port", str(port)]
        with (
            serving(command, port=port, ready="Uvicorn running", env=settings(folder)) as server,
            both_ways.serving(server.url) as url,
        ):
            yield Chain(up, server, url, file)


def without_ids(value: Any) -> Any:
    """LiteLLM makes up its own identifiers and times."""
    if isinstance(value, dict):
        return {key: without_ids(item) for key, item in value.items() if key not in {"id", "created", "created_at"}}
    return [without_ids(item) for item in value] if isinstance(value, list) else value


def same(chain: Chain, call: Callable[[Any], Any]) -> Any:
    """Makes the call both ways by openai-python; gives what it returned behind demur."""
    results, requests = [], []
    for url in (chain.direct, chain.proxied):
        chain.vendor.forget()
        client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=60)
        results.append(asynchronous(call, client))
        requests.append([(seen.method, seen.path, seen.body) for seen in chain.vendor.requests])
    direct, proxied = results
    assert requests[1] == requests[0]
    assert without_ids(both_ways.without_verdicts(proxied)) == without_ids(direct)
    return proxied


async def chat(client: Any, model: str, **more: Any) -> Any:
    return plain(await settled(client.chat.completions.create(model=model, messages=ASK, **more)))


async def stream(client: Any, model: str, **more: Any) -> Any:
    return await items(await settled(client.chat.completions.create(model=model, messages=ASK, stream=True, **more)))


def test_an_answer(chain: Chain) -> None:
    answer = same(chain, lambda client: chat(client, "answer", n=2, logprobs=True))
    assert answer["choices"][0]["message"]["content"] == ANSWER
    assert len(answer["choices"]) == 2


def test_tools(chain: Chain) -> None:
    async def call(client: Any) -> Any:
        return [await chat(client, "tools", tools=TOOLS), await stream(client, "tools", tools=TOOLS)]

    whole, chunks = same(chain, call)
    assert whole["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "weather"
    assert [verdict["status"] for verdict in both_ways.verdicts_in(chunks)] == ["tool_call"]


@pytest.mark.parametrize(("model", "text"), [("refusal", REFUSAL), ("mocked", MOCKED)])
def test_a_refusal_in_a_stream(chain: Chain, model: str, text: str) -> None:
    chunks = same(chain, lambda client: stream(client, model))
    said = [choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]]
    assert "".join(said) == text
    [verdict] = both_ways.verdicts_in(chunks)
    assert verdict["label"] == "hard_refusal"


def test_a_refusal_in_json_and_the_headers_of_both(chain: Chain) -> None:
    def headers(url: str) -> httpx.Headers:
        body = {"model": "refusal", "messages": ASK}
        by = {"authorization": f"Bearer {KEY}"}
        return httpx.post(f"{url}/v1/chat/completions", json=body, headers=by, trust_env=False, timeout=60).headers

    direct, proxied = headers(chain.direct), headers(chain.proxied)
    assert proxied["x-refusal-verdict"] == "hard_refusal"
    assert [name for name in direct if name not in proxied] == []
    assert {name for name in proxied if name not in direct} == {
        name for name in proxied if name.startswith("x-refusal-")
    }
    assert any(name.startswith("x-litellm-") for name in proxied)


def test_errors(chain: Chain) -> None:
    async def call(client: Any) -> Any:
        found = []
        for status in (400, 401, 429, 500):
            for how in (chat, stream):
                kind, text, body, code, _, after = await failure(how(client, f"error-{status}"), openai.APIStatusError)
                found.append([kind, text, body, code, after])
        return found

    assert [error[3] for error in same(chain, call)][::2] == [400, 401, 429, 500]


def test_responses_and_embeddings(chain: Chain) -> None:
    async def call(client: Any) -> Any:
        answer = await client.responses.create(model="answer", input="Name three fruits.")
        numbers = await client.embeddings.create(model="embed", input=["pear"])
        return [answer.output_text, plain(numbers)]

    assert same(chain, call)[0] == ANSWER


def test_anthropic_s_api_of_litellm_is_judged_too(chain: Chain) -> None:
    with anthropic.Anthropic(base_url=chain.proxied, api_key=KEY, max_retries=0, timeout=60) as client:
        raw = client.messages.with_raw_response.create(model="mocked", max_tokens=99, messages=ASK)
    assert raw.headers["x-refusal-verdict"] == "hard_refusal"


def test_a_client_that_leaves_is_left_by_all(chain: Chain) -> None:
    async def call(client: Any) -> Any:
        return await first(await client.chat.completions.create(model="endless", messages=ASK, stream=True))

    same(chain, call)
    assert chain.vendor.left.wait(20)


@pytest.fixture(scope="module")
def judged(chain: Chain) -> Iterator[str]:
    """LiteLLM's application with the middleware inside, as docs/middleware.md says; its root URL."""
    folder = chain.config.parent
    text = (Path(__file__).parent.parent.parent / "docs/middleware.md").read_text("utf-8")
    [code] = [block for block in blocks("python", text) if "litellm.proxy.proxy_server" in block]
    (folder / "judged.py").write_text(code, "utf-8")
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "judged:app", "--app-dir", str(folder), "--port", str(port)]
    environment = {**settings(folder), "CONFIG_FILE_PATH": str(chain.config)}
    with serving(command, port=port, ready="Uvicorn running", env=environment) as server:
        yield server.url


def test_litellm_with_the_middleware_tells_the_same(chain: Chain, judged: str) -> None:
    """The same answers, with the verdicts that demur gives in front of LiteLLM."""

    async def call(client: Any) -> Any:
        raw = await client.chat.completions.with_raw_response.create(model="refusal", messages=ASK)
        wire = await client.responses.with_raw_response.create(model="answer", input="Name three fruits.")
        told = [answer.headers["x-refusal-verdict"] for answer in (raw, wire)]
        return [told, plain(raw.parse()), await stream(client, "refusal"), await stream(client, "tools", tools=TOOLS)]

    inside, before = (
        asynchronous(call, openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=60))
        for url in (judged, chain.proxied)
    )
    assert without_ids(inside) == without_ids(before)
    assert inside[0] == ["hard_refusal", "answer"]
    assert [verdict["status"] for verdict in both_ways.verdicts_in(inside)] == ["complete", "tool_call"]


def test_errors_and_a_client_that_leaves_pass_the_middleware(chain: Chain, judged: str) -> None:
    async def call(client: Any) -> Any:
        await first(await client.chat.completions.create(model="endless", messages=ASK, stream=True))
        return (await failure(chat(client, "error-429"), openai.RateLimitError))[:4]

    found = []
    for url in (judged, chain.direct):
        chain.vendor.forget()
        client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=60)
        found.append(asynchronous(call, client))
        assert chain.vendor.left.wait(20)
    assert found[0] == found[1]
