"""Any accepted trace → `Trace`. Recognises the shape, hands the body to its vendor's reader, finds the ask beside it.

Nothing here raises: what cannot be read becomes a trace whose `problem` is `unparsed`, `empty` or `upstream_error`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from demur.classifier import fields
from demur.classifier.draft import Draft
from demur.classifier.request import ask_of_turns, read_ask, role_of
from demur.classifier.shapes_openai import read_completion, read_message, read_parts, read_response
from demur.classifier.shapes_others import read_anthropic, read_converse, read_gemini, read_ollama
from demur.classifier.trace import Ask, Choice, Trace

Reader = Callable[[dict[str, Any], Draft], None]

_PROMPTS = ("prompt", "query", "question", "instruction", "user", "user_prompt", "user_input", "input")
_RESPONSES = ("response", "answer", "output", "completion", "reply", "generation", "generated_text", "model_output", "text")
_SYSTEMS = ("system", "system_prompt", "system_message")
_CONVERSATIONS = ("messages", "conversation", "conversations")
_ROW = frozenset(("id", "request", "stream", "status", "model", *_PROMPTS, *_RESPONSES, *_SYSTEMS, *_CONVERSATIONS))
#: Top-level keys of vendors' bodies that the readers read; every other key goes to `meta`.
_BODY = frozenset(
    "id object created model choices usage error output status incomplete_details type role content stop_reason candidates promptFeedback"
    " usageMetadata modelVersion responseId stopReason message done done_reason response code param".split()
)


def normalize(obj: object) -> Trace:
    """A response text, or an object of any accepted shape, as a trace. Never raises; an unknown shape is `unparsed`, with the reason."""
    if isinstance(obj, str):
        return Trace(choices=(Choice(text=fields.string(obj)),))
    if isinstance(obj, list):
        if any("role" in item or "from" in item for item in fields.mappings(obj)):
            return _row({"messages": obj})
        return _row({"response": obj})
    if isinstance(obj, dict):
        return _row(obj)
    return _unparsed(Ask(), f"a trace is a text or an object, not {type(obj).__name__}")


def read_body(ask: Ask, api: str | None, status: int, body: bytes) -> Trace:
    """One complete response from the wire: what `normalize` makes of the same object, with the request's `ask`. Never raises."""
    if not body.strip() or status == 204:
        problem = ("upstream_error", f"HTTP {status}") if status >= 400 else ("empty", "no body")
        return Trace(ask=ask, problem=problem[0], why=problem[1], model=ask.model, api=api)
    try:
        obj = fields.decode(body)
    except ValueError:
        if status >= 400:
            return Trace(ask=ask, problem="upstream_error", why=f"HTTP {status}", model=ask.model, api=api)
        return replace(_unparsed(ask, "the body is not JSON"), api=api)
    trace = read_object(obj, ask, status)
    return trace if trace.api else replace(trace, api=api)


def read_object(obj: object, ask: Ask, status: int = 200) -> Trace:
    """One decoded response body of any API."""
    draft = Draft()
    bodies = obj if isinstance(obj, list) else [obj]
    meta: dict[str, Any] = {}
    for body in bodies:
        if isinstance(body, dict):
            read_into(body, draft, status)
            meta.update((key, value) for key, value in body.items() if key not in _BODY)
    if not draft.readable:
        if status >= 400:
            draft.fail({}, f"HTTP {status}")
        else:
            return _unparsed(ask, "the body has the shape of no known API")
    return replace(draft.trace(ask), meta=meta)


def read_into(body: dict[str, Any], draft: Draft, status: int = 200) -> None:
    """Read a body, or a stream chunk that looks like one, into `draft`, which stays unreadable when the shape is unknown."""
    known = reader_of(body) if status < 400 else None
    error = error_of(body)
    if known is not None:
        draft.api = draft.api or known[0]
        known[1](body, draft)
    if error is not None and (known is None or known[1] is not read_response):
        draft.fail(error, f"HTTP {status}" if status >= 400 else "")
    elif status >= 400:
        draft.fail(body, f"HTTP {status}")


def reader_of(body: dict[str, Any]) -> tuple[str, Reader] | None:
    """The API and the reader of a body, by its keys."""
    choices = body.get("choices")
    if "choices" in body and (not choices or any(isinstance(c, dict) for c in fields.sequence(choices))):
        legacy = body.get("object") == "text_completion" or any("text" in c for c in fields.mappings(choices))
        return ("openai.completions" if legacy else "openai.chat"), read_completion
    output = body.get("output")
    if body.get("object") == "response" or (isinstance(output, list) and isinstance(body.get("status"), str)):
        return "openai.responses", read_response
    if "stop_reason" in body or (body.get("type") == "message" and isinstance(body.get("content"), list)):
        return "anthropic.messages", read_anthropic
    if isinstance(body.get("candidates"), list) or isinstance(body.get("promptFeedback"), dict):
        return "gemini", read_gemini
    if "stopReason" in body or "message" in fields.mapping(output):
        return "bedrock.converse", read_converse
    if "done" in body and (isinstance(body.get("message"), dict) or isinstance(body.get("response"), str)):
        return "ollama.chat", read_ollama
    return None


