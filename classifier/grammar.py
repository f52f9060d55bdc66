"""The pattern grammar of the lexicons: small enough that every pattern is a finite list of phrases.

    I (can't|cannot) help          one of
    I [really] can't               with or without
    I {cannot} help                a named macro of the lexicon file
    I {cannot} <0-3> that          up to three words between two literal parts
    refus~                         the last word may go on ("refused", "refusing")

There is no repetition, so matching stays linear whatever a model writes. Nothing here reads user text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from demur.classifier.fold import fold

#: Phrases one segment may expand into: beyond it a rule is hard to review and the automaton slow to build.
MAX_EXPANSIONS = 4000
MAX_GAP = 8


class GrammarError(ValueError):
    """A pattern that the grammar refuses; says what and at which character."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A literal text; `open_end`: its last word may go on."""

    text: str
    open_end: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """After the part before: `least` to `most` words, then one of `phrases`."""

    least: int
    most: int
    phrases: tuple[Phrase, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """The expanded pattern: one of `anchors` (found by the automaton), then every step in order."""

    anchors: tuple[Phrase, ...]
    steps: tuple[Step, ...] = ()


def expand(source: str, macros: Mapping[str, str] | None = None) -> Pattern:
    """The pattern `source` as phrases. Raises GrammarError with the position of what is wrong."""
    segments: list[tuple[str, ...]] = []
    gaps: list[tuple[int, int]] = []
    reader = _Reader(source, macros or {}, ())
    while True:
        segments.append(_tidy(reader.sequence(stop="<"), source))
        if reader.at_end():
            break
        gaps.append(reader.gap())
    phrases = [tuple(_phrase(text, source) for text in segment) for segment in segments]
    steps = tuple(Step(least, most, p, tuple(x.text for x in p)) for (least, most), p in zip(gaps, phrases[1:], strict=True))
    return Pattern(phrases[0], steps)


class _Reader:
    """A recursive-descent reader over one pattern; every method returns the texts that its part can stand for."""

    def __init__(self, source: str, macros: Mapping[str, str], inside: tuple[str, ...]) -> None:
        self.source, self.macros, self.inside, self.at = source, macros, inside, 0

    def at_end(self) -> bool:
        return self.at >= len(self.source)

    def sequence(self, stop: str) -> list[str]:
        texts = [""]
        while not self.at_end() and self.source[self.at] not in stop:
            char = self.source[self.at]
            if char == "(":
                part = self.group(")")
            elif char == "[":
                part = [*self.group("]"), ""]
            elif char == "{":
                part = self.macro()
            elif char in ")]}|<>*+?\\":
                raise GrammarError(f"{char!r} at character {self.at} of {self.source!r} has no meaning there")
            else:
                part, self.at = [char], self.at + 1
            if len(texts) * len(part) > MAX_EXPANSIONS:
                raise GrammarError(f"{self.source!r} stands for more than {MAX_EXPANSIONS} phrases")
            texts = [a + b for a in texts for b in part]
        return texts

    def group(self, close: str) -> list[str]:
        opened, self.at = self.at, self.at + 1
        texts: list[str] = []
        while True:
            texts += self.sequence(stop="|" + close)
            if self.at_end():
                raise GrammarError(f"{self.source[opened]!r} at character {opened} of {self.source!r} is never closed")
            self.at += 1
            if self.source[self.at - 1] == close:
                return texts

    def macro(self) -> list[str]:
        end = self.source.find("}", self.at)
        name = self.source[self.at + 1 : end]
        if end < 0 or name not in self.macros:
            raise GrammarError(f"unknown macro at character {self.at} of {self.source!r}")
        if name in self.inside:
            raise GrammarError(f"macro {name!r} contains itself")
        self.at = end + 1
        inner = _Reader(self.macros[name], self.macros, (*self.inside, name))
        return inner.sequence(stop="")

    def gap(self) -> tuple[int, int]:
        end = self.source.find(">", self.at)
        least, dash, most = self.source[self.at + 1 : max(end, self.at)].partition("-")
        if not (dash and least.isdecimal() and most.isdecimal() and int(least) <= int(most) <= MAX_GAP):
            raise GrammarError(f"a gap is <least-most>, at most {MAX_GAP} words: character {self.at} of {self.source!r}")
        self.at = end + 1
        return int(least), int(most)


def _tidy(texts: list[str], source: str) -> tuple[str, ...]:
    """Folded, single-spaced, without the spaces that an absent optional leaves, without doubles."""
    out: dict[str, None] = {}
    for text in texts:
        plain = " ".join(fold(text).split()).replace(" ,", ",").replace(" .", ".")
        if not plain.strip("~ "):
            raise GrammarError(f"{source!r} has a part that can be empty")
        out[plain] = None
    return tuple(out)


def _phrase(text: str, source: str) -> Phrase:
    open_end = text.endswith("~")
    text = text.removesuffix("~")
    if "~" in text:
        raise GrammarError(f"'~' stands only at the end of a part: {source!r}")
    return Phrase(text, open_end)
