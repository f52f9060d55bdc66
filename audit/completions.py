"""Chat completions and their streams, made from recorded traces. The OpenAI wire forms are built here, never parsed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from demur.classifier.trace import Choice, Trace

# Words with the space before them, cut every six characters, and whatever stands between: about the size of tokens.
_PIECE = re.compile(r" ?\w{1,6}|\s+|[^\w\s]{1,6}")


def pieces(text: str, size: int | None = None) -> list[str]:
    """The text cut as a model streams it, in token-like pieces or `size` characters; joined they are the text again."""
    if size:
        return [text[at : at + size] for at in range(0, len(text), size)]
    return _PIECE.findall(text)


def encode(value: object) -> bytes:
    """JSON of whatever a recording holds: half a surrogate pair stays escaped, a number may have any length."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(value).encode()


def choices_of(traces: Sequence[Trace]) -> list[Choice]:
    """One choice each, or all those of a single trace."""
    if len(traces) == 1:
        return list(traces[0].choices) or [Choice()]
    return [trace.choices[0] if trace.choices else Choice() for trace in traces]


def completion(choices: Sequence[Choice], prompt: str, head: dict[str, Any]) -> dict[str, Any]:
    """A `chat.completion` object. `head` holds `id`, `created` and `model`."""
    return {
        **_head(head, "chat.completion"),
        "choices": [
            {"index": index, "message": _message(choice), "logprobs": None, "finish_reason": _finish_reason(choice)}
            for index, choice in enumerate(choices)
        ],
        "usage": _usage(choices, prompt),
    }


def completion_events(
    choices: Sequence[Choice], prompt: str, head: dict[str, Any], *, usage: bool, size: int | None = None
) -> Iterator[bytes]:
    """The same as server-sent events, `[DONE]` included. `usage` is the client's `stream_options.include_usage`."""

    def event(parts: list[dict[str, Any]], **more: object) -> bytes:
        chunk = {**_head(head, "chat.completion.chunk"), "choices": parts, **more}
        return b"data: " + encode(chunk) + b"\n\n"

    silent: dict[str, object] = {"usage": None} if usage else {}
    for index, choice in enumerate(choices):
        for delta in _deltas(choice, size):
            yield event([{"index": index, "delta": delta, "logprobs": None, "finish_reason": None}], **silent)
        end = {"index": index, "delta": {}, "logprobs": None, "finish_reason": _finish_reason(choice)}
        yield event([end], **silent)
    if usage:
        yield event([], usage=_usage(choices, prompt))
    yield b"data: [DONE]\n\n"


def _head(head: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": head["id"], "object": kind, "created": head["created"], "model": head["model"]}


def _message(choice: Choice) -> dict[str, Any]:
    only_other = not choice.text and (choice.refusal or choice.tool_calls)
    message: dict[str, Any] = {"role": "assistant", "content": None if only_other else choice.text}
    message["refusal"] = choice.refusal or None
    if choice.tool_calls:
        message["tool_calls"] = _tool_calls(choice)
    return message


def _deltas(choice: Choice, size: int | None) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "", "refusal": None}
    for piece in pieces(choice.text, size):
        yield {"content": piece}
    for piece in pieces(choice.refusal, size):
        yield {"refusal": piece}
    if choice.tool_calls:
        yield {"tool_calls": [{"index": index, **call} for index, call in enumerate(_tool_calls(choice))]}


def _tool_calls(choice: Choice) -> list[dict[str, Any]]:
    return [
        {"id": f"call_{index}", "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for index, call in enumerate(choice.tool_calls)
    ]


def _finish_reason(choice: Choice) -> str:
    """OpenAI's word for how the choice ended, whatever its provider called it."""
    if choice.blocked_by:
        return "content_filter"
    if choice.truncated:
        return "length"
    return "tool_calls" if choice.tool_calls else "stop"


def _usage(choices: Sequence[Choice], prompt: str) -> dict[str, int]:
    """Pieces counted as tokens: the right order of magnitude, for clients that want to see a number."""
    asked, answered = len(pieces(prompt)), sum(len(pieces(choice.text + choice.refusal)) for choice in choices)
    return {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}
