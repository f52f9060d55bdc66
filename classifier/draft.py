"""One response while it is being read: the readers of every API write into a draft, and the draft makes the trace.

Whole bodies and stream events go through the same readers into the same draft, so that both give the same trace.
A draft keeps at most `limit` characters over all choices (text, refusals, tool calls); later ones are only counted.
"""

from __future__ import annotations

from typing import Any

from demur.classifier import blocks, fields
from demur.classifier.trace import Ask, Choice, ToolCall, Trace, Usage

# What a hostile stream can make us keep is bounded.
#: No API returns more (OpenAI: n and parallel tool calls up to 128).
MAX_CHOICES = MAX_CALLS = 256
#: Places of a stream whose repetitions are known.
MAX_PLACES = 4096
#: Characters of a reason or a code; the longest known have 40.
MAX_REASON = 200

#: The vendors' names for token counts → ours.
_COUNTS = {
    **dict.fromkeys(("prompt_tokens", "promptTokenCount", "inputTokens", "prompt_eval_count"), "input_tokens"),
    **dict.fromkeys(("completion_tokens", "candidatesTokenCount", "outputTokens", "eval_count"), "output_tokens"),
    **dict.fromkeys(("cache_read_input_tokens", "cachedContentTokenCount", "cacheReadInputTokens"), "cached_tokens"),
    "thoughtsTokenCount": "reasoning_tokens",
    **{name: name for name in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")},
}


class OpenChoice:
    """A choice under construction. `total` counts the characters that came, `kept` those that were kept, `written`
    those of its text.

    `finish_field` is the vendor's name of the field that gave the finish reason, `ended` was `total` at that moment.
    """

    __slots__ = (
        "blocked_by",
        "calls",
        "ended",
        "finish_field",
        "finish_reason",
        "kept",
        "refusal",
        "text",
        "total",
        "truncated",
        "written",
    )

    def __init__(self) -> None:
        self.text: list[str] = []
        self.refusal: list[str] = []
        self.calls: dict[object, list[str]] = {}  # slot → name, then pieces of the arguments
        self.kept = 0
        self.total = 0
        self.finish_reason: str | None = None
        self.finish_field = ""
        self.ended = 0
        self.blocked_by: tuple[str, str] | None = None
        self.truncated = False
        self.written = 0

    @property
    def silent(self) -> bool:
        """Nothing was said yet."""
        return not (self.text or self.refusal or self.calls)

    def whole_text(self) -> str:
        """All of it, kept as one piece: it may be asked for often."""
        if len(self.text) > 1:
            self.text = ["".join(self.text)]
        return self.text[0] if self.text else ""

    @property
    def blocked(self) -> tuple[str, str] | None:
        """The raw reason and the field it stands in, if the choice itself says that it was refused."""
        if self.blocked_by is None and self.finish_reason and blocks.is_block(self.finish_reason):
            return self.finish_reason, self.finish_field
        return self.blocked_by


class Draft:
    """What was read of one response so far.

    `deltas` and `finished` collect what was said and which choices got their finish reason, until someone empties them.
    `readable` tells that something of a known shape was seen, `unread` counts what was not. A choice must be opened
    before anything is said of it; beyond MAX_CHOICES none opens, and what is said of it is dropped.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.choices: dict[int, OpenChoice] = {}
        self.deltas: list[tuple[int, str]] = []
        self.finished: list[int] = []
        self.api: str | None = None
        self.id: str | None = None
        self.model: str | None = None
        self.usage: dict[str, int] = {}
        self.meta: dict[str, Any] = {}
        self.done = False  # the API's end marker was seen
        self.readable = False
        self.waits = False  # the answer will be made in the background, and fetched later
        self.unread = 0
        self._heard: set[int] = set()
        self._room = limit
        self._error: str | None = None
        self._blocked: tuple[str, str] | None = None  # the raw reason and the field it stands in

    def open(self, index: int) -> None:
        """There is a choice of that index."""
        if index not in self.choices and len(self.choices) < MAX_CHOICES:
            self.choices[index] = OpenChoice()

    def say(self, index: int, text: str) -> None:
        """The answer goes on with `text`."""
        choice = self.choices.get(index)
        if choice is not None and (text := self._fit(choice, text)):
            choice.text.append(text)
            choice.written += len(text)
            self.deltas.append((index, text))

    def refuse(self, index: int, text: str) -> None:
        """The API's own refusal field goes on with `text`."""
        choice = self.choices.get(index)
        if choice is not None and (text := self._fit(choice, text)):
            choice.refusal.append(text)

    def call(self, index: int, slot: object, name: str, arguments: str) -> None:
        """The tool call in `slot` gets its name, or goes on with `arguments`, or both."""
        choice = self.choices.get(index)
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

    def next_slot(self, index: int) -> int:
        """A slot for a tool call that comes whole and without a number."""
        choice = self.choices.get(index)
        return len(choice.calls) if choice else 0

    def end(self, index: int, reason: str, field: str = "finish_reason") -> None:
        """The choice's finish reason, and the vendor's name for it.

        A later one counts if it is a block (Azure's asynchronous filter speaks up after the end), or if more was said
        meanwhile (older models of Gemini give a reason with every chunk). Then the choice finishes once more.
        """
        choice = self.choices.get(index)
        if choice is None:
            return
        reason, known = reason[:MAX_REASON], choice.finish_reason
        blocked = blocks.is_block(known)
        if known is None or (not blocked and (blocks.is_block(reason) or choice.total > choice.ended)):
            choice.finish_reason, choice.finish_field, choice.ended = reason, field, choice.total
            self.finished.append(index)

    def block(self, index: int, reason: str, field: str) -> None:
        """A structured fact besides the finish reason, the field `field`, says that this choice was refused."""
        choice = self.choices.get(index)
        if choice is not None:
            choice.blocked_by = reason[:MAX_REASON], field

    def cut(self, index: int) -> None:
        """The choice stops short."""
        choice = self.choices.get(index)
        if choice is not None:
            choice.truncated = True

    def fail(self, error: dict[str, Any], status: int = 200) -> None:
        """An error object: a policy block if a row of `blocks` says so, else just an error. `status`: of the answer."""
        self.readable = True
        if self._blocked is None and (found := blocks.error_block(error, status)):
            self._blocked = found[0][:MAX_REASON], found[1]
        code = blocks.error_code(error)
        where = f"HTTP {status}" if status >= 400 else ""
        if self._error is None:
            self._error = ": ".join(filter(None, (where, code if code not in where else ""))) or "error"

    def lose(self, size: int) -> None:
        """`size` bytes could not be read: every choice that is still open stops short."""
        self.readable = True
        if not self.choices:
            self.open(0)
        for choice in self.choices.values():
            if choice.finish_reason is None:
                choice.total += size
                choice.truncated = True

    def hear(self, *place: object) -> bool:
        """Whether this place of a stream speaks for the first time; some events only repeat what others said."""
        mark = hash(place)
        first = mark not in self._heard
        if first and len(self._heard) < MAX_PLACES:
            self._heard.add(mark)
        return first

    def silent(self, index: int) -> bool:
        """Whether nothing was said for this choice yet."""
        choice = self.choices.get(index)
        return choice is None or choice.silent

    def count(self, usage: dict[str, Any]) -> None:
        """Token counts, as any vendor spells them; later ones replace earlier ones."""
        for key, value in usage.items():
            name = _COUNTS.get(key)
            if name is not None:
                number = fields.count(value)
                if number is not None:
                    self.usage[name] = number
            elif isinstance(value, dict) and key.endswith("_tokens_details"):
                self.count({detail: value.get(detail) for detail in ("cached_tokens", "reasoning_tokens")})

    def trace(self, ask: Ask, *, stream: bool = False, cut: bool = False, only: int | None = None) -> Trace:
        """What was read so far. In a stream a choice without finish reason stops short; `cut`: its end was abnormal;
        `only`: of that choice alone."""
        failed = self._error is not None and self._blocked is None
        if self._blocked is not None and not self.choices:
            self.open(0)
        problem, why = None, ""
        if failed and all(choice.silent and not choice.blocked for choice in self.choices.values()):
            problem, why = "upstream_error", self._error or ""
        elif self.waits and all(choice.silent for choice in self.choices.values()):
            problem, why = "not_classified", "there is no answer yet: it is made in the background"
        elif not self.choices:
            problem, why = "empty", "no answer in the response"
            if self.unread and not self.readable:
                problem, why = "unparsed", "nothing in the response has the shape of a known API"
        must_end = stream or cut or failed
        told = sorted(self.choices if only is None else self.choices.keys() & {only}) if problem is None else ()
        return Trace(
            ask=ask,
            choices=tuple(self._choice(index, must_end) for index in told),
            problem=problem,
            why=why,
            id=self.id,
            model=self.model or ask.model,
            response_id=self.id,
            api=self.api,
            usage=Usage(**self.usage),
            meta=self.meta,
        )

    def _choice(self, index: int, must_end: bool) -> Choice:
        choice = self.choices[index]
        reason = choice.finish_reason
        blocked = choice.blocked
        # A policy error refuses what was still open, or all of it when nothing was.
        if self._blocked and (reason is None or all(c.finish_reason for c in self.choices.values())):
            blocked = blocked or self._blocked
        blocked_by, blocked_field = blocked or (None, "")
        short = choice.truncated or blocks.is_short(reason) or (must_end and not reason)
        return Choice(
            index=index,
            text=choice.whole_text(),
            refusal="".join(choice.refusal),
            finish_reason=reason,
            blocked_by=blocked_by,
            blocked_field=blocked_field,
            truncated=short and not blocked_by,
            tool_calls=tuple(ToolCall(name, "".join(pieces)) for name, *pieces in choice.calls.values()),
            inspected=choice.kept / choice.total if choice.kept < choice.total else 1.0,
        )

    def _fit(self, choice: OpenChoice, text: str) -> str:
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
