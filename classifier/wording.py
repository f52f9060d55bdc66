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
#: Log odds beyond which it is only more of the same.
_LIMIT = 6.0
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
#: N-grams that are shown.
_SHOWN = 3


class Wording:
    """`numbers`: hash of an n-gram → what it adds, in `UNIT`s; `languages`: those it was fitted on."""

    def __init__(self, numbers: Mapping[int, int], languages: Iterable[str]) -> None:
        self.numbers = dict(numbers)
        self.languages = frozenset(languages)

    def score(self, words: Sequence[str]) -> float:
        """The log odds that a response which begins with `words` (see `opening_words`) declines; 0: no idea."""
        get, total = self.numbers.get, 0
        one, two = crc32(_START), 0  # hashes of the n-grams that end with the word before
        for word in words:
            data = word.encode("utf-8", "replace") + b" "
            three = crc32(data, two) if two else 0
            two = crc32(data, one)
            one = crc32(data)
            total += get(one, 0) + get(two, 0) + get(three, 0)
        return max(-_LIMIT, min(_LIMIT, total * UNIT))

    def spans(self, text: str, start: int, end: int) -> tuple[Span, ...]:
        """The n-grams that spoke most for a refusal, in order of place; neighbours are one."""
        found = sorted(
            ((self.numbers.get(hash, 0), a, b) for hash, a, b in ngrams(text, start, end)), key=lambda one: -one[0]
        )
        kept: list[tuple[int, int]] = []
        for number, a, b in found:
            if number <= 0 or len(kept) == _SHOWN:
                break
            if all(b <= other_a or a >= other_b for other_a, other_b in kept):
                kept.append((a, b))
        merged: list[tuple[int, int]] = []
        for a, b in sorted(kept):
            if merged and a - merged[-1][1] <= 1:
                merged[-1] = merged[-1][0], b
            else:
                merged.append((a, b))
        return tuple(Span(a, b, text[a:b]) for a, b in merged)


def opening_words(text: str, start: int, end: int) -> list[str]:
    """The folded words of the first characters of what stands at `start` to `end`."""
    return _WORD.findall(fold(text[start : min(end, start + READ)]))


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
