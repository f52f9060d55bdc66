"""The ask of a request: last user text, system text, model, stream; for every API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.classifier.request import MAX_BYTES, MAX_LOOSE, MAX_OBJECTS, read_ask
from demur.classifier.trace import Ask

TEXT = {"type": "text", "text": "And now?"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}

REQUESTS: dict[str, tuple[dict[str, Any], Ask]] = {
    "chat": (
        {
            "model": "m",
            "stream": True,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hello"},
                {"role": "assistant", "content": "Hi."},
                {"role": "developer", "content": [{"type": "text", "text": "No jokes."}]},
                {"role": "user", "content": "And now?"},
            ],
        },
        Ask("And now?", "Be brief.\n\nNo jokes.", "m", True),
    ),
    "parts": ({"messages": [{"role": "user", "content": [IMAGE, TEXT, {"text": "Well?"}]}]}, Ask("And now?\nWell?")),
    "tool results are not asks": (
        {
            "messages": [
                {"role": "user", "content": "And now?"},
                {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
                {"role": "tool", "content": "12 degrees"},
            ]
        },
        Ask("And now?"),
    ),
    "a picture alone asks nothing new": (
        {"messages": [{"role": "user", "content": "And now?"}, {"role": "user", "content": [IMAGE]}]},
        Ask("And now?"),
    ),
    "legacy": ({"model": "m", "prompt": "The sky is", "stream": False}, Ask("The sky is", model="m")),
    "legacy list": ({"prompt": ["a", "b"]}, Ask("b", several=True)),
    "legacy list of one": ({"prompt": ["a"]}, Ask("a")),
    "legacy lists of tokens": ({"prompt": [[1, 2], [3]]}, Ask(several=True)),
    "gemini, two candidates": (
        {"contents": [{"role": "user", "parts": [{"text": "And now?"}]}], "generationConfig": {"candidateCount": 2}},
        Ask("And now?", several=True),
    ),
    "legacy tokens": ({"prompt": [1, 2, 3]}, Ask()),
    "responses text": (
        {"model": "m", "input": "And now?", "instructions": "Be brief."},
        Ask("And now?", "Be brief.", "m"),
    ),
    "responses items": (
        {
            "input": [
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": [{"type": "input_text", "text": "And now?"}, {"type": "input_image"}]},
                {"type": "reasoning", "summary": []},
                {"type": "function_call", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "12 degrees"},
            ]
        },
        Ask("And now?", "Be brief."),
    ),
    "anthropic": (
        {
            "model": "m",
            "max_tokens": 9,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": [TEXT]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "t", "content": "12", "text": "12"}],
                },
            ],
        },
        Ask("And now?", "Be brief.", "m"),
    ),
    "gemini": (
        {
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [
                {"role": "user", "parts": [{"text": "Hello"}]},
                {"role": "model", "parts": [{"text": "Hi."}]},
                {"parts": [{"text": "And"}, {"inlineData": {"data": "QUJD"}}, {"text": "now?"}]},
                {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}, "text": "12"}]},
            ],
        },
        Ask("And\nnow?", "Be brief."),
    ),
    "gemini, one content": (
        {"system_instruction": "Be brief.", "contents": {"parts": {"text": "And now?"}}},
        Ask("And now?", "Be brief."),
    ),
    "bedrock": (
        {
            "modelId": "m",
            "system": [{"text": "Be brief."}],
            "messages": [
                {"role": "user", "content": [{"text": "And now?"}]},
                {"role": "user", "content": [{"toolResult": {"content": [{"text": "12"}]}}]},
            ],
        },
        Ask("And now?", "Be brief.", "m"),
    ),
    "ollama generate": ({"model": "m", "prompt": "And now?", "system": "Be brief."}, Ask("And now?", "Be brief.", "m")),
    "odd": (
        {"model": 7, "stream": "yes", "messages": [None, 3, "And now?", {"role": 5, "content": 6}]},
        Ask("And now?", model="7"),
    ),
    "empty": ({}, Ask()),
}


@pytest.mark.parametrize(("request_", "ask"), REQUESTS.values(), ids=REQUESTS)
def test_asks(request_: dict[str, Any], ask: Ask) -> None:
    assert read_ask(request_, None) == ask
    assert read_ask(json.dumps(request_).encode(), "openai.chat") == ask


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[1]", b'"x"', b"{", b"\xff", b"[" * 10_000, b"--b\r\ncontent", b"NaN"]
)
def test_what_cannot_be_read_is_an_empty_ask(body: bytes) -> None:
    assert read_ask(body, "openai.chat") == Ask()


def test_odd_bytes() -> None:
    assert read_ask(b'{"messages":[{"role":"user","content":"caf\xe9"}],"seed":NaN}', None).prompt == "caf\ufffd"
    assert read_ask(b'\xef\xbb\xbf{"prompt":"x"}', None).prompt == "x"
    assert read_ask(b'{"prompt":"\\ud800"}', None).prompt == "\ufffd"


@pytest.mark.parametrize(
    ("body", "several"),
    [
        (b'{"n":3}', True),
        (b'{"n": 1}', False),
        (b'{"a":{"n":3}}', False),
        (b"{}", False),
        (b'{"n":"x"}', False),
        (b'{"n":null}', False),
        (b'{"n":[3]}', False),
        (b'"n"', False),
    ],
)
def test_whether_several_choices_are_asked_for(body: bytes, several: bool) -> None:
    assert read_ask(body).several is several


@pytest.mark.parametrize("stream", ["", '"stream":true,', '"stream":null,'])
def test_ollama_streams_unless_it_is_told_not_to(stream: str) -> None:
    body = f'{{{stream}"model":"m","messages":[]}}'.encode()
    assert read_ask(body, "ollama.chat").stream
    assert read_ask(body, "openai.chat").stream is ("true" in stream)
    assert read_ask(b'{"stream":false,"prompt":"Hi"}', "ollama.chat") == Ask("Hi")


def test_one_odd_text_leaves_the_others_readable() -> None:
    odd = b'{"role":"system","content":"half \\ud83d"},{"role":"user","content":[{"text":7},"And now?"]}'
    assert read_ask(b'{"model":"m","messages":[%b]}' % odd) == Ask("And now?", "half \ufffd", "m")
    cut = b'{"role":"system","content":"\xc3"},{"role":"user","content":"And now?"}'
    assert read_ask(b'{"messages":[%b]}' % cut) == Ask("And now?", "\ufffd")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (b'"x":"%b"' % (b"a" * MAX_BYTES), f"the request is over {MAX_BYTES} bytes"),
        (b'"x":[%b{}]' % (b"{}," * MAX_OBJECTS), f"the request has over {MAX_OBJECTS} objects"),
        (b'"input":[0,"%b"]' % (b"a" * MAX_LOOSE), "it is large and its JSON unusual"),
        (b'"input":[0%b]' % (b",[]" * MAX_OBJECTS), "it is large and its JSON unusual"),
    ],
)
def test_beyond_a_limit_the_texts_are_not_read(more: bytes, why: str) -> None:
    body = b'{"messages":[{"role":"user","content":"Hi"}],%b,"model":"m","stream":true,"n":2}'
    assert read_ask(body % more) == Ask(model="m", stream=True, several=True, unread=f"ask not read: {why}")
    assert read_ask((body % more)[:-1]) == Ask(unread=f"ask not read: {why}")
    for fine in (b'"x":0', b'"x":"%b"' % (b"{ x }" * MAX_OBJECTS)):
        assert read_ask(body % fine) == Ask("Hi", model="m", stream=True, several=True)


def test_a_large_picture_is_no_obstacle() -> None:
    picture = b'{"type":"image_url","image_url":{"url":"data:image/png;base64,%b"}}' % (b"A" * (MAX_BYTES // 2))
    body = b'{"messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},%b]}]}' % picture
    assert read_ask(body) == Ask("What is it?")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["messages", "role", "content", "text", "type", "parts", "input", "contents", "system", "model"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.sampled_from(["messages", "system", "prompt", "input", "contents", "model"]), JSON))
def test_any_request_is_read_the_same_from_its_bytes(body: dict[str, Any]) -> None:
    ask = read_ask(body, None)
    f"{ask.prompt}{ask.system}{ask.model}".encode()
    if "NaN" not in json.dumps(body) and "Infinity" not in json.dumps(body):
        assert read_ask(json.dumps(body).encode(), None) == ask
