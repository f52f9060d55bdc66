"""The replay answers like an OpenAI server, with the recorded text to the letter, JSON or stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import openai
import pytest

from demur.audit.completions import pieces
from demur.audit.loopback import listening
from demur.audit.recording import Recording
from demur.audit.replay import Pace, create_replay_app
from demur.classifier.fields import decode
from demur.classifier.sse import SSEReader

FIG = {"prompt": "Name a fruit", "response": "A fig,\n  ripe — 無花果 🍈.", "model": "m1"}
PLUM = {"prompt": "Name a fruit", "response": "A plum.", "model": "m2"}
PEAR = {"prompt": "Name a fruit", "response": "A pear.", "model": "m1"}
COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m9",
    "system_fingerprint": "fp",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "", "refusal": "I won't name it."},
            "finish_reason": "content_filter",
        }
    ],
}
STREAM = (
    'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m9",'
    '"choices":[{"index":0,"delta":{"role":"assistant","content":"Two "},"finish_reason":null}]}\n\n'
    ": a comment\n\n"
    'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m9",'
    '"choices":[{"index":0,"delta":{"content":"figs."},"finish_reason":"stop"}]}\n\n'
    "data: [DONE]\n\n"
)
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m5",
    "content": [{"type": "text", "text": "A quince."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 3},
}


def asking(prompt: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": prompt}]}


def chat(prompt: str, **more: Any) -> dict[str, Any]:
    return {"model": "any", **asking(prompt), **more}


def with_replay(
    objects: list[Any], talk: Callable[[httpx.AsyncClient], Awaitable[None]], pace: Pace | None = None
) -> None:
    """Runs `talk` against a replay of `objects` on a real socket."""

    async def run() -> None:
        async with (
            listening(create_replay_app(Recording(objects), pace)) as address,
            httpx.AsyncClient(base_url=address, trust_env=False, timeout=30) as client,
        ):
            await talk(client)

    asyncio.run(run())


async def said(client: httpx.AsyncClient, path: str = "/v1/chat/completions", **request: Any) -> str:
    body = (await client.post(path, json=request)).json()
    return str(body["choices"][0]["message"]["content"])


def chunks_of(body: bytes) -> list[Any]:
    events = SSEReader().feed(body)
    assert events[-1].data == b"[DONE]"
    return [json.loads(event.data) for event in events[:-1]]


@pytest.mark.parametrize("size", [None, 1, 7])
def test_pieces_join_to_the_text(size: int | None) -> None:
    for text in ("", " ", "a  b\n\nc\t", "naïve “quoted” — 日本語テキスト🙂‍🙃", "x" * 50, "snake_case-and.more()"):
        assert "".join(pieces(text, size)) == text
    assert len(pieces("The quick brown fox", size)) >= 3


@pytest.mark.parametrize("stream", [False, True])
def test_the_real_client_reads_the_recorded_text(stream: bool) -> None:
    async def run() -> None:
        async with (
            listening(create_replay_app(Recording([FIG]))) as address,
            openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client,
        ):
            messages: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": FIG["prompt"]}]
            if stream:
                text, finish = "", None
                async with await client.chat.completions.create(model="m1", messages=messages, stream=True) as chunks:
                    async for chunk in chunks:
                        text += chunk.choices[0].delta.content or ""
                        finish = chunk.choices[0].finish_reason or finish
            else:
                done = await client.chat.completions.create(model="m1", messages=messages)
                text, finish = done.choices[0].message.content or "", done.choices[0].finish_reason
                assert done.usage is not None
                assert done.usage.total_tokens > 0
                assert done.model == "m1"
            assert (text, finish) == (FIG["response"], "stop")
            assert [model.id async for model in client.models.list()] == ["m1"]

    asyncio.run(run())


def test_the_model_narrows_where_a_trace_has_it_and_answers_cycle_in_file_order() -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        of_m1 = [await said(client, **chat("Name a fruit", model="m1")) for _ in range(3)]
        assert of_m1 == [FIG["response"], PEAR["response"], FIG["response"]]
        assert [await said(client, **chat("Name a fruit", model="m2")) for _ in range(2)] == [PLUM["response"]] * 2
        of_any = [await said(client, **chat(" Name a fruit\n", model="unknown")) for _ in range(4)]
        assert of_any == [FIG["response"], PLUM["response"], PEAR["response"], FIG["response"]]

    with_replay([FIG, PLUM, PEAR], talk)


@pytest.mark.parametrize(
    "response",
    [
        {"promptFeedback": {"blockReason": "SAFETY"}},
        {"candidates": [{"finishReason": "RECITATION", "content": {"parts": [{"text": "It was"}]}}]},
        {"type": "message", "role": "assistant", "content": [], "stop_reason": "refusal"},
    ],
)
def test_blocks_of_other_providers_end_as_openai_ends_them(response: dict[str, Any]) -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        body = (await client.post("/v1/chat/completions", json=chat("Go on"))).json()
        assert body["choices"][0]["finish_reason"] == "content_filter"
        stream = (await client.post("/v1/chat/completions", json=chat("Go on", stream=True))).content
        assert chunks_of(stream)[-1]["choices"][0]["finish_reason"] == "content_filter"

    with_replay([{"request": asking("Go on"), "response": response}], talk)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": "content_filter", "message": "Filtered.", "status": 400}, 400),
        ({"code": "content_filter", "message": "Filtered."}, 400),
        ({"code": 503, "message": "Overloaded."}, 503),
        ({"code": "rate_limit_exceeded", "message": "Slow down."}, 429),
        ({"code": "boom", "message": "Broken."}, 500),
    ],
)
def test_an_error_recorded_without_its_status_gets_the_likely_one(error: dict[str, Any], status: int) -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        answer = await client.post("/v1/chat/completions", json=chat("Go on"))
        assert (answer.status_code, answer.json()) == (status, {"error": error})

    with_replay([{"request": asking("Go on"), "response": {"error": error}}], talk)


def test_the_last_user_text_is_what_is_matched() -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        messages = [
            {"role": "user", "content": "Something else"},
            {"role": "assistant", "content": "Yes?"},
            {"role": "user", "content": [{"type": "text", "text": "Name a fruit"}]},
        ]
        assert await said(client, model="m2", messages=messages) == PLUM["response"]

    with_replay([FIG, PLUM], talk)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions", "/a/b/chat/completions/"])
def test_any_prefix_will_do(path: str) -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        assert await said(client, path, **chat("Name a fruit")) == FIG["response"]

    with_replay([FIG], talk)


def test_n_takes_the_next_answers_as_choices() -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        done = (await client.post("/v1/chat/completions", json=chat("Name a fruit", model="m1", n=3))).json()
        texts = [choice["message"]["content"] for choice in done["choices"]]
        assert texts == [FIG["response"], PEAR["response"], FIG["response"]]
        assert [choice["index"] for choice in done["choices"]] == [0, 1, 2]
        body = (await client.post("/v1/chat/completions", json=chat("Name a fruit", n=2, stream=True))).content
        assert {choice["index"] for chunk in chunks_of(body) for choice in chunk["choices"]} == {0, 1}

    with_replay([FIG, PEAR], talk)


@pytest.mark.parametrize("wanted", [True, False])
def test_usage_comes_in_the_stream_when_asked_for(wanted: bool) -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        options = {"stream_options": {"include_usage": True}} if wanted else {}
        body = (await client.post("/v1/chat/completions", json=chat("Name a fruit", stream=True, **options))).content
        chunks = chunks_of(body)
        assert any(chunk["choices"] == [] for chunk in chunks) is wanted
        assert bool(chunks[-1].get("usage")) is wanted

    with_replay([FIG], talk)


def test_recorded_objects_and_streams_are_answered_as_recorded() -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        done = await client.post("/v1/chat/completions", json=chat("as object"))
        assert done.json() == COMPLETION
        assert done.headers["x-request-id"].startswith("req_")
        stream = await client.post("/v1/chat/completions", json=chat("as stream", stream=True))
        assert stream.text == STREAM
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["x-request-id"] != done.headers["x-request-id"]

    with_replay(
        [
            {"request": asking("as object"), "response": COMPLETION},
            {"request": asking("as stream"), "stream": STREAM},
        ],
        talk,
    )


def test_a_recording_in_the_other_form_is_made_into_the_one_asked_for() -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        chunks = chunks_of((await client.post("/chat/completions", json=chat("as object", stream=True))).content)
        refusal = "".join(chunk["choices"][0]["delta"].get("refusal") or "" for chunk in chunks)
        assert (refusal, chunks[-1]["choices"][0]["finish_reason"]) == ("I won't name it.", "content_filter")
        assert await said(client, **chat("as stream")) == "Two figs."
        assert await said(client, **chat("other api")) == "A quince."

    with_replay(
        [
            {"request": asking("as object"), "response": COMPLETION},
            {"request": asking("as stream"), "stream": STREAM},
            {"request": asking("other api"), "response": MESSAGE},
        ],
        talk,
    )


def test_other_apis_answer_as_recorded_or_say_that_they_cannot() -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        assert (await client.post("/v1/messages", json=chat("other api"))).json() == MESSAGE
        for path, request in (
            ("/v1/messages", chat("Name a fruit")),
            ("/v1/messages", chat("other api", stream=True)),
            ("/v1/responses", {"model": "any", "input": "Name a fruit"}),
            ("/v1/completions", {"model": "any", "prompt": "Name a fruit"}),
            ("/v1beta/models/m:generateContent", {"contents": [{"parts": [{"text": "Name a fruit"}]}]}),
        ):
            answer = await client.post(path, json=request)
            assert answer.status_code == 501, path
            assert answer.json()["error"]["message"].startswith("demur replay: ")

    with_replay([FIG, {"request": asking("other api"), "response": MESSAGE}], talk)


def test_a_recorded_error_comes_with_its_status() -> None:
    error = {"error": {"message": "Slow down.", "type": "rate_limit_error", "code": "rate_limit_exceeded"}}

    async def talk(client: httpx.AsyncClient) -> None:
        for stream in (False, True):
            answer = await client.post("/v1/chat/completions", json=chat("too fast", stream=stream))
            assert (answer.status_code, answer.json()) == (429, error)

    with_replay([{"request": asking("too fast"), "response": error, "status": 429}], talk)


def test_what_is_not_there_is_json_with_a_clear_message() -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        for answer, status, words in (
            (await client.post("/v1/chat/completions", json=chat("Who?")), 404, "no recorded trace"),
            (await client.post("/v1/chat/completions", content=b"{"), 400, "not JSON"),
            (await client.post("/v1/chat/completions", json=[]), 400, "not a JSON object"),
            (await client.get("/v1/chat/completions"), 405, "POST"),
            (await client.get("/v1/files"), 404, "/v1/files"),
        ):
            assert answer.status_code == status
            assert words in answer.json()["error"]["message"]
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}

    with_replay([FIG], talk)


def test_a_cut_stream_ends_without_its_end() -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        got = bytearray()

        async def read(answer: httpx.Response) -> None:
            async for piece in answer.aiter_raw():
                got.extend(piece)

        request = client.build_request("POST", "/v1/chat/completions", json=chat("Name a fruit", stream=True))
        answer = await client.send(request, stream=True)
        with pytest.raises(httpx.RemoteProtocolError):
            await read(answer)
        assert got.count(b"data: ") == 3
        assert b"[DONE]" not in got

    with_replay([FIG], talk, Pace(cut_after=3))


def test_chunks_have_the_size_that_was_asked_for() -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        body = (await client.post("/v1/chat/completions", json=chat("Name a fruit", stream=True))).content
        texts = [chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks_of(body)]
        assert max(map(len, texts)) == 4
        assert "".join(texts) == FIG["response"]

    with_replay([FIG], talk, Pace(chunk_chars=4))


def test_latency_comes_before_the_first_byte_and_the_delay_between_chunks() -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        clock = asyncio.get_running_loop().time
        start = clock()
        async with client.stream("POST", "/v1/chat/completions", json=chat("Name a fruit", stream=True)) as answer:
            head = clock() - start
            chunks = [piece async for piece in answer.aiter_raw()]
        assert head >= 0.1
        assert clock() - start - head >= 0.01 * (len(chunks) - 2)
        assert len(chunks) > 4

    with_replay([FIG], talk, Pace(latency=0.1, chunk_delay=0.01))


def test_what_can_never_match_is_counted() -> None:
    recording = Recording([FIG, {"response": "no ask"}, 5, "text", {"request": asking("x"), "response": COMPLETION}])
    assert (recording.size, recording.unmatched) == (5, 3)
    assert recording.models == ("m1", "m9")


def test_a_taken_port_is_an_error() -> None:
    async def run() -> None:
        app = create_replay_app(Recording([FIG]))
        async with listening(app) as address:
            with pytest.raises(OSError, match="in use"):
                async with listening(app, port=int(address.rpartition(":")[2])):
                    pass

    asyncio.run(run())


#: JSON that can be read and not be written again by a strict encoder, as a key's value.
ODD_VALUES = [r'"\ud800"', "NaN", "1e999", "9" * 30, "[" * 900 + "]" * 900, '{"a": "\\ude00"}']


@pytest.mark.parametrize("odd", ODD_VALUES, ids=["surrogate", "nan", "infinite", "long number", "deep", "within"])
@pytest.mark.parametrize("stream", ["true", "false"])
def test_every_answer_is_json_whatever_was_recorded_and_is_asked(odd: str, stream: str) -> None:
    recorded = decode(f'{{"request": {json.dumps(asking("Odd?"))}, "response": {{"odd": {odd}, "choices": [{{}}]}}}}')
    error = decode(f'{{"request": {json.dumps(asking("Error?"))}, "response": {{"error": {{"message": {odd}}}}}}}')
    text = decode(f'{{"prompt": "Text?", "response": "A fig.", "model": {odd}}}')
    events = decode(f'{{"request": {json.dumps(asking("Stream?"))}, "stream": "data: {{}}\\n\\n\\ud800\\n\\n"}}')

    async def talk(client: httpx.AsyncClient) -> None:
        for prompt in ("Odd?", "Error?", "Text?", "Stream?", "Nothing?", r"\ud800"):
            messages = f'"messages": [{{"role": "user", "content": "{prompt}"}}]'
            request = f'{{"model": {odd}, "stream": {stream}, {messages}}}'
            for path in ("/v1/chat/completions", "/v1/responses", "/v1/what"):
                response = await client.post(path, content=request)
                if response.headers["content-type"].startswith("text/event-stream"):
                    assert response.text.startswith("data: ")
                    continue
                body = response.json()
                assert response.headers["content-type"] == "application/json"
                assert response.status_code == 200 or {"message"} <= set(body["error"]), response.text
        assert (await client.get("/v1/models")).json()["object"] == "list"

    with_replay([recorded, error, text, events], talk)


def test_a_fault_of_ours_is_json_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*_: object) -> None:
        raise RuntimeError("out of order")

    async def talk(client: httpx.AsyncClient) -> None:
        response = await client.post("/v1/chat/completions", json=chat(FIG["prompt"]))
        assert response.status_code == 500
        assert response.json()["error"]["code"] == "replay_failed"

    monkeypatch.setattr(Recording, "take", faulty)
    with_replay([FIG], talk)
