"""Long texts cut for a judge, and the words that it quotes found again in the whole."""

from __future__ import annotations

import re

#: Quotations beyond these bounds are no evidence but a copy; they also bound the search.
MAX_QUOTES = 40
MAX_QUOTE = 400

# Models set quotation marks, apostrophes and dashes of their own, and leave out what is bold.
_ALIKE = ("'’‘ʼ`´", '"“”„«»', "-–—‐‑")
_CLASSES = {char: f"[{re.escape(alike)}]" for alike in _ALIKE for char in alike}
_GAP = r"[*_]*\s+[*_]*"
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
    spans: list[tuple[int, int]] = []
    for part in filter(None, (piece.strip(_AROUND) for piece in _ELLIPSIS.split(quote[:MAX_QUOTE]))):
        if (span := _find(text, part, limit)) is None:
            return []
        spans.append(span)
    return spans


def _find(text: str, part: str, limit: int) -> tuple[int, int] | None:
    # Whole words, where the script has them: "No" is not quoted from "know".
    before, after = ("(?<![A-Za-z])" if part[0].isascii() else ""), ("(?![A-Za-z])" if part[-1].isascii() else "")
    pattern = re.compile(before + _GAP.join(map(_word, part.split())) + after, re.IGNORECASE)
    head, tail = shown(text, limit)
    for piece, offset in ((head, 0), (tail, len(text) - len(tail))):
        if match := pattern.search(piece):
            return match.start() + offset, match.end() + offset
    return None


def _word(word: str) -> str:
    return "".join(_CLASSES.get(char) or re.escape(char) for char in word)
