"""The ask of a request of any API: the last user text, the system text, the model, whether it streams.

One reader serves them all: their keys do not collide. Images, files and tool results are not asks.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from typing import Any, TypedDict, cast

import msgspec

from demur.classifier import fields
from demur.classifier.members import members
from demur.classifier.trace import Ask

_SYSTEM = frozenset({"system", "developer"})
_SYSTEM_KEYS = ("system", "instructions", "systemInstruction", "system_instruction")
_USER = frozenset({"user", "human"})
_ASSISTANT = frozenset({"assistant", "model", "gpt", "ai", "bot", "chatbot"})
#: Parts of a user turn that carry what a program said, not what the user asks.
_RESULTS = frozenset({"tool_result", "function_call_output", "custom_tool_call_output", "computer_call_output"})


#: Bytes of a request beyond which its ask is not read: even to skip 32 MiB of an image takes milliseconds.
MAX_BYTES = 32 * 1024 * 1024
#: Objects of a request beyond which its ask is not read: each can cost half a microsecond.
MAX_OBJECTS = 50_000
#: Bytes of JSON beyond which it is not decoded without types, which takes up to 20 ms for each MiB.
MAX_LOOSE = 2 * 1024 * 1024

_Name = str | int | float | bool | None


# The keys that are read; a typed decode makes no Python objects of the others (tools, base64 images), nor of a `Raw`.
class _Part(TypedDict, total=False):
    type: _Name
    text: str | None
    functionResponse: msgspec.Raw


_Turn = TypedDict(
    "_Turn",
    {
        "role": _Name,
        "from": _Name,
        "author": _Name,
        "content": msgspec.Raw,
        "parts": msgspec.Raw,
        "value": msgspec.Raw,
        "text": msgspec.Raw,
    },
    total=False,
)


class _Generation(TypedDict, total=False):
    candidateCount: _Name


class _Head(TypedDict, total=False):
    model: _Name
    modelId: _Name
    stream: _Name
    n: _Name
    generationConfig: _Generation | None


class _Named(TypedDict, total=False):
    model: _Name
    modelId: _Name


class _Request(_Head, total=False):
    system: msgspec.Raw
    instructions: msgspec.Raw
    systemInstruction: msgspec.Raw
    system_instruction: msgspec.Raw
    messages: str | list[_Turn] | None
    contents: str | list[_Turn] | _Turn | None
    input: str | list[_Turn] | None
    prompt: str | list[_Turn] | None


class _Content(_Part, total=False):
    parts: list[_Part]


# The braces of code inside strings are not followed by a quote.
_objects = re.compile(rb'\{[ \t\r\n]*+["}]').finditer
_UNDECODABLE = (msgspec.MsgspecError, ValueError, RecursionError)
_decode_named = msgspec.json.Decoder(_Named).decode
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_request = msgspec.json.Decoder(_Request).decode
_decode_content = msgspec.json.Decoder(str | list[_Part] | _Content | None).decode


def read_ask(body: bytes | dict[str, Any], api: str | None = None) -> Ask:
    """The ask of one request body; `Ask()` when it is not a readable JSON object. Never raises.

    `api` is what the path says: it tells whether an API streams that was not asked to; all else the keys tell. The time
    that reading takes is bounded: of a request beyond the limits above `prompt` and `system` stay empty, and `unread`
    says why.
    """
    streams = api == "ollama.chat"
    if isinstance(body, dict):
        return _ask(body, streams)
    if unread := _beyond_limits(body):
        return _without_text(body, unread, streams)
    try:
        return _ask(cast(dict[str, Any], _decode_request(body)), streams)
    except _UNDECODABLE:
        pass
    if _is_costly(body):
        return _without_text(body, "it is large and its JSON unusual", streams)
    request = _decode_loosely(body)
    if isinstance(request, dict):
        return _ask(request, streams)
    ask = _without_text(body, "its JSON can't be read", streams)
    return ask if ask.model else Ask()


def read_model(body: bytes) -> str | None:
    """The model that a JSON body names, and nothing else of it; None when it names none. Never raises."""
    try:
        named = cast(dict[str, Any], _decode_named(body))
    except _UNDECODABLE:
        named = members(body, _Named.__annotations__.keys())
    return fields.name(named.get("model")) or fields.name(named.get("modelId"))


def _beyond_limits(body: bytes) -> str:
    """Which limit the request is over, if any."""
    if len(body) > MAX_BYTES:
        return f"the request is over {MAX_BYTES} bytes"
    if next(islice(_objects(body), MAX_OBJECTS, None), None):
        return f"the request has over {MAX_OBJECTS} objects"
    return ""


def _without_text(body: bytes, unread: str, streams: bool) -> Ask:
    """What matters besides the text."""
    try:
        head = cast(dict[str, Any], _decode_head(body))
    except _UNDECODABLE:
        head = members(body, _Head.__annotations__.keys())
    return replace(_ask(head, streams), unread=f"ask not read: {unread}")


def _is_costly(data: bytes) -> bool:
    """Whether JSON that does not fit the types is too much to be decoded without."""
    return len(data) > MAX_LOOSE or data.count(b"[") > MAX_OBJECTS


def _decode_loosely(data: bytes) -> object:
    """JSON without types; None when it can't be read."""
    try:
        return fields.decode(data)
    except ValueError:
        return None


