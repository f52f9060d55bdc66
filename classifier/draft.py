"""One response while it is being read, from a whole body or from a stream: the readers of every API write into it.

Bodies and streams go through the same readers into the same draft, so that both give the same trace. A draft keeps at most
`limit` characters over all choices (text, refusals, tool arguments); what comes later is counted, not kept.
"""

from __future__ import annotations

from typing import Any

from demur.classifier import blocks, fields
from demur.classifier.trace import Ask, Choice, ToolCall, Trace, Usage

#: No API returns more (OpenAI: n ≤ 128, 128 parallel tool calls); bounds what a hostile stream can make us keep.
MAX_CHOICES = 256
MAX_CALLS = 256

_USAGE: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = (
    ("input_tokens", (("prompt_tokens",), ("input_tokens",), ("promptTokenCount",), ("inputTokens",), ("prompt_eval_count",))),
    ("output_tokens", (("completion_tokens",), ("output_tokens",), ("candidatesTokenCount",), ("outputTokens",), ("eval_count",))),
    (
        "cached_tokens",
        (
            ("prompt_tokens_details", "cached_tokens"),
            ("input_tokens_details", "cached_tokens"),
            ("cache_read_input_tokens",),
            ("cachedContentTokenCount",),
            ("cacheReadInputTokens",),
        ),
    ),
    (
        "reasoning_tokens",
        (
            ("completion_tokens_details", "reasoning_tokens"),
            ("output_tokens_details", "reasoning_tokens"),
            ("thoughtsTokenCount",),
        ),
    ),
)


class _Open:
    """A choice under construction."""

    __slots__ = ("blocked_by", "calls", "finish_reason", "kept", "refusal", "text", "total", "truncated")

    def __init__(self) -> None:
        self.text: list[str] = []
        self.refusal: list[str] = []
        self.calls: dict[object, list[str]] = {}  # slot → name, pieces of the arguments
        self.kept = self.total = 0
        self.finish_reason: str | None = None
        self.blocked_by: str | None = None
        self.truncated = False

    @property
    def empty(self) -> bool:
        return not (self.text or self.refusal or self.calls)


