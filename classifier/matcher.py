"""One automaton over all phrases of all lexicons; finds hits in text that arrives in any pieces.

Knows phrases and places, not what they mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

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


class Hit(NamedTuple):
    """A rule's phrase at `start` to `end` of the cleaned text."""

    rule: int
    start: int
    end: int


class _Entry(NamedTuple):
    """What an anchor stands for: a pattern of a rule."""

    rule: int
    open_ended: bool
    opens: bool  # it counts at the start of a sentence only
    steps: tuple[Step, ...]


class _Anchor:
    """A text that the automaton finds, and the patterns that begin with it."""

    __slots__ = ("everywhere", "far", "length", "phrases", "unless")

    def __init__(self, length: int) -> None:
        self.length = length
        self.phrases: list[_Entry] = []
        self.everywhere: list[_Entry] = []  # those of `phrases` whose rule may stand beyond the opening
        self.unless: dict[int, list[_Entry]] = {}  # by rule
        self.far = False  # whether to keep it beyond the head


class Matcher:
    """The compiled rules. Immutable after building; shared by every session."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.automaton = ahocorasick.Automaton()
        for number, rule in enumerate(rules):
            for pattern in rule.phrases:
                for text in pattern.anchors:
                    entry = _Entry(number, text in pattern.open_ended, rule.where == "start", pattern.steps)
                    anchor = self._anchor(text, rule)
                    anchor.phrases.append(entry)
                    if rule.where in BEYOND_HEAD:
                        anchor.everywhere.append(entry)
            for pattern in rule.unless:
                for text in pattern.anchors:
                    entry = _Entry(number, text in pattern.open_ended, False, pattern.steps)
                    self._anchor(text, rule).unless.setdefault(number, []).append(entry)
        self.automaton.make_automaton()

    def _anchor(self, text: str, rule: Rule) -> _Anchor:
        anchor: _Anchor | None = self.automaton.get(text, None)
        if anchor is None:
            anchor = _Anchor(len(text))
            self.automaton.add_word(text, anchor)
        anchor.far = anchor.far or rule.where in BEYOND_HEAD
        return anchor

    def scan(self) -> Scan:
        return Scan(self)


class Scan:
    """The answer's text, piece by piece. `hits` and `voids` then look closely at what the automaton found."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._parts: list[str] = []
        self.length = 0
        self.blocks: list[tuple[int, int]] = [(0, 0)]  # as `OffsetMap` wants them
        self._found: list[tuple[int, _Anchor]] = []  # with the place of the last character
        self._beyond = 0
        self._iter: Any = None  # the automaton's own iterator; it carries its state from block to block

    def run(self, text: str) -> None:
        """The next piece; any cut gives the same hits, but starting the automaton costs more than a short text does."""
        for at in range(0, len(text), BLOCK):
            self._block(text[at : at + BLOCK])

    def _block(self, text: str) -> None:
        block = plain(text)
        self._parts.append(block)
        self.length += len(block)
        self.blocks.append((self.length, self.blocks[-1][1] + len(text)))
        if not block:
            return
        if self._iter is None:
            self._iter = self._matcher.automaton.iter(block)
        else:
            self._iter.set(block, False)
        if self.length <= HEAD:
            self._found += self._iter
            return
        for found in self._iter:
            if found[0] < HEAD:
                self._found.append(found)
            elif found[1].far and self._beyond < KEEP_BEYOND:
                self._found.append(found)
                self._beyond += 1

    def hits(self, since: int = 0, until: int | None = None, *, everywhere: bool = False) -> list[Hit]:
        """The hits by place, the longest first, of which the first character stands at `since` to `until` (exclusive).

        `everywhere`: only of rules that may stand beyond the opening.
        """
        out: list[Hit] = []
        if not self._found:
            return out
        text, until = self._text(), self.length if until is None else until
        for last, anchor in self._found:
            entries = anchor.everywhere if everywhere else anchor.phrases
            start = last + 1 - anchor.length
            if entries and since <= start < until:
                out += _closely(text, start, last + 1, entries)
        out.sort(key=_place)
        return out

    def voids(self, rule: int) -> list[int]:
        """Where phrases begin that void a hit of `rule`."""
        out: list[int] = []
        for last, anchor in self._found:
            if rule in anchor.unless:
                start = last + 1 - anchor.length
                if _closely(self._text(), start, last + 1, anchor.unless[rule]):
                    out.append(start)
        return out

    def _text(self) -> str:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0]


def _closely(text: str, start: int, end: int, entries: list[_Entry]) -> list[Hit]:
    """The hits among `entries`, whose anchor stands at `start` to `end`: word edges and the steps that follow."""
    if start and _wordish(text[start - 1]) and _wordish(text[start]):
        return []
    hits = []
    goes_on = end < len(text) and _goes_on(text, end) and _wordish(text[end - 1])
    within = start > 1 and text[start - 2] not in _BREAKS
    for rule, open_ended, opens, steps in entries:
        if (open_ended or not goes_on) and not (opens and within):
            stop = _follow(text, end, steps) if steps else end
            if stop >= 0:
                hits.append(Hit(rule, start, stop))
    return hits


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
