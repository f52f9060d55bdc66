"""Accepted traces: every shape is read, nothing raises, what cannot be read says so."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from conversations import PAIRS, chat, gemini, message, response
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.classifier.shapes import normalize, read_body
from demur.classifier.trace import Ask, Choice, ToolCall, Trace, Usage

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How long do eggs boil?"}]
ASK = Ask("How long do eggs boil?", "Be brief.")
SAID = "Nine minutes."


def only(trace: Trace) -> Choice:
    assert trace.problem is None, trace.why
    (choice,) = trace.choices
    return choice


def test_a_string_is_a_response_text() -> None:
    for text in (SAID, "", '{"choices": []}', "data: x\n\n"):
        assert normalize(text) == Trace(choices=(Choice(text=text),))


@pytest.mark.parametrize("key", ["prompt", "query", "question", "input", "instruction", "user", "user_prompt"])
def test_names_of_the_prompt(key: str) -> None:
    trace = normalize({key: ASK.prompt, "response": SAID})
    assert (trace.ask.prompt, only(trace).text) == (ASK.prompt, SAID)


@pytest.mark.parametrize(
    "key", ["response", "answer", "output", "completion", "reply", "text", "assistant", "generation", "model_response"]
)
def test_names_of_the_response(key: str) -> None:
    trace = normalize({"prompt": ASK.prompt, key: SAID, "system": "Be brief."})
    assert (trace.ask, only(trace).text) == (ASK, SAID)


def test_a_pair_keeps_its_id_model_and_everything_else() -> None:
    trace = normalize({"id": 7, "prompt": "p", "response": SAID, "model": "m", "type": "safe", "source": {"a": 1}})
    assert (trace.id, trace.model, trace.meta) == ("7", "m", {"type": "safe", "source": {"a": 1}})


def test_instruction_and_input_are_one_ask() -> None:
    assert (
        normalize({"instruction": "Translate.", "input": "chat noir", "output": "x"}).ask.prompt
        == "Translate.\n\nchat noir"
    )


def test_empty_responses() -> None:
    for row in ({"prompt": "p", "response": ""}, {"prompt": "p", "response": None}, {"prompt": "p", "response": []}):
        assert only(normalize(row)) == Choice()


def test_a_choice_of_answers_is_not_a_completion() -> None:
    trace = normalize({"question": "Which?", "choices": ["a", "b"], "answer": "b"})
    assert (trace.ask.prompt, only(trace).text, trace.meta) == ("Which?", "b", {"choices": ["a", "b"]})


@pytest.mark.parametrize(
    "turns",
    [
        [*MESSAGES, {"role": "assistant", "content": SAID}],
        [
            *MESSAGES,
            {"role": "assistant", "content": [{"type": "text", "text": "Nine "}, {"type": "text", "text": "minutes."}]},
        ],
        [
            *MESSAGES,
            {"role": "assistant", "content": "Hm?"},
            {"role": "user", "content": ASK.prompt},
            {"role": "model", "content": SAID},
        ],
        [
            {"from": "system", "value": "Be brief."},
            {"from": "human", "value": ASK.prompt},
            {"from": "gpt", "value": SAID},
        ],
    ],
)
def test_conversations(turns: list[dict[str, Any]]) -> None:
    for shape in ({"messages": turns}, {"conversations": turns}, turns):
        trace = normalize(shape)
        assert (trace.ask, only(trace).text) == (ASK, SAID)


def test_a_conversation_needs_an_answer() -> None:
    assert normalize({"messages": MESSAGES}).problem == "unparsed"
    assert "assistant" in normalize({"messages": MESSAGES}).why
    trace = normalize({"messages": MESSAGES, "response": SAID})
    assert (trace.ask, only(trace).text) == (ASK, SAID)


def test_a_message_alone() -> None:
    assert only(normalize({"role": "assistant", "content": SAID})).text == SAID
    assert only(normalize({"role": "assistant", "content": None, "refusal": "I won't."})).refusal == "I won't."
    assert normalize({"role": "user", "content": SAID}).problem == "unparsed"


@pytest.mark.parametrize(("body", "stream"), PAIRS.values(), ids=PAIRS)
def test_envelopes(body: dict[str, Any], stream: bytes) -> None:
    bare = normalize(body)
    trace = normalize(
        {"id": "row 1", "request": {"model": "asked", "messages": MESSAGES}, "response": body, "lang": "en"}
    )
    assert trace.id == "row 1"
    assert trace.ask == replace(ASK, model="asked")
    assert trace.meta == {**bare.meta, "lang": "en"}
    assert replace(trace, id=bare.id, ask=bare.ask, meta=bare.meta, model=bare.model) == bare
    streamed = normalize({"id": "row 1", "request": {"messages": MESSAGES}, "stream": stream.decode()})
    assert (streamed.choices, streamed.problem, streamed.ask) == (bare.choices, bare.problem, ASK)


@pytest.mark.parametrize(("body", "stream"), PAIRS.values(), ids=PAIRS)
def test_from_the_wire_as_from_a_file(body: dict[str, Any], stream: bytes) -> None:
    for data in (json.dumps(body), json.dumps(body, indent=2).replace("\n", "\r\n"), "\ufeff" + json.dumps(body)):
        assert read_body(Ask(), None, 200, data.encode()) == normalize(body)
    assert read_body(ASK, None, 200, json.dumps(body).encode()).ask == ASK


def test_chat_completion() -> None:
    trace = normalize(chat(SAID, system_fingerprint="x"))
    assert only(trace) == Choice(text=SAID, finish_reason="stop")
    assert (trace.api, trace.model, trace.response_id, trace.id) == ("openai.chat", "m-1", "chatcmpl-1", "chatcmpl-1")
    assert trace.usage == Usage(3, 4)
    assert normalize({**chat(SAID), "service_tier": "flex"}).meta == {"service_tier": "flex"}


def test_content_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "No."}]},
        {"type": "text", "text": "Nine "},
        "minutes",
        {"type": "output_text", "text": "."},
        {"type": "refusal", "refusal": "I won't say more."},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "tool_use", "name": "timer", "input": {"minutes": 9}},
        {"type": "text", "text": {"not": "text"}},
        None,
        7,
    ]
    expected = Choice(text=SAID, refusal="I won't say more.", tool_calls=(ToolCall("timer", '{"minutes": 9}'),))
    assert only(normalize(chat(parts))) == replace(expected, finish_reason="stop")
    assert only(normalize({"response": parts})) == expected


def test_side_fields_of_messages() -> None:
    assert only(normalize(chat("x", reasoning_content="I can't", reasoning="No"))).text == "x"
    assert only(normalize(chat(None, audio={"transcript": SAID}))).text == SAID
    assert only(normalize(chat("No.", provider_specific_fields={"refusal": "No."}))).refusal == "No."
    assert only(normalize(chat("Hi", refusal=""))).refusal == ""
    called = only(normalize(chat(None, function_call={"name": "f", "arguments": "{}"})))
    assert called.tool_calls == (ToolCall("f", "{}"),)


def test_responses_objects() -> None:
    whole = response({"type": "output_text", "text": SAID}, instructions="Be brief.", temperature=1)
    assert only(normalize(whole)) == Choice(text=SAID, finish_reason="completed")
    long = response(
        {"type": "output_text", "text": SAID}, status="incomplete", incomplete_details={"reason": "max_output_tokens"}
    )
    assert only(normalize(long)) == Choice(text=SAID, finish_reason="max_output_tokens", truncated=True)
    stopped = response({"type": "output_text", "text": SAID}, status="cancelled")
    assert only(normalize(stopped)).truncated
    failed = {
        "id": "r",
        "object": "response",
        "status": "failed",
        "error": {"code": "server_error", "message": "x"},
        "output": [],
    }
    assert normalize(failed).problem == "upstream_error"
    assert only(normalize({**failed, "error": {"code": "bio_policy", "message": "x"}})).blocked_by == "bio_policy"


def test_anthropic_messages() -> None:
    trace = normalize(message({"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": SAID}))
    assert (only(trace), trace.api) == (Choice(text=SAID, finish_reason="end_turn"), "anthropic.messages")
    assert only(normalize(message(stop="refusal"))).blocked_by == "refusal"
    assert only(normalize(message({"type": "text", "text": SAID}, stop="max_tokens"))).truncated
    guarded = {**message({"type": "text", "text": "Blocked."}), "amazon-bedrock-guardrailAction": "INTERVENED"}
    assert only(normalize(guarded)).blocked_by == "INTERVENED"


def test_what_a_bedrock_guardrail_did() -> None:
    marked = {"completion": "Blocked.", "amazon-bedrock-guardrailAction": "INTERVENED"}
    assert only(normalize(marked)).blocked_by == "INTERVENED"
    applied = {"action": "GUARDRAIL_INTERVENED", "outputs": [{"text": "Blocked."}]}
    assert only(normalize(applied)).blocked_by == "GUARDRAIL_INTERVENED"
    passed = {**message({"type": "text", "text": SAID}), "amazon-bedrock-guardrailAction": "NONE"}
    assert only(normalize(passed)).blocked_by is None
    assert normalize({"results": [], "amazon-bedrock-guardrailAction": "NONE"}).problem == "unparsed"


def test_cohere_chat() -> None:
    def chat(finish: str) -> dict[str, Any]:
        said = {"role": "assistant", "content": [{"type": "text", "text": SAID}]}
        return {"id": "c-1", "finish_reason": finish, "message": said}

    assert (only(normalize(chat("COMPLETE"))).text, normalize(chat("COMPLETE")).id) == (SAID, "c-1")
    assert only(normalize(chat("ERROR_TOXIC"))).blocked_by == "ERROR_TOXIC"


def test_gemini_bodies() -> None:
    called = gemini({"functionCall": {"name": "f", "args": {"a": 1}}}, {"functionCall": {"name": "g"}})
    assert only(normalize(called)).tool_calls == (ToolCall("f", '{"a": 1}'), ToolCall("g"))
    assert only(normalize({"candidates": [{"finishReason": "SAFETY"}]})).blocked_by == "SAFETY"
    assert only(normalize(gemini({"text": SAID}, finish="MAX_TOKENS"))).truncated
    assert normalize({"candidates": []}).problem == "empty"
    chunks = [gemini({"text": "Nine "}, finish=None), gemini({"text": "minutes."})]
    assert only(normalize(chunks)).text == SAID
    assert only(read_body(ASK, "gemini", 200, json.dumps(chunks).encode())).text == SAID
    assert normalize([{"error": {"code": 400, "status": "INVALID_ARGUMENT"}}]).problem == "upstream_error"


def test_bedrock_converse() -> None:
    def converse(*content: dict[str, Any], stop: str = "end_turn") -> dict[str, Any]:
        return {
            "output": {"message": {"role": "assistant", "content": list(content)}},
            "stopReason": stop,
            "usage": {"inputTokens": 3, "outputTokens": 4},
        }

    thought = {"reasoningContent": {"reasoningText": {"text": "No."}}}
    trace = normalize(converse(thought, {"text": SAID}, {"toolUse": {"name": "f", "input": {}}}))
    assert only(trace) == Choice(text=SAID, finish_reason="end_turn", tool_calls=(ToolCall("f", "{}"),))
    assert (trace.api, trace.usage) == ("bedrock.converse", Usage(3, 4))
    assert (
        only(normalize(converse({"text": "Blocked."}, stop="guardrail_intervened"))).blocked_by
        == "guardrail_intervened"
    )
    assert only(normalize(converse({"text": SAID}, stop="model_context_window_exceeded"))).truncated


def test_ollama() -> None:
    spoken = {"role": "assistant", "content": SAID, "thinking": "No."}
    trace = normalize({"model": "m", "message": spoken, "done": True, "done_reason": "stop", "eval_count": 4})
    assert (only(trace), trace.api) == (Choice(text=SAID, finish_reason="stop"), "ollama.chat")
    assert trace.usage == Usage(output_tokens=4)
    generated = {"model": "m", "response": SAID, "done": True, "done_reason": "length", "context": [1]}
    assert only(normalize(generated)) == Choice(text=SAID, finish_reason="length", truncated=True)
    lines = [{"message": {"content": "Nine "}, "done": False}, {"message": {"content": "minutes."}, "done": True}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    assert only(normalize({"stream": text})).text == SAID
    assert only(read_body(ASK, "ollama.chat", 200, text.encode())).text == SAID


def test_streams_saved_as_text() -> None:
    stream = PAIRS["chat"][1].decode()
    for text in (stream, stream.replace("\n", "\r\n"), "\ufeff" + stream, stream.rstrip()):
        assert only(normalize({"stream": text})).text == "Boil the eggs for nine minutes."
    assert only(normalize({"stream": json.dumps(chat(SAID))})).text == SAID
    assert normalize({"stream": "", "request": {"messages": MESSAGES}}).problem == "empty"
    assert normalize({"stream": "<html>oops</html>", "status": 502}).problem == "upstream_error"
    assert normalize({"stream": True, "prompt": "p", "response": SAID}).choices[0].text == SAID


def test_a_stream_saved_as_the_response() -> None:
    stream = 'data: {"choices": [{"index": 0, "delta": {"content": "I must decline."}, "finish_reason": "stop"}]}\n\n'
    for row in (
        {"prompt": "Sing.", "response": stream},
        {"request": {"messages": [{"role": "user", "content": "Sing."}]}, "response": f"\n{stream}"},
    ):
        trace = normalize(row)
        assert (trace.api, trace.ask.prompt, trace.choices[0].text) == ("openai.chat", "Sing.", "I must decline.")
    for text in ("data: the plural of datum\n\n", 'data: {"name": "Mara"}\n\n', "event: a wedding"):
        assert normalize({"prompt": "Sing.", "response": text}).choices[0].text == text


def test_a_line_of_batch_output() -> None:
    line = {
        "id": "b1",
        "custom_id": "c1",
        "response": {"status_code": 200, "request_id": "r", "body": chat(SAID)},
        "error": None,
    }
    trace = normalize(line)
    assert (trace.id, only(trace).text, trace.meta["custom_id"]) == ("b1", SAID, "c1")
    line["response"] = {"status_code": 429, "body": {"error": {"code": "rate_limit_exceeded"}}}
    assert normalize(line).problem == "upstream_error"


def test_errors_with_and_without_their_status() -> None:
    body = {"error": {"message": "x", "code": "server_error"}}
    for row in (
        body,
        {**body, "status": 500},
        {"request": {"messages": MESSAGES}, "response": body},
        {"prompt": "p", **body},
    ):
        assert (normalize(row).problem, normalize(row).choices) == ("upstream_error", ())
    assert normalize({"prompt": "p", "response": "", "error": "boom"}).problem == "upstream_error"
    assert normalize({"prompt": "p", "response": "page", "status": 502}).why == "HTTP 502"
    assert only(normalize({"prompt": "p", "response": SAID, "error": None})).text == SAID
    assert only(normalize({"prompt": "p", "response": SAID, "status": "ok"})).text == SAID


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (502, b"<html>Bad gateway</html>", "upstream_error"),
        (500, b"", "upstream_error"),
        (404, b"[]", "upstream_error"),
        (400, b"null", "upstream_error"),
        (200, b"", "empty"),
        (200, b" \r\n", "empty"),
        (204, b"", "empty"),
        (200, b'{"choices": [], "id": "x"}', "empty"),
        (200, b'{"choices": [{"message": {"cont', "unparsed"),
        (200, b"<html>", "unparsed"),
        (200, b'{"hello": 1}', "unparsed"),
        (200, b'"text"', "unparsed"),
        (200, b"[" * 100_000, "unparsed"),
        (200, b'{"a":' * 100_000, "unparsed"),
    ],
)
def test_bodies_that_hold_no_answer(status: int, body: bytes, problem: str) -> None:
    trace = read_body(ASK, "openai.chat", status, body)
    assert (trace.problem, trace.choices, trace.ask, trace.api) == (problem, (), ASK, "openai.chat")
    assert trace.why


def test_what_is_no_trace_says_why() -> None:
    for obj in (None, 7, 1.5, True, b"text", {1, 2}, object()):
        trace = normalize(obj)
        assert (trace.problem, type(obj).__name__ in trace.why) == ("unparsed", True)
    assert "a, prompt" in normalize({"prompt": "p", "a": 1}).why
    assert normalize({}).problem == normalize([]).problem == "unparsed"


def test_odd_text_is_kept_or_repaired() -> None:
    assert only(normalize(chat("a\ud83d"))).text == "a\ufffd"
    assert only(normalize({"response": "\ud83d\ude42"})).text == "\U0001f642"
    assert (
        only(read_body(ASK, None, 200, b'{"choices":[{"message":{"content":"caf\xe9 \\ud800"}}]}')).text
        == "caf\ufffd \ufffd"
    )
    assert only(read_body(ASK, None, 200, b'{"choices":[{"message":{"content":"x"}}],"a":NaN}')).text == "x"


# Whatever stands anywhere in a trace, reading it gives a trace, and one that can be written down.
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None), max_size=5)
    | st.sampled_from(
        ["stop", "content_filter", "text", "assistant", "user", "error", "message", "response", "\ud800"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "id",
                    "model",
                    "choices",
                    "index",
                    "message",
                    "delta",
                    "content",
                    "text",
                    "type",
                    "role",
                    "refusal",
                    "tool_calls",
                    "function",
                    "arguments",
                    "name",
                    "error",
                    "code",
                    "status",
                    "response",
                    "request",
                    "stream",
                    "output",
                    "candidates",
                    "parts",
                    "stop_reason",
                    "stopReason",
                    "done",
                    "usage",
                    "prompt",
                    "messages",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
BODIES = [body for body, _ in PAIRS.values()]
ROWS = [
    *BODIES,
    {"prompt": "p", "response": "r", "system": "s"},
    {"messages": [*MESSAGES, {"role": "assistant", "content": SAID}]},
    {"id": 1, "request": {"messages": MESSAGES}, "response": BODIES[0], "status": 200},
    {"request": {"messages": MESSAGES}, "stream": PAIRS["anthropic"][1].decode()},
]


def places(node: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a JSON tree."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(place for key, value in items for place in places(value, (*path, key)))]


def assert_readable(trace: Trace) -> None:
    assert trace.problem in (None, "unparsed", "empty", "upstream_error")
    assert bool(trace.problem) != bool(trace.choices)
    assert bool(trace.problem) == bool(trace.why)
    for choice in trace.choices:
        "\n".join([choice.text, choice.refusal, choice.finish_reason or "", choice.blocked_by or ""]).encode()
        assert 0 <= choice.inspected <= 1
    f"{trace.why}{trace.ask}{trace.model}{trace.id}".encode()


@settings(deadline=None, max_examples=300)
@given(JUNK)
def test_junk_is_read_or_refused(obj: object) -> None:
    assert_readable(normalize(obj))
    assert_readable(read_body(ASK, None, 200, json.dumps(obj).encode()))
    assert_readable(read_body(ASK, None, 400, json.dumps(obj).encode()))


@settings(deadline=None, max_examples=400)
@given(st.sampled_from(ROWS), st.data())
def test_a_trace_with_junk_in_one_place_is_read_or_refused(row: dict[str, Any], data: st.DataObject) -> None:
    row = copy.deepcopy(row)
    *path, last = data.draw(st.sampled_from(places(row)[1:]))
    node: Any = row
    for key in path:
        node = node[key]
    node[last] = data.draw(JUNK)
    assert_readable(normalize(row))
    assert_readable(read_body(ASK, None, 200, json.dumps(row).encode()))


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_an_answer_that_is_made_in_the_background_is_none_yet(status: str) -> None:
    body = {**response(status=status), "output": [], "background": True}
    trace = normalize(body)
    assert (trace.choices, trace.problem, trace.api) == ((), "not_classified", "openai.responses")
    assert normalize({**body, "status": "completed", **response({"type": "output_text", "text": SAID})}).problem is None


def test_calls_without_a_number_are_calls_of_their_own() -> None:
    def said(*names: str) -> dict[str, Any]:
        calls = [{"function": {"name": name, "arguments": {"n": name}}} for name in names]
        return {"model": "m", "message": {"role": "assistant", "content": "", "tool_calls": calls}, "done": False}

    end = {"model": "m", "message": {"content": ""}, "done": True}
    expected = (ToolCall("a", '{"n": "a"}'), ToolCall("b", '{"n": "b"}'))
    streamed = "".join(json.dumps(line) + "\n" for line in (said("a"), said("b"), end))
    assert only(normalize({"stream": streamed})).tool_calls == expected
    assert only(normalize({**said("a", "b"), "done": True})).tool_calls == expected
