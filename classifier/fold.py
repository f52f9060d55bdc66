"""Text as the matcher sees it: lower case, plain apostrophes and spaces, marks that only decorate removed.

`fold` keeps every character's place. It works character by character, so folding pieces is folding the whole.
`clean` may drop characters; `OffsetMap` leads back from the cleaned text to the original. `plain` does both at once.
A character-wise `str.translate` costs more than the whole match, so all are built from `str.replace`; text that fits
into one byte a character, as most English with typographic quotes and dashes does, takes the faster `bytes.translate`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

#: Vowel signs and lengthening of Arabic, the dot of Hindi: written or left out at will.
_OPTIONAL = "".join(map(chr, range(0x064B, 0x0653))) + "\u0640\u093c"
#: Marks that say which way a text runs, and others without width.
_DIRECTIONS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2062\u180e\ufe0f"
#: Emphasis marks, the half of a line break that adds nothing, and characters without width: they say nothing.
_DROPPED = "*_\r\u200b\u200c\u200d\u2060\ufeff\u00ad" + _DIRECTIONS + _OPTIONAL
_DROPPED_RE = re.compile(f"[{re.escape(_DROPPED)}]")
#: Letters in other clothes (full-width, mathematical): one character each, as is their plain form.
_DRESSED = "\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff"
_DRESSED_RE = re.compile(f"[{_DRESSED}]")
_UNUSUAL_RE = re.compile(f"[{_DROPPED[3:]}{_DRESSED}]")
#: Lower-casing is length-preserving and free of context once these are gone ("İ" grows, "Σ" looks at its neighbours).
_BEFORE_LOWER = (("\u0130", "i"), ("Σ", "σ"), ("ς", "σ"))
#: Marks and spaces in other clothes.
_PLAIN = (
    *((mark, "'") for mark in "’ʼ＇‘"),
    *((space, " ") for space in (*"\x85\u00a0\u1680\u2028\u2029\u202f\u205f\u3000", *map(chr, range(0x2000, 0x200B)))),
)
#: Scripts from here on are written without spaces, or with endings joined to the word.
_UNSPACED = "\u0e00"
_BREAKS = "\n\t\r\x0b\x0c\x1c\x1d\x1e\x1f"


def fold(text: str) -> str:
    """`text` in lower case, apostrophes plain, breaks and tabs as spaces. Same length; any cut gives the same."""
    if text.isascii():
        return text.encode("ascii").translate(_FOLDED_BYTES).decode("ascii")
    try:
        return text.encode(_BYTES).translate(_FOLDED_BYTES).decode(_BYTES)
    except UnicodeEncodeError:
        return _fold(text)


def holds_word(text: str, word: str) -> bool:
    """Whether `text` (folded) has `word` as words of its own; in scripts without spaces, anywhere."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if word[0] >= _UNSPACED or not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            return True
        at = text.find(word, at + 1)
    return False


def _fold(text: str) -> str:
    for old, new in _BEFORE_LOWER:
        text = text.replace(old, new)
    for old, new in _PLAIN:
        text = text.replace(old, new)
    text = text.lower().replace("`", "'")
    for space in _BREAKS:
        text = text.replace(space, " ")
    return text


def fold_pattern(text: str) -> str:
    """`fold` for phrases of a lexicon, without the invisible and optional marks that `clean` takes from a text, letters
    undressed."""
    return fold(_DRESSED_RE.sub(_undress, text)).translate(dict.fromkeys(map(ord, _DROPPED[3:])))


def clean(text: str) -> str:
    """`text` without emphasis, invisible and optional marks, dressed-up letters made plain. Often `text` itself."""
    if "*" in text:
        text = text.replace("*", "")
    if "_" in text:
        text = text.replace("_", "")
    if "\r" in text:
        text = text.replace("\r", "")
    if not text.isascii() and _UNUSUAL_RE.search(text):
        for char in _DROPPED[3:]:
            text = text.replace(char, "")
        text = _DRESSED_RE.sub(_undress, text)
    return text


def plain(text: str) -> str:
    """`fold(clean(text))`, sooner."""
    return plain_and_narrow(text)[0]


def plain_and_narrow(text: str) -> tuple[str, bool]:
    """The same, and whether the text fits into one byte a character: then words stand between spaces."""
    if text.isascii():
        return text.encode("ascii").translate(_FOLDED_BYTES, _DROPPED_BYTES).decode("ascii"), True
    try:
        return text.encode(_BYTES).translate(_FOLDED_BYTES, _DROPPED_BYTES).decode(_BYTES), True
    except UnicodeEncodeError:
        return _fold(clean(text)), False


class OffsetMap:
    """From places in the cleaned text to the original, of which the first `begin` characters were left out.

    `blocks`: where each block begins that was cleaned by itself, in the cleaned text and in the original after
    `begin`; last the lengths of both. Dropped characters are looked for in the blocks that are asked about.
    """

    def __init__(self, original: str, begin: int, blocks: Sequence[tuple[int, int]]) -> None:
        self._original, self._begin, self._blocks = original, begin, blocks
        self._same = blocks[-1][0] == blocks[-1][1]
        self._starts: list[int] = [] if self._same else [cleaned for cleaned, _ in blocks]
        #: By block: how far it is moved, the cleaned places before which a character was dropped, as far as they were
        #: needed, and what finds the next one.
        self._dropped: dict[int, tuple[int, list[int], Iterator[re.Match[str]]]] = {}

    def original(self, place: int) -> int:
        if self._same:
            return place + self._begin
        block = bisect_right(self._starts, place) - 1
        moved, dropped, found = self._dropped.get(block) or self._look(block)
        while (not dropped or dropped[-1] <= place) and (match := next(found, None)):
            dropped.append(match.start() - moved - len(dropped))
        return place + moved + bisect_right(dropped, place)

    def _look(self, block: int) -> tuple[int, list[int], Iterator[re.Match[str]]]:
        (cleaned, since), (_, until) = self._blocks[block : block + 2]
        since, until = since + self._begin, until + self._begin
        known = self._dropped[block] = since - cleaned, [], _DROPPED_RE.finditer(self._original, since, until)
        return known

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The original span of a non-empty cleaned span, end exclusive."""
        if self._same:
            return start + self._begin, end + self._begin
        return self.original(start), self.original(end - 1) + 1


def _undress(match: re.Match[str]) -> str:
    import unicodedata

    plain = unicodedata.normalize("NFKC", match.group())
    return plain if len(plain) == 1 else match.group()


#: The table for text of one byte a character.
_BYTES = "cp1252"
_DROPPED_BYTES = _DROPPED.encode(_BYTES, "ignore")
_FOLDED_BYTES = _fold(bytes(range(256)).decode(_BYTES, "replace")).encode(_BYTES, "replace")
