"""The finish chunk: one more JSON key in the event that ends a choice. Every other byte of the event stays as it was.

It is the chunk with the finish reason (completions, Gemini), `response.completed` or `response.incomplete` (Responses),
`message_delta` (Anthropic), the line that says `done` (Ollama). docs/streams.md says how clients take it.

Bytes in, bytes out; nothing here knows sockets or how a verdict comes about.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from demur.classifier import fields
from demur.classifier.stream import Finish
from demur.classifier.verdict import Verdict
from demur.proxy.inspection import Framing, StreamInspection
from demur.proxy.labels import features_of

logger = logging.getLogger("demur.finish")

KEY = b"refusal_verdict"
#: Bytes of an unfinished event beyond which it is passed on as it comes and gets no key.
MAX_HELD = 1024 * 1024

_completion_may_finish = re.compile(
    rb'finish_reason"(?!\s*+:\s*+(?:null\b|""))'  # possessive: blanks are not given back
).search
#: By API what finds, in whole events, whether one may end a choice: a reason that is neither null nor "".
MAY_FINISH: Mapping[str, Callable[[bytes], object]] = {
    "openai.chat": _completion_may_finish,
    "openai.completions": _completion_may_finish,
    "openai.responses": re.compile(rb"response\.(?:completed|incomplete)").search,
    "anthropic.messages": re.compile(rb'stop_reason"(?!\s*+:\s*+null\b)').search,
    "gemini": re.compile(rb'finishReason"').search,
    "ollama.chat": re.compile(rb'"done"(?!\s*+:\s*+false\b)').search,
}

#: By API the array of its choices, where it has more than one.
_CHOICES = {"openai.chat": "choices", "openai.completions": "choices", "gemini": "candidates"}
#: What a piece ends with that is whole events; of an array the bytes alone don't tell.
_WHOLE: Mapping[Framing, tuple[bytes, ...]] = {"sse": (b"\n\n", b"\r\n\r\n"), "lines": (b"\n",), "array": ()}
_NEWLINE = re.compile(rb"\r\n|\n|\r")
# Of the event that is held; it begins with LF only where a CR LF was cut in two.
_COMMENTS = re.compile(rb"\n?(?::[^\r\n]*+(?:\r\n|\n|\r))*")
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[][{}:]')


class FinishChunk:
    """Passes a stream on and adds the key on the way. What it keeps back is at most the event that is still arriving.

    What goes on is the upstream's bytes, each once, in order, plus the key in events that had not gone on yet.
    Ordinary events never wait for the judge: `passes` tells them from their bytes alone.
    """

    def __init__(
        self, inspection: StreamInspection, api: str, *, id: str, several: bool, framing: Framing = "sse"
    ) -> None:
        """`api` is one of MAY_FINISH; `several`: more than one choice was asked for. Where not, the stream tells: from
        the event on that brings a second choice."""
        self._inspection = inspection
        self._may_finish = MAY_FINISH[api]
        self._choices = _CHOICES.get(api)
        self._framing = framing
        self._ends = _WHOLE[framing]
        self._id = id
        self._several = several
        self._held = bytearray()  # the event that is still arriving, without the comments that it begins with
        self._began = -1  # its offset in the stream, comments included; -1: none arrives that can still get a key
        self._between = True  # between two events

    @property
    def held(self) -> bytes:
        """What has come and not gone on yet."""
        return bytes(self._held)

    def passes(self, chunk: bytes) -> bool:
        """Whether `chunk` is whole events without a finish reason: it may go on now, then `inspection.later` it."""
        return self._between and chunk.endswith(self._ends) and not self._may_finish(chunk)

    def feed(self, chunk: bytes) -> bytes:
        """Judges any other chunk and returns what goes on now."""
        finished = self._inspection.feed(chunk)
        held = self._held
        held += chunk
        offset, pending = self._inspection.offset, self._inspection.pending
        base, began = offset - len(held), offset - pending
        whole, known, self._began, self._between = len(held), self._began, -1, pending == 0
        if 0 < pending <= MAX_HELD and (began >= base or began == known):
            self._began = began
            whole = max(began - base, 0)
            # Comments keep connections alive and must not wait for an event.
            ended = self._framing == "sse" and (b"\n" in chunk or b"\r" in chunk)
            if ended and (comments := _COMMENTS.match(held, whole)):
                whole = comments.end()
        return self._pass(whole, base, known, finished)

    def close(self) -> bytes:
        """The rest, once the stream has ended; its last event may lack the blank line."""
        finished = self._inspection.close()
        return self._pass(len(self._held), self._inspection.offset - len(self._held), self._began, finished)

    def release(self) -> bytes:
        """The rest as it is, when the stream broke off."""
        return self._pass(len(self._held), 0, -1, [])

    def _pass(self, whole: int, base: int, began: int, finished: Sequence[Finish]) -> bytes:
        """The first `whole` bytes held, with the keys of the choices that finished in them.

        `base` is the offset of what is held, `began` of the event that it began with, comments included.
        """
        data = bytes(self._held[:whole])
        del self._held[:whole]
        out, position = [], 0
        for event, verdicts, several in finished:
            start, end = 0 if event.start == began else event.start - base, event.end - base
            if not position <= start < end <= whole:
                continue  # some of it has gone on already
            if not self._may_finish(event.data):
                continue  # it gets no key where it passes at once either
            choices = self._choices if self._several or several else None
            out += [data[position:start], self._with_keys(data[start:end], verdicts, choices)]
            position = end
        return b"".join([*out, data[position:]])

    def _with_keys(self, event: bytes, verdicts: Mapping[int, Verdict | None], choices: str | None) -> bytes:
        try:
            keys = {index: summary(verdict, self._id) for index, verdict in verdicts.items() if verdict}
            return splice(event, keys, choices=choices, framing=self._framing)
        except Exception:
            logger.exception("the verdict could not be added to a stream; it passes without it")
            return event


def summary(verdict: Verdict, id: str) -> dict[str, Any]:
    """What a client reads under `refusal_verdict`; `id` is the exchange's. How it was refused is there where coded."""
    coded: dict[str, Any] = {}
    if verdict.strategy is not None:
        coded["strategy"] = verdict.strategy
    if (features := features_of(verdict)) is not None:
        coded["features"] = features
    return {
        "label": verdict.label,
        "confidence": verdict.confidence,
        "status": verdict.status,
        "action": verdict.action,
        "rationale": verdict.rationale,
        **coded,
        "signals": list(dict.fromkeys(signal.name for signal in verdict.signals)),
        "id": id,
    }


