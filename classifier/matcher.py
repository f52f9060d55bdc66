"""One automaton over all phrases of all lexicons; finds hits in text that arrives in any pieces.

Knows phrases and places, not what they mean.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, Protocol

import ahocorasick_rs

from demur.classifier.fold import plain, plain_and_narrow
from demur.classifier.grammar import Pattern, Step
from demur.classifier.lexicon import BEYOND_HEAD, OPENS

#: Characters from the start of the answer that are read closely. A model that declines does so early; own choice,
#: between the 400 characters that carry most of the evidence and the cost of reading more.
HEAD = 1400
#: Hits kept beyond the head, of the rules that may stand there: so a text of nothing but hits stays cheap and bounded.
KEEP_BEYOND = 512
#: Of an anchor that stands over and over in a part of a text, so many of the first and of the last are looked at.
OFTEN = 16
#: Characters that are cleaned and scanned at once.
BLOCK = 4096

#: What ends a gap when a word ends with it; so does a longer word (characters).
_STOPS = frozenset(".!?:;。！？：；।؟")
_LONGEST_WORD = 40
#: Signs that stand within words (vowels of Indian scripts, accents of their own), though they are no letters.
_MARKS = frozenset(char for char in map(chr, range(0x300, 0x1100)) if unicodedata.category(char) in ("Mn", "Mc"))
#: The place of what was found.
_LAST = itemgetter(0)
#: Parts sentences: no phrase holds it.
_NUL = "\0"
_SURROGATE = re.compile("[\ud800-\udfff]")
#: Kana and Han stand between these, full-width marks between the others; Hangul, after them, is written with spaces.
_UNSPACED, _SPACED_AGAIN = "\u2e80", "\uac00"
_FULL_WIDTH, _HALF_WIDTH = "\uff01", "\uff61"
_UNSPACED_RE = re.compile("[\u2e80-\uabff\uff01-\uff60]")
_BETWEEN = frozenset("“”‘’…—")
#: What stands before the space before a sentence, near enough; `signals` looks closely.
_BREAKS = frozenset(".!?:;,-)\"' ")
#: Marks after which a sentence follows at once.
_UNSPACED_BREAKS = frozenset("。！？：；，、」』”…")


#: A rule's number, and where its phrase begins and ends in the cleaned text. A plain tuple: there are many.
Hit = tuple[int, int, int]


class _Entry(NamedTuple):
    """What an anchor stands for: a pattern of a rule."""

    rule: int
    open_ended: bool
    opens: bool  # it counts at the start of a sentence only
    steps: tuple[Step, ...]


#: First characters by which a phrase that may follow an anchor is looked up; a shorter phrase by all it has.
_KEY = 3

#: Where the word at a place of a text ends, if another may follow.
_Past = Callable[[str, int], int]
#: A pattern, its first step, and one of the phrases of that step.
_Way = tuple[_Entry, Step, str]


class _Patterns:
    """Patterns that begin with one anchor, ready to be followed all at once."""

    __slots__ = ("begins", "complete", "most", "open_only", "opens", "ways")

    def __init__(self, entries: Sequence[_Entry]) -> None:
        self.complete = [entry for entry in entries if not entry.steps]
        self.opens = any(entry.opens for entry in entries)
        self.open_only = all(entry.opens for entry in entries)
        self.most = max((entry.steps[0].most for entry in entries if entry.steps), default=-1)
        ways: dict[int, dict[str, list[_Way]]] = {}
        for entry in entries:
            for step in entry.steps[:1]:
                for text in step.texts:
                    ways.setdefault(min(len(text), _KEY), {}).setdefault(text[:_KEY], []).append((entry, step, text))
        #: What may follow, by its first characters; those that have most of them first.
        self.ways = sorted(ways.items(), reverse=True)
        #: What the word at which it begins begins with, by the same number of characters.
        self.begins = [(size, frozenset(key.split(" ")[0] for key in keys)) for size, keys in self.ways]


class _Anchor:
    """A text that an automaton finds, with the patterns that begin with it."""

    __slots__ = ("everywhere", "length", "phrases")

    def __init__(self, length: int, entries: Sequence[_Entry], far: frozenset[int]) -> None:
        everywhere = [entry for entry in entries if entry.rule in far]
        self.length = length
        self.phrases = _Patterns(entries)
        self.everywhere = _Patterns(everywhere) if everywhere else None  # whose rule may stand beyond the opening


class Phrased(Protocol):
    """What the matcher needs of a rule."""

    @property
    def phrases(self) -> tuple[Pattern, ...]: ...
    @property
    def unless(self) -> tuple[Pattern, ...]: ...
    @property
    def where(self) -> str: ...


class _Anchors:
    """One automaton over the anchors of patterns. What an anchor stands for is worked out when it is first found: most
    never are. Their texts, which are most of what a rulebook holds, are not kept."""

    def __init__(self, patterns: Iterable[tuple[int, Pattern, bool]], far: frozenset[int] = frozenset()) -> None:
        entries: dict[str, tuple[_Entry, ...]] = {}
        for rule, pattern, opens in patterns:
            closed, opened = ((_Entry(rule, open_ended, opens, pattern.steps),) for open_ended in (False, True))
            for text in pattern.anchors:
                entries[text] = entries.get(text, ()) + (opened if text in pattern.open_ended else closed)
        self._entries = list(entries.values())
        self._lengths = array("I", map(len, entries))
        self._far = far
        self._made: list[_Anchor | None] = [None] * len(entries)
        self._automaton = ahocorasick_rs.AhoCorasick(list(entries), store_patterns=False)
        self.longest = max(self._lengths, default=1)

    def find(self, text: str, known: int = 0, at: int = 0) -> list[tuple[int, _Anchor]]:
        """The anchors in `text` that end beyond its `known` characters, with the place where each ends, in order of
        that; `text` begins at place `at`."""
        try:
            found = self._automaton.find_matches_as_indexes(text, overlapping=True)
        except UnicodeEncodeError:  # half a pair, as broken JSON has it
            found = self._automaton.find_matches_as_indexes(_SURROGATE.sub("\ufffd", text), overlapping=True)
        made, make = self._made, self._make
        return [(at + end, made[number] or make(number)) for number, _, end in found if end > known]

    def _make(self, number: int) -> _Anchor:
        anchor = self._made[number] = _Anchor(self._lengths[number], self._entries[number], self._far)
        return anchor


class Matcher:
    """The compiled rules, shared by every session."""

    def __init__(self, rules: Sequence[Phrased]) -> None:
        far = frozenset(number for number, rule in enumerate(rules) if rule.where in BEYOND_HEAD)
        phrases = ((n, pattern, rule.where in OPENS) for n, rule in enumerate(rules) for pattern in rule.phrases)
        self.phrases = _Anchors(phrases, far)
        self._unless = _Anchors((n, pattern, False) for n, rule in enumerate(rules) for pattern in rule.unless)

    def scan(self) -> Scan:
        return Scan(self.phrases)

    def voided(self, sentences: Sequence[str]) -> list[set[int]]:
        """For each sentence the rules of which no hit counts in it, since a near miss stands in it."""
        joined = _NUL.join(sentences)
        at_once = joined.count(_NUL) < len(sentences)
        parts = plain(joined).split(_NUL) if at_once else list(map(plain, sentences))
        found = self._unless.find(_NUL.join(parts))
        out: list[set[int]] = [set() for _ in parts]
        since = at = 0
        for part, void in zip(parts, out, strict=True):
            until = since + len(part)
            near: list[tuple[int, _Anchor]] = []
            while at < len(found) and found[at][0] <= until:
                end, anchor = found[at]
                if not _within_word(part, end - since - anchor.length):
                    near.append((end - since, anchor))
                at += 1
            if near:
                hits: list[Hit] = []
                past = _past(part)
                for end, anchor in _some_of_each(near):
                    _closely(part, end - anchor.length, end, anchor.phrases, past, hits)
                void.update([rule for rule, _, _ in hits])
            since = until + 1
        return out


class Scan:
    """The answer's text, piece by piece. `hits` then looks closely at what the automaton found."""

    def __init__(self, anchors: _Anchors) -> None:
        self._anchors = anchors
        self._parts: list[str] = []
        self.length = 0
        self.blocks: list[tuple[int, int]] = [(0, 0)]  # as `OffsetMap` wants them
        self._found: list[tuple[int, _Anchor]] = []  # with the place of the last character
        self._beyond = 0
        self._narrow = True  # no script in it that is written without spaces
        self._tail = ""  # the end of what was scanned, in which an anchor may have begun

    def run(self, text: str) -> None:
        """The next piece; any cut gives the same hits, but a scan looks back by the longest anchor."""
        for at in range(0, len(text), BLOCK):
            self._block(text[at : at + BLOCK])

    def _block(self, text: str) -> None:
        block, narrow = plain_and_narrow(text)
        self._narrow = self._narrow and narrow
        self._parts.append(block)
        self.length += len(block)
        self.blocks.append((self.length, self.blocks[-1][1] + len(text)))
        if not block:
            return
        tail, longest = self._tail, self._anchors.longest
        before, piece = len(tail), tail + block
        self._tail = piece[1 - longest :] if longest > 1 else ""
        found = self._anchors.find(piece, before, self.length - len(piece) - 1)
        if self.length > HEAD:
            near = bisect_left(found, HEAD, key=_LAST)
            far = [one for one in found[near:] if one[1].everywhere][: KEEP_BEYOND - self._beyond]
            self._beyond += len(far)
            found[near:] = far
        self._found += found

    def hits(self, since: int = 0, until: int | None = None, *, everywhere: bool = False) -> list[Hit]:
        """The hits by place, the longest first, of which the first character stands at `since` to `until` (exclusive).

        `everywhere`: only of rules that may stand beyond the opening.
        """
        out: list[Hit] = []
        if not self._found:
            return out
        text, until = self._text(), self.length if until is None else until
        beyond, past = until + self._anchors.longest, _past_word if self._narrow else _past(text)
        found: list[tuple[int, _Anchor]] = []
        for one in self._found[bisect_left(self._found, since, key=_LAST) :]:
            last, anchor = one
            if anchor.everywhere if everywhere else anchor.phrases:
                start = last + 1 - anchor.length
                if since <= start < until:
                    if text[start - 1 : start] == " " or not _within_word(text, start):
                        found.append(one)
                elif last >= beyond:
                    break
        for last, anchor in _some_of_each(found):
            patterns = anchor.everywhere if everywhere else anchor.phrases
            if patterns:
                _closely(text, last + 1 - anchor.length, last + 1, patterns, past, out)
        out.sort(key=_place)
        return out

    def _text(self) -> str:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0]


