"""OpenAI's shapes and those of all who follow them: chat and legacy completions, Responses; bodies and events."""

from __future__ import annotations

from typing import Any

from demur.classifier import blocks, fields
from demur.classifier.draft import Draft

_TEXT_PARTS = frozenset({None, "text", "output_text", "input_text"})


def read_completion(body: dict[str, Any], draft: Draft) -> None:
    """A chat or legacy completion, or one chunk of its stream: they differ in `message`, `delta` and `text` only."""
    draft.readable = True
    for position, choice in enumerate(fields.sequence(body.get("choices"))):
        if isinstance(choice, dict):
            _read_choice(choice, position, draft)
    if draft.id is None:
        draft.id = fields.name(body.get("id"))
    if draft.model is None:
        draft.model = fields.name(body.get("model"))
    if usage := body.get("usage"):
        draft.count(fields.mapping(usage))


def _read_choice(choice: dict[str, Any], position: int, draft: Draft) -> None:
    index = choice.get("index")
    if type(index) is not int or index < 0:
        index = position
    draft.open(index)
    delta = choice.get("delta")
    if delta and isinstance(delta, dict):
        read_message(delta, index, draft)
    elif message := fields.mapping(choice.get("message")):
        read_message(message if draft.silent(index) else _unheard(message, index, draft), index, draft)
    if text := choice.get("text"):
        draft.say(index, fields.string(text))
    native = fields.string(choice.get("native_finish_reason"))  # OpenRouter: the vendor's own word
    if blocks.is_block(native):
        draft.block(index, native, "native_finish_reason")
    if (flag := choice.get("flag")) and type(flag) is int and flag in blocks.FLAGS:  # Baidu Qianfan
        draft.block(index, str(flag), "flag")
    if reason := fields.string(choice.get("finish_reason")):
        draft.end(index, reason)
    if error := choice.get("error"):  # OpenRouter
        draft.fail(fields.mapping(error))
    if (filtered := choice.get("content_filter_results")) and index in draft.choices:
        # Azure's annotations; the finish reason is what counts.
        draft.meta.setdefault("content_filter_results", {})[index] = filtered


def _unheard(message: dict[str, Any], index: int, draft: Draft) -> dict[str, Any]:
    """What a whole message in a stream adds to what was said: MiniMax's last chunk repeats all of it."""
    heard, content = draft.choices.get(index), message.get("content")
    if heard is None or not isinstance(content, str) or len(content) < heard.written:
        return message
    said = heard.whole_text()
    if not content.startswith(said):
        return message
    told = {"refusal" if heard.refusal else "", "tool_calls" if heard.calls else ""}
    news = {key: value for key, value in message.items() if key in ("refusal", "tool_calls") and key not in told}
    return {**news, "content": content[len(said) :]}


def read_message(message: dict[str, Any], index: int, draft: Draft) -> None:
    """An assistant message or a delta of one. `reasoning_content`, `reasoning`, `thinking` are not text."""
    if content := message.get("content"):
        if isinstance(content, str):
            draft.say(index, fields.string(content))
            if len(message) == 1:  # nearly every delta
                return
        else:
            read_parts(content, index, draft)
    # LiteLLM puts a vendor's refusal into its own side field.
    refusal = message.get("refusal") or fields.mapping(message.get("provider_specific_fields")).get("refusal")
    if refusal:
        draft.refuse(index, fields.string(refusal))
    if audio := message.get("audio"):
        draft.say(index, fields.string(fields.mapping(audio).get("transcript")))
    if calls := message.get("tool_calls"):
        for position, call in enumerate(fields.mappings(calls)):
            called = fields.mapping(call.get("function") or call.get("custom"))
            slot = call.get("index")
            if type(slot) is not int:  # whole calls in a stream are often not numbered (Gemini, Ollama)
                slot = draft.next_slot(index) if called.get("name") else position
            _read_call(called, index, slot, draft)
    if function := message.get("function_call"):
        _read_call(function, index, "function_call", draft)


