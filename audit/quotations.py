"""Long texts cut for a judge, and the words that it quotes found again in the whole."""

from __future__ import annotations

import re
from functools import lru_cache

#: Quotations beyond these bounds are no evidence but a copy; they also bound the search.
MAX_QUOTES = 40
MAX_QUOTE = 400

# Models set quotation marks, apostrophes and dashes of their own, and leave out what is bold.
_ALIKE = ("'’‘ʼ`´", '"“”„«»', "-–—‐‑")
_SAME = {char: alike[0] for alike in _ALIKE for char in alike}
_MARKS = "*_"
_ELLIPSIS = re.compile(r"\s*(?:\[…\]|\[\.\.\.\]|…|\.\.\.)\s*")
_AROUND = ' \t\r\n"“”„«»*'


def shown(text: str, limit: int) -> tuple[str, str]:
    """What a judge gets of a text: its first two thirds and its last third of `limit` characters, together at most
    `limit`. The second is empty when the text is not cut."""
    if len(text) <= limit:
        return text, ""
    head = limit * 2 // 3
    return text[:head], text[head - limit :]


def find(text: str, quote: str, limit: int) -> list[tuple[int, int]]:
    """Where the quotation stands in what is shown of `text`: start and end of each of its parts, in characters.

    Case, white space, bold marks and the shape of quotation marks and dashes may differ; an ellipsis parts it. Empty
    when one of its parts does not stand there.
    """
    if len(quote) > MAX_QUOTE:
        quote = quote[:MAX_QUOTE].rpartition(" ")[0] or quote[:MAX_QUOTE]
    spans: list[tuple[int, int]] = []
    for words in filter(None, (_plain(piece.strip(_AROUND))[0].strip() for piece in _ELLIPSIS.split(quote))):
        if (span := _find(text, words, limit)) is None:
            return []
        spans.append(span)
    return spans


def _find(text: str, words: str, limit: int) -> tuple[int, int] | None:
    """Where plain `words` stand."""
    # Whole words, where the script has them: "No" is not quoted from "know". A literal, so that the search is linear.
    before, after = ("(?<![a-z])" if words[0].isascii() else ""), ("(?![a-z])" if words[-1].isascii() else "")
    pattern = re.compile(before + re.escape(words) + after)
    head, tail = shown(text, limit)
    for piece, offset in ((head, 0), (tail, len(text) - len(tail))):
        plain, places = _plain(piece)
        if match := pattern.search(plain):
            return places[match.start()] + offset, places[match.end() - 1] + 1 + offset
    return None


@lru_cache(maxsize=16)  # a judge quotes from the same text many times
def _plain(text: str) -> tuple[str, list[int]]:
    """The text without all that may differ, and for each of its characters the place where it stood."""
    out: list[str] = []
    places: list[int] = []
    for place, char in enumerate(text):
        plain = " " if char.isspace() else _SAME.get(char) or char.casefold()
        if char in _MARKS or (plain == " " and out[-1:] == [" "]):
            continue
        out.append(plain)
        places += [place] * len(plain)
    return "".join(out), places
