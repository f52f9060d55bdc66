"""Plain chunks of a completion's stream: text of one choice and nothing else. Nearly all are, and differ in it only.

What is read here has the effect that the full reading (`answer`, `shapes_openai`) has; it is only quicker. A chunk with
anything else to it does not fit the types and is left to the full reading.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, NamedTuple

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
    text: None = None
    finish_reason: Literal[""] | None = None
    content_filter_results: None = None
    error: None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: tuple[PlainChoice]
    id: str | None = None
    model: str | None = None
    usage: None = None
    prompt_filter_results: msgspec.UnsetType = msgspec.UNSET
    error: None = None
    base_resp: None = None


_decode = msgspec.json.Decoder(_Chunk).decode
_decode_string = msgspec.json.Decoder(str).decode
_UNDECODABLE = (msgspec.MsgspecError, ValueError, RecursionError)
_CONTENT = re.compile(rb'"content": ?"')


def read_plain(data: bytes) -> PlainChoice | None:
    """The choice of a plain chunk, None when it is not one."""
    try:
        return _decode(data).choices[0]
    except _UNDECODABLE:
        return None


class Mould(NamedTuple):
    """The plain chunks of one choice, on the wire: `head` to the quote before the text, `tail` from the one after."""

    choice: int
    head: bytes
    tail: bytes

    def text(self, chunk: bytes) -> str | None:
        """The text of a chunk that fits: it is plain as well, whatever string stands there. None: it does not fit."""
        _, head, tail = self
        if chunk.startswith(head) and chunk.endswith(tail):
            try:
                return _decode_string(chunk[len(head) - 1 : 1 - len(tail)])  # the text in its quotes
            except _UNDECODABLE:
                pass
        return None


def mould_of(data: bytes) -> Mould | None:
    """The mould of the event with this data; None when it is no plain chunk or does not show where its text stands."""
    key = _CONTENT.search(data)
    if key is None or b"\n" in data:
        return None
    head = data[: key.end()]
    tail = data[data.find(b'"', key.end()) :]
    choice = None
    for probe in ("0", "1"):  # is this the text? Two, since one might be what stands elsewhere
        choice = read_plain(head + probe.encode() + tail)
        if choice is None or choice.delta.content != probe:
            return None
    return Mould(choice.index, b"data: " + head, tail + b"\n\n") if choice else None
