"""Stream assembly: events → text by choice as it arrives, and in the end the trace. For every API that streams."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, TypedDict, cast

import msgspec

from demur.classifier import fields
from demur.classifier.bodies import read_event
from demur.classifier.draft import Draft
from demur.classifier.plain import read_plain
from demur.classifier.shapes_openai import read_completion
from demur.classifier.sse import Event
from demur.classifier.trace import Ask, Trace

#: Text kept for judging, in characters over all choices of one exchange.
INSPECT_CHARS = 2 * 1024 * 1024

_COMPLETIONS = frozenset({"openai.chat", "openai.completions"})


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
    message: Any
    text: str | None
    finish_reason: str | None
    native_finish_reason: str | None
    content_filter_results: Any
    flag: Any
    error: Any


_GUARDRAIL = "amazon-bedrock-guardrailAction"
_Guarded = TypedDict("_Guarded", {"amazon-bedrock-guardrailAction": Any}, total=False)


class _Chunk(_Guarded, total=False):
    """What is read of a chat chunk: a typed decode makes no objects of the rest (logprobs, reasoning, fingerprints).

    Whatever does not fit these types is decoded again, without types.
    """

    choices: list[_Choice] | None
    id: str | None
    model: str | None
    usage: Any
    prompt_filter_results: Any
    error: Any
    base_resp: Any


_decode_chunk = msgspec.json.Decoder(_Chunk).decode
_index = attrgetter("index")


class StreamAnswer:
    """Feed it the events of one response stream, in order.

    `api` is what the request path said (None: the events tell), `status` the HTTP status. At most `inspect_chars`
    characters are kept over all choices; a choice beyond that is truncated and its `inspected` below 1.

    `newly_finished`: the choices that got their finish reason in the event fed last ("" and null are none).
    """

    def __init__(
        self, ask: Ask, api: str | None = None, *, status: int = 200, inspect_chars: int = INSPECT_CHARS
    ) -> None:
        self.ask = ask
        self.newly_finished: tuple[int, ...] = ()
        self._api = api
        self._status = status
        self._draft = Draft(inspect_chars)
        self._completions = api in _COMPLETIONS and status < 400

    @property
    def done(self) -> bool:
        """Whether the API's end marker was seen: `[DONE]`, `message_stop`, `response.completed`, …"""
        return self._draft.done

    @property
    def heard(self) -> float:
        """Characters that came of the choice that has said least; one that has finished counts as endless.

        Refusal fields and tool calls count, thinking does not. A finish reason of Gemini's need not be the end.
        """
        draft = self._draft
        ends = draft.api != "gemini"
        return min((math.inf if ends and c.finish_reason else c.total for c in draft.choices.values()), default=0)

    @property
    def several(self) -> bool:
        """Whether a choice besides the first has been seen: others may come in their own events, in any order."""
        return not self._draft.choices.keys() <= {0}

    def size(self, index: int) -> int:
        """Characters kept of a choice."""
        choice = self._draft.choices.get(index)
        return choice.kept if choice else 0

    def blocked(self, index: int) -> bool:
        """Whether a choice itself says that it was refused."""
        choice = self._draft.choices.get(index)
        return choice is not None and choice.blocked is not None

    def feed(self, event: Event) -> Sequence[tuple[int, str]]:
        """The text that this event adds, by choice index; thinking and refusal fields are not text. Never raises.

        What follows the end marker is not read: no client does.
        """
        draft = self._draft
        draft.deltas = []
        draft.finished = []
        if not draft.done and not (self._completions and self._read_chunk(event.data, draft)):
            self._read_any(event, draft)
        self.newly_finished = tuple(draft.finished)
        return draft.deltas

    def feed_plain(self, lines: bytes) -> Sequence[tuple[int, str]] | None:
        """Reads the data of events, a line each, to the same effect as `feed` one by one; quicker, and one text a run.

        None: not all of them are plain chunks, and none was read.
        """
        draft = self._draft
        if draft.done:
            self.newly_finished = ()
            return ()
        # The chunk that names the response and the model is never a plain one.
        if not self._completions or draft.id is None or draft.model is None:
            return None
        choices = read_plain(lines)
        if choices is None:
            return None
        draft.deltas = []
        self.newly_finished = ()
        for index, run in groupby(choices, _index):
            draft.open(index)
            draft.say(index, "".join([choice.delta.content or "" for choice in run]))
        return draft.deltas

    def trace(self, *, cut: bool = False, only: int | None = None) -> Trace:
        """What arrived so far. `cut`: the stream did not end in an orderly way; `only`: of that choice alone."""
        draft = self._draft
        if self._status >= 400 and not draft.readable:
            draft.fail({}, self._status)
        draft.api = draft.api or self._api
        return draft.trace(self.ask, stream=True, cut=cut, only=only)

    def _read_chunk(self, data: bytes, draft: Draft) -> bool:
        """The fast way, for a chunk of a completion; False when it is something else."""
        try:
            chunk = _decode_chunk(data)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return False
        if "choices" not in chunk or chunk.get("error") or chunk.get("base_resp") or _GUARDRAIL in chunk:
            return False
        if "prompt_filter_results" in chunk:  # Azure
            draft.meta["prompt_filter_results"] = chunk["prompt_filter_results"]
        read_completion(cast(dict[str, Any], chunk), draft)
        return True

    def _read_any(self, event: Event, draft: Draft) -> None:
        if event.skipped:
            draft.lose(event.skipped)
            return
        data = event.data.strip()
        if data == b"[DONE]":
            draft.done = True
            return
        if not data:
            return
        try:
            obj = fields.decode(data)
        except ValueError:
            obj = None
        if isinstance(obj, dict):
            read_event(obj, event.name, draft, self._status)
            self._completions = draft.api in _COMPLETIONS and self._status < 400
        elif event.name == "error":
            draft.fail({"message": data.decode("utf-8", "replace")})
        else:
            draft.unread += 1
