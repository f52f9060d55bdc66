"""One automaton over all phrases of all lexicons; finds hits in text that arrives in any pieces.

Knows phrases and places, not what they mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ahocorasick

from demur.classifier.fold import clean, fold
from demur.classifier.grammar import Pattern, Phrase, Step
from demur.classifier.lexicon import Rule

#: Pieces are gathered up to this many characters before the automaton runs: starting it costs more than a token does.
BLOCK = 512
#: Hits kept per rule, the first ones and the last ones: so a text of nothing but hits stays cheap and bounded.
KEEP_FIRST, KEEP_LAST = 24, 8


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule's phrase at `start` to `end` of the cleaned text. `unless`: it is a phrase that voids the rule."""

    rule: int
    start: int
    end: int
    unless: bool = False


@dataclass(frozen=True, slots=True)
class _Entry:
    rule: int
    unless: bool
    length: int
    open_start: bool
    open_end: bool
    steps: tuple[Step, ...]


class Matcher:
    """The compiled rules. Immutable after building; shared by every session."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        table: dict[str, list[_Entry]] = {}
        for number, rule in enumerate(rules):
            for unless, patterns in ((False, rule.phrases), (True, rule.unless)):
                for pattern in patterns:
                    self._add(table, number, unless, pattern)
        self.automaton = ahocorasick.Automaton()
        for text, entries in table.items():
            self.automaton.add_word(text, tuple(entries))
        self.automaton.make_automaton()
        self.longest = max(map(len, table), default=1)

    @staticmethod
    def _add(table: dict[str, list[_Entry]], rule: int, unless: bool, pattern: Pattern) -> None:
        for phrase in pattern.anchors:
            text = phrase.text
            entry = _Entry(rule, unless, len(text), not _wordish(text[0]), phrase.open_end or not _wordish(text[-1]), pattern.steps)
            table.setdefault(text, []).append(entry)

    def scan(self) -> Scan:
        return Scan(self)


class Scan:
    """One text, fed in any pieces. `finish` gives the hits in order of place, with the cleaned text they refer to."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._waiting: list[str] = []
        self._waiting_length = 0
        self._blocks: list[str] = []
        self._length = 0
        self._found: list[tuple[int, tuple[_Entry, ...]]] = []
        self._iter = None

    def feed(self, piece: str) -> None:
        self._waiting.append(piece)
        self._waiting_length += len(piece)
        if self._waiting_length >= BLOCK:
            self._run()

    def _run(self) -> None:
        block = fold(clean("".join(self._waiting)))
        self._waiting, self._waiting_length = [], 0
        if not block:
            return
        self._blocks.append(block)
        if self._iter is None:
            self._iter = self._matcher.automaton.iter(block)
        else:
            self._iter.set(block, False)
        self._found += self._iter
        self._length += len(block)

    def finish(self) -> tuple[str, list[Hit]]:
        if self._waiting:
            self._run()
        text = "".join(self._blocks)
        self._blocks = [text]
        hits = [hit for last, entries in self._found for entry in entries if (hit := _check(text, last + 1, entry))]
        hits.sort(key=lambda hit: (hit.start, -hit.end))
        return text, hits


def _check(text: str, end: int, entry: _Entry) -> Hit | None:
    """The hit, if words begin and end where the phrase does and the steps follow."""
    start = end - entry.length
    if not entry.open_start and start and _wordish(text[start - 1]) :
        return None
    if not entry.open_end and _goes_on(text, end):
        return None
    for step in entry.steps:
        end = _follow(text, end, step)
        if end < 0:
            return None
    return Hit(entry.rule, start, end, entry.unless)


def _follow(text: str, at: int, step: Step) -> int:
    """Where one of the step's phrases ends, after `least` to `most` words of the same sentence; -1 if none does."""
    for skipped in range(step.most + 1):
        while at < len(text) and text[at] == " ":
            at += 1
        if skipped >= step.least and text.startswith(step.texts, at):
            for phrase in step.phrases:
                if text.startswith(phrase.text, at) and (phrase.open_end or not _goes_on(text, at + len(phrase.text))):
                    return at + len(phrase.text)
        stop = text.find(" ", at)
        if stop < 0 or stop - at > 40 or text[stop - 1] in ".!?:;":
            return -1
        at = stop
    return -1


def _wordish(char: str) -> bool:
    """Whether a word could go on over `char`; scripts written without spaces have no such edges."""
    return char.isalnum() and char < "\u1100"


def _goes_on(text: str, at: int) -> bool:
    if at >= len(text):
        return False
    char = text[at]
    if char == "'":
        return at + 1 < len(text) and text[at + 1].isalpha()
    return _wordish(char)
