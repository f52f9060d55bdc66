"""The learned signal: how far the wording of the beginning is that of refusals, in log odds.

A linear model over the word 1- to 3-grams of the first characters: each n-gram is a hash, each hash has a number, the
numbers are added. They stand in `wording.txt` with their origin; `make fit` makes them anew. It holds no text, names
the words that carried it, and never flags a response by itself (see `decide`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from operator import itemgetter
from zlib import crc32

from demur.classifier.fold import fold
from demur.classifier.verdict import Span

#: Characters that are read. More adds next to nothing (measured) and costs time.
READ = 600
#: Words of the longest n-gram. What stands before the first word counts as one: how a reply begins tells much.
LONGEST = 3
_START = b"^ "
#: What one unit of the numbers in the file stands for, in log odds.
UNIT = 1 / 256
#: Everything in ASCII that ends a word.
_APART = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "'")}
_MARKS = "“”—–…•"
#: Log odds beyond which it is only more of the same.
_LIMIT = 6.0
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
#: Words whose hashes are kept.
_REMEMBERED = 20_000
#: N-grams that are shown.
_SHOWN = 3


class Wording:
    """`numbers`: hash of an n-gram → what it adds, in `UNIT`s; `languages`: those it was fitted on."""

    def __init__(self, numbers: Mapping[int, int], languages: Iterable[str]) -> None:
        self.numbers = dict(numbers)
        self.languages = frozenset(languages)
        self._seen: dict[str, tuple[bytes, int, int | None]] = {}

    def score(self, words: Sequence[str]) -> float:
        """The log odds that a response which begins with `words` (see `opening_words`) declines; 0: no idea.

        A longer n-gram is looked up only where the shorter one that it begins with is known.
        """
        get, seen, total = self.numbers.get, self._seen, 0
        one: int | None = crc32(_START)  # hash of the n-gram that ends with the word before, if known
        two: int | None = None
        for word in words:
            data, hash, number = seen.get(word) or self._remember(word)
            if two is not None:
                total += get(crc32(data, two), 0)
            two = None
            if one is not None:
                pair = crc32(data, one)
                known = get(pair)
                if known is not None:
                    total += known
                    two = pair
            if number is None:
                one = None
            else:
                total += number
                one = hash
        return max(-_LIMIT, min(_LIMIT, total * UNIT))

    def _remember(self, word: str) -> tuple[bytes, int, int | None]:
        """What is known of a word; kept for the next time, as long as there is room."""
        data = word.encode("utf-8", "replace") + b" "
        hash = crc32(data)
        found = data, hash, self.numbers.get(hash)
        if len(self._seen) < _REMEMBERED:
            self._seen[word] = found
        return found

    def _speaking(self, words: Sequence[str]) -> list[tuple[int, int, int]]:
        """The n-grams that speak for a refusal: what each adds, its first and its last word.

        The walk is that of `score`, which every text takes and which is kept free of this.
        """
        get, seen, out = self.numbers.get, self._seen, []
        one: int | None = crc32(_START)
        two: int | None = None
        for at, word in enumerate(words):
            data, hash, number = seen.get(word) or self._remember(word)
            if two is not None and (added := get(crc32(data, two), 0)) > 0:
                out.append((added, max(0, at - 2), at))
            two = None
            if one is not None:
                pair = crc32(data, one)
                if (known := get(pair)) is not None:
                    two = pair
                    if known > 0:
                        out.append((known, max(0, at - 1), at))
            one = None
            if number is not None:
                one = hash
                if number > 0:
                    out.append((number, at, at))
        return out

    def spans(self, words: Sequence[str], text: str, start: int, end: int) -> tuple[Span, ...]:
        """The n-grams that spoke most for a refusal, in order of place; neighbours are one. `words` are the
        `opening_words` of what stands at `start` to `end`."""
        found = self._speaking(words)
        found.sort(key=itemgetter(0), reverse=True)
        kept: list[tuple[int, int]] = []
        for _, first, last in found:
            if all(last < other_first or first > other_last for other_first, other_last in kept):
                kept.append((first, last))
                if len(kept) == _SHOWN:
                    break
        kept.sort()
        places = _places(words[: kept[-1][1] + 1] if kept else (), fold(text[start : min(end, start + READ)]))
        merged: list[tuple[int, int]] = []
        for first, last in kept:
            a, b = start + places[first], start + places[last] + len(words[last])
            if merged and a - merged[-1][1] <= 1:
                merged[-1] = merged[-1][0], b
            else:
                merged.append((a, b))
        return tuple([Span(a, b, text[a:b]) for a, b in merged])


def opening_words(text: str, start: int, end: int) -> list[str]:
    """The folded words of the first characters of what stands at `start` to `end`."""
    piece = fold(text[start : min(end, start + READ)])
    if not piece.isascii():
        for mark in _MARKS:
            piece = piece.replace(mark, " ")
    if piece.isascii() and _apostrophes_are_inside(piece):  # sooner, and the same
        return piece.translate(_APART).split()
    return _WORD.findall(piece)


def _places(words: Sequence[str], text: str) -> list[int]:
    """Where `words` begin in `text`, of which they are the first."""
    places, at = [], 0
    for word in words:
        at = text.find(word, at)
        places.append(at)
        at += len(word)
    return places


def _apostrophes_are_inside(text: str) -> bool:
    at = text.find("'")
    while at >= 0:
        if not (text[at - 1 : at].isalnum() and text[at + 1 : at + 2].isalnum()):
            return False
        at = text.find("'", at + 1)
    return True


def ngrams(text: str, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The n-grams that `Wording.score` adds up: their hashes, and their places in `text`."""
    piece = fold(text[start : min(end, start + READ)])
    words = [(match.group().encode("utf-8", "replace") + b" ", *match.span()) for match in _WORD.finditer(piece)]
    hash = crc32(_START)
    for word, _, b in words[: LONGEST - 1]:
        hash = crc32(word, hash)
        yield hash, start + words[0][1], start + b
    for i, (_, a, _) in enumerate(words):
        hash = 0
        for word, _, b in words[i : i + LONGEST]:
            hash = crc32(word, hash)
            yield hash, start + a, start + b


@cache
def load_wording() -> Wording:
    """The numbers that ship."""
    return read_wording(files("demur.classifier").joinpath("wording.txt").read_text("ascii"))


def read_wording(text: str) -> Wording:
    """From the lines of a file: `# languages: en ko`, other remarks, then a hash (hexadecimal) and a number a line."""
    languages: list[str] = []
    numbers: dict[int, int] = {}
    for line in text.splitlines():
        if line.startswith("# languages:"):
            languages = line.split()[2:]
        elif line and not line.startswith("#"):
            hash, number = line.split()
            numbers[int(hash, 16)] = int(number)
    return Wording(numbers, languages)
