"""Responses of every API, in our own words: as whole bodies, and as the events of the stream that says the same."""

from __future__ import annotations

import json
from typing import Any

from demur.classifier.sse import Event


def sse(*events: Any, done: bool = False) -> bytes:
    """A stream: each event an object (its `type` becomes the name if it has a dot or an underscore) or a raw string."""
    out = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
        kind = event.get("type", "") if isinstance(event, dict) else ""
        out.append(f"event: {kind}\ndata: {data}\n\n" if "." in kind or "_" in kind else f"data: {data}\n\n")
    return ("".join(out) + ("data: [DONE]\n\n" if done else "")).encode()


def event(obj: Any, name: str | None = None) -> Event:
    """One event without its place in a stream."""
    data = obj if isinstance(obj, (bytes, str)) else json.dumps(obj)
    return Event(name, data if isinstance(data, bytes) else data.encode(), 0, 0)


def chat(content: Any, finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    """A chat completion with one choice."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m-1",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    }


def chunk(delta: Any = None, finish: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    """A chunk of a chat completion's stream."""
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m-1",
        "choices": [choice],
    } | more


def response(*content: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    """A Responses object with one message."""
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": list(content)}
    return {"id": "resp_1", "object": "response", "model": "m-1", "status": status, "output": [item]} | more


def message(*content: dict[str, Any], stop: str | None = "end_turn") -> dict[str, Any]:
    """An Anthropic message."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "content": list(content),
        "stop_reason": stop,
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }


def gemini(*parts: dict[str, Any], finish: str | None = "STOP", index: int = 0) -> dict[str, Any]:
    """A generateContent response, or a chunk of its stream."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": index}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "m-1", "responseId": "g1"}


