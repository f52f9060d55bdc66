"""Every API through the whole proxy: bytes stay, JSON and stream give one verdict; what is not judged says nothing."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Sequence
from typing import Any

import pytest
from conversations import PAIRS, chat, gemini, message, response, sse
from fake_upstream import END, Answer, Script, Step, ask, call, chunk, head, proxy, request, upstream, whole

from demur.proxy.observe import Exchange

KEY = re.compile(rb',"refusal_verdict":(\{[^{}]*\})')
NO = "I'm sorry, but I can't help with that request."
YES = "Boil the eggs for nine minutes, then cool them."
#: First word of a name in PAIRS → the paths of its JSON and of its stream.
PATHS = {
    "chat": ("/v1/chat/completions", "/openai/deployments/x/chat/completions?api-version=2024-10-21"),
    "legacy": ("/v1/completions", "/openai/deployments/x/completions?api-version=2024-10-21"),
    "responses": ("/v1/responses", "/openai/v1/responses"),
    "anthropic": ("/v1/messages", "/anthropic/v1/messages?beta=true"),
    "gemini": ("/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent?alt=sse"),
    "ollama": ("/api/chat", "/api/generate"),
}
ERRORS = PATHS["chat"]


def run(scripts: Sequence[Script], sent: Sequence[bytes], **settings: Any) -> list[tuple[Answer, Exchange]]:
    """One exchange after the other."""

    async def main() -> list[tuple[Answer, Exchange]]:
        async with upstream(*scripts[0], then=scripts[1:]) as up, proxy(up.url, **settings) as px:
            found = []
            for number, each in enumerate(sent, 1):
                answer = await call(px, each)
                found.append((answer, await px.end(number)))
            return found

    return asyncio.run(main())


def streamed(body: bytes, sizes: Sequence[int] = (), kind: str = "text/event-stream") -> list[Step]:
    """`body` as a chunked stream, cut at `sizes`."""
    pieces = [body[start:stop] for start, stop in zip([0, *sizes], [*sizes, len(body)], strict=True)]
    steps: list[Step] = [head(kind)]
    for piece in pieces:
        steps += [chunk(piece), 0.002]
    return [*steps, END]


def cuts(body: bytes, count: int) -> list[Sequence[int]]:
    return [sorted(random.Random(seed).sample(range(1, len(body)), 7)) for seed in range(count)]


def told(exchange: Exchange) -> dict[str, Any]:
    """The verdict as it is looked up, without what differs between two exchanges."""
    assert exchange.verdict is not None
    return {**exchange.verdict.to_dict(), "id": ""}


@pytest.mark.parametrize("name", PAIRS)
def test_json_and_stream_give_one_verdict(name: str) -> None:
    body, stream = PAIRS[name]
    json_path, stream_path = PATHS.get(name.partition(",")[0], ERRORS)
    several: dict[str, Any] = {"n": 2} if "choices" in name or "prompts" in name else {}
    data = json.dumps(body).encode()
    ways = [[], range(1, len(stream)), *cuts(stream, 3)]
    scripts: list[Script] = [[whole(data)], *(streamed(stream, sizes) for sizes in ways)]
    sent = [ask(path=json_path, **several), *[ask(path=stream_path, stream=True, **several)] * len(ways)]
    (complete, first), *others = run(scripts, sent)
    assert complete.body == data
    assert first.verdict is not None
    assert complete.get("x-refusal-verdict") == first.verdict.label
    assert complete.get("x-refusal-status") == first.verdict.status
    (_, second), *_ = others
    # A stream may know less of what it belongs to (the model comes in its own event), never say something else.
    known = {"label", "confidence", "status", "action", "rationale", "strategy", "signals", "blocked_by", "choices"}
    for key in known & told(first).keys():
        assert told(second)[key] == told(first)[key], key
    for answer, exchange in others:
        assert KEY.sub(b"", answer.body) == stream
        assert (answer.get("x-refusal-verdict"), answer.get("x-refusal-id")) == ("pending", exchange.id)
        assert answer.get("x-refusal-status") is None
        assert told(exchange) == told(second)
        assert exchange.verdict is not None
        for found in KEY.findall(answer.body):
            assert json.loads(found)["id"] == exchange.id
            if not several:
                assert json.loads(found)["label"] == exchange.verdict.label
    finished = first.trace.choices if first.trace and "error" not in name and "blocked" not in name else ()
    assert {len(KEY.findall(answer.body)) for answer, _ in others} == {len(finished)}


def ollama(text: str, path: str) -> tuple[bytes, bytes]:
    """JSON and JSON Lines that say `text`."""
    half = len(text) // 2

    def part(said: str, **more: Any) -> dict[str, Any]:
        said_in = {"message": {"role": "assistant", "content": said}} if path == "/api/chat" else {"response": said}
        return {"model": "m", **said_in, "done": False, **more}

    end = {"done": True, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 4}
    lines = [part(text[:half]), part(text[half:]), part("", **end)]
    return json.dumps(part(text, **end)).encode(), b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@pytest.mark.parametrize("path", PATHS["ollama"])
@pytest.mark.parametrize(("text", "label"), [(NO, "hard_refusal"), (YES, "answer")])
def test_ollama_streams_json_lines(path: str, text: str, label: str) -> None:
    body, stream = ollama(text, path)
    prompt = {"prompt": "How long do eggs boil?"}
    ways = [[], range(1, len(stream)), *cuts(stream, 3)]
    scripts: list[Script] = [[whole(body)], *(streamed(stream, sizes, "application/x-ndjson") for sizes in ways)]
    (complete, first), *others = run(
        scripts, [ask(path=path, stream=False, **prompt), *[ask(path=path, **prompt)] * len(ways)]
    )
    assert (complete.body, complete.get("x-refusal-verdict")) == (body, label)
    for answer, exchange in others:
        (found,) = KEY.findall(answer.body)
        assert json.loads(answer.body.rsplit(b"\n", 2)[1])["refusal_verdict"] == json.loads(found)
        assert json.loads(found)["label"] == label
        assert KEY.sub(b"", answer.body) == stream
        assert answer.get("x-accel-buffering") == "no"
        assert (told(exchange), exchange.stream, exchange.ask.stream) == (told(first), True, True)
        assert exchange.done_marker is True


def candidates(text: str) -> list[dict[str, Any]]:
    half = len(text) // 2
    first, second = (gemini({"text": part}, finish=None) for part in (text[:half], text[half:]))
    return [first, second, gemini({"text": ""})]


@pytest.mark.parametrize(("text", "label"), [(NO, "hard_refusal"), (YES, "answer")])
@pytest.mark.parametrize("indent", [None, 2])
def test_gemini_streams_a_json_array(text: str, label: str, indent: int | None) -> None:
    stream = json.dumps(candidates(text), indent=indent, ensure_ascii=False).encode()
    body = json.dumps(gemini({"text": text})).encode()
    array = "/v1beta/models/m:streamGenerateContent"
    ways = [[], range(1, len(stream)), *cuts(stream, 3)]
    kind = "application/json; charset=UTF-8"
    scripts: list[Script] = [[whole(body)], *(streamed(stream, sizes, kind) for sizes in ways)]
    (complete, first), *others = run(scripts, [ask(path=PATHS["gemini"][0]), *[ask(path=array)] * len(ways)])
    assert complete.get("x-refusal-verdict") == label
    for answer, exchange in others:
        assert json.loads(answer.body)[-1]["refusal_verdict"]["label"] == label
        assert KEY.sub(b"", answer.body) == stream
        assert answer.get("x-refusal-verdict") == "pending"
        assert (told(exchange), exchange.stream) == (told(first), True)


def test_a_json_array_arrives_as_it_is_sent() -> None:
    said = [f"{'[' if n == 0 else ','}{json.dumps(gemini({'text': 'on and on '}, finish=None))}" for n in range(3)]
    steps: list[Step] = [head("application/json")]
    for part in said:
        steps += [chunk(part.encode()), 0.2]
    ((answer, exchange),) = run([[*steps, chunk(b"]"), END]], [ask(path="/v1beta/models/m:streamGenerateContent")])
    times = [when for when, piece in answer.times if piece]
    assert [piece for _, piece in answer.times if piece] == [*(part.encode() for part in said), b"]"]
    assert times[2] - times[0] > 0.2
    assert exchange.verdict is not None
    assert exchange.verdict.status == "incomplete"  # no finish reason came


@pytest.mark.parametrize("coding", ["off", "chunk"])
def test_off_leaves_every_stream_as_it_is(coding: str) -> None:
    _, lines = ollama(NO, "/api/chat")
    array = json.dumps(candidates(NO)).encode()
    cases = [(PAIRS["chat"][1], "text/event-stream", PATHS["chat"][1])]
    cases += [(PAIRS[name][1], "text/event-stream", PATHS[name][1]) for name in ("legacy", "responses", "anthropic")]
    cases += [(PAIRS["gemini"][1], "text/event-stream", PATHS["gemini"][1])]
    cases += [(lines, "application/x-ndjson", "/api/chat")]
    cases += [(array, "application/json", "/v1beta/models/m:streamGenerateContent")]
    scripts = [streamed(stream, (), kind) for stream, kind, _ in cases]
    found = run(scripts, [ask(path=path, stream=True) for *_, path in cases], stream_verdict=coding)
    for (stream, *_), (answer, exchange) in zip(cases, found, strict=True):
        assert len(KEY.findall(answer.body)) == (coding == "chunk")
        assert (answer.body == stream) == (coding == "off")
        assert exchange.verdict is not None
        assert exchange.verdict.label is not None


ARRAY = "/v1beta/models/m:streamGenerateContent"
KINDS = {"/api/chat": "application/x-ndjson", ARRAY: "application/json"}


def alone(path: str, error: dict[str, Any]) -> list[Step]:
    """A stream of 200 that is nothing but `error`, in the form of its API."""
    forms = {"/api/chat": json.dumps(error).encode() + b"\n", ARRAY: json.dumps([error]).encode()}
    data = forms.get(path) or (b"event: error\n" if "type" in error else b"") + sse(json.dumps(error))
    return streamed(data, (), KINDS.get(path, "text/event-stream"))


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/v1/chat/completions", {"error": {"code": "content_filter", "message": "no"}}),
        ("/v1/chat/completions", {"error": {"code": 1301, "message": "sensitive content"}}),
        ("/v1/completions", {"error": {"code": "data_inspection_failed", "message": "no"}}),
        ("/v1/responses", {"type": "error", "code": "cyber_policy", "message": "no"}),
        ("/v1/messages", {"type": "error", "error": {"message": "Output blocked by content filtering policy"}}),
        (ARRAY, {"promptFeedback": {"blockReason": "SAFETY"}}),
        (ARRAY + "?alt=sse", {"promptFeedback": {"blockReason": "OTHER"}}),
        ("/api/chat", {"error": {"code": "content_policy_violation", "message": "no"}}),
    ],
)
def test_w32_a_block_inside_a_stream_of_200(path: str, error: dict[str, Any]) -> None:
    steps = alone(path, error)
    ((answer, exchange),) = run([steps], [ask(path=path, stream=True)])
    assert chunk(answer.body) == steps[1]
    assert exchange.verdict is not None
    assert (exchange.verdict.label, exchange.verdict.status) == ("hard_refusal", "complete")
    assert exchange.verdict.blocked_by is not None
    assert exchange.verdict.rationale is None


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/v1/completions", {"error": {"code": 504, "type": "timeout"}}),
        ("/v1/responses", {"type": "error", "code": "server_error", "message": "x"}),
        ("/v1/messages", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        (ARRAY, {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}),
        (ARRAY + "?alt=sse", {"error": {"code": 429, "message": "no", "status": "RESOURCE_EXHAUSTED"}}),
        ("/api/chat", {"error": "model runner has stopped"}),
    ],
)
def test_w33_an_error_inside_a_stream_of_200(path: str, error: dict[str, Any]) -> None:
    steps = alone(path, error)
    ((answer, exchange),) = run([steps], [ask(path=path, stream=True)])
    assert chunk(answer.body) == steps[1]
    assert exchange.verdict is not None
    assert (exchange.verdict.label, exchange.verdict.status) == (None, "upstream_error")


FILTERED = {"hate": {"filtered": False, "severity": "safe"}, "violence": {"filtered": True, "severity": "medium"}}


@pytest.mark.parametrize(
    ("status", "path", "body", "blocked_by"),
    [
        (
            400,
            PATHS["chat"][1],
            {
                "error": {
                    "message": "The prompt triggered our filter.",
                    "type": None,
                    "param": "prompt",
                    "code": "content_filter",
                    "status": 400,
                    "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": FILTERED},
                }
            },
            "content_filter",
        ),
        (403, "/v1/chat/completions", {"error": {"message": "Content blocked by guardrail"}}, None),
        (
            403,
            "/api/v1/chat/completions",
            {"error": {"code": 403, "message": "flagged", "metadata": {"reasons": ["violence"], "flagged_input": "x"}}},
            "violence",
        ),
        (400, "/compatible-mode/v1/chat/completions", {"error": {"code": "data_inspection_failed"}}, None),
        (400, "/v1/messages", {"error": {"message": "Output blocked by content filtering policy"}}, None),
        (401, "/v1/messages", {"type": "error", "error": {"type": "authentication_error", "message": "no"}}, ""),
        (403, "/v1/chat/completions", {"error": {"code": "permission_denied", "message": "not your model"}}, ""),
        (404, "/v1beta/models/m:generateContent", {"error": {"code": 404, "status": "NOT_FOUND", "message": "no"}}, ""),
        (413, "/v1/responses", {"error": {"code": "request_too_large", "message": "no"}}, ""),
        (429, "/v1/completions", {"error": {"code": "rate_limit_exceeded", "message": "no"}}, ""),
        (503, "/api/generate", {"error": "server busy"}, ""),
        (400, "/v1/responses", {"error": {"code": "context_length_exceeded", "message": "no"}}, ""),
    ],
)
def test_blocks_and_errors_with_a_status(status: int, path: str, body: dict[str, Any], blocked_by: str | None) -> None:
    data = json.dumps(body).encode()
    found = run([[whole(data, status=f"{status} No")]], [ask(path=path), ask(path=path, stream=True)])
    for answer, exchange in found:
        assert (answer.status, answer.body) == (status, data)
        assert exchange.verdict is not None
        if blocked_by == "":
            assert (answer.get("x-refusal-verdict"), answer.get("x-refusal-status")) == (None, "upstream_error")
        else:
            assert (answer.get("x-refusal-verdict"), answer.get("x-refusal-status")) == ("hard_refusal", "complete")
            assert exchange.verdict.blocked_by == (blocked_by or exchange.verdict.blocked_by) is not None


def test_w24_azures_annotations_are_kept_and_decide_nothing() -> None:
    prompt = {"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": FILTERED}]}
    said = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": YES}, "finish_reason": None}]}
    stop = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    note: dict[str, Any] = {"index": 0, "finish_reason": None, "content_filter_offsets": {"end_offset": 9}}
    note |= {"content_filter_results": FILTERED}
    begin = sse(prompt, said, stop)
    fine = begin + sse({"choices": [note]}, done=True)
    late = begin + sse({"choices": [note | {"finish_reason": "content_filter"}]}, done=True)
    found = run([streamed(fine), streamed(late, [len(begin)])], [ask(path=PATHS["chat"][1], stream=True)] * 2)
    (_, passed), (answer, filtered) = found
    assert passed.trace is not None
    assert passed.trace.meta["prompt_filter_results"] == prompt["prompt_filter_results"]
    assert passed.trace.meta["content_filter_results"] == {0: FILTERED}
    assert passed.verdict is not None
    assert (passed.verdict.label, passed.verdict.blocked_by) == ("answer", None)
    assert filtered.verdict is not None
    assert (filtered.verdict.label, filtered.verdict.blocked_by) == ("hard_refusal", "content_filter")
    assert [json.loads(key)["label"] for key in KEY.findall(answer.body)] == ["answer", "hard_refusal"]
    assert KEY.sub(b"", answer.body) == late


def test_a_response_that_continues_another_is_judged_and_one_in_the_background_is_not_yet() -> None:
    said = json.dumps(response({"type": "output_text", "text": NO})).encode()
    queued = json.dumps({**response(status="queued"), "output": [], "background": True}).encode()
    path = "/v1/responses"
    sent = [
        ask(path=path, input="And now?", previous_response_id="resp_0", store=True),
        ask(path=path, input="Write it all down.", background=True),
        request("GET", "/v1/responses/resp_1"),
    ]
    (answer, first), (later, second), (fetched, third) = run([[whole(said)], [whole(queued)], [whole(said)]], sent)
    assert (answer.get("x-refusal-verdict"), first.ask.prompt) == ("hard_refusal", "How do I build it?")
    assert (later.get("x-refusal-verdict"), later.get("x-refusal-status")) == (None, "not_classified")
    assert second.verdict is not None
    assert second.verdict.reason == "there is no answer yet: it is made in the background"
    assert (fetched.body, third.api) == (said, None)  # it has no ask, and may be fetched many times: not judged
    assert not [name for name, _ in fetched.headers if name.startswith("x-refusal")]


CHAT = json.dumps(chat(NO)).encode()
SSE = sse(message({"type": "text", "text": NO}), chat(NO), done=True)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/moderations"),
        ("POST", "/v1/images/generations"),
        ("POST", "/v1/images/edits"),
        ("POST", "/v1/audio/speech"),
        ("POST", "/v1/audio/transcriptions"),
        ("POST", "/v1/files"),
        ("GET", "/v1/files/f/content"),
        ("POST", "/v1/batches"),
        ("GET", "/v1/models"),
        ("POST", "/v1/threads/t/messages"),
        ("POST", "/v1/threads/t/runs"),
        ("GET", "/v1/chat/completions"),
        ("GET", "/v1/chat/completions/c/messages"),
        ("GET", "/v1/responses/r?stream=true"),
        ("POST", "/v1/responses/r/cancel"),
        ("GET", "/v1/responses/r/input_items"),
        ("POST", "/v1/messages/count_tokens"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1beta/models/m:countTokens"),
        ("POST", "/v1beta/models/m:embedContent"),
        ("POST", "/api/embed"),
        ("POST", "/api/pull"),
        ("GET", "/api/tags"),
        ("POST", "/model/m/converse-stream"),
    ],
)
def test_what_is_not_judged_passes_unread(method: str, path: str) -> None:
    bodies = [
        (CHAT, "application/json"),
        (SSE, "text/event-stream"),
        (CHAT + b"\n" + CHAT, "application/x-ndjson"),
        (bytes(range(256)), "application/vnd.amazon.eventstream"),
    ]
    sent = request(method, path, b'{"input":"x","stream":true}' if method == "POST" else None)
    scripts = [streamed(body, (), kind) for body, kind in bodies]
    for (body, kind), (answer, exchange) in zip(bodies, run(scripts, [sent] * len(bodies)), strict=True):
        assert (answer.body, answer.get("content-type")) == (body, kind)
        assert not [name for name, _ in answer.headers if name.startswith("x-refusal")]
        assert (exchange.api, exchange.verdict, exchange.trace) == (None, None, None)


def test_w63_realtime_is_refused_in_words() -> None:
    lines = (
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.x, openai-beta.realtime-v1",
    )
    ((answer, exchange),) = run([[END]], [request("GET", "/v1/realtime?model=m", None, *lines)])
    assert (answer.status, answer.get("content-type")) == (501, "application/json")
    assert answer.json()["error"]["code"] == "websocket_not_supported"
    assert "insecure" not in answer.body.decode() + repr(exchange.error)
    assert exchange.end == "rejected"


def test_w27_several_choices_and_their_header() -> None:
    two = json.dumps(PAIRS["chat, two choices"][0]).encode()
    both = {"candidates": [gemini({"text": text}, index=n)["candidates"][0] for n, text in enumerate((NO, YES, NO))]}
    found = run([[whole(two)], [whole(json.dumps(both).encode())]], [ask(n=2), ask(path=PATHS["gemini"][0])])
    told = [(answer.get("x-refusal-verdict"), answer.get("x-refusal-choices")) for answer, _ in found]
    assert told == [("hard_refusal", "1/2"), ("hard_refusal", "2/3")]
    single = run([[whole(CHAT)]], [ask()])[0][0]
    assert single.get("x-refusal-choices") is None
    for answer in (found[0][0], found[1][0], single):
        for name, value in answer.headers:
            assert value.isascii()
            assert not name.startswith("x-refusal") or len(value) <= 512
