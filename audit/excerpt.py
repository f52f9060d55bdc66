"""A text cut down to its evidence and what surrounds that, in pieces, for whatever shows it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a text; `mark`: it is evidence, `gap`: something is left out before it."""

    text: str
    mark: bool = False
    gap: bool = False


def excerpt(text: str, spans: Iterable[tuple[int, int]], *, whole: int, around: int) -> list[Part]:
    """The pieces of `text` in order, the `spans` (offsets, end exclusive; those outside are left out) marked.

    A text of more than `whole` characters is cut down to whole words, about `around` characters on either side of each
    span; without any, to its beginning. The last piece is empty where the end is left out.
    """
    marks = merged((start, end) for start, end in spans if 0 <= start < end <= len(text))
    keep = [(0, len(text))]
    if len(text) > whole:
        near = merged((max(0, start - around), min(len(text), end, start + whole) + around) for start, end in marks)
        keep = merged(to_words(text, *part) for part in near or [(0, whole // 2)])
    out = [part for start, end in keep for part in _split(text, start, min(end, len(text)), marks)]
    if keep[-1][1] < len(text):
        out.append(Part("", gap=True))
    return out


def _split(text: str, start: int, end: int, marks: Sequence[tuple[int, int]]) -> list[Part]:
    edges = sorted({start, end, *(edge for mark in marks for edge in mark if start < edge < end)})
    return [
        Part(text[left:right], any(a <= left and right <= b for a, b in marks), gap=left == start > 0)
        for left, right in pairwise(edges)
    ]


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges in order; those that touch are one."""
    out: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out


def to_words(text: str, start: int, end: int) -> tuple[int, int]:
    """The part, and the rest of the words that it begins and ends in."""
    while 0 < start < len(text) and _inside_word(text[start - 1]) and _inside_word(text[start]):
        start -= 1
    while 0 < end < len(text) and _inside_word(text[end - 1]) and _inside_word(text[end]):
        end += 1
    return start, end


def _inside_word(char: str) -> bool:
    # From U+2E80 on stand scripts that write no spaces between words.
    return (char.isalnum() and ord(char) < 0x2E80) or char in "'’"
