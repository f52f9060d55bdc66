"""One automaton over all phrases of all lexicons; finds hits in text that arrives in any pieces.

Knows phrases and places, not what they mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ahocorasick

from demur.classifier.fold import clean, fold
from demur.classifier.grammar import Step
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
    """What an anchor stands for: a pattern of a rule."""

    rule: int
    unless: bool
    open_ended: bool
    steps: tuple[Step, ...]


class Matcher:
    """The compiled rules. Immutable after building; shared by every session."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        table: dict[str, list[_Entry]] = {}
        for number, rule in enumerate(rules):
            for unless, patterns in ((False, rule.phrases), (True, rule.unless)):
                for pattern in patterns:
                    closed = _Entry(number, unless, False, pattern.steps)
                    opened = _Entry(number, unless, True, pattern.steps)
                    for text in pattern.anchors:
                        table.setdefault(text, []).append(opened if text in pattern.open_ended else closed)
        self.automaton = ahocorasick.Automaton()
        for text, entries in table.items():
            self.automaton.add_word(text, (len(text), entries))
        self.automaton.make_automaton()

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
        self._found: list[tuple[int, tuple[int, list[_Entry]]]] = []
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
        hits: list[Hit] = []
        for last, (length, entries) in self._found:
            start, end = last + 1 - length, last + 1
            if start and _wordish(text[start - 1]) and _wordish(text[start]):
                continue
            goes_on = _goes_on(text, end) and _wordish(text[last])
            for entry in entries:
                if entry.open_ended or not goes_on:
                    stop = _follow_all(text, end, entry.steps)
                    if stop >= 0:
                        hits.append(Hit(entry.rule, start, stop, entry.unless))
        hits.sort(key=lambda hit: (hit.start, -hit.end))
        return text, hits


def _follow_all(text: str, at: int, steps: tuple[Step, ...]) -> int:
    """Where the last of `steps` ends after `at`; -1 if one does not follow."""
    for step in steps:
        at = _follow(text, at, step)
        if at < 0:
            break
    return at


def _follow(text: str, at: int, step: Step) -> int:
    """Where one of the step's phrases ends, after `least` to `most` words of the same sentence; -1 if none does."""
    for skipped in range(step.most + 1):
        while at < len(text) and text[at] == " ":
            at += 1
        if skipped >= step.least and text.startswith(step.texts, at):
            for phrase in step.texts:
                end = at + len(phrase)
                if text.startswith(phrase, at) and (phrase in step.open_ended or not _goes_on(text, end)):
                    return end
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