def role_of(turn: dict[str, Any]) -> str:
    """`system`, `user`, `assistant` or the role's own word; the spellings of chat logs (`human`, `gpt`) are known."""
    role = fields.string(turn.get("role") or turn.get("from") or turn.get("author")).lower()
    if role in _SYSTEM:
        return "system"
    if role in _USER:
        return "user"
    return "assistant" if role in _ASSISTANT else role


def ask_of_turns(turns: list[Any], head: Ask | None = None) -> Ask:
    """The ask of a conversation: its last user text, and all system text after that of `head`, which has the rest."""
    head = head or Ask()
    prompt = ""
    systems = [head.system]
    users: list[Any] = []
    for turn in turns:
        if isinstance(turn, str):
            users.append(turn)
        elif isinstance(turn, dict):
            role = role_of(turn)
            if role == "system":
                systems.append(_turn_text(turn))
            elif role == "user" or (not role and "parts" in turn):
                users.append(turn)
    for turn in reversed(users):
        prompt = fields.string(turn) if isinstance(turn, str) else _turn_text(turn)
        if prompt or isinstance(turn, str):
            break
    return replace(head, prompt=prompt, system="\n\n".join(filter(None, systems)))


def _ask(request: dict[str, Any], streams: bool) -> Ask:
    """`streams`: the API streams unless it is told not to."""
    n = request.get("n") or fields.mapping(request.get("generationConfig")).get("candidateCount")
    stream = request.get("stream")
    prompts = request.get("prompt")  # a legacy completion answers each of several
    head = Ask(
        system="\n\n".join(filter(None, (_text(request.get(key)) for key in _SYSTEM_KEYS))),
        model=fields.name(request.get("model")) or fields.name(request.get("modelId")),
        stream=stream is True or (stream is None and streams),
        several=(isinstance(n, int | float) and n > 1)
        or (isinstance(prompts, list) and len(prompts) > 1 and isinstance(prompts[0], str | list)),
    )
    for key in ("messages", "contents", "input", "prompt"):
        value = request.get(key)
        if isinstance(value, dict):  # Gemini takes one content object as well
            value = [value]
        if isinstance(value, list) and value:
            return ask_of_turns(value, head)
        if isinstance(value, str):
            return replace(head, prompt=fields.string(value))
    return head


def _turn_text(turn: dict[str, Any]) -> str:
    for key in ("content", "parts", "value", "text"):
        if text := _text(turn.get(key)):
            return text
    return ""


def _text(content: object) -> str:
    """The text of a message content: a string, a part, or a list of parts; as JSON, if it is `Raw`."""
    if isinstance(content, msgspec.Raw):
        raw = content
        try:
            content = _decode_content(raw)
        except _UNDECODABLE:
            data = bytes(raw)
            content = None if _is_costly(data) else _decode_loosely(data)
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
