"""Where things stand in a settings file: tomllib keeps no positions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_HEADER = re.compile(r"[ \t]*\[+[ \t]*([^\]]*?)[ \t]*\]")
_KEY = re.compile(r"[ \t]*[\"']?([\w-]+)[\"']?[ \t]*[.=]")


def line_of(name: str, text: str) -> int | None:
    """The line where a top-level key or table begins."""
    found = re.search(rf"^[ \t]*(?:\[+[ \t]*)?[\"']?{re.escape(name)}[\"']?[ \t]*[.=\]]", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else None


def lines_of_tables(name: str, text: str) -> Sequence[Mapping[str, int]]:
    """For each `[[name]]` of the file the lines of its keys and of its own tables; its own line under ""."""
    tables: list[dict[str, int]] = []
    inside, below = False, False
    for number, line in enumerate(text.split("\n"), start=1):
        if header := _HEADER.match(line):
            table, _, inner = header[1].replace('"', "").replace("'", "").partition(".")
            inside, below = table.strip() == name, bool(inner)
            if inside and not below:
                tables.append({"": number})
            elif inside and tables:
                tables[-1].setdefault(inner.strip(), number)
        elif inside and not below and tables and (key := _KEY.match(line)):
            tables[-1].setdefault(key[1], number)
    return tables


def last_key(text: str, line: int) -> tuple[int, str] | None:
    """The line of the last key that begins on `line` or above, and its name."""
    lines = text.split("\n")[:line]
    return next(((at, key[1]) for at in range(len(lines), 0, -1) if (key := _KEY.match(lines[at - 1]))), None)


def beyond(text: str, at: int) -> tuple[int, str]:
    """The line of the place `at`, and the key that it belongs to, with a colon behind it, if there is one."""
    before = text[:at]
    keys = re.findall(r"^[ \t]*([^\s=#]+)[ \t]*=", before, re.MULTILINE)
    return before.count("\n") + 1, f"{keys[-1]}: " if keys else ""


def depth_reached(text: str, depth: int) -> int:
    """Where brackets stand `depth` deep for the first time, else 0."""
    open_now = 0
    for found in re.finditer(r"[\[{\]}]", text):
        open_now += 1 if found[0] in "[{" else -1
        if open_now == depth:
            return found.start()
    return 0
