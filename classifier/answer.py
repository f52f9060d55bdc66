"""Stream assembly: events → text deltas by choice, and in the end the trace. For every API that streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

import msgspec

from demur.classifier import fields
from demur.classifier.draft import Draft
from demur.classifier.shapes import read_into
from demur.classifier.shapes_openai import read_completion, read_response_event
from demur.classifier.shapes_others import read_anthropic_event
from demur.classifier.sse import Event, SSEReader
from demur.classifier.trace import Ask, Trace

#: Text kept for judging, in characters over all choices of one exchange.
INSPECT_CHARS = 2 * 1024 * 1024

_ANTHROPIC = frozenset(
    ("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop", "ping")
)


class _Delta(TypedDict, total=False):
    content: str | None
    refusal: str | None
    tool_calls: Any
    function_call: Any
    audio: Any
    provider_specific_fields: Any


class _Choice(TypedDict, total=False):
    index: int
    delta: _Delta | None
    text: str | None
    finish_reason: str | None
    error: Any


class _Chunk(TypedDict, total=False):
    """What is read of a chat chunk; a typed decode skips the rest (logprobs, reasoning, fingerprints) without making objects of it."""

    choices: list[_Choice]
    id: str
    model: str
    usage: Any
    error: Any


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class StreamAnswer:
    """Feed it the events of one response stream, in order.

    `api` (None: told by the events themselves) is what the request path said, `status` the HTTP status. At most
    `inspect_chars` characters are kept over all choices: a choice beyond that is truncated, its `inspected` below 1.
    `newly_finished` holds the indexes of the choices that got their finish reason in the event fed last. `done` tells that
    the API's end marker was seen.
    """

    def __init__(self, ask: Ask, api: str | None = None, *, status: int = 200, inspect_chars: int = INSPECT_CHARS) -> None:
        self.ask = ask
        self.newly_finished: tuple[int, ...] = ()
        self._api = api
        self._status = status
        self._draft = Draft(inspect_chars)
        self._chat = api in ("openai.chat", "openai.completions")

    @property
    def done(self) -> bool:
        return self._draft.done

    def feed(self, event: Event) -> Sequence[tuple[int, str]]:
        """The text that this event adds, by choice index. Thinking and refusal fields are not text. Never raises."""
        draft = self._draft
        draft.deltas = []
        draft.finished = []
        self._read(event, draft)
        self.newly_finished = tuple(draft.finished)
        return draft.deltas

    def trace(self, *, cut: bool = False) -> Trace:
        """What arrived so far, as a trace. `cut`: the stream did not end in an orderly way."""
        draft = self._draft
        if self._status >= 400 and not draft.readable:
            draft.fail({}, f"HTTP {self._status}")
        draft.api = draft.api or self._api
        return draft.trace(self.ask, stream=True, cut=cut)

    def _read(self, event: Event, draft: Draft) -> None:
        data = event.data
        if event.skipped:
            draft.lose(event.skipped)
            return
        if self._chat:
            try:
                chunk = _decode_chunk(data)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                pass  # [DONE], or a shape with surprises
            else:
                if "choices" in chunk and "error" not in chunk:
                    read_completion(chunk, draft)  # type: ignore[arg-type]
                    return
        if not data.strip():
            return
        if data.strip() == b"[DONE]":
            draft.done = True
            return
        try:
            obj = fields.decode(data)
        except ValueError:
            obj = None
        if not isinstance(obj, dict):
            draft.unread += 1
            return
        kind = obj.get("type")
        if isinstance(kind, str) and kind.startswith("response."):
            draft.api = "openai.responses"
            read_response_event(obj, kind.removeprefix("response."), draft)
        elif isinstance(kind, str) and kind in _ANTHROPIC:
            draft.api = "anthropic.messages"
            read_anthropic_event(obj, kind, draft)
        else:
            if event.name == "error" and "error" not in obj:
                obj = {"error": obj}
            before = draft.readable
            draft.readable = False
            read_into(obj, draft, self._status)
            draft.unread += not draft.readable
            draft.readable = draft.readable or before
            self._chat = draft.api in ("openai.chat", "openai.completions")


def read_stream(text: str, ask: Ask, status: int = 200) -> Trace:
    """The saved text of a whole stream as a trace."""
    answer = StreamAnswer(ask, status=status)
    reader = SSEReader()
    for event in reader.feed(text.encode("utf-8", "replace")) + reader.close():
        answer.feed(event)
    return answer.trace()