def _some_of_each(found: list[tuple[int, _Anchor]]) -> list[tuple[int, _Anchor]]:
    """The same, but of what stands there very often only the first and the last."""
    if len(found) - len({anchor for _, anchor in found}) < 2 * OFTEN:  # so none stands there so often
        return found
    total = Counter([anchor for _, anchor in found])
    seen: Counter[_Anchor] = Counter()
    some = []
    for one in found:
        anchor = one[1]
        seen[anchor] += 1
        if seen[anchor] <= OFTEN or seen[anchor] > total[anchor] - OFTEN:
            some.append(one)
    return some


def _closely(text: str, start: int, end: int, patterns: _Patterns, past: _Past, hits: list[Hit]) -> None:
    """Adds the hits of `patterns`, whose anchor stands at `start` to `end`: how its word ends, and the steps that
    follow."""
    count = patterns.most + 1
    places: Iterable[int] = ()
    if count:
        if past is not _past_word or (words := _next_words(text, end, count)) is None:
            places = _walk(text, end, count, past)
        elif _may_follow(words, patterns):
            places = _places(text, end, words)
        elif not patterns.complete:
            return
    within = patterns.opens and start > 1 and text[start - 2] not in _BREAKS and text[start - 1] not in _UNSPACED_BREAKS
    if within and patterns.open_only:
        return
    goes_on = text[end : end + 1] != " " and continues(text, end)  # the space: it is what stands there most often
    hits += [
        (entry.rule, start, end)
        for entry in patterns.complete
        if (entry.open_ended or not goes_on) and not (entry.opens and within)
    ]
    done: list[_Entry] = []
    for skipped, at in enumerate(places):
        for size, ways in patterns.ways:
            for entry, step, phrase in ways.get(text[at : at + size], ()):
                if (
                    text.startswith(phrase, at)
                    and step.least <= skipped <= step.most
                    and entry not in done
                    and (entry.open_ended or not goes_on)
                    and not (entry.opens and within)
                    and (phrase in step.open_ended or not continues(text, at + len(phrase)))
                ):
                    stop = _follow(text, at + len(phrase), entry.steps[1:], past, set())
                    if stop >= 0:
                        done.append(entry)
                        hits.append((entry.rule, start, stop))