class Draft:
    """`deltas` and `finished` collect what was said, and which choices got their finish reason, since they were last emptied."""

    def __init__(self, limit: int | None = None) -> None:
        self.choices: dict[int, _Open] = {}
        self.deltas: list[tuple[int, str]] = []
        self.finished: list[int] = []
        self.api: str | None = None
        self.id: str | None = None
        self.model: str | None = None
        self.usage: dict[str, int] = {}
        self.meta: dict[str, Any] = {}
        self.done = False  # the API's end marker was seen
        self.heard: set[object] = set()  # places of a stream that spoke already, for events that repeat them
        self.readable = False  # something of a known shape was seen
        self.unread = 0  # things of no known shape
        self._room = limit
        self._error: str | None = None
        self._blocked: str | None = None

    def open(self, index: int) -> _Open | None:
        """The choice of that index; None beyond the number that is kept."""
        choice = self.choices.get(index)
        if choice is None and len(self.choices) < MAX_CHOICES:
            choice = self.choices[index] = _Open()
        return choice

    def say(self, index: int, text: str) -> None:
        """The answer goes on with `text`."""
        choice = self.open(index)
        if choice is not None and (text := self._fit(choice, text)):
            choice.text.append(text)
            self.deltas.append((index, text))

    def refuse(self, index: int, text: str) -> None:
        """The API's own refusal field goes on with `text`."""
        choice = self.open(index)
        if choice is not None and (text := self._fit(choice, text)):
            choice.refusal.append(text)

    def call(self, index: int, slot: object, name: str, arguments: str) -> None:
        """The tool call in `slot` gets its name, goes on with `arguments`, or both."""
        choice = self.open(index)
        if choice is None:
            return
        call = choice.calls.get(slot)
        if call is None:
            if len(choice.calls) >= MAX_CALLS:
                choice.truncated = True
                return
            call = choice.calls[slot] = [""]
        if name and not call[0]:
            call[0] = self._fit(choice, name)
        if arguments := self._fit(choice, arguments):
            call.append(arguments)

    def end(self, index: int, reason: str) -> None:
        """The choice's finish reason; a block that comes after another reason still counts."""
        choice = self.open(index)
        if choice is None:
            return
        if choice.finish_reason is None:
            self.finished.append(index)
            choice.finish_reason = reason
        elif blocks.is_block(reason):
            choice.finish_reason = reason

    def block(self, index: int, reason: str) -> None:
        """A structured fact other than a finish reason says that this choice was refused."""
        choice = self.open(index)
        if choice is not None:
            choice.blocked_by = reason

    def cut(self, index: int) -> None:
        """The choice stops short."""
        choice = self.open(index)
        if choice is not None:
            choice.truncated = True

    def calls_of(self, index: int) -> int:
        """How many tool calls the choice has."""
        choice = self.choices.get(index)
        return len(choice.calls) if choice else 0

    def silent(self, index: int) -> bool:
        """Whether the choice has said nothing yet."""
        choice = self.choices.get(index)
        return choice is None or choice.empty

    def fail(self, error: dict[str, Any], what: str = "") -> None:
        """An error object: a policy block if a row of `blocks` says so, else just an error. `what` tells where (an HTTP status)."""
        self.readable = True
        self._blocked = self._blocked or blocks.error_block(error)
        if self._error is None:
            self._error = ": ".join(filter(None, (what, blocks.error_code(error)))) or "error"

    def lose(self, size: int) -> None:
        """`size` bytes of the stream could not be kept: every choice that is still open stops short."""
        for choice in self.choices.values() if self.choices else filter(None, (self.open(0),)):
            if choice.finish_reason is None:
                choice.total += size
                choice.truncated = True

    def count(self, usage: dict[str, Any]) -> None:
        """Token counts as any vendor spells them; later ones replace earlier ones."""
        for name, paths in _USAGE:
            for path in paths:
                value: Any = usage
                for key in path:
                    value = fields.mapping(value).get(key)
                number = fields.count(value)
                if number is not None:
                    self.usage[name] = number

    def trace(self, ask: Ask, *, stream: bool = False, cut: bool = False) -> Trace:
        """What was read so far. In a stream a choice without finish reason stops short; `cut`: the end was not orderly."""
        if self._blocked is not None:
            for index in [i for i, c in self.choices.items() if c.finish_reason is None] or ([] if self.choices else [0]):
                self.block(index, self._blocked)
        failed = self._error is not None and self._blocked is None
        problem, why = None, ""
        if all(c.empty and c.finish_reason is None and c.blocked_by is None for c in self.choices.values()):
            if failed:
                problem, why = "upstream_error", self._error or ""
            elif not self.choices and self.unread and not self.readable:
                problem, why = "unparsed", "no known API"
            elif not self.choices:
                problem, why = "empty", "no answer in the response"
        choices = tuple(
            self._choice(index, self.choices[index], (stream or failed) and not problem, cut)
            for index in sorted(self.choices)
        )
        return Trace(
            ask=ask,
            choices=choices,
            problem=problem,
            why=why,
            id=self.id,
            model=self.model or ask.model,
            response_id=self.id,
            api=self.api,
            usage=Usage(**self.usage),
            meta=self.meta,
        )

    def _choice(self, index: int, draft: _Open, must_finish: bool, cut: bool) -> Choice:
        reason = draft.finish_reason
        return Choice(
            index=index,
            text="".join(draft.text),
            refusal="".join(draft.refusal),
            finish_reason=reason,
            blocked_by=draft.blocked_by or (reason if blocks.is_block(reason) else None),
            truncated=draft.truncated or blocks.is_length(reason) or (reason is None and (must_finish or cut)),
            tool_calls=tuple(ToolCall(call[0], "".join(call[1:])) for call in draft.calls.values()),
            inspected=draft.kept / draft.total if draft.kept < draft.total else 1.0,
        )

    def _fit(self, choice: _Open, text: str) -> str:
        """As much of `text` as there is room for."""
        size = len(text)
        choice.total += size
        if self._room is not None:
            if size > self._room:
                text = text[: self._room]
                size = len(text)
                choice.truncated = True
            self._room -= size
        choice.kept += size
        return text
