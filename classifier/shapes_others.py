"""The shapes of Anthropic (Messages), Gemini, AWS Bedrock, Cohere, Baidu Qianfan, Ollama: bodies and stream events."""

from __future__ import annotations

from typing import Any

from demur.classifier import blocks, fields
from demur.classifier.draft import Draft
from demur.classifier.shapes_openai import read_message, read_parts


def read_anthropic(body: dict[str, Any], draft: Draft) -> None:
    """An Anthropic message, whole or as `message_start` begins it."""
    draft.readable = True
    draft.open(0)
    draft.id = draft.id or fields.name(body.get("id"))
    draft.model = draft.model or fields.name(body.get("model"))
    draft.count(fields.mapping(body.get("usage")))
    read_parts(fields.sequence(body.get("content")), 0, draft)
    for key in ("completion", "generation"):  # the older text API, and Llama on Bedrock
        draft.say(0, fields.string(body.get(key)))
    if reason := fields.string(body.get("stop_reason")):
        draft.end(0, reason, "stop_reason")


def read_anthropic_event(event: dict[str, Any], kind: str, draft: Draft) -> None:
    """One event of an Anthropic stream; `kind` is its type. Thinking and signatures are left out."""
    draft.readable = True
    draft.open(0)
    slot = event.get("index") if type(event.get("index")) is int else None
    if kind == "content_block_delta":
        delta = fields.mapping(event.get("delta"))
        if text := fields.string(delta.get("text")):
            draft.say(0, text)
        elif arguments := fields.string(delta.get("partial_json")):
            draft.call(0, slot, "", arguments)
    elif kind == "content_block_start":
        block = fields.mapping(event.get("content_block"))
        if block.get("type") == "tool_use":
            # `input` is an empty object here: the arguments come as deltas.
            draft.call(0, slot, fields.string(block.get("name")), fields.compact(block.get("input") or None))
        else:
            read_parts(block, 0, draft)
    elif kind == "message_start":
        read_anthropic(fields.mapping(event.get("message")), draft)
    elif kind == "message_delta":
        draft.count(fields.mapping(event.get("usage")))
        if reason := fields.string(fields.mapping(event.get("delta")).get("stop_reason")):
            draft.end(0, reason, "stop_reason")
    elif kind == "message_stop":
        draft.done = True


def read_gemini(body: dict[str, Any], draft: Draft) -> None:
    """A generateContent response, or one chunk of its stream. Parts marked `thought` are left out."""
    draft.readable = True
    for position, candidate in enumerate(fields.mappings(body.get("candidates"))):
        index = candidate.get("index")
        if type(index) is not int or index < 0:
            index = position
        draft.open(index)
        for part in fields.mappings(fields.mapping(candidate.get("content")).get("parts")):
            if call := fields.mapping(part.get("functionCall")):
                slot = ("part", draft.next_slot(index))
                draft.call(index, slot, fields.string(call.get("name")), fields.compact(call.get("args")))
            elif part.get("thought") is not True:
                draft.say(index, fields.string(part.get("text")))
        if reason := fields.string(candidate.get("finishReason")):
            draft.end(index, reason, "finishReason")
    reason = fields.string(fields.mapping(body.get("promptFeedback")).get("blockReason"))
    if reason.lower() not in blocks.UNSAID:
        draft.open(0)
        draft.block(0, reason, "promptFeedback.blockReason")
    draft.id = draft.id or fields.name(body.get("responseId"))
    draft.model = draft.model or fields.name(body.get("modelVersion"))
    draft.count(fields.mapping(body.get("usageMetadata")))


def read_converse(body: dict[str, Any], draft: Draft) -> None:
    """A Bedrock Converse response."""
    draft.readable = True
    draft.open(0)
    message = fields.mapping(fields.mapping(body.get("output")).get("message"))
    for part in fields.mappings(message.get("content")):
        draft.say(0, fields.string(part.get("text")))
        if call := fields.mapping(part.get("toolUse")):
            draft.call(0, draft.next_slot(0), fields.string(call.get("name")), fields.compact(call.get("input")))
    if reason := fields.string(body.get("stopReason")):
        draft.end(0, reason, "stopReason")
    draft.count(fields.mapping(body.get("usage")))


def read_guardrail(body: dict[str, Any], draft: Draft) -> None:
    """What a Bedrock guardrail did: the answer of ApplyGuardrail, or the mark that InvokeModel adds to any body."""
    for field in ("amazon-bedrock-guardrailAction", "action"):
        action = fields.string(body.get(field))
        if action.endswith("INTERVENED"):
            draft.readable = True
            draft.open(0)
            for part in fields.mappings(body.get("outputs")):
                draft.say(0, fields.string(part.get("text")))
            draft.block(0, action, field)


def read_cohere(body: dict[str, Any], draft: Draft) -> None:
    """A Cohere v2 chat response."""
    draft.readable = True
    draft.open(0)
    draft.id = draft.id or fields.name(body.get("id"))
    read_message(fields.mapping(body.get("message")), 0, draft)
    draft.end(0, fields.string(body.get("finish_reason")), "finish_reason")
    draft.count(fields.mapping(fields.mapping(body.get("usage")).get("tokens")))


def read_qianfan(body: dict[str, Any], draft: Draft) -> None:
    """An answer of Baidu Qianfan's own (v1) API, or one event of its stream."""
    draft.readable = True
    draft.open(0)
    draft.id = draft.id or fields.name(body.get("id"))
    draft.say(0, fields.string(body.get("result")))
    if call := fields.mapping(body.get("function_call")):
        draft.call(0, "function_call", fields.string(call.get("name")), fields.compact(call.get("arguments")))
    if body.get("need_clear_history") is True:  # the input is unsafe: the talk is to end here
        draft.block(0, "need_clear_history", "need_clear_history")
    if body.get("is_end") is not False:
        draft.end(0, fields.string(body.get("finish_reason")) or "stop", "finish_reason")
    draft.count(fields.mapping(body.get("usage")))


def read_ollama(body: dict[str, Any], draft: Draft) -> None:
    """An Ollama chat or generate response, or one line of its stream. `thinking` is left out."""
    draft.readable = True
    draft.open(0)
    draft.model = draft.model or fields.name(body.get("model"))
    read_message(fields.mapping(body.get("message")), 0, draft)
    draft.say(0, fields.string(body.get("response")))
    if body.get("done") is True:
        draft.done = True
        draft.end(0, fields.string(body.get("done_reason")) or "stop", "done_reason")
        draft.count(body)
