"""Text as the matcher sees it: lower case, plain apostrophes and spaces, marks that only decorate removed.

`fold` keeps every character's place. It works character by character, so folding pieces is folding the whole.
`clean` may drop characters; `OffsetMap` leads back from the cleaned text to the original. Both are built from
`str.replace`, because a character-wise `translate` costs more than the whole match.
"""

from __future__ import annotations

import re
from bisect import bisect_right

#: Emphasis marks and characters without width: they stand inside words and sentences, and say nothing.
_DROPPED = "*_\u200b\u200c\u200d\u2060\ufeff\u00ad"
_DROPPED_RE = re.compile(f"[{re.escape(_DROPPED)}]")
#: Letters in other clothes (full-width, mathematical): one character each, as is their plain form.
_DRESSED_RE = re.compile("[\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff]")
#: Lower-casing is length-preserving and free of context once these are gone ("İ" grows, "Σ" looks at its neighbours).
_BEFORE_LOWER = (("\u0130", "i"), ("Σ", "σ"), ("ς", "σ"))
_PLAIN = (
    ("’", "'"),
    ("ʼ", "'"),
    ("＇", "'"),
    ("‘", "'"),
    ("\u00a0", " "),
    ("\u3000", " "),
    ("\u202f", " "),
    ("\u2028", " "),
)


def fold(text: str) -> str:
    """`text` in lower case, apostrophes plain, breaks and tabs as spaces. Same length; any cut gives the same."""
    if not text.isascii():
        for old, new in _BEFORE_LOWER:
            text = text.replace(old, new)
        for old, new in _PLAIN:
            text = text.replace(old, new)
    return text.lower().replace("\n", " ").replace("`", "'").replace("\t", " ").replace("\r", " ")


def clean(text: str) -> str:
    """`text` without emphasis marks and zero-width characters, dressed-up letters made plain. Often `text` itself."""
    if "*" in text:
        text = text.replace("*", "")
    if "_" in text:
        text = text.replace("_", "")
    if not text.isascii():
        for char in _DROPPED[2:]:
            text = text.replace(char, "")
        if _DRESSED_RE.search(text):
            text = _DRESSED_RE.sub(_undress, text)
    return text


class OffsetMap:
    """From places in the cleaned text to the original, of which the first `begin` characters were left out."""

    def __init__(self, original: str, begin: int, cleaned_length: int) -> None:
        self._begin = begin
        self._shifts: list[int] = []
        if len(original) - begin != cleaned_length:
            self._shifts = [m.start() - begin - i for i, m in enumerate(_DROPPED_RE.finditer(original, begin))]

    def original(self, place: int) -> int:
        return place + self._begin + (bisect_right(self._shifts, place) if self._shifts else 0)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The original span of a non-empty cleaned span, end exclusive."""
        return self.original(start), self.original(end - 1) + 1


def _undress(match: re.Match[str]) -> str:
    import unicodedata

    plain = unicodedata.normalize("NFKC", match.group())
    return plain if len(plain) == 1 else match.group()