def read_parts(parts: object, index: int, draft: Draft) -> None:
    """Content parts of an answer, in OpenAI's, Mistral's and Anthropic's spelling. Thinking parts are left out."""
    for part in parts if isinstance(parts, list) else [parts]:
        if isinstance(part, str):
            draft.say(index, fields.string(part))
        elif isinstance(part, dict):
            kind = part.get("type")
            if kind == "refusal":
                draft.refuse(index, fields.string(part.get("refusal")))
            elif kind == "tool_use":
                _read_call(part, index, ("part", draft.next_slot(index)), draft)
            elif (kind is None or isinstance(kind, str)) and kind in _TEXT_PARTS and part.get("thought") is not True:
                draft.say(index, fields.string(part.get("text")))


def _read_call(call: object, index: int, slot: object, draft: Draft) -> None:
    function = fields.mapping(call)
    arguments = function.get("arguments") or function.get("input")
    draft.call(index, slot, fields.string(function.get("name")), fields.compact(arguments))


def read_response(body: dict[str, Any], draft: Draft) -> None:
    """A Responses object: its output items are one choice."""
    draft.readable = True
    draft.waits = body.get("status") in ("queued", "in_progress")
    draft.open(0)
    for item in fields.mappings(body.get("output")):
        _read_item(item, draft)
    _read_response_end(body, draft)


def read_response_event(event: dict[str, Any], kind: str, draft: Draft) -> None:
    """One event of a Responses stream; `kind` is its type without `response.`."""
    draft.readable = True
    draft.open(0)
    body = fields.mapping(event.get("response"))
    if kind in ("output_text.delta", "refusal.delta", "audio.transcript.delta"):
        draft.hear(*_place(event))
        write = draft.refuse if kind == "refusal.delta" else draft.say
        write(0, fields.string(event.get("delta")))
    elif kind in ("output_text.done", "refusal.done"):
        if draft.hear(*_place(event)):  # else it repeats the deltas
            write = draft.refuse if kind == "refusal.done" else draft.say
            write(0, fields.string(event.get("refusal" if kind == "refusal.done" else "text")))
    elif kind == "output_item.done":
        item = fields.mapping(event.get("item"))
        if item.get("type") != "message":
            _read_item(item, draft)
    elif kind in ("completed", "incomplete", "failed", "cancelled"):
        draft.done = True
        if draft.silent(0):
            for item in fields.mappings(body.get("output")):
                _read_item(item, draft)
        _read_response_end({"status": kind, **body}, draft)
    elif body:
        _read_response_head(body, draft)


def _place(event: dict[str, Any]) -> tuple[str | None, int | None]:
    item, part = event.get("item_id"), event.get("content_index")
    return item if isinstance(item, str) else None, part if isinstance(part, int) else None


def _read_item(item: dict[str, Any], draft: Draft) -> None:
    kind = fields.string(item.get("type"))
    if kind == "message" or (not kind and "content" in item):
        read_parts(item.get("content"), 0, draft)
    elif kind.endswith("_call"):  # function_call, custom_tool_call, and what the server runs itself
        _read_call({"name": kind, **item}, 0, ("item", draft.next_slot(0)), draft)


def _read_response_head(body: dict[str, Any], draft: Draft) -> None:
    draft.id = draft.id or fields.name(body.get("id"))
    draft.model = draft.model or fields.name(body.get("model"))
    draft.count(fields.mapping(body.get("usage")))


def _read_response_end(body: dict[str, Any], draft: Draft) -> None:
    _read_response_head(body, draft)
    reason = fields.string(fields.mapping(body.get("incomplete_details")).get("reason"))
    status = fields.string(body.get("status"))
    if error := fields.mapping(body.get("error")):
        draft.fail(error)
    elif reason or status in ("completed", "incomplete"):
        draft.end(0, reason or status, "incomplete_details.reason")
    if status and status != "completed":
        draft.cut(0)
