"""Which API a response body speaks, told by its keys, and whether it is an error. Bodies and stream chunks alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from demur.classifier import fields
from demur.classifier.draft import Draft
from demur.classifier.shapes_openai import read_completion, read_response, read_response_event
from demur.classifier.shapes_others import (
    read_anthropic,
    read_anthropic_event,
    read_cohere,
    read_converse,
    read_gemini,
    read_guardrail,
    read_ollama,
    read_qianfan,
)

Reader = Callable[[dict[str, Any], Draft], None]

_STATUSES = frozenset({"queued", "in_progress", "completed", "incomplete", "failed", "cancelled"})  # of Responses
_NO_ERROR = (None, 0, "0", 200)
_ANTHROPIC_EVENTS = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
    }
)


def read_into(body: dict[str, Any], draft: Draft, status: int = 200) -> None:
    """Read a body or a chunk of any API into `draft`; a shape that none has leaves it untouched but for `unread`.

    With an HTTP `status` of 400 or more it is an error, whatever it holds.
    """
    if status >= 400:
        draft.fail(error_of(body) or body, status)
        return
    api, reader = reader_of(body)
    if reader is not None:
        draft.api = draft.api or api
        reader(body, draft)
    if "amazon-bedrock-guardrailAction" in body and reader is not read_guardrail:
        read_guardrail(body, draft)
    error = error_of(body)
    if error is not None and reader is not read_response:  # which has its own way with errors
        draft.fail(error)
    elif reader is None:
        draft.unread += 1


def read_event(event: dict[str, Any], name: str | None, draft: Draft, status: int = 200) -> None:
    """Read one stream event: a chunk that looks like a body, or an event of those APIs that have types of events."""
    kind = fields.string(event.get("type"))
    if kind.startswith("response."):
        draft.api = draft.api or "openai.responses"
        read_response_event(event, kind.removeprefix("response."), draft)
    elif kind in _ANTHROPIC_EVENTS:
        draft.api = draft.api or "anthropic.messages"
        read_anthropic_event(event, kind, draft)
    elif name == "error":
        draft.fail(error_of(event) or event, status)
    else:
        read_into(event, draft, status)


def reader_of(body: dict[str, Any]) -> tuple[str | None, Reader | None]:
    """The API of a body and its reader, by its keys; None and None when no API has such a shape."""
    choices, output, candidates = body.get("choices"), body.get("output"), body.get("candidates")
    if "choices" in body and (not choices or fields.mappings(choices)):
        legacy = body.get("object") == "text_completion" or any("text" in choice for choice in fields.mappings(choices))
        return "openai.completions" if legacy else "openai.chat", read_completion
    if body.get("object") == "response" or (
        isinstance(output, list) and fields.string(body.get("status")) in _STATUSES
    ):
        return "openai.responses", read_response
    if "stop_reason" in body or (body.get("type") == "message" and isinstance(body.get("content"), list)):
        return "anthropic.messages", read_anthropic
    if candidates == [] or fields.mappings(candidates) or isinstance(body.get("promptFeedback"), dict):
        return "gemini", read_gemini
    if "stopReason" in body or isinstance(fields.mapping(output).get("message"), dict):
        return "bedrock.converse", read_converse
    if isinstance(body.get("message"), dict) and "finish_reason" in body:
        return "cohere.chat", read_cohere
    if fields.string(body.get("action")).startswith("GUARDRAIL_") or "amazon-bedrock-guardrailAction" in body:
        return "bedrock.guardrail", read_guardrail
    if isinstance(body.get("result"), str) and ("need_clear_history" in body or "is_truncated" in body):
        return "baidu.qianfan", read_qianfan
    if "done" in body and (isinstance(body.get("message"), dict) or isinstance(body.get("response"), str)):
        return "ollama.chat", read_ollama
    return None, None


def error_of(body: dict[str, Any]) -> dict[str, Any] | None:
    """The error object of an error body in any vendor's spelling; None when it is no error."""
    error = body.get("error") or body.get("errors")
    if isinstance(error, list):  # Cloudflare
        error = next(iter(fields.mappings(error)), None)
    if error and isinstance(error, dict):
        return error
    if error and isinstance(error, str):  # xAI, Ollama
        return {**body, "message": error}
    if body.get("object") == "error" or body.get("type") == "error":  # vLLM
        return body
    if (base := fields.mapping(body.get("base_resp"))) and base.get("status_code"):  # MiniMax
        return {"status_code": base["status_code"], "message": base.get("status_msg")}
    told = any(isinstance(body.get(key), str) for key in ("message", "msg", "error_msg"))
    if told and body.get("code", body.get("error_code")) not in _NO_ERROR:  # DashScope, Spark; Qianfan
        return body
    detail = body.get("detail")
    if any("msg" in entry for entry in fields.mappings(detail)) or "error" in fields.mapping(detail):  # FastAPI
        return body
    response = fields.mapping(body.get("Response")) or body
    if error := fields.mapping(response.get("Error")) or fields.mapping(response.get("ErrorMsg")):  # Tencent
        return {"code": error.get("Code"), "message": error.get("Message") or error.get("Msg")}
    return None
