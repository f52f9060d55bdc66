"""Plain chunks of a completion's stream: text of one choice and nothing else. Nearly all are, and differ in it only.

What is read here has the effect that the full reading (`answer`, `shapes_openai`) has; it is only quicker. A chunk with
anything else to it does not fit the types and is left to the full reading.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None
    audio: None = None
    provider_specific_fields: None = None


class PlainChoice(msgspec.Struct, gc=False):
    delta: _Delta
    index: Annotated[int, msgspec.Meta(ge=0)] = 0
    message: None = None
    text: None = None
    finish_reason: Literal[""] | None = None
    content_filter_results: None = None
    flag: Literal[0] | None = None
    error: None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: tuple[PlainChoice]
    id: str | None = None
    model: str | None = None
    usage: None = None
    prompt_filter_results: msgspec.UnsetType = msgspec.UNSET
    error: None = None
    base_resp: None = None
    guardrail: msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="amazon-bedrock-guardrailAction")


_decode_lines = msgspec.json.Decoder(_Chunk).decode_lines


def lines_of(chunk: bytes) -> bytes | None:
    """The data of events, a line each; None unless `chunk` is whole events, all of them `data: {…}` and no more."""
    blank = b"\r\n\r\n" if b"\r" in chunk else b"\n\n"
    if not chunk.startswith(b"data: {") or not chunk.endswith(b"}" + blank):
        return None
    lines = chunk[6 : -len(blank)].replace(b"}" + blank + b"data: {", b"}\n{")
    events = 1 + (len(chunk) - 6 - len(blank) - len(lines)) // (len(blank) + 5)
    if lines.count(b"\n") + 1 != events or b"\r" in lines:  # a line end that is not between two such events
        return None
    return lines


def read_plain(lines: bytes) -> list[PlainChoice] | None:
    """The choices of plain chunks, a line each, from `lines_of`; None unless all are plain."""
    try:
        chunks = _decode_lines(lines)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    # No value spans lines, for none has `}` before `{`; so as many values as lines are one in each.
    return [chunk.choices[0] for chunk in chunks] if len(chunks) == lines.count(b"\n") + 1 else None
