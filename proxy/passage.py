"""How an answer passes, by its head alone; shared by all who pass answers on (relay, middleware, client transport).

No bytes go through here, and nothing here knows sockets or HTTP clients.
"""

from __future__ import annotations

import math
import re
from enum import Enum
from typing import Literal

from demur.classifier import fields
from demur.classifier.judge import Classifier
from demur.classifier.trace import Ask
from demur.config import Settings
from demur.proxy import headers
from demur.proxy.finish import MAY_FINISH, FinishChunk
from demur.proxy.headers import Headers
from demur.proxy.inspection import Framing, StreamInspection

_JSON_LINES = frozenset(
    {
        b"application/x-ndjson",
        b"application/ndjson",
        b"application/jsonl",
        b"application/jsonlines",
        b"application/x-jsonlines",
        b"application/json-lines",
        b"application/stream+json",
    }
)


# No JSON begins like that. A byte order mark and blank lines may come first.
_BOM = b"\xef\xbb\xbf"
_EVENTS = re.compile(rb"(?:%b)?[\r\n]*(?:data|event|id|retry)?:" % _BOM)
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
#: Bytes after which the end of a first JSON line is no longer waited on.
_LONGEST_LINE = 16 * 1024
#: Bytes after which blank lines before a first event are no longer waited on.
_UNDECIDED = 1024


class Way(Enum):
    """What becomes of an answer on its way to the client."""

    UNREAD = "each piece at once; its path is not judged"
    STREAM = "each piece at once, its copy judged after it"
    WHOLE = "held until it is whole, so that its head carries the verdict"
    UNREADABLE = "each piece at once; of a type that is not read"


def way_of(api: str | None, path: str, status: int, head: Headers) -> Way:
    """The way of an answer to a request for `path`, which speaks `api` (None: it is not judged)."""
    if api is None:
        return Way.UNREAD
    if framing_of(path, status, head) is not None:
        return Way.STREAM
    kind = content_type(head)
    if not kind or status >= 400 or status in headers.BODILESS or _is_json(kind):
        return Way.WHOLE
    return Way.UNREADABLE


def framing_of(path: str, status: int, head: Headers) -> Framing | None:
    """How the events of a stream are set apart; None when the answer is none."""
    if is_event_stream(head):
        return "sse"
    if status >= 400 or status in headers.BODILESS:
        return None
    kind = content_type(head)
    if kind.partition(b";")[0].strip() in _JSON_LINES:
        return "lines"
    return "array" if ":stream" in path and _is_json(kind) else None  # Gemini, unless it is told `alt=sse`


def open_stream(
    settings: Settings,
    classifier: Classifier,
    *,
    ask: Ask,
    api: str,
    framing: Framing,
    status: int,
    head: Headers,
    id: str,
) -> tuple[StreamInspection, FinishChunk | None]:
    """What reads a stream's copy, and what adds the verdict's key, if it gets one (`id`: the exchange's)."""
    coding = coding_of(head)
    inspection = StreamInspection(
        classifier, ask, api, status=status, coding=coding, inspect_chars=settings.inspect_bytes, framing=framing
    )
    if settings.stream_verdict == "chunk" and api in MAY_FINISH and coding is None:
        return inspection, FinishChunk(inspection, api, id=id, several=ask.several, framing=framing)
    return inspection, None


def early(inspection: StreamInspection, id: str, classifier: bytes) -> Headers:
    """The verdict headers of a stream that goes on: what can be said so far."""
    verdict = inspection.so_far()
    if verdict is None or verdict.label is None:
        return headers.pending(id, classifier)
    finished = inspection.heard == math.inf  # then the verdict is the one of the finish chunk
    return headers.verdict(verdict.with_id(id), classifier, early=not finished)


def hidden_framing(head: Headers, body: bytes, api: str | None, ask: Ask) -> Framing | Literal["none"] | None:
    """How an answer of no type, or said to be JSON, that begins with `body` is a stream all the same ("none": it is
    not): a server may not say so. None: it takes more of it to tell. One that is coded is taken for what it says."""
    if coding_of(head) is not None:
        return "none"
    if _EVENTS.match(body):
        return "sse"
    text = body.removeprefix(_BOM).lstrip(b" \t\r\n")
    if api == "ollama.chat" and ask.stream and text[:1] in (b"", b"{"):
        return _as_lines(text) if text else None if len(body) < _UNDECIDED else "none"
    rest = body.removeprefix(_BOM).lstrip(b"\r\n")
    may = _BOM.startswith(body) or any(field.startswith(rest) for field in _FIELDS)
    return None if may and len(body) < _UNDECIDED else "none"


def _as_lines(body: bytes) -> Literal["lines", "none"] | None:
    """Whether the first line of Ollama's is an object that says that more is to come; a whole answer says `done`."""
    line, newline, _ = body.partition(b"\n")
    if not newline:
        return None if len(body) < _LONGEST_LINE else "none"
    try:
        return "lines" if fields.mapping(fields.decode(line)).get("done") is False else "none"
    except ValueError:
        return "none"


def unread_reason(head: Headers) -> str:
    """Why an answer of this type has no label."""
    return f"an answer of type {content_type(head).decode('ascii', 'replace')[:80]} is not read"


def is_event_stream(head: Headers) -> bool:
    return content_type(head).startswith(b"text/event-stream")


def content_type(head: Headers) -> bytes:
    """In lower case, with its parameters; empty when there is none."""
    return (headers.get(head, b"content-type") or b"").lower()


def coding_of(head: Headers) -> bytes | None:
    """The content coding of an answer or a request, None when it has none; of several lines all (RFC 9110, 5.3)."""
    coding = b",".join([value for name, value in head if name == b"content-encoding"])
    return None if all(name.strip().lower() in (b"", b"identity") for name in coding.split(b",")) else coding


def _is_json(kind: bytes) -> bool:
    """Whether it is one JSON text."""
    return kind.partition(b";")[0].strip().endswith((b"/json", b"+json"))
