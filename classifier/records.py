"""JSON objects in a row, sans-IO: bytes in, events out. For streams that are not server-sent events.

May know: how the objects are set apart, and nothing of what they hold. Whatever the bytes, `feed` never raises, its
time is linear in their number, and the result does not depend on how they are cut. Offsets and caps are those of `sse`.
"""

from __future__ import annotations

import re
from typing import Protocol

from demur.classifier.sse import MAX_EVENT_BYTES, Event

_MARK = re.compile(rb'["{}]')
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)


class Reader(Protocol):
    """What takes a stream apart; `SSEReader` is one too."""

    offset: int

    @property
    def pending(self) -> int: ...
    def feed(self, chunk: bytes) -> list[Event]: ...
    def close(self) -> list[Event]: ...


class LineReader:
    """JSON Lines: an event a line, its `end` after the LF (Ollama). Blank lines are no events.

    `offset`: bytes fed so far. A line of more than `max_event_bytes` comes out without its data (`skipped`).
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.max_event_bytes = max_event_bytes
        self.offset = 0
        self._held = bytearray()  # the unfinished line; nothing once it is over the cap
        self._start = 0  # its absolute offset

    @property
    def pending(self) -> int:
        """Bytes of the unfinished line so far."""
        return self.offset - self._start

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that end in `chunk`, in order."""
        events: list[Event] = []
        base = self.offset
        self.offset += len(chunk)
        pos = 0
        while (stop := chunk.find(b"\n", pos)) >= 0:
            events += self._event(chunk[pos:stop], base + stop + 1)
            pos = stop + 1
        if self.pending <= self.max_event_bytes:
            self._held += chunk[pos:]
        else:
            self._held.clear()
        return events

    def close(self) -> list[Event]:
        """The stream has ended; the last line counts, although its LF is missing."""
        return self._event(b"", self.offset)

    def _event(self, rest: bytes, end: int) -> list[Event]:
        data = bytes(self._held) + rest
        self._held.clear()
        start, self._start = self._start, end
        if end - start > self.max_event_bytes + 1:  # 1: its LF
            return [Event(None, b"", start, end, end - start)]
        return [Event(None, data, start, end)] if data.strip() else []


class ArrayReader:
    """The objects of a JSON array that arrives bit by bit (Gemini): an event an object, its `end` after the brace.

    Objects that follow each other without an array are read as well. What stands between them belongs to none.
    `offset`: bytes fed so far. An object of more than `max_event_bytes` comes out without its data (`skipped`).
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.max_event_bytes = max_event_bytes
        self.offset = 0
        self._held = bytearray()  # the unfinished object; nothing once it is over the cap
        self._start = 0  # its absolute offset
        self._depth = 0  # of braces; brackets need no count, they close inside the object that they open in
        self._string = False  # inside a string
        self._escaped = False  # a backslash came last

    @property
    def pending(self) -> int:
        """Bytes of the unfinished object so far."""
        return self.offset - self._start if self._depth else 0

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that end in `chunk`, in order."""
        events: list[Event] = []
        base = self.offset
        self.offset += len(chunk)
        pos = begun = 0  # `begun`: from where on the chunk belongs to the unfinished object
        while pos < len(chunk):
            if self._string:
                pos = self._pass_string(chunk, pos)
                continue
            mark = _MARK.search(chunk, pos)
            if mark is None:
                break
            pos = mark.end()
            match mark[0]:
                case b'"':
                    self._string = True
                case b"{":
                    self._depth += 1
                    if self._depth == 1:
                        begun, self._start = pos - 1, base + pos - 1
                case _ if self._depth:
                    self._depth -= 1
                    if not self._depth:
                        events.append(self._event(chunk[begun:pos], base + pos))
        if self._depth and self.pending <= self.max_event_bytes:
            self._held += chunk[begun:]
        else:
            self._held.clear()
        return events

    def close(self) -> list[Event]:
        """The stream has ended; half an object is none."""
        return []

    def _pass_string(self, chunk: bytes, pos: int) -> int:
        """Where the string ends that `pos` is in, or the chunk does."""
        inside = _IN_STRING.match(chunk, pos + self._escaped)
        end = inside.end() if inside else pos
        self._escaped = chunk[end : end + 1] == b"\\"  # the last byte: else it would have been passed with the next
        self._string = end == len(chunk) or self._escaped
        return end + 1

    def _event(self, rest: bytes, end: int) -> Event:
        data = bytes(self._held) + rest
        self._held.clear()
        if end - self._start > self.max_event_bytes:
            return Event(None, b"", self._start, end, end - self._start)
        return Event(None, data, self._start, end)
