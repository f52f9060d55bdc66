"""Some members of a JSON object that strict parsers refuse: what stands beside them is skipped, not validated.

Lone surrogates, NaN, a byte order mark, bad UTF-8, any depth: APIs accept much of that, or answer it with an error of
their own. Linear in the body; each bracket that the expressions can't skip by themselves costs a step.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import msgspec

from demur.classifier import fields

#: Bytes of a body beyond which it is not searched: 1 MiB takes up to 20 ms.
MAX_SEARCHED = 8 * 1024 * 1024
#: Steps after which it is given up, one a member and one a bracket: they take up to 150 ms.
MAX_STEPS = 50_000
#: Bytes of a list or an object beyond which it is not decoded.
MAX_CONTAINER = 64 * 1024

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_PLAIN = rb'(?:[^"\[\]{}]++|' + _STRING + rb")*+"
_BLANK = rb"[ \t\r\n]*+"

# Text, strings, and the lists and objects that hold no others.
_flat = re.compile(rb'(?:[^"\[\]{}]++|%b|\[%b\]|\{%b\})*+' % (_STRING, _PLAIN, _PLAIN), re.DOTALL).match
_begin = re.compile(rb"(?:\xef\xbb\xbf)?+%b\{" % _BLANK).match
_key = re.compile(rb"%b(%b)%b:%b" % (_BLANK, _STRING, _BLANK, _BLANK), re.DOTALL).match
_value = re.compile(rb'%b|[^"\[\]{},]++' % _STRING, re.DOTALL).match
_string = msgspec.json.Decoder(str).decode
_next = re.compile(rb"%b([,}])" % _BLANK).match


def members(body: bytes, names: Collection[str]) -> dict[str, Any]:
    """Those members of the object `body` that are in `names`, decoded; of several of one name the last, as parsers do.

    A value that can't be decoded is None. Empty when it is no object, does not end, or is beyond the limits
    above.
    """
    found: dict[str, tuple[int, int]] = {}  # decoded at last: of one name there may be many
    if len(body) > MAX_SEARCHED:
        return {}
    begun = _begin(body)
    at, steps = begun.end() if begun else len(body), 0
    while (key := _key(body, at)) and steps < MAX_STEPS:
        start = at = key.end()
        if body[at : at + 1] in (b"[", b"{"):
            depth = 0
            while steps < MAX_STEPS:
                steps += 1
                bracket = body[at : at + 1]
                if bracket not in (b"[", b"{", b"]", b"}"):
                    return {}
                depth += 1 if bracket in (b"[", b"{") else -1
                at += 1
                if depth == 0:
                    break
                flat = _flat(body, at)
                at = flat.end() if flat else at
        elif value := _value(body, at):
            at = value.end()
        if (name := _name(key[1])) in names:
            found[name] = start, at
        steps += 1
        after = _next(body, at)
        if after is None:
            return {}
        if after[1] == b"}":
            return {name: _decoded(body[slice(*span)]) for name, span in found.items()}
        at = after.end()
    return {}


def _name(raw: bytes) -> str:
    """A key without its quotes and escapes, "" for one that is not clean: no name that is asked for is long or odd."""
    try:
        return _string(raw) if len(raw) < 256 else ""
    except (msgspec.MsgspecError, ValueError):
        return ""


def _decoded(raw: bytes) -> Any:
    if raw.startswith((b"[", b"{")) and len(raw) > MAX_CONTAINER:
        return None
    try:
        return fields.decode(raw)
    except ValueError:
        return None
