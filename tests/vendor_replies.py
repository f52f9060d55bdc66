"""One reply in the words of every API: as a whole body, and as the events of the stream that says the same.

Complete enough for the vendors' own SDKs, which read, assemble and validate all of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

CREATED = 1_760_000_000
USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}


@dataclass(frozen=True)
class Reply:
    """What a model says: text, or a call of the tool `tool` with `arguments`; `refusal` is OpenAI's own field.

    With `thinking`, chat completions look as vLLM and its kind send them.
    """

    model: str
    text: str = ""
    refusal: str | None = None
    thinking: str | None = None
    tool: str | None = None
    arguments: str = "{}"
    n: int = 1
    logprobs: bool = False

    @property
    def finish(self) -> str:
        return "tool_calls" if self.tool else "stop"

    def words(self, index: int = 0) -> list[str]:
        return tokens(self.choice_text(index))

    def choice_text(self, index: int) -> str:
        return self.text if index == 0 else f"{self.text} ({index + 1})"


def tokens(text: str) -> list[str]:
    return re.findall(r"\s*\S+", text)


def data(obj: Any, name: str | None = None) -> bytes:
    """One server-sent event."""
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(obj).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"

# OpenAI: chat completions.


def _logprobs(words: list[str]) -> dict[str, Any]:
    return {
        "content": [
            {
                "token": word,
                "logprob": -0.25,
                "bytes": list(word.encode()),
                "top_logprobs": [{"token": word, "logprob": -0.25, "bytes": list(word.encode())}],
            }
            for word in words
        ],
        "refusal": None,
    }


def _tool_call(reply: Reply) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": reply.tool, "arguments": reply.arguments}}


def chat(reply: Reply) -> dict[str, Any]:
    choices = []
    for index in range(reply.n):
        said = None if reply.tool or reply.refusal else reply.choice_text(index)
        message: dict[str, Any] = {"role": "assistant", "content": said, "refusal": reply.refusal, "annotations": []}
        if reply.tool:
            message["tool_calls"] = [_tool_call(reply)]
        logprobs = _logprobs(reply.words(index)) if reply.logprobs else None
        choice = {"index": index, "message": message, "logprobs": logprobs, "finish_reason": reply.finish}
        if reply.thinking:
            message["reasoning_content"] = reply.thinking
            choice |= {"stop_reason": None, "token_ids": None}
        choices.append(choice)
    return {**_chat_head(reply, "chat.completion"), "choices": choices, "usage": USAGE}


def chat_events(reply: Reply, *, usage: bool = False) -> Iterator[bytes]:
    def chunk(delta: dict[str, Any], index: int, finish: str | None = None, logprobs: Any = None) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return data({**_chat_head(reply, "chat.completion.chunk"), "choices": [choice]})

    for index in range(reply.n):
        yield chunk({"role": "assistant", "content": None if reply.tool else "", "refusal": None}, index)
        if reply.tool:
            call = _tool_call(reply)
            yield chunk({"tool_calls": [{"index": 0, **call, "function": {"name": reply.tool, "arguments": ""}}]}, 0)
            for piece in (reply.arguments[:5], reply.arguments[5:]):
                yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}, 0)
        elif reply.refusal:
            for word in tokens(reply.refusal):
                yield chunk({"refusal": word}, index)
        for word in tokens(reply.thinking or ""):
            yield chunk({"reasoning_content": word}, index)
        if not reply.tool and not reply.refusal:
            for word in reply.words(index):
                yield chunk({"content": word}, index, logprobs=_logprobs([word]) if reply.logprobs else None)
    for index in range(reply.n):
        yield chunk({}, index, reply.finish)
    if usage:
        yield data({**_chat_head(reply, "chat.completion.chunk"), "choices": [], "usage": USAGE})
    yield DONE


def _chat_head(reply: Reply, kind: str) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": kind,
        "created": CREATED,
        "model": reply.model,
        "service_tier": "default",
        "system_fingerprint": "fp_1",
    }


# OpenAI: legacy completions.


def completion(reply: Reply) -> dict[str, Any]:
    choices = [
        {"index": i, "text": reply.choice_text(i), "logprobs": None, "finish_reason": "stop"} for i in range(reply.n)
    ]
    head = {"id": "cmpl-1", "object": "text_completion", "created": CREATED, "model": reply.model}
    return {**head, "choices": choices, "usage": USAGE}


def completion_events(reply: Reply) -> Iterator[bytes]:
    head = {"id": "cmpl-1", "object": "text_completion", "created": CREATED, "model": reply.model}
    for word in reply.words():
        yield data({**head, "choices": [{"index": 0, "text": word, "logprobs": None, "finish_reason": None}]})
    yield data({**head, "choices": [{"index": 0, "text": "", "logprobs": None, "finish_reason": "stop"}]})
    yield DONE


# OpenAI: Responses.


def response(reply: Reply) -> dict[str, Any]:
    return _response(reply, "completed", [_item(reply)])


def _response(reply: Reply, status: str, output: list[Any]) -> dict[str, Any]:
    usage = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 14,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": reply.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage if status == "completed" else None,
        "user": None,
    }


def _item(reply: Reply, *, filled: bool = True) -> dict[str, Any]:
    status = "completed" if filled else "in_progress"
    if reply.tool:
        arguments = reply.arguments if filled else ""
        call = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": reply.tool}
        return {**call, "arguments": arguments, "status": status}
    content = [_part(reply)] if filled else []
    return {"id": "msg_1", "type": "message", "status": status, "role": "assistant", "content": content}


def _part(reply: Reply, *, filled: bool = True) -> dict[str, Any]:
    if reply.refusal:
        return {"type": "refusal", "refusal": reply.refusal if filled else ""}
    return {"type": "output_text", "text": reply.text if filled else "", "annotations": [], "logprobs": []}


def response_events(reply: Reply) -> Iterator[bytes]:
    number = 0

    def event(kind: str, **fields: Any) -> bytes:
        nonlocal number
        number += 1
        return data({"type": kind, "sequence_number": number - 1, **fields}, kind)

    yield event("response.created", response=_response(reply, "in_progress", []))
    yield event("response.in_progress", response=_response(reply, "in_progress", []))
    yield event("response.output_item.added", output_index=0, item=_item(reply, filled=False))
    if reply.tool:
        place: dict[str, Any] = {"item_id": "fc_1", "output_index": 0}
        for piece in (reply.arguments[:5], reply.arguments[5:]):
            yield event("response.function_call_arguments.delta", **place, delta=piece)
        done = {"arguments": reply.arguments, "name": reply.tool}
        yield event("response.function_call_arguments.done", **place, **done)
    else:
        place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        yield event("response.content_part.added", **place, part=_part(reply, filled=False))
        kind, field = ("refusal", "refusal") if reply.refusal else ("output_text", "text")
        extra: dict[str, Any] = {} if reply.refusal else {"logprobs": []}
        said = reply.refusal or reply.text
        for word in tokens(said):
            yield event(f"response.{kind}.delta", **place, delta=word, **extra)
        yield event(f"response.{kind}.done", **place, **{field: said}, **extra)
        yield event("response.content_part.done", **place, part=_part(reply))
    yield event("response.output_item.done", output_index=0, item=_item(reply))
    yield event("response.completed", response=response(reply))


# Anthropic: Messages.


def message(reply: Reply) -> dict[str, Any]:
    block = _block(reply)
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [block],
        "stop_reason": "tool_use" if reply.tool else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 5},
    }


def _block(reply: Reply) -> dict[str, Any]:
    if reply.tool:
        return {"type": "tool_use", "id": "toolu_1", "name": reply.tool, "input": json.loads(reply.arguments)}
    return {"type": "text", "text": reply.text}


def message_events(reply: Reply) -> Iterator[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return data({"type": kind, **fields}, kind)

    whole = message(reply)
    yield event("message_start", message={**whole, "content": [], "stop_reason": None})
    start = {**_block(reply), "input": {}} if reply.tool else {"type": "text", "text": ""}
    yield event("content_block_start", index=0, content_block=start)
    yield event("ping")
    if reply.tool:
        for piece in (reply.arguments[:5], reply.arguments[5:]):
            yield event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": piece})
    for word in reply.words():
        yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": word})
    yield event("content_block_stop", index=0)
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=end, usage={"output_tokens": 5})
    yield event("message_stop")


# Gemini and Ollama.


def gemini(reply: Reply) -> dict[str, Any]:
    part = {"functionCall": {"name": reply.tool, "args": json.loads(reply.arguments)}}
    return _gemini(reply, [part if reply.tool else {"text": reply.text}], "STOP")


def gemini_events(reply: Reply) -> Iterator[bytes]:
    if reply.tool:
        yield data(gemini(reply))
        return
    *first, last = reply.words()
    for word in first:
        yield data(_gemini(reply, [{"text": word}], None))
    yield data(_gemini(reply, [{"text": last}], "STOP"))


def _gemini(reply: Reply, parts: list[Any], finish: str | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 5, "totalTokenCount": 14}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": reply.model, "responseId": "r_1"}


def ollama(reply: Reply) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.tool:
        said["tool_calls"] = [{"function": {"name": reply.tool, "arguments": json.loads(reply.arguments)}}]
    end = {"done": True, "done_reason": "stop", "total_duration": 5, "prompt_eval_count": 9, "eval_count": 5}
    return {"model": reply.model, "created_at": "2026-01-01T00:00:00Z", "message": said, **end}


def ollama_lines(reply: Reply) -> Iterator[bytes]:
    head = {"model": reply.model, "created_at": "2026-01-01T00:00:00Z"}
    for word in reply.words():
        line = {**head, "message": {"role": "assistant", "content": word}, "done": False}
        yield json.dumps(line).encode() + b"\n"
    end = ollama(reply)
    if not reply.tool:
        end["message"] = {"role": "assistant", "content": ""}
    yield json.dumps(end).encode() + b"\n"