def splice(event: bytes, keys: Mapping[int, Any], *, choices: str | None = None, framing: Framing = "sse") -> bytes:
    """The event with the key added: at the top level, or inside each choice that `keys` names in the array `choices`.

    An event that is not one JSON object comes back as it was. An object that has the key already keeps it and gets no
    second one: of several who judge a stream in a row, the one nearest to the model is heard.
    """
    lines = _data_lines(event) if framing == "sse" else [(0, len(event.rstrip()))]
    places = _choice_ends(event, lines, keys, choices) if choices else _object_end(event, lines, keys)
    if KEY in event:
        places = _without_keys(event, lines, places, choices)
    for place, value in sorted(places, key=lambda item: item[0], reverse=True):
        key = b',"%b":%b' % (KEY, msgspec.json.encode(value))
        event = event[:place] + key + event[place:]
    return event


def _object_end(event: bytes, lines: list[tuple[int, int]], keys: Mapping[int, Any]) -> list[tuple[int, Any]]:
    """Where the event's JSON object closes: the last brace of its last data line."""
    place = -1
    for start, stop in lines:
        line = event[start:stop].rstrip(b" \t")
        place = start + len(line) - 1 if line.endswith(b"}") else -1
    return [(place, next(iter(keys.values())))] if place >= 0 and keys else []


def _choice_ends(
    event: bytes, lines: list[tuple[int, int]], keys: Mapping[int, Any], array: str
) -> list[tuple[int, Any]]:
    """Where each finished choice of the `array` closes."""
    try:
        choices = fields.decode(b"\n".join([event[start:stop] for start, stop in lines]))[array]
    except (ValueError, LookupError, TypeError):
        return []
    objects = [(i, choice) for i, choice in enumerate(fields.sequence(choices)) if isinstance(choice, dict)]
    places = []
    for (position, choice), end in zip(objects, _object_ends(event, lines, array), strict=False):
        if choice and (index := _index(choice, position)) in keys:
            places.append((end, keys[index]))
    return places


def _without_keys(
    event: bytes, lines: list[tuple[int, int]], places: list[tuple[int, Any]], array: str | None
) -> list[tuple[int, Any]]:
    """Those of `places` whose object has no key of ours yet."""
    try:
        whole = fields.decode(b"\n".join([event[start:stop] for start, stop in lines]))
        objects = [it for it in fields.sequence(whole[array]) if isinstance(it, dict)] if array else [whole]
    except (ValueError, LookupError, TypeError):
        return places
    name = KEY.decode("ascii")
    if not array:
        return [] if isinstance(whole, dict) and name in whole else places
    taken = {end for it, end in zip(objects, _object_ends(event, lines, array), strict=False) if name in it}
    return [(end, value) for end, value in places if end not in taken]


def _index(choice: dict[str, Any], position: int) -> int:
    """The index by which the classifier knows a choice."""
    index = choice.get("index")
    return index if type(index) is int and index >= 0 else position


def _object_ends(event: bytes, lines: list[tuple[int, int]], array: str) -> list[int]:
    """Where the objects in that array of the event's JSON object close."""
    depth, string, ends = 0, b"", list[int]()
    key: str | None = None  # the last one of the object itself
    for start, stop in lines:
        for token in _TOKEN.finditer(event, start, stop):
            match token[0]:
                case b"{" | b"[":
                    depth += 1
                    if depth == 2 and key == array:
                        ends = []  # of two arrays under one key the later one counts
                case b"}" | b"]":
                    depth -= 1
                    if depth == 2 and token[0] == b"}" and key == array:
                        ends.append(token.start())
                case b":":
                    key = fields.decode(string) if depth == 1 else key
                case other:
                    string = other
    return ends


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