#: name → the whole body, and the events of the stream that says the same.
PAIRS: dict[str, tuple[dict[str, Any], bytes]] = {
    "chat": (
        chat("Boil the eggs for nine minutes."),
        sse(
            chunk({"role": "assistant", "content": ""}),
            chunk({"content": "Boil the eggs "}),
            chunk({"content": "for nine minutes."}),
            chunk({}, "stop"),
            {"id": "chatcmpl-1", "model": "m-1", "choices": [], "usage": chat("")["usage"]},
            done=True,
        ),
    ),
    "chat, refusal field": (
        chat(None, refusal="I won't look her up."),
        sse(
            chunk({"role": "assistant", "content": None, "refusal": ""}),
            chunk({"refusal": "I won't "}),
            chunk({"refusal": "look her up."}),
            chunk({}, "stop", usage=chat("")["usage"]),
            done=True,
        ),
    ),
    "chat, filtered midway": (
        chat("The horns sounded", "content_filter"),
        sse(
            chunk({"content": "The horns"}),
            chunk({"content": " sounded"}),
            chunk({}, "content_filter"),
            chunk({}),
            done=True,
        ),
    ),
    "chat, cut by length": (
        chat("Rain begins as", "length"),
        sse(chunk({"content": "Rain begins"}), chunk({"content": " as"}, "length"), done=True),
    ),
    "chat, tool call": (
        chat(
            None,
            "tool_calls",
            tool_calls=[
                {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
            ],
        ),
        sse(
            chunk({"role": "assistant", "tool_calls": [{"index": 0, "id": "t1", "function": {"name": "weather"}}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"city"'}}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": ':"Oslo"}'}}]}),
            chunk({}, "tool_calls"),
        ),
    ),
    "chat, two choices": (
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": "m-1",
            "choices": [
                {"index": 0, "message": {"content": "Forty-two."}, "finish_reason": "stop"},
                {"index": 1, "message": {"content": "I can't help with that."}, "finish_reason": "length"},
            ],
        },
        sse(
            chunk({"content": "Forty"}),
            chunk({"content": "I can't "}, index=1),
            chunk({"content": "-two."}),
            chunk({}, "stop"),
            chunk({"content": "help with that."}, index=1),
            chunk({}, "length", index=1),
        ),
    ),
    "legacy": (
        {
            "id": "cmpl-1",
            "object": "text_completion",
            "model": "m-1",
            "choices": [{"index": 0, "text": " blue and wide.", "finish_reason": "stop"}],
        },
        sse(
            {"id": "cmpl-1", "object": "text_completion", "model": "m-1", "choices": [{"index": 0, "text": " blue"}]},
            {"id": "cmpl-1", "choices": [{"index": 0, "text": " and wide.", "finish_reason": "stop"}]},
            done=True,
        ),
    ),
    "responses": (
        response({"type": "output_text", "text": "Oslo lies by a fjord.", "annotations": []}),
        sse(
            {"type": "response.created", "response": {"id": "resp_1", "model": "m-1", "status": "in_progress"}},
            {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "msg_1"}},
            {"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "delta": "I can't recall."},
            {"type": "response.output_text.delta", "item_id": "msg_1", "content_index": 0, "delta": "Oslo lies "},
            {"type": "response.output_text.delta", "item_id": "msg_1", "content_index": 0, "delta": "by a fjord."},
            {
                "type": "response.output_text.done",
                "item_id": "msg_1",
                "content_index": 0,
                "text": "Oslo lies by a fjord.",
            },
            {"type": "response.output_item.done", "item": {"type": "message", "content": [{"text": "again"}]}},
            {
                "type": "response.completed",
                "response": response({"type": "output_text", "text": "Oslo lies by a fjord."}),
            },
        ),
    ),
    "responses, refusal": (
        response({"type": "refusal", "refusal": "I won't do that."}),
        sse(
            {"type": "response.refusal.delta", "item_id": "msg_1", "content_index": 0, "delta": "I won't "},
            {"type": "response.refusal.delta", "item_id": "msg_1", "content_index": 0, "delta": "do that."},
            {"type": "response.refusal.done", "item_id": "msg_1", "content_index": 0, "refusal": "I won't do that."},
            {"type": "response.completed", "response": {"id": "resp_1", "model": "m-1", "status": "completed"}},
        ),
    ),
    "responses, filtered": (
        response(status="incomplete", incomplete_details={"reason": "content_filter"}),
        sse({"type": "response.incomplete", "response": response(incomplete_details={"reason": "content_filter"})}),
    ),
    "responses, function call": (
        {
            "id": "resp_1",
            "object": "response",
            "model": "m-1",
            "status": "completed",
            "output": [
                {"type": "reasoning", "summary": []},
                {"type": "function_call", "name": "weather", "arguments": '{"city":"Oslo"}'},
            ],
        },
        sse(
            {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": '{"city'},
            {
                "type": "response.output_item.done",
                "item": {"type": "function_call", "name": "weather", "arguments": '{"city":"Oslo"}'},
            },
            {"type": "response.completed", "response": {"id": "resp_1", "model": "m-1", "status": "completed"}},
        ),
    ),
    "legacy, several prompts": (
        {
            "id": "cmpl-1",
            "object": "text_completion",
            "model": "m-1",
            "choices": [
                {"index": 0, "text": " blue.", "finish_reason": "stop"},
                {"index": 1, "text": " I can't help with that.", "finish_reason": "stop"},
            ],
        },
        sse(
            {"id": "cmpl-1", "model": "m-1", "choices": [{"index": 1, "text": " I can't help"}]},
            {"id": "cmpl-1", "choices": [{"index": 0, "text": " blue.", "finish_reason": "stop"}]},
            {"id": "cmpl-1", "choices": [{"index": 1, "text": " with that.", "finish_reason": "stop"}]},
            done=True,
        ),
    ),
    "responses, several parts": (
        {
            **response(),
            "output": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "I won't."}]},
                {
                    "type": "message",
                    "content": [
                        {"type": "output_text", "text": "The mill is old. "},
                        {"type": "output_text", "text": "It stands "},
                    ],
                },
                {"type": "message", "content": [{"type": "output_text", "text": "by the river."}]},
            ],
        },
        sse(
            {"type": "response.created", "response": {"id": "resp_1", "model": "m-1", "status": "in_progress"}},
            {"type": "response.output_text.delta", "item_id": "a", "content_index": 0, "delta": "The mill is old. "},
            {"type": "response.output_text.done", "item_id": "a", "content_index": 0, "text": "The mill is old. "},
            {"type": "response.output_text.done", "item_id": "a", "content_index": 1, "text": "It stands "},
            {"type": "response.output_text.delta", "item_id": "b", "content_index": 0, "delta": "by the "},
            {"type": "response.output_text.delta", "item_id": "b", "content_index": 0, "delta": "river."},
            {"type": "response.completed", "response": response()},
        ),
    ),
    "responses, policy error": (
        {**response(status="failed"), "output": [], "error": {"code": "cyber_policy", "message": "No."}},
        sse(
            {"type": "response.created", "response": {"id": "resp_1", "model": "m-1", "status": "in_progress"}},
            {
                "type": "response.failed",
                "response": {**response(status="failed"), "output": [], "error": {"code": "cyber_policy"}},
            },
        ),
    ),
    "anthropic": (
        message({"type": "thinking", "thinking": "Refuse?"}, {"type": "text", "text": "Use a whisk."}),
        sse(
            {"type": "message_start", "message": message(stop=None)},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Refuse?"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
            '{"type": "ping"}',
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Use a "}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "whisk."}},
            {"type": "content_block_stop", "index": 1},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
            {"type": "message_stop"},
        ),
    ),
    "anthropic, refusal": (
        message({"type": "text", "text": "First, open"}, stop="refusal"),
        sse(
            {"type": "message_start", "message": message(stop=None)},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "First, open"}},
            {"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 4}},
            {"type": "message_stop"},
        ),
    ),
    "anthropic, tool use": (
        message({"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Oslo"}}, stop="tool_use"),
        sse(
            {"type": "message_start", "message": message(stop=None)},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "tool_use", "id": "t1", "name": "weather", "input": {}},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": '{"city": '},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": '"Oslo"}'},
            },
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}},
            {"type": "message_stop"},
        ),
    ),
    "gemini": (
        gemini({"text": "No way.", "thought": True}, {"text": "The line held "}, {"text": "until noon."}),
        sse(gemini({"text": "No way.", "thought": True}, finish=None), gemini({"text": "The line held "}, finish=None))
        + sse(gemini({"text": "until noon."})),
    ),
    "gemini, safety": (
        gemini({"text": "The line"}, finish="SAFETY"),
        sse(gemini({"text": "The line"}, finish=None), gemini(finish="SAFETY")),
    ),
    "gemini, prompt blocked": (
        {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "modelVersion": "m-1", "responseId": "g1"},
        sse({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "modelVersion": "m-1", "responseId": "g1"}),
    ),
    "policy error": (
        {"error": {"message": "The prompt was filtered.", "code": "content_filter"}},
        sse({"error": {"message": "The prompt was filtered.", "code": "content_filter"}}, done=True),
    ),
    "error": (
        {"error": {"message": "Too slow.", "code": 504, "type": "timeout"}},
        sse({"error": {"message": "Too slow.", "code": 504, "type": "timeout"}}, done=True),
    ),
}
