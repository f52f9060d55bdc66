"""A trace: one ask and what came back, whatever API it came through.

Readers (`shapes`, `answer`) build traces; the judge only ever sees these records. Nothing here knows a vendor's JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Ask:
    """What the response is judged against.

    `prompt` is the last user text (tool results are not asks), `system` the system or developer text. `several`: more
    than one choice was asked for. `unread` says why the texts are missing, if the request was beyond a limit.
    """

    prompt: str = ""
    system: str = ""
    model: str | None = None
    stream: bool = False
    several: bool = False
    unread: str = ""


@dataclass(frozen=True, slots=True)
class ToolCall:
    name: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """One alternative of the response.

    `text` is the answer as its reader sees it (thinking left out), `refusal` the API's own refusal field.
    `finish_reason` is the vendor's word, verbatim. `blocked_by` is the raw reason when a structured fact says that the
    provider or the model refused, `blocked_field` the vendor's name of the field that says so. `truncated` says that
    the text stops short (length limit, cut stream, inspection cap). `inspected` is the share (0 to 1) of what came for
    this choice that was kept for judging.
    """

    index: int = 0
    text: str = ""
    refusal: str = ""
    finish_reason: str | None = None
    blocked_by: str | None = None
    blocked_field: str = ""
    truncated: bool = False
    tool_calls: tuple[ToolCall, ...] = ()
    inspected: float = 1.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as far as the response states them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """One exchange, ready to be judged.

    `problem` is None for a readable response; otherwise it is the status that the verdict will carry
    (`upstream_error`, `unparsed`, `empty`, `not_classified`) and `why` says what was seen.
    """

    ask: Ask = Ask()
    choices: tuple[Choice, ...] = ()
    problem: str | None = None
    why: str = ""
    id: str | None = None
    model: str | None = None
    response_id: str | None = None
    api: str | None = None
    usage: Usage = Usage()
    meta: Mapping[str, Any] = field(default_factory=dict)
