"""One automaton over all phrases of all lexicons; finds hits in text that arrives in any pieces.

Knows phrases and places, not what they mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ahocorasick

from demur.classifier.fold import plain
from demur.classifier.grammar import Step
from demur.classifier.lexicon import BEYOND_HEAD, Rule

#: Characters from the start of the answer that are read closely. A model that declines does so early; own choice,
#: between the 400 characters that carry most of the evidence and the cost of reading more.
HEAD = 1400
#: Hits kept beyond the head, of the rules that may stand there: so a text of nothing but hits stays cheap and bounded.
KEEP_BEYOND = 512
#: Characters that are cleaned and scanned at once.
BLOCK = 4096

#: What stands before the space before a sentence, near enough; `signals` looks closely.
_BREAKS = frozenset(".!?:;,-)\"' ")


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
    opens: bool  # it counts at the start of a sentence only
    steps: tuple[Step, ...]


class Matcher:
    """The compiled rules. Immutable after building; shared by every session."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        table: dict[str, list[_Entry]] = {}
        for number, rule in enumerate(rules):
            for unless, patterns in ((False, rule.phrases), (True, rule.unless)):
                opens = rule.where == "start" and not unless
                for pattern in patterns:
                    closed = _Entry(number, unless, False, opens, pattern.steps)
                    opened = _Entry(number, unless, True, opens, pattern.steps)
                    for text in pattern.anchors:
                        table.setdefault(text, []).append(opened if text in pattern.open_ended else closed)
        self.automaton = ahocorasick.Automaton()
        for text, entries in table.items():
            beyond = any(rules[entry.rule].where in BEYOND_HEAD for entry in entries)
            self.automaton.add_word(text, (len(text), entries, beyond))
        self.automaton.make_automaton()

    def scan(self) -> Scan:
        return Scan(self)


class Scan:
    """The answer's text, block by block. `finish` gives the hits by place, with the cleaned text they refer to."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._parts: list[str] = []
        self._length = 0
        self.blocks: list[tuple[int, int]] = [(0, 0)]  # as `OffsetMap` wants them
        self._found: list[tuple[int, tuple[int, list[_Entry], bool]]] = []
        self._beyond = 0
        self._iter: Any = None  # the automaton's own iterator; it carries its state from block to block

    def run(self, text: str) -> None:
        """The next piece; any cut gives the same hits, but starting the automaton costs more than a short text does."""
        for at in range(0, len(text), BLOCK):
            self._block(text[at : at + BLOCK])

    def _block(self, text: str) -> None:
        block = plain(text)
        self._parts.append(block)
        self._length += len(block)
        self.blocks.append((self._length, self.blocks[-1][1] + len(text)))
        if not block:
            return
        if self._iter is None:
            self._iter = self._matcher.automaton.iter(block)
        else:
            self._iter.set(block, False)
        if self._length <= HEAD:
            self._found += self._iter
            return
        for hit in self._iter:
            if hit[0] < HEAD:
                self._found.append(hit)
            elif hit[1][2] and self._beyond < KEEP_BEYOND:
                self._found.append(hit)
                self._beyond += 1

    def finish(self) -> tuple[str, list[Hit]]:
        text = "".join(self._parts)
        self._parts = [text]
        hits: list[Hit] = []
        size = len(text)
        for last, (length, entries, _) in self._found:
            start, end = last + 1 - length, last + 1
            if start and _wordish(text[start - 1]) and _wordish(text[start]):
                continue
            goes_on = end < size and _goes_on(text, end) and _wordish(text[last])
            within = start > 1 and text[start - 2] not in _BREAKS
            for entry in entries:
                if (goes_on and not entry.open_ended) or (within and entry.opens):
                    continue
                stop = _follow(text, end, entry.steps) if entry.steps else end
                if stop >= 0:
                    hits.append(Hit(entry.rule, start, stop, entry.unless))
        hits.sort(key=_place)
        return text, hits


def _place(hit: Hit) -> tuple[int, int]:
    return hit.start, -hit.end


def _follow(text: str, at: int, steps: tuple[Step, ...]) -> int:
    """Where the last of `steps` ends after `at`; -1 if one does not follow."""
    for step in steps:
        at = _step(text, at, step)
        if at < 0:
            break
    return at


def _step(text: str, at: int, step: Step) -> int:
    """Where one of the step's phrases ends, after `least` to `most` words of the same sentence; -1 if none does."""
    skipped, least, most, size, beginnings = 0, step.least, step.most, step.size, step.beginnings
    while True:
        while text[at : at + 1] == " ":
            at += 1
        if skipped >= least and text[at : at + size] in beginnings:
            for phrase in beginnings[text[at : at + size]]:
                if text.startswith(phrase, at):
                    end = at + len(phrase)
                    if phrase in step.open_ended or not _goes_on(text, end):
                        return end
        skipped += 1
        if skipped > most:
            return -1
        stop = text.find(" ", at)
        if stop < 0 or stop - at > 40 or text[stop - 1] in ".!?:;":
            return -1
        at = stop


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
