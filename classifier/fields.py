"""Reading other people's JSON without raising: each helper gives the expected type, or that type's empty value."""

from __future__ import annotations

import json
from typing import Any

import msgspec


def decode(data: bytes | str) -> Any:
    """JSON as Python data. Tolerates what servers really send: NaN, a byte order mark, bad UTF-8, lone surrogates.

    Raises ValueError, and nothing else, when it is not JSON or nested beyond reason.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def string(value: object) -> str:
    """The text of a JSON string, "" for anything else. Lone surrogates, which no output could encode, become U+FFFD."""
    if not isinstance(value, str):
        return ""
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def name(value: object) -> str | None:
    """An id, a model, a code: a non-blank string or a number, as text."""
    if isinstance(value, str):
        return string(value) if value.strip() else None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def mappings(value: object) -> list[dict[str, Any]]:
    """The objects of a list, whatever else it holds."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def count(value: object) -> int | None:
    """A number of tokens."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def first_string(source: dict[str, Any], *keys: str) -> str:
    """The first of `keys` that holds text."""
    for key in keys:
        if text := string(source.get(key)):
            return text
    return ""


def compact(value: object) -> str:
    """Arguments of a tool call as text: as they came, or as JSON where a vendor sends an object."""
    if value is None or isinstance(value, str):
        return string(value)
    try:
        return string(json.dumps(value, ensure_ascii=False, default=str))
    except (ValueError, TypeError, RecursionError):
        return ""