def error_of(body: dict[str, Any]) -> dict[str, Any] | None:
    """The error object of an error body in any spelling, None when it is none."""
    error = body.get("error")
    if error and isinstance(error, dict):
        return error
    if error and isinstance(error, str):
        return {"message": error, "code": body.get("code"), "type": body.get("type")}
    if body.get("object") == "error" or body.get("type") == "error":
        return body
    if "code" in body and any(isinstance(body.get(key), str) for key in ("message", "msg")):
        return body
    return None


def _row(row: dict[str, Any]) -> Trace:
    """An object of a saved file: an envelope, a pair, a conversation, or a vendor's body itself."""
    ask = _ask_of_row(row)
    response = row.get("response")
    status = row.get("status")
    status = status if type(status) is int else 200
    body: object = None
    if isinstance(row.get("stream"), str):
        from demur.classifier.answer import read_stream

        trace = read_stream(row["stream"], ask, status)
    elif isinstance(response, (dict, list)):
        code = fields.mapping(response).get("status_code")
        if type(code) is int and "body" in response:  # a line of OpenAI's batch output
            status, response = code, fields.mapping(response).get("body")
        trace = _response(response, ask, status)
    elif reader_of(row) or status >= 400:
        trace = replace(read_object(row, ask, status), id=fields.name(row.get("id")))
        return trace if trace.model else replace(trace, model=fields.name(row.get("model")))
    else:
        for key in _RESPONSES:
            if key in row and (key != "text" or "messages" not in row):
                trace = _response(row[key], ask, status)
                break
        else:
            trace = _conversation(row, ask)
    meta = {key: value for key, value in row.items() if key not in _ROW}
    return replace(
        trace,
        id=fields.name(row.get("id")),
        model=trace.model or fields.name(row.get("model")),
        meta={**trace.meta, **meta},
    )


def _response(response: object, ask: Ask, status: int) -> Trace:
    """What stands under `response` or an alias of it."""
    if status >= 400 and not isinstance(response, (dict, list)):
        return Trace(ask=ask, problem="upstream_error", why=f"HTTP {status}", model=ask.model)
    if response is None:
        return Trace(ask=ask, choices=(Choice(),), model=ask.model)
    if isinstance(response, str):
        return Trace(ask=ask, choices=(Choice(text=fields.string(response)),), model=ask.model)
    if isinstance(response, dict) and status < 400 and not reader_of(response) and ("content" in response or "tool_calls" in response):
        draft = Draft()
        read_message(response, 0, draft)
        draft.open(0)
        return draft.trace(ask)
    if isinstance(response, list) and status < 400 and not any(reader_of(p) or error_of(p) for p in fields.mappings(response)):
        draft = Draft()
        read_parts(response, 0, draft)
        return draft.trace(ask) if draft.choices else _unparsed(ask, "the response is a list without text")
    if isinstance(response, (dict, list)):
        return read_object(response, ask, status)
    return _unparsed(ask, f"the response is {type(response).__name__}, not a text or an object")


def _conversation(row: dict[str, Any], ask: Ask) -> Trace:
    for key in _CONVERSATIONS:
        turns = fields.mappings(row.get(key))
        if turns:
            break
    else:
        if "role" in row or "content" in row:
            turns = [row]
        elif (error := error_of(row)) is not None:
            draft = Draft()
            draft.fail(error)
            return draft.trace(ask)
        else:
            return _unparsed(ask, f"no known shape: {', '.join(sorted(map(str, row))[:8])[:200] or 'an empty object'}")
    if role_of(turns[-1]) != "assistant":
        return _unparsed(ask, "the conversation does not end with an assistant turn: there is no response to judge")
    last = turns[-1]
    draft = Draft()
    draft.open(0)
    read_message(last if "content" in last else {**last, "content": last.get("value")}, 0, draft)
    return draft.trace(ask)


def _ask_of_row(row: dict[str, Any]) -> Ask:
    request = row.get("request")
    if isinstance(request, dict):
        inner = request.get("body")  # a line of OpenAI's batch input
        ask = read_ask(inner if isinstance(inner, dict) else request)
    else:
        turns = request if isinstance(request, list) else next((row[k] for k in _CONVERSATIONS if isinstance(row.get(k), list)), [])
        ask = ask_of_turns(turns)
        if isinstance(request, str):
            ask = replace(ask, prompt=fields.string(request))
    if not ask.prompt:
        for key in _PROMPTS:
            value = row.get(key)
            if isinstance(value, list):
                ask = ask_of_turns(value, ask.system, ask.model)
            elif isinstance(value, str):
                ask = replace(ask, prompt=fields.string(value))
                if key == "instruction" and (given := fields.string(row.get("input"))):
                    ask = replace(ask, prompt=f"{ask.prompt}\n\n{given}")
            if ask.prompt:
                break
    system = fields.first_string(row, *_SYSTEMS)
    if system and system not in ask.system:
        ask = replace(ask, system="\n\n".join(filter(None, (system, ask.system))))
    return ask


def _unparsed(ask: Ask, why: str) -> Trace:
    return Trace(ask=ask, problem="unparsed", why=why, model=ask.model)
