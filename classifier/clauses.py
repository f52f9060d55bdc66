"""A refusal clause by clause: what each clause does (its acts) and what it is about (its kind).

The kind tells the object of what is said: the same word ("safe", "harm") blames the request in one clause and speaks
for an alternative in the next. Nothing here gives a code.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import takewhile
from operator import attrgetter
from typing import Literal

import msgspec

from demur.classifier.act import Act
from demur.classifier.fold import OffsetMap
from demur.classifier.rulebook import Tongue
from demur.classifier.voice import Voice, sentences

#: What a clause is about: the refusal itself; the request and its effects; a moral norm; help that is offered; what the
#: asker may do, or gets instead; nothing that its words tell.
Kind = Literal["refusal", "request", "norm", "offer", "help", "other"]
_INSTEAD: frozenset[Kind] = frozenset({"offer", "help"})

#: Characters of the model's text that are coded, from its beginning: a refusal says how it refuses early. Own choice.
READ = 4000
#: Acts with which a clause begins.
_TURNS = frozenset({"turn", "instead"})
_WORD = re.compile(r"\w")
#: How a point of a list begins.
_ITEM = re.compile(r"\s*(?:[-*•·–—]\s|\d{1,2}[.)、．]|[①-⑳])")
#: What ends a lead: a colon, or the line of a heading.
_LEAD = (":", "：")
#: What may follow a bare no that stands alone.
_AFTER_NO = frozenset(".!?,;:—–-…。！？，、；،؛؟।\n")


class Deed(msgspec.Struct, frozen=True, gc=False):
    """An act's phrase at `start` to `end` of the original text."""

    act: Act
    start: int
    end: int


class Clause(msgspec.Struct):
    """The clause at `start` to `end` of the original text. `item`: it stands in a list; `lead`: it introduces one;
    `inner`: its sentence began before it; `goes_on`: its kind is that of the sentence before;
    `acts`: names of its deeds' acts."""

    start: int
    end: int
    deeds: list[Deed] = []  # a new one each
    kind: Kind = "other"
    item: bool = False
    lead: bool = False
    inner: bool = False
    goes_on: bool = False
    acts: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.acts = frozenset([deed.act.name for deed in self.deeds])

    def does(self, *acts: str) -> bool:
        """Whether it shows one of these acts."""
        return not self.acts.isdisjoint(acts)


def clauses(text: str, voice: Voice, tongues: Sequence[Tongue], known: Sequence[tuple[int, int]] = ()) -> list[Clause]:
    """The clauses of the model's own text, in order, as far as it is read, with the acts of `tongues`.

    `known`: its first sentences, as `sentences` told them.
    """
    end = min(voice.end, voice.start + READ)
    parts = [*known, *sentences(text, known[-1][1] if known else voice.start, end)]
    inside: list[list[Deed]] = [[] for _ in parts]
    starts = [start for start, _ in parts]
    for tongue in tongues:
        for deed in _deeds(text, voice, end, tongue):
            if (at := bisect_right(starts, deed.start) - 1) >= 0:
                inside[at].append(deed)
    _drop_void(text, parts, inside, tongues)
    out: list[Clause] = []
    for (start, stop), deeds in zip(parts, inside, strict=True):
        deeds.sort(key=attrgetter("start"))
        out += _split(text, start, stop, deeds)
    _tell_kinds(out)
    return out


def _deeds(text: str, voice: Voice, end: int, tongue: Tongue) -> Iterator[Deed]:
    """What the phrases of acts find, by place; of one act's phrases that overlap the first and longest."""
    scan = tongue.matcher.scan()
    scan.run(text[voice.start : end])
    places = OffsetMap(text, voice.start, scan.blocks)
    until: dict[int, int] = {}
    for number, begins, ends in scan.hits():
        if begins < until.get(number, 0):
            continue
        until[number] = ends
        start, stop = places.span(begins, ends)
        if not (voice.fences and voice.foreign(text, start)):
            yield Deed(tongue.acts[number], start, stop)


def _drop_void(
    text: str, parts: Sequence[tuple[int, int]], inside: list[list[Deed]], tongues: Sequence[Tongue]
) -> None:
    """Drops those that a near miss in the same sentence voids."""
    doubtful = [at for at, deeds in enumerate(inside) if any(deed.act.unless for deed in deeds)]
    if not doubtful:
        return
    texts = [text[start:stop] for start, stop in [parts[at] for at in doubtful]]
    for tongue in tongues:
        for at, numbers in zip(doubtful, tongue.matcher.voided(texts), strict=True):
            if numbers:
                void = {tongue.acts[number].id for number in numbers}
                inside[at] = [deed for deed in inside[at] if deed.act.id not in void]


def _split(text: str, start: int, end: int, deeds: Sequence[Deed]) -> Iterator[Clause]:
    """A sentence, or what stands in it before and after a turn."""
    item = _ITEM.match(text, start, end) is not None
    part = text[start:end].strip(" \n*_")
    lead = part.endswith(_LEAD) or part.startswith("#")
    since, own = start, list[Deed]()
    for deed in deeds:
        if deed.act.name == "no" and not _alone(text, deed.end, end):
            continue
        if deed.act.name in _TURNS and _WORD.search(text, since, deed.start) and _WORD.search(text, deed.end, end):
            yield Clause(since, deed.start, own, item=item, inner=since > start)
            since, own = deed.start, []
        own.append(deed)
    yield Clause(since, end, own, item=item, lead=lead, inner=since > start)


def _alone(text: str, at: int, end: int) -> bool:
    """Whether the sentence, or its part before the first mark, ends at `at`."""
    after = text[at:end].lstrip("*_ ")
    return not after or after[0] in _AFTER_NO


def _tell_kinds(found: Sequence[Clause]) -> None:
    """Each by its acts, else by what it continues: a list its lead, a sentence of help the one before."""
    lead: Kind | None = None
    before: Kind = "other"
    for at, clause in enumerate(found):
        clause.kind = _kind(clause)
        if clause.item and lead:
            clause.kind = lead
        elif not clause.item:
            lead = None
        if clause.kind == "other" and before in _INSTEAD:
            clause.kind, clause.goes_on = before if clause.lead or clause.inner else "help", not clause.inner
        if clause.lead:
            lead = _of_list(found[at + 1 :]) if clause.kind == "other" or clause.goes_on else clause.kind
        before = clause.kind


def _of_list(following: Sequence[Clause]) -> Kind:
    """What a list is about whose lead does not tell: the request, if one of its points is."""
    points = takewhile(lambda clause: clause.item, following)
    return "request" if any(_kind(point) == "request" for point in points) else "help"


def _kind(clause: Clause) -> Kind:
    if not clause.deeds:
        return "other"
    if clause.does("decline", "no"):
        return "refusal"
    if clause.lead and clause.does("deliver", "give") and not clause.does("offer"):
        return "help"
    if clause.does("offer", "give"):
        return "offer"
    if clause.does("suggest", "deliver"):
        return "request" if clause.does("blame") and not clause.does("praise", "care") else "help"
    if clause.does("distance"):
        return "refusal"
    if clause.does("blame", "concern", "rule", "barred", "content", "unable"):
        return "request"
    if clause.does("principle"):
        return "norm"
    return "help" if clause.does("care") else "other"
