"""An OpenAI-compatible upstream that answers from a recording: to try the proxy, alerts and clients without a model.

`/chat/completions` answers JSON or SSE, as it is asked for: as recorded where the recording has that very form, else
made from its text. `/completions`, `/responses` and `/messages` answer as recorded only. `/models` lists the models.
Any prefix (`/v1`, none) will do. Every error is OpenAI-shaped JSON.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from demur.audit.completions import choices_of, completion, completion_events, encode
from demur.audit.recording import Recorded, Recording
from demur.classifier.apis import api_of_path
from demur.classifier.fields import decode, string
from demur.classifier.request import read_ask
from demur.classifier.sse import SSEReader
from demur.classifier.trace import Ask

logger = logging.getLogger("demur.replay")

_AS_RECORDED = ("openai.completions", "openai.responses", "anthropic.messages")


@dataclass(frozen=True, slots=True)
class Pace:
    """How the replay behaves. Times in seconds.

    `latency` passes before the first byte, `chunk_delay` between the chunks of a stream. After `cut_after` chunks a
    stream breaks off, without its end. `chunk_chars` is the size of a chunk's text, instead of token-like pieces.
    """

    latency: float = 0.0
    chunk_delay: float = 0.0
    cut_after: int | None = None
    chunk_chars: int | None = None


def create_replay_app(recording: Recording, pace: Pace | None = None) -> ASGIApp:
    """The app. Its only state is how far each prompt's answers were served; it belongs to one loop."""
    pace = pace or Pace()
    numbers = itertools.count(1)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request_id = f"req_replay_{next(numbers):06d}"
        request = Request(scope, receive)
        body = await request.body()
        try:
            response = _respond(request, body, recording, pace, request_id)
        except Exception as fault:  # a client of OpenAI reads JSON, whatever goes wrong
            logger.exception("a recorded answer can't be sent")
            response = _error(500, f"this recorded answer can't be sent: {type(fault).__name__}", "replay_failed")
        response.headers["x-request-id"] = request_id
        await asyncio.sleep(pace.latency)
        await response(scope, receive, send)

    return app


class _Stream(Response):
    """Server-sent events at a pace. Cut short, it never ends its body: the server then drops the connection."""

    media_type = "text/event-stream"

    def __init__(self, events: Sequence[bytes], pace: Pace, status: int = 200) -> None:
        super().__init__(status_code=status)
        del self.headers["content-length"]
        self._events, self._pace = events, pace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for number, event in enumerate(self._events):
            if number == self._pace.cut_after:
                return
            if number:
                await asyncio.sleep(self._pace.chunk_delay)
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _respond(request: Request, body: bytes, recording: Recording, pace: Pace, request_id: str) -> Response:
    path = request.url.path.rstrip("/")
    if path.endswith("/models"):
        return _json({"object": "list", "data": [_model(name) for name in recording.models]})
    api = api_of_path(path)
    if api is None:
        return _error(404, f"the replay does not know the path {path}", "unknown_url")
    if request.method != "POST":
        return _error(405, f"{path} takes POST", "method_not_allowed")
    try:
        asked = decode(body)
    except ValueError as error:
        return _error(400, f"the request body is not JSON: {error}", "invalid_json")
    if not isinstance(asked, dict):
        return _error(400, "the request body is not a JSON object", "invalid_json")
    ask = read_ask(asked, api)
    count = asked.get("n")
    count = count if isinstance(count, int) and 1 <= count <= 128 else 1
    found = recording.take(ask.prompt, ask.model, count)
    if not found:
        return _error(404, f"no recorded trace has this last user text: {ask.prompt[:200]!r}", "no_recorded_trace")
    if _count_choices(found[0]) >= count:  # one recorded answer that holds all that was asked for
        found = found[:1]
    return (
        _as_recorded(found, api, ask.stream, pace)
        or (_made(found, ask, asked, pace, request_id) if api == "openai.chat" else None)
        or _not_recorded(api, found[0], ask.stream)
    )


def _count_choices(recorded: Recorded) -> int:
    return len(recorded.trace.choices) or 1


def _as_recorded(found: Sequence[Recorded], api: str, stream: bool, pace: Pace) -> Response | None:
    """The recorded response itself, where it is one of this API in the form that was asked for, or an error."""
    first = found[0]
    if first.status >= 400 and isinstance(first.raw, dict):
        return _json(_error_body(first.raw), first.status)
    if len(found) > 1 or first.trace.api != api or first.raw is None or isinstance(first.raw, str) != stream:
        return None
    if isinstance(first.raw, str):
        return _Stream(_cut_into_events(string(first.raw).encode()), pace, first.status)
    return _json(first.raw, first.status)


def _made(found: Sequence[Recorded], ask: Ask, asked: dict[str, Any], pace: Pace, request_id: str) -> Response | None:
    """A chat completion built from the recorded text."""
    trace = found[0].trace
    if trace.problem == "upstream_error":
        return _error(max(found[0].status, 500), trace.why or "recorded error", "recorded_error")
    head = {
        "id": f"chatcmpl-{request_id.removeprefix('req_')}",
        "created": int(time.time()),
        "model": trace.model or ask.model or "replay",
    }
    choices = choices_of([recorded.trace for recorded in found])
    if not asked.get("stream"):
        return _json(completion(choices, trace.ask.prompt, head))
    options = asked.get("stream_options")
    usage = isinstance(options, dict) and bool(options.get("include_usage"))
    return _Stream([*completion_events(choices, trace.ask.prompt, head, usage=usage, size=pace.chunk_chars)], pace)


def _not_recorded(api: str, recorded: Recorded, stream: bool) -> Response:
    if api not in _AS_RECORDED:
        return _error(501, f"the replay does not answer {api}", "api_not_replayed")
    asked = f"{api} {'as a stream' if stream else 'as JSON'}"
    have = f"{recorded.trace.api or 'text'}{' as a stream' if isinstance(recorded.raw, str) else ''}"
    return _error(501, f"{asked} is answered only where that was recorded; this trace holds {have}", "not_recorded")


def _cut_into_events(stream: bytes) -> list[bytes]:
    """The recorded bytes, cut after each event; joined they are the recording."""
    reader = SSEReader()
    ends = [event.end for event in (*reader.feed(stream), *reader.close())]
    bounds = [0, *ends[:-1], len(stream)]
    return [stream[start:end] for start, end in itertools.pairwise(bounds)]


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "demur-replay"}


def _error_body(raw: dict[str, Any]) -> dict[str, Any]:
    """A recorded error as its provider sent it: without the keys that a recording adds."""
    added = ("status", "request", "id") if "error" in raw else ()
    return {key: value for key, value in raw.items() if key not in added}


def _json(value: object, status: int = 200) -> Response:
    return Response(encode(value), status, media_type="application/json")


def _error(status: int, message: str, code: str) -> Response:
    error = {"message": f"demur replay: {message}", "type": "invalid_request_error", "param": None, "code": code}
    return _json({"error": error}, status)
