"""What a file holds: JSON, JSON Lines, an SSE capture or plain text, told by its content, never by its name alone.

Only the command guesses; the library's `normalize` takes objects. Everything here yields `Item`s: one object that
`normalize` reads, where it stood, and its id. A line that is no JSON is an item too, with its problem: no line is lost.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeGuard, cast

from demur.classifier import fields

#: A longer line of JSON Lines is reported and skipped, so that memory stays bounded. The proxy's largest request body.
MAX_LINE = 64 * 1024 * 1024
#: A larger file is not read as a whole.
MAX_FILE = 512 * 1024 * 1024
#: What Python reads as an integer (`sys.set_int_max_str_digits`).
MAX_DIGITS = 4300
_CHUNK = 64 * 1024
_STDIN = "-"

# What begins like this was meant to be JSON: when it does not parse, that is an error and not a text to judge.
_MEANT_AS_JSON = re.compile(r'\s*(\{\s*("|\}|$)|\[\s*([\[{"\]]|$))')
_SSE_FIRST_LINE = re.compile(r"\s*(data|event|id|retry)?:")
_SSE_DATA = re.compile(r"(?:^|[\r\n])data:\s*[\[{]")

_COMMA = re.compile(r"\s*[{,]\s*")
_COLON = re.compile(r"\s*:\s*")

Id = str | int | float


class InputError(Exception):
    """A file that cannot be read as traces. The message names the file, and the line where there is one."""


@dataclass(frozen=True, slots=True)
class Item:
    """One trace as found: `obj` is what `normalize` takes; `problem` says why there is none.

    `id` is the trace's own top-level id, if that is a text or a number (as its text, if it is beyond all numbers);
    else `source`: the file, and the line or place in it (`a.jsonl:3`, `a.json[3]`).
    """

    obj: object
    source: str
    id: Id
    problem: str | None = None


def read_items(path: str) -> list[Item]:
    """All traces of one file (`-` is standard input). Raises InputError when there are none to judge."""
    name = display_name(path)
    try:
        if path == _STDIN:
            data = sys.stdin.buffer.read(MAX_FILE + 1)
        else:
            with Path(path).open("rb") as stream:
                data = stream.read(MAX_FILE + 1)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from error
    if len(data) > MAX_FILE:
        raise InputError(f"{name}: is larger than {MAX_FILE >> 20} MiB; JSON Lines of any size are read with --jsonl")
    return sniff(data, name)


def display_name(path: str) -> str:
    return "stdin" if path == _STDIN else path


def sniff(data: bytes, name: str) -> list[Item]:
    """The traces in `data`, whose form is told by its content. `name` stands in messages and generated ids."""
    text = _text(data, name)
    if not text.strip():
        raise InputError(f"{name}: is empty, there is nothing to judge")
    if _SSE_FIRST_LINE.match(text) and _SSE_DATA.search(text):
        return [Item({"stream": text}, name, name)]
    if not text.lstrip().startswith(("{", "[", '"')):
        return [Item(text, name, name)]
    try:
        value = decode(text)
    except ValueError as error:
        return _json_lines(text, name) or _plain_text(text, name, error)
    if value == []:
        raise InputError(f"{name}: an empty JSON list, there is nothing to judge")
    if isinstance(value, list):
        if not any(isinstance(element, dict | str) for element in value):
            return [Item(text, name, name)]  # a reply that is a list of numbers, not a list of traces
        return [_item(element, f"{name}[{index}]") for index, element in enumerate(value)]
    return [_item(value, name)]


def line_batches(path: str, stream: BinaryIO | None = None) -> Iterator[list[Item]]:
    """JSON Lines, as they arrive: every batch holds the lines of one read. Blank lines are skipped, but counted.

    Memory is bounded by MAX_LINE, whatever the size of the input. `stream` is the file, if it is open already. Raises
    InputError when the file cannot be read.
    """
    name = display_name(path)
    try:
        if stream is not None:
            yield from _batches(stream, name)
            return
        if path == _STDIN:
            yield from _batches(cast(BinaryIO, sys.stdin.buffer), name)
            return
        with Path(path).open("rb") as stream:
            yield from _batches(stream, name)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from error


def decode(data: bytes | str) -> object:
    """One JSON value, read as tolerantly as the proxy reads. Raises ValueError that says where and why it is none."""
    try:
        value = fields.decode(data)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg}, line {error.lineno} column {error.colno}") from None
    except ValueError as error:
        if "digits" in str(error):  # Python's own words are about Python
            raise ValueError(f"a number has more than {MAX_DIGITS} digits") from None
        raise
    if any(map(_has_endless_id, value if isinstance(value, list) else (value,))):
        text = data if isinstance(data, str) else data.decode(errors="replace")
        return _AS_WRITTEN.decode(text.removeprefix("\ufeff"))
    return value


def _has_endless_id(value: object) -> bool:
    own = value.get("id") if isinstance(value, dict) else None
    return isinstance(own, float) and not math.isfinite(own)


def _float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def _int(text: str) -> int | str:
    return int(text) if len(text) <= MAX_DIGITS else text


#: Reads a number that Python's are too small for, such as 1e999, as its text.
_AS_WRITTEN = json.JSONDecoder(parse_float=_float, parse_int=_int, parse_constant=str)


def _batches(stream: BinaryIO, name: str) -> Iterator[list[Item]]:
    parts: list[bytes] = []
    number = size = 0
    read = getattr(stream, "read1", stream.read)  # read1 returns what is there: a live pipe is answered line by line
    while chunk := read(_CHUNK):
        *ended, rest = chunk.split(b"\n")
        batch = []
        for piece in ended:
            number += 1
            size += len(piece)
            line = b"".join((*parts, piece)) if size <= MAX_LINE else None
            parts, size = [], 0
            if (item := _line(line, number, name)) is not None:
                batch.append(item)
        size += len(rest)
        if size <= MAX_LINE:
            parts.append(rest)
        else:
            parts.clear()
        if batch:
            yield batch
    if size:
        last = _line(b"".join(parts) if size <= MAX_LINE else None, number + 1, name)
        if last is not None:
            yield [last]


def _line(line: bytes | None, number: int, name: str) -> Item | None:
    """The item of one line; None for a blank one. `line` is None when it was too long to keep."""
    source = f"{name}:{number}"
    if line is None:
        return Item(None, source, source, f"line longer than {MAX_LINE >> 20} MiB")
    if number == 1:
        line = line.removeprefix(b"\xef\xbb\xbf")
    if not line or line.isspace():
        return None
    try:
        return _item(decode(line), source)
    except ValueError as error:
        # The line number of the message would be that of the line alone: always 1.
        why = str(error).replace("line 1 ", "")
        return Item(None, source, _rescued_id(line.decode(errors="replace"), source), why)


def _item(obj: object, source: str) -> Item:
    own = obj.get("id") if isinstance(obj, dict) else None
    return Item(obj, source, own if _is_id(own) else source)


def _is_id(value: object) -> TypeGuard[Id]:
    return isinstance(value, Id) and not isinstance(value, bool)


def _rescued_id(text: str, source: str) -> Id:
    """The top-level id of an object that breaks off or goes wrong after it; else `source`."""
    reader, at = _AS_WRITTEN, 0
    try:
        while comma := _COMMA.match(text, at):
            key, at = reader.raw_decode(text, comma.end())
            if (colon := _COLON.match(text, at)) is None:
                break
            value, at = reader.raw_decode(text, colon.end())
            if key == "id" and _is_id(value):
                return value
    except (ValueError, RecursionError):
        pass
    return source


def _json_lines(text: str, name: str) -> list[Item]:
    """The items of JSON Lines; none when the first line is not a JSON object or string of its own, or stands alone."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line and not line.isspace()]
    if len(lines) < 2:
        return []
    items = [item for number, line in lines if (item := _line(line.encode(errors="surrogatepass"), number, name))]
    return items if items[0].problem is None and isinstance(items[0].obj, dict | str) else []


def _plain_text(text: str, name: str, error: ValueError) -> list[Item]:
    if name.endswith((".json", ".jsonl", ".ndjson")) or _MEANT_AS_JSON.match(text):
        raise InputError(f"{name}: {error}")
    return [Item(text, name, name)]


def _text(data: bytes, name: str) -> str:
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 text (byte {error.start})") from error