def _walk(text: str, at: int, count: int, past: _Past) -> Iterator[int]:
    """Where the next `count` words begin, as far as the sentence goes."""
    for _ in range(count):
        while text[at : at + 1] == " ":
            at += 1
        yield at
        at = past(text, at)
        if at < 0:
            break


def _next_words(text: str, at: int, count: int) -> list[str] | None:
    """The next `count` words, as far as there are so many; None if many spaces, or too long a word, hide them."""
    reach = at + count * (_LONGEST_WORD + 1)
    words = text[at:reach].split(None, count)
    if len(words) < count and reach < len(text):
        return None
    del words[count:]
    return words


def _may_follow(words: list[str], patterns: _Patterns) -> bool:
    """Whether one of the next words begins like something that may follow: sooner told than what does."""
    for size, begins in patterns.begins:
        for word in words:
            if word[:size] in begins:
                return True
    return False


def _places(text: str, at: int, words: list[str]) -> list[int]:
    """Where `words`, the next ones, begin, as far as the sentence goes."""
    places = []
    for word in words:
        at, length = text.find(word, at), len(word)
        places.append(at)
        if word[-1] in _STOPS or length > _LONGEST_WORD:
            break
        at += length
    return places


def _place(hit: Hit) -> tuple[int, int, int]:
    rule, start, end = hit
    return start, -end, rule


