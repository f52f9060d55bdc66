"""OpenAI's shapes and those of all who follow them: chat completions, legacy completions, Responses; bodies and stream events."""

from __future__ import annotations

from typing import Any

from demur.classifier import fields
from demur.classifier.draft import Draft

_TEXT_PARTS = frozenset({"text", "output_text", "input_text", ""})


def read_completion(body: dict[str, Any], draft: Draft) -> None:
    """A chat or legacy completion, or one chunk of its stream: they differ in `message`, `delta` and `text` only."""
    draft.readable = True
    choices = body.get("choices")
    if isinstance(choices, list):
        for position, choice in enumerate(choices):
            if isinstance(choice, dict):
                _read_choice(choice, position, draft)
    if draft.id is None:
        draft.id = fields.name(body.get("id"))
    if draft.model is None:
        draft.model = fields.name(body.get("model"))
    usage = body.get("usage")
    if usage:
        draft.count(fields.mapping(usage))


def _read_choice(choice: dict[str, Any], position: int, draft: Draft) -> None:
    index = choice.get("index")
    if type(index) is not int or index < 0:
        index = position
    draft.open(index)
    message = choice.get("delta") or choice.get("message")
    if isinstance(message, dict):
        read_message(message, index, draft)
    elif text := fields.string(choice.get("text")):
        draft.say(index, text)
    reason = choice.get("finish_reason")
    if reason and isinstance(reason, str):
        draft.end(index, reason)
    error = choice.get("error")  # OpenRouter
    if error:
        draft.fail(fields.mapping(error))


def read_message(message: dict[str, Any], index: int, draft: Draft) -> None:
    """An assistant message or a delta of one. `reasoning_content`, `reasoning` and the like are not text."""
    content = message.get("content")
    if content:
        if isinstance(content, str):
            draft.say(index, fields.string(content))
        else:
            read_parts(content, index, draft)
    refusal = fields.string(message.get("refusal"))
    if not refusal:  # LiteLLM moves a vendor's refusal there
        refusal = fields.string(fields.mapping(message.get("provider_specific_fields")).get("refusal"))
    if refusal:
        draft.refuse(index, refusal)
    audio = message.get("audio")
    if audio and (transcript := fields.string(fields.mapping(audio).get("transcript"))):
        draft.say(index, transcript)
    calls = message.get("tool_calls")
    if calls:
        for position, call in enumerate(fields.mappings(calls)):
            slot = call.get("index")
            _read_call(call.get("function") or call.get("custom") or call, index, slot if type(slot) is int else position, draft)
    call = message.get("function_call")
    if call:
        _read_call(call, index, "function_call", draft)


def read_parts(parts: object, index: int, draft: Draft) -> None:
    """Content parts of an assistant message in OpenAI's, Mistral's and Anthropic's spelling; thinking parts are left out."""
    for position, part in enumerate(parts if isinstance(parts, list) else [parts]):
        if isinstance(part, str):
            draft.say(index, fields.string(part))
        elif isinstance(part, dict):
            kind = part.get("type", "")
            if kind == "refusal":
                draft.refuse(index, fields.string(part.get("refusal")))
            elif kind == "tool_use":
                draft.call(index, ("part", position), fields.string(part.get("name")), fields.compact(part.get("input")))
            elif isinstance(kind, str) and kind in _TEXT_PARTS and not part.get("thought"):
                draft.say(index, fields.string(part.get("text")))


def read_response(body: dict[str, Any], draft: Draft) -> None:
    """A Responses object: its output items are one choice."""
    draft.readable = True
    _read_response_head(body, draft)
    draft.open(0)
    for position, item in enumerate(fields.mappings(body.get("output"))):
        kind = fields.string(item.get("type"))
        if kind == "message" or (not kind and "content" in item):
            read_parts(item.get("content"), 0, draft)
        elif kind.endswith("_call"):
            _read_item_call(item, kind, position, draft)
    _read_response_end(body, draft)


def _read_response_head(body: dict[str, Any], draft: Draft) -> None:
    draft.id = draft.id or fields.name(body.get("id"))
    draft.model = draft.model or fields.name(body.get("model"))
    draft.count(fields.mapping(body.get("usage")))


def _read_response_end(body: dict[str, Any], draft: Draft) -> None:
    reason = fields.string(fields.mapping(body.get("incomplete_details")).get("reason"))
    status = fields.string(body.get("status"))
    if error := fields.mapping(body.get("error")):
        draft.fail(error)
    elif reason or status in ("completed", "incomplete"):
        draft.end(0, reason or status)
        if status == "incomplete":
            draft.cut(0)
    elif status:
        draft.cut(0)


def read_response_event(event: dict[str, Any], kind: str, draft: Draft) -> None:
    """One event of a Responses stream; `kind` is its type without `response.`."""
    draft.readable = True
    place = (event.get("item_id") or event.get("output_index"), event.get("content_index"))
    place = (place[0] if isinstance(place[0], (str, int)) else None, place[1] if isinstance(place[1], int) else None)
    if kind in ("output_text.delta", "refusal.delta", "audio.transcript.delta", "audio_transcript.delta"):
        draft.heard.add(place)
        write = draft.refuse if kind == "refusal.delta" else draft.say
        write(0, fields.string(event.get("delta")))
    elif kind in ("output_text.done", "refusal.done") and place not in draft.heard:
        draft.heard.add(place)
        write = draft.refuse if kind == "refusal.done" else draft.say
        write(0, fields.string(event.get("refusal" if kind == "refusal.done" else "text")))
    elif kind == "output_item.done":
        item = fields.mapping(event.get("item"))
        item_kind = fields.string(item.get("type"))
        if item_kind.endswith("_call"):
            _read_item_call(item, item_kind, ("item", len(draft.heard)), draft)
            draft.heard.add(("item", len(draft.heard)))
    elif kind in ("created", "in_progress", "queued"):
        draft.open(0)
        _read_response_head(fields.mapping(event.get("response")), draft)
    elif kind in ("completed", "incomplete", "failed", "cancelled"):
        body = fields.mapping(event.get("response"))
        draft.done = True
        if draft.silent(0):
            read_response({"status": kind, **body}, draft)
        else:
            _read_response_head(body, draft)
            _read_response_end({"status": kind, **body}, draft)


def _read_item_call(item: dict[str, Any], kind: str, slot: object, draft: Draft) -> None:
    arguments = item.get("arguments") if "arguments" in item else item.get("input")
    draft.call(0, slot, fields.string(item.get("name")) or kind, fields.compact(arguments))


def _read_call(call: object, index: int, slot: object, draft: Draft) -> None:
    function = fields.mapping(call)
    arguments = function.get("arguments") if "arguments" in function else function.get("input")
    draft.call(index, slot, fields.string(function.get("name")), fields.compact(arguments))
