"""Any accepted trace → `Trace`: finds the ask, the response and the HTTP status in a saved object, whatever its shape.

Nothing here raises: what cannot be read becomes a trace with a `problem` (`unparsed`, `empty`, `upstream_error`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from demur.classifier import fields
from demur.classifier.answer import StreamAnswer
from demur.classifier.bodies import error_of, read_into, reader_of
from demur.classifier.draft import Draft
from demur.classifier.request import ask_of_turns, read_ask, role_of
from demur.classifier.shapes_openai import read_message, read_parts
from demur.classifier.sse import Event, SSEReader
from demur.classifier.trace import Ask, Choice, Trace

_PROMPTS = ("prompt", "query", "question", "instruction", "user", "user_prompt", "user_input", "input")
_RESPONSES = (
    "response",
    "answer",
    "output",
    "completion",
    "reply",
    "assistant",
    "generation",
    "generated_text",
    "model_output",
    "model_response",
    "result",
    "text",
)
_SYSTEMS = ("system", "system_prompt", "system_message")
_CONVERSATIONS = ("messages", "conversation", "conversations")
#: Keys of a saved object that are read; the others are kept in `meta`.
_ROW = frozenset(
    {"id", "request", "stream", "status", "model", "error", *_PROMPTS, *_RESPONSES, *_SYSTEMS, *_CONVERSATIONS}
)
#: Keys of response bodies that are read; the others are kept in `meta`.
_BODY = frozenset(
    {
        *("id", "object", "created", "model", "choices", "usage", "error"),  # completions
        *("output", "status", "incomplete_details"),  # Responses
        *("type", "role", "content", "stop_reason"),  # Anthropic
        *("candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId"),  # Gemini
        *("stopReason",),  # Bedrock
        *("message", "response", "done", "done_reason"),  # Ollama
    }
)


def normalize(obj: object) -> Trace:
    """A response text, or an object of any accepted shape (design: "Accepted traces"), as a trace. Never raises."""
    if isinstance(obj, str):
        return _text(obj, Ask())
    if isinstance(obj, dict):
        return _row(obj)
    if isinstance(obj, list) and obj:
        turns = fields.mappings(obj)
        return _row({"messages": obj}) if any(role_of(turn) for turn in turns) else _response(obj, Ask(), 200)
    what = "an empty list" if obj == [] else type(obj).__name__
    return _unparsed(Ask(), f"a trace is a text or an object, not {what}")


def read_body(ask: Ask, api: str | None, status: int, body: bytes) -> Trace:
    """One complete response from the wire: the trace that `normalize` makes of the same object. Never raises.

    `api` is what the request path said, `status` the HTTP status.
    """
    if status == 204 or not body or body.isspace():
        trace = _error(ask, status) if status >= 400 else Trace(ask, problem="empty", why="no body", model=ask.model)
    else:
        trace = _json(body, ask, status)
    return trace if trace.api else replace(trace, api=api)


def _json(body: bytes | str, ask: Ask, status: int) -> Trace:
    """A body that should be JSON, or JSON objects line by line (Ollama's streams)."""
    try:
        return _object(fields.decode(body), ask, status)
    except ValueError:
        pass
    lines = (body.encode() if isinstance(body, str) else body).split(b"\n")
    if len(lines) > 1 and lines[0].lstrip().startswith(b"{"):
        return _stream((Event(None, line, 0, 0) for line in lines), ask, status)
    return _error(ask, status) if status >= 400 else _unparsed(ask, "the body is not JSON")


def _stream(events: Iterable[Event], ask: Ask, status: int) -> Trace:
    answer = StreamAnswer(ask, status=status)
    for event in events:
        answer.feed(event)
    return answer.trace()


def _object(obj: object, ask: Ask, status: int) -> Trace:
    """One decoded response body of any API; a list holds the chunks of a Gemini stream."""
    draft = Draft()
    for body in fields.mappings(obj if isinstance(obj, list) else [obj]):
        read_into(body, draft, status)
        draft.meta.update((key, value) for key, value in body.items() if key not in _BODY)
    if not draft.readable:
        return _error(ask, status) if status >= 400 else _unparsed(ask, "the body has the shape of no known API")
    return draft.trace(ask)


def _row(row: dict[str, Any]) -> Trace:
    """A saved object: an envelope, a pair, a conversation, or a response body itself."""
    ask = _ask(row)
    status = row["status"] if type(row.get("status")) is int else 200
    known = _ROW
    if isinstance(row.get("stream"), str):
        trace = _stream_text(fields.string(row["stream"]), ask, status)
    elif isinstance(row.get("response"), (dict, list)):
        trace = _response(row["response"], ask, status)
    elif reader_of(row)[1] or status >= 400:
        trace = _object(row, ask, status)
        known = _BODY | _ROW
    else:
        trace = _named_response(row, ask)
    return replace(
        trace,
        id=fields.name(row.get("id")) or trace.id,
        model=trace.model or fields.name(row.get("model")),
        meta={**trace.meta, **{key: value for key, value in row.items() if key not in known}},
    )


def _named_response(row: dict[str, Any], ask: Ask) -> Trace:
    """A response under one of the usual names, as the last turn of a conversation, or an error instead."""
    key = next((key for key in _RESPONSES if row.get(key) is not None), None)
    failed = error_of(row) is not None
    if key is not None and (row[key] or not failed):
        return _response(row[key], ask, 200)
    if any(isinstance(row.get(name), list) for name in _CONVERSATIONS) or "content" in row:
        return _conversation(row, ask)
    if failed:
        return _object(row, ask, 200)
    if any(name in row for name in _RESPONSES):
        return _text("", ask)
    keys = ", ".join(sorted(fields.string(str(name))[:40] for name in row)[:8])
    return _unparsed(ask, f"no known shape, its keys: {keys}" if keys else "an empty object")


def _stream_text(text: str, ask: Ask, status: int) -> Trace:
    """The saved text of a whole stream."""
    if text.lstrip()[:1] in ("{", "["):
        return _json(text, ask, status)
    reader = SSEReader()
    events = reader.feed(text.encode())
    return _stream(events + reader.close(), ask, status)


def _captured(text: str, ask: Ask, status: int) -> Trace | None:
    """The trace of a response text that is the capture of a stream of some known API; None: it is just text."""
    if not text.lstrip().startswith(("data:", "event:")):
        return None
    trace = _stream_text(text, ask, status)
    return trace if trace.api else None


def _response(response: object, ask: Ask, status: int) -> Trace:
    """What stands under `response` or one of its aliases."""
    if isinstance(response, dict) and type(response.get("status_code")) is int and "body" in response:
        status, response = response["status_code"], response["body"]  # a line of OpenAI's batch output
    if isinstance(response, str) and status < 400:
        return _captured(response, ask, status) or _text(response, ask)
    if not isinstance(response, (dict, list)):
        return _error(ask, status) if status >= 400 else _unparsed(ask, f"the response is {type(response).__name__}")
    parts = fields.mappings(response if isinstance(response, list) else [response])
    if status >= 400 or any(reader_of(part)[1] or error_of(part) for part in parts):
        return _object(response, ask, status)
    draft = Draft()
    draft.open(0)
    if isinstance(response, list):
        read_parts(response, 0, draft)
    elif "content" in response or "tool_calls" in response:
        read_message(response, 0, draft)
    else:
        draft.say(0, fields.first_string(response, *_RESPONSES))
    if draft.silent(0) and response and "content" not in response:
        return _unparsed(ask, "the response has the shape of no known API")
    return draft.trace(ask)


def _conversation(row: dict[str, Any], ask: Ask) -> Trace:
    """Messages that end with the assistant's turn, or that turn alone."""
    turns = next((turns for key in _CONVERSATIONS if (turns := fields.mappings(row.get(key)))), [row])
    last = turns[-1]
    if role_of(last) != "assistant":
        return _unparsed(ask, "the conversation does not end with an assistant turn: there is no response to judge")
    draft = Draft()
    draft.open(0)
    read_message(last if "content" in last else {**last, "content": last.get("value")}, 0, draft)
    return draft.trace(ask)


def _ask(row: dict[str, Any]) -> Ask:
    """The ask of a saved object: of its request, its conversation, or its prompt under one of the usual names."""
    request = row.get("request")
    if isinstance(request, dict):
        inner = request.get("body")  # a line of OpenAI's batch input
        ask = read_ask(inner if isinstance(inner, dict) else request)
    elif isinstance(request, str):
        ask = Ask(fields.string(request))
    else:
        lists = (row[key] for key in _CONVERSATIONS if isinstance(row.get(key), list))
        ask = ask_of_turns(request if isinstance(request, list) else next(lists, []))
    for key in _PROMPTS:
        if ask.prompt:
            break
        value = row.get(key)
        if isinstance(value, list):
            turns = ask_of_turns(value)
            ask = replace(ask, prompt=turns.prompt, system=ask.system or turns.system)
        elif isinstance(value, str):
            given = fields.string(row.get("input")) if key == "instruction" else ""
            ask = replace(ask, prompt="\n\n".join(filter(None, (fields.string(value), given))))
    system = fields.first_string(row, *_SYSTEMS)
    return replace(ask, system="\n\n".join(filter(None, (system, ask.system)))) if system else ask


def _text(text: str, ask: Ask) -> Trace:
    return Trace(ask=ask, choices=(Choice(text=fields.string(text)),), model=ask.model)


def _error(ask: Ask, status: int) -> Trace:
    return Trace(ask=ask, problem="upstream_error", why=f"HTTP {status}", model=ask.model)


def _unparsed(ask: Ask, why: str) -> Trace:
    return Trace(ask=ask, problem="unparsed", why=why, model=ask.model)
