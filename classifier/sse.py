"""Server-sent events, sans-IO: bytes in, events out. One parser for saved files and for the wire.

May know: the byte format of the WHATWG standard ("Parsing an event stream") and nothing else. No JSON, no vendor, no
network, standard library only. Whatever the bytes, `feed` never raises, and its time is linear in their number.

The result does not depend on how the bytes are cut, but for one detail: where a blank line is CR LF and the cut falls
between the two, the event is given out at the CR (a stream of bare CRs must not lag by one event), so its `end` is one
less and the LF counts as a gap between events.
"""

from __future__ import annotations

import re
from typing import NamedTuple

BOM = b"\xef\xbb\xbf"
#: Far above any event seen in practice (a whole response repeated in one event, partial images); bounds memory only.
MAX_EVENT_BYTES = 16 * 1024 * 1024

_NEWLINE = re.compile(rb"\r\n|\n|\r")
# Atomic groups: a CR LF is one line end, never read as two.
_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_GAP = re.compile(rb"[\r\n]*")


class Event(NamedTuple):
    """One event that carries data (a block of comments or a bare `event:` line is none).

    `name` is the `event:` field, None when absent or empty. `data` joins the `data:` lines with LF, undecoded.
    `start` and `end` are absolute byte offsets in the stream, `end` after the blank line; bytes outside every event
    (comments, extra blank lines, the byte order mark) lie between one event's `end` and the next one's `start`.
    `skipped` is 0, or the size in bytes of an event over the cap, whose data was not kept.
    """

    name: str | None
    data: bytes
    start: int
    end: int
    skipped: int = 0


class SSEReader:
    """Feed it the bytes of one stream in any pieces; it returns the events they complete.

    `offset`: bytes fed so far; who has read whole events himself, while none is pending, adds theirs. An event larger
    than `max_event_bytes` comes out without its data (`skipped`), the next ones whole.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.max_event_bytes = max_event_bytes
        self.offset = 0
        self._held = bytearray()  # the unfinished event; only its last two bytes once it is over the cap
        self._start = 0  # absolute offset of the unfinished event
        self._has_cr = False  # LF-only streams, nearly all, are searched with find()

    @property
    def pending(self) -> int:
        """Bytes of the unfinished event so far; 0 means that the next byte starts an event."""
        return self.offset - self._start if self._held else 0

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that end in `chunk`, in order."""
        held, offset, size = self._held, self.offset, len(chunk)
        self.offset = offset + size
        cr = chunk.find(b"\r")
        if cr >= 0:
            self._has_cr = True
        if held:
            scan = len(held) - 2  # a line end may begin there
            held += chunk
            return self._split(held, scan, fresh=False)
        if chunk.startswith(b"data: ") and size <= self.max_event_bytes:
            blank = b"\n\n" if cr < 0 else b"\r\n\r\n"
            if (lines := _plain(chunk, blank)) is not None:
                events = []
                for data in lines:
                    end = offset + 6 + len(data) + len(blank)
                    events.append(Event(None, data, offset, end))
                    offset = end
                return events
        return self._split(chunk, 0, fresh=True)

    def close(self) -> list[Event]:
        """The stream has ended; what is left counts as an event, although its blank line is missing."""
        block = bytes(self._held).rstrip(b"\r\n")
        stop = self.offset - len(self._held) + len(block)
        self._held.clear()
        event = self._event(block, self._start, stop, self.offset) if block else None
        return [event] if event else []

    def _split(self, data: bytes | bytearray, scan: int, *, fresh: bool) -> list[Event]:
        """Cut `data` into events, hold the rest. No event ends before index `scan`; `fresh`: nothing was held."""
        events: list[Event] = []
        base = self.offset - len(data)  # absolute offset of data[0]
        pos, start = 0, self._start
        if fresh or not base:
            if not base and len(data) < len(BOM) and BOM.startswith(data):
                self._held = bytearray(data)
                return events
            pos = self._after_gap(data, len(BOM) if not base and data.startswith(BOM) else 0)
            start = base + pos
        size = len(data)
        while pos < size:
            stop, end = self._blank_line(data, max(scan, pos))
            if stop < 0:
                break
            event = self._event(data[pos:stop], start, base + stop, base + end)
            if event:
                events.append(event)
            pos = self._after_gap(data, end) if end < size and data[end] in b"\r\n" else end
            start = base + pos
        self._start = start
        if self.offset - start > self.max_event_bytes + 2:  # 2: its last line end may have come already
            pos = max(pos, size - 2)
        if data is self._held:
            del self._held[:pos]
        else:
            self._held = bytearray(data[pos:])
        return events

    def _blank_line(self, data: bytes | bytearray, pos: int) -> tuple[int, int]:
        """Where the event's last line stops and where the blank line after it ends; negative when there is none."""
        if self._has_cr:
            found = _BLANK_LINE.search(data, pos)
            return found.span() if found else (-1, -1)
        stop = data.find(b"\n\n", pos)
        return stop, stop + 2

    @staticmethod
    def _after_gap(data: bytes | bytearray, pos: int) -> int:
        """Blank lines before an event belong to none, and neither does the LF of a CR LF that was cut in two."""
        gap = _GAP.match(data, pos)
        return gap.end() if gap else pos

    def _event(self, block: bytes | bytearray, start: int, stop: int, end: int) -> Event | None:
        """The event in `block`, whose bytes are `start` to `stop` of the stream; None when it carries no data."""
        if stop - start > self.max_event_bytes:
            return Event(None, b"", start, end, stop - start)
        block = bytes(block)
        if block.startswith(b"data:") and b"\n" not in block and b"\r" not in block:
            return Event(None, block[6:] if block[5:6] == b" " else block[5:], start, end)
        name, data = None, []
        for line in _NEWLINE.split(block) if self._has_cr else block.split(b"\n"):
            if line.startswith(b"data:"):
                data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line.startswith(b"event:"):
                name = line[6:].removeprefix(b" ").decode("utf-8", "replace") or None
            elif line == b"data":
                data.append(b"")
        return Event(name, b"\n".join(data), start, end) if data else None


def _plain(chunk: bytes, blank: bytes) -> list[bytes] | None:
    """The data of a chunk that is nothing but whole events of one line `data: …` each, as nearly all are; else None.

    `chunk` starts like such an event, `blank` is how each of them should end.
    """
    if not chunk.endswith(blank):
        return None
    lines = chunk[6 : -len(blank)].split(blank + b"data: ")
    # The line ends just found are all there are.
    if chunk.count(b"\n") != 2 * len(lines) or (len(blank) == 4 and chunk.count(b"\r") != 2 * len(lines)):
        return None
    return lines