def _follow(text: str, at: int, steps: tuple[Step, ...], past: _Past, failed: set[tuple[int, int]]) -> int:
    """Where the last of `steps` ends after `at`, each after its gap in the same sentence; -1 if one does not follow.

    `failed`: how many steps were looked for where in vain. None is looked for twice, so that the work stays small.
    """
    if not steps:
        return at
    if (found := (len(steps), at)) in failed:
        return -1
    step, rest = steps[0], steps[1:]
    for skipped in range(step.most + 1):
        while text[at : at + 1] == " ":
            at += 1
        if skipped >= step.least and text.startswith(step.texts, at):
            for phrase in step.texts:
                end = at + len(phrase)
                if text.startswith(phrase, at) and (phrase in step.open_ended or not continues(text, end)):
                    stop = _follow(text, end, rest, past, failed)
                    if stop >= 0:
                        return stop
        at = past(text, at)
        if at < 0:
            break
    failed.add(found)
    return -1


def _past(text: str) -> _Past:
    """How words are passed in `text`."""
    return _past_word if text.isascii() or not _UNSPACED_RE.search(text) else _past_unspaced


def _past_word(text: str, at: int) -> int:
    """Where the word at `at` ends; -1 if the sentence, the text or too long a word ends it."""
    stop = text.find(" ", at, at + _LONGEST_WORD + 1)
    return -1 if stop < 0 or text[stop - 1] in _STOPS else stop


def _past_unspaced(text: str, at: int) -> int:
    """The same where no spaces stand between words: each character is one, but for Latin words and numbers."""
    char = text[at : at + 1]
    if _UNSPACED <= char < _SPACED_AGAIN or _FULL_WIDTH <= char < _HALF_WIDTH or char in _BETWEEN:
        return -1 if char in _STOPS else at + 1
    stop = text.find(" ", at, at + _LONGEST_WORD + 1)
    if unspaced := _UNSPACED_RE.search(text, at, at + _LONGEST_WORD if stop < 0 else stop):
        return unspaced.start()
    return -1 if stop < 0 or text[stop - 1] in _STOPS else stop


def _within_word(text: str, start: int) -> bool:
    """Whether `start` stands inside a word."""
    return start > 0 and (before := text[start - 1]) != " " and _wordish(before) and _wordish(text[start])


def _wordish(char: str) -> bool:
    """Whether a word could go on over `char`; scripts written without spaces have no such edges."""
    return (char.isalnum() or char in _MARKS) and char < "\u1100"


def continues(text: str, at: int) -> bool:
    """Whether the word before `at` goes on there; in scripts without spaces none does."""
    char = text[at : at + 1]
    if not char or char == " " or not _wordish(text[at - 1]):  # the space: it is what stands there most often
        return False
    if char == "'":
        return at + 1 < len(text) and text[at + 1].isalpha()
    return _wordish(char)
