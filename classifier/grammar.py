"""The pattern grammar of the lexicons: small enough that every pattern is a finite list of phrases.

    I (can't|cannot) help          one of
    I [really] can't               with or without
    I {cannot} help                a named macro of the lexicon file
    I {cannot} <0-3> that          up to three words between two literal parts
    refus~                         the last word may go on ("refused", "refusing")

There is no repetition, so matching stays linear whatever a model writes. Nothing here reads user text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from demur.classifier.fold import fold_pattern

#: Phrases one segment may expand into: beyond it a rule is hard to review and the automaton slow to build.
MAX_EXPANSIONS = 4000
MAX_GAP = 8
#: Characters of a macro's phrases: macros of macros double in length at every level.
MAX_LENGTH = 2000
#: Characters of an anchor: a shorter one hits all over any text.
MIN_ANCHOR = 2

_GAP = re.compile(r"<([0-9])-([0-9])>")
_LITERAL = re.compile(r"[^()\[\]{}|<>*+?\\]+")


class GrammarError(ValueError):
    """A pattern that the grammar refuses; says what and at which character."""


@dataclass(frozen=True, slots=True)
class Step:
    """After the part before: `least` to `most` words, then one of `texts`. Texts in `open_ended` may go on."""

    least: int
    most: int
    texts: tuple[str, ...]
    open_ended: frozenset[str]


@dataclass(frozen=True, slots=True)
class Pattern:
    """The expanded pattern: one of `anchors` (found by the automaton), then every step in order.

    Anchors in `open_ended` may go on.
    """

    anchors: tuple[str, ...]
    open_ended: frozenset[str] = frozenset()
    steps: tuple[Step, ...] = ()


def expand(source: str, macros: Mapping[str, str] | None = None, known: dict[str, list[str]] | None = None) -> Pattern:
    """The pattern `source` as phrases. Raises GrammarError with the position of what is wrong.

    `known` keeps what macros stand for from one pattern of a file to the next.
    """
    try:
        return _expand(source, macros or {}, {} if known is None else known)
    except RecursionError:
        raise GrammarError("groups or macros stand too deep within each other") from None


def _expand(source: str, macros: Mapping[str, str], known: dict[str, list[str]]) -> Pattern:
    reader = _Reader(fold_pattern(source), macros, known)
    anchors, open_anchors = _tidy(reader.sequence(stop="<"), source)
    if shortest := next((text for text in anchors if len(text) < MIN_ANCHOR), None):
        raise GrammarError(f"{source!r} begins with {shortest!r}: too common to look for")
    steps: list[Step] = []
    while not reader.at_end():
        least, most = reader.gap()
        steps.append(Step(least, most, *_tidy(reader.sequence(stop="<"), source)))
    return Pattern(anchors, open_anchors, tuple(steps))


class _Reader:
    """A recursive-descent reader over one pattern; every method returns the texts that its part can stand for."""

    def __init__(
        self, source: str, macros: Mapping[str, str], known: dict[str, list[str]], inside: tuple[str, ...] = ()
    ) -> None:
        self.source, self.macros, self.known, self.inside, self.at = source, macros, known, inside, 0

    def at_end(self) -> bool:
        return self.at >= len(self.source)

    def sequence(self, stop: str) -> list[str]:
        texts = [""]
        while not self.at_end() and self.source[self.at] not in stop:
            char = self.source[self.at]
            if literal := _LITERAL.match(self.source, self.at):
                part, self.at = [literal.group()], literal.end()
            elif char == "(":
                part = self.group(")")
            elif char == "[":
                part = [*self.group("]"), ""]
            elif char == "{":
                part = self.macro()
            else:
                raise GrammarError(f"{char!r} at character {self.at} of {self.source!r} has no meaning there")
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
        if name not in self.known:
            texts = _Reader(fold_pattern(self.macros[name]), self.macros, self.known, (*self.inside, name)).sequence(
                stop=""
            )
            if max(map(len, texts)) > MAX_LENGTH:
                raise GrammarError(f"macro {name!r} stands for a phrase of more than {MAX_LENGTH} characters")
            self.known[name] = texts
        return self.known[name]

    def gap(self) -> tuple[int, int]:
        found = _GAP.match(self.source, self.at)
        if found is None or not int(found[1]) <= int(found[2]) <= MAX_GAP:
            raise GrammarError(
                f"a gap is <least-most>, at most {MAX_GAP} words: character {self.at} of {self.source!r}"
            )
        self.at = found.end()
        return int(found[1]), int(found[2])


def _tidy(texts: list[str], source: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """The texts single-spaced, without doubles and without their "~"; and those that had one."""
    out: dict[str, None] = {}
    open_ended: set[str] = set()
    for text in texts:
        plain = " ".join(text.split()).replace(" ,", ",").replace(" .", ".")
        if "~" in plain:
            plain = plain.removesuffix("~")
            open_ended.add(plain)
            if "~" in plain:
                raise GrammarError(f"'~' stands only at the end of a part: {source!r}")
        if not plain:
            raise GrammarError(f"{source!r} has a part that can be empty")
        if "_" in plain:
            raise GrammarError(f"'_' is dropped from every text, so {source!r} is never found")
        out[plain] = None
    return tuple(out), frozenset(open_ended)
