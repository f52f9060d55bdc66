"""The ask of a request of any API: the last user text, the system text, the model, whether it streams.

One reader serves them all: their keys do not collide. Images, files and tool results are not asks.
"""

from __future__ import annotations

from typing import Any, TypedDict, cast

import msgspec

from demur.classifier import fields
from demur.classifier.trace import Ask

_SYSTEM = frozenset({"system", "developer"})
_SYSTEM_KEYS = ("system", "instructions", "systemInstruction", "system_instruction")
_USER = frozenset({"user", "human"})
_ASSISTANT = frozenset({"assistant", "model", "gpt", "ai", "bot", "chatbot"})
#: Parts of a user turn that carry what a program said, not what the user asks.
_RESULTS = frozenset({"tool_result", "function_call_output", "custom_tool_call_output", "computer_call_output"})


# The keys that are read; a typed decode makes no Python objects of the others (base64 images).
class _Part(TypedDict, total=False):
    type: str
    text: str
    functionResponse: Any


_Message = TypedDict(
    "_Message",
    {
        "role": str,
        "from": str,
        "author": str,
        "content": str | list[_Part] | None,
        "parts": Any,
        "value": Any,
        "text": Any,
    },
    total=False,
)


class _Request(TypedDict, total=False):
    model: str
    modelId: str
    stream: bool
    system: str | list[_Part]
    instructions: str
    systemInstruction: Any
    system_instruction: Any
    messages: list[_Message]
    input: str | list[_Message]
    prompt: str


_decode_request = msgspec.json.Decoder(_Request).decode


def read_ask(body: bytes | dict[str, Any], api: str | None = None) -> Ask:
    """The ask of one request body; `Ask()` when it is not a readable JSON object. Never raises.

    `api` (what the path says) is a hint only: the keys of a request tell what it is.
    """
    if isinstance(body, dict):
        return _ask(body)
    try:
        ask = _ask(cast(dict[str, Any], _decode_request(body)))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        ask = Ask()
    if ask.prompt:
        return ask
    try:
        request = fields.decode(body)
    except ValueError:
        return Ask()
    return _ask(request) if isinstance(request, dict) else Ask()


def role_of(turn: dict[str, Any]) -> str:
    """`system`, `user`, `assistant` or the role's own word; the spellings of chat logs (`human`, `gpt`) are known."""
    role = fields.string(turn.get("role") or turn.get("from") or turn.get("author")).lower()
    if role in _SYSTEM:
        return "system"
    if role in _USER:
        return "user"
    return "assistant" if role in _ASSISTANT else role


def ask_of_turns(turns: list[Any], system: str = "", model: str | None = None, stream: bool = False) -> Ask:
    """The ask of a conversation: its last user text, and all system text."""
    prompt = ""
    systems = [system] if system else []
    for turn in turns:
        if isinstance(turn, str):
            prompt = fields.string(turn)
            continue
        if not isinstance(turn, dict):
            continue
        role = role_of(turn)
        if role == "system":
            systems.append(_turn_text(turn))
        elif role == "user" or (not role and "parts" in turn):
            prompt = _turn_text(turn) or prompt
    return Ask(prompt=prompt, system="\n\n".join(filter(None, systems)), model=model, stream=stream)


def _ask(request: dict[str, Any]) -> Ask:
    system = "\n\n".join(filter(None, (_text(request.get(key)) for key in _SYSTEM_KEYS)))
    model = fields.name(request.get("model")) or fields.name(request.get("modelId"))
    stream = request.get("stream") is True
    for key in ("messages", "contents", "input", "prompt"):
        value = request.get(key)
        if isinstance(value, dict):  # Gemini takes one content object as well
            value = [value]
        if isinstance(value, list) and value:
            return ask_of_turns(value, system, model, stream)
        if isinstance(value, str):
            return Ask(fields.string(value), system, model, stream)
    return Ask("", system, model, stream)


def _turn_text(turn: dict[str, Any]) -> str:
    for key in ("content", "parts", "value", "text"):
        if text := _text(turn.get(key)):
            return text
    return ""


def _text(content: object) -> str:
    """The text of a message content: a string, a part, or a list of parts."""
    if isinstance(content, dict):
        content = content["parts"] if isinstance(content.get("parts"), list) else [content]
    if not isinstance(content, list):
        return fields.string(content)
    texts = []
    for part in content:
        if isinstance(part, str):
            texts.append(fields.string(part))
        elif (
            isinstance(part, dict)
            and fields.string(part.get("type")) not in _RESULTS
            and "functionResponse" not in part
        ):
            texts.append(fields.string(part.get("text")))
    return "\n".join(filter(None, texts))
