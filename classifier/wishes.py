"""What an ask wants, by the phrases that the lexicons give for it: one automaton over all languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from demur.classifier.grammar import Pattern
from demur.classifier.lexicon import Lexicon
from demur.classifier.matcher import Matcher


class _Wish(NamedTuple):
    """The phrases of one language for one thing, as the matcher takes them."""

    name: str
    phrases: tuple[Pattern, ...]
    unless: tuple[Pattern, ...] = ()
    where: str = "anywhere"


class Wishes:
    """Compiled from the `[asks]` of lexicons."""

    def __init__(self, lexicons: Sequence[Lexicon]) -> None:
        self._wishes = [_Wish(name, patterns) for lexicon in lexicons for name, patterns in lexicon.asks.items()]
        self._matcher = Matcher(self._wishes) if self._wishes else None

    def read(self, ask: str) -> Mapping[str, list[tuple[int, int]]]:
        """What `ask` wants: names of `lexicon.WISHES`, each with where in `plain(ask)` it says so."""
        found: dict[str, list[tuple[int, int]]] = {}
        if self._matcher is not None:
            scan = self._matcher.scan()
            scan.run(ask)
            for number, start, end in scan.hits():
                found.setdefault(self._wishes[number].name, []).append((start, end))
        return found
