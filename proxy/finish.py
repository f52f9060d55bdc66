"""The finish chunk: one more JSON key in the event that ends a choice. Every other byte of the event stays as it was.

Bytes in, bytes out; nothing here knows sockets or how a verdict comes about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from demur.classifier.verdict import Verdict
from demur.proxy.inspection import Finished, StreamInspection

KEY = b"refusal_verdict"
#: Bytes of an unfinished event beyond which it is passed on as it comes and gets no key.
MAX_HELD = 64 * 1024

#: A match unless `data`, whole events, certainly holds no finish reason: its key, followed by anything but null or "".
may_finish = re.compile(rb'finish_reason"\s*+:\s*+(?!null\b|"")').search  # possessive: blanks are not given back

_BLANK_LINES = (b"\n\n", b"\r\n\r\n")
_NEWLINE = re.compile(rb"\r\n|\n|\r")


class _Request(msgspec.Struct):
    n: int | None = None


class _Choices(msgspec.Struct):
    choices: list[msgspec.Raw]


class _Index(msgspec.Struct):
    index: int = 0


class FinishChunk:
    """Passes a stream on and adds the key on the way. What it keeps back is at most the event that is still arriving.

    Ordinary events never wait for the judge: `passes` tells them from their bytes alone.
    """

    def __init__(self, inspection: StreamInspection, *, id: str, several: bool) -> None:
        self._inspection = inspection
        self._id = id
        self._several = several
        self._held = b""
        self._between = True  # between two events
        self._torn = -1  # offset of an event over the cap, part of which was passed on before its end

    def passes(self, chunk: bytes) -> bool:
        """Whether `chunk` is whole events without a finish reason: it may go on now, then `inspection.later` it."""
        return self._between and chunk.endswith(_BLANK_LINES) and not may_finish(chunk)

    def feed(self, chunk: bytes) -> bytes:
        """Judges any other chunk and returns what goes on now."""
        finished = self._inspection.feed(chunk)
        data = self._held + chunk
        offset, pending = self._inspection.offset, self._inspection.pending
        self._between = pending == 0
        begin = offset - pending  # of the event that is still arriving
        keep = min(pending, len(data))
        if begin == self._torn or keep > MAX_HELD:
            self._torn, keep = begin, 0
        whole = _after_comments(data, len(data) - keep)
        self._held = data[whole:]
        return self._pass(data[:whole], offset - len(data), finished)

    def close(self) -> bytes:
        """The rest, once the stream has ended; its last event may lack the blank line."""
        held, self._held = self._held, b""
        finished = self._inspection.close()
        return self._pass(held, self._inspection.offset - len(held), finished)

    def release(self) -> bytes:
        """The rest as it is, when the stream broke off."""
        held, self._held = self._held, b""
        return held

    def _pass(self, data: bytes, base: int, finished: Finished) -> bytes:
        """`data`, which begins at offset `base`, with the keys of the choices that finished."""
        out, position = [], 0
        for event, indexes in finished:
            if event.start == self._torn:
                continue
            start, end = max(event.start - base, position), event.end - base
            keys = {
                index: summary(verdict, self._id)
                for index in indexes
                if (verdict := self._inspection.choice_verdict(index))
            }
            several = self._several or len(indexes) > 1 or 0 not in indexes
            out += [data[position:start], splice(data[start:end], keys, per_choice=several)]
            position = end
        return b"".join([*out, data[position:]])


def asks_for_several(body: bytes) -> bool:
    """Whether a request body asks for several choices (`n` above 1), so that the key goes into each."""
    if b'"n"' not in body:
        return False
    try:
        return (msgspec.json.decode(body, type=_Request).n or 1) > 1
    except msgspec.MsgspecError:
        return False


def summary(verdict: Verdict, id: str) -> dict[str, Any]:
    """What a client reads under `refusal_verdict`; `id` is the exchange's."""
    return {
        "label": verdict.label,
        "confidence": verdict.confidence,
        "status": verdict.status,
        "action": verdict.action,
        "rationale": verdict.rationale,
        "signals": list(dict.fromkeys(signal.name for signal in verdict.signals)),
        "id": id,
    }


def splice(event: bytes, keys: Mapping[int, Any], *, per_choice: bool) -> bytes:
    """The event with the key added: at the top level, or with `per_choice` inside each choice that `keys` names.

    An event that is not one JSON object, or spreads a choice over several lines, comes back as it was.
    """
    places = _choice_ends(event, keys) if per_choice else _object_end(event, keys)
    for place, value in sorted(places, key=lambda item: item[0], reverse=True):
        key = b',"%b":%b' % (KEY, msgspec.json.encode(value))
        event = event[:place] + key + event[place:]
    return event


def _object_end(event: bytes, keys: Mapping[int, Any]) -> list[tuple[int, Any]]:
    """Where the event's JSON object closes: the last brace of its last data line."""
    place = -1
    for start, stop in _data_lines(event):
        line = event[start:stop].rstrip(b" \t")
        place = start + len(line) - 1 if line.endswith(b"}") else -1
    return [(place, next(iter(keys.values())))] if place >= 0 and keys else []


def _choice_ends(event: bytes, keys: Mapping[int, Any]) -> list[tuple[int, Any]]:
    """Where each finished choice closes."""
    lines = list(_data_lines(event))
    if len(lines) != 1:
        return []
    start, stop = lines[0]
    try:
        choices = msgspec.json.decode(event[start:stop], type=_Choices).choices
        indexes = [msgspec.json.decode(choice, type=_Index).index for choice in choices]
    except msgspec.MsgspecError:
        return []
    places = []
    position = event.find(b'"choices"', start)
    for index, choice in zip(indexes, choices, strict=True):
        raw = bytes(choice).rstrip()
        position = event.find(raw, position)
        if position < 0:
            return []
        position += len(raw)
        if index in keys:
            places.append((position - 1, keys[index]))
    return places


def _after_comments(data: bytes, position: int) -> int:
    """Past the whole comment lines at `position`: they keep connections alive and must not wait for an event."""
    while data.startswith(b":", position) and (newline := data.find(b"\n", position)) >= 0:
        position = newline + 1
    return position


def _data_lines(event: bytes) -> list[tuple[int, int]]:
    """Start and end of the value of each non-empty `data` line."""
    found, start = [], 0
    while start < len(event):
        newline = _NEWLINE.search(event, start)
        stop, following = newline.span() if newline else (len(event), len(event))
        if event.startswith(b"data:", start) and event[start + 5 : stop].strip():
            found.append((start + 5, stop))
        start = following
    return found
