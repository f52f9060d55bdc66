"""All lexicons, compiled: what every session shares. Nothing of it changes, but acts come in when first needed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from demur.classifier.act import Act
from demur.classifier.languages import Speech
from demur.classifier.lexicon import LANGUAGES, Lexicon, Rule, Vocabulary, load_lexicons, our_acts, words_of_languages
from demur.classifier.matcher import Matcher
from demur.classifier.weights import Weights, load_weights
from demur.classifier.wishes import Wishes
from demur.classifier.wording import Wording, load_wording

Entry = TypeVar("Entry", Rule, Act)


def _lean(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Without their phrases: the matcher has taken them in, and their texts would be most of what a rulebook holds."""
    return tuple(replace(entry, phrases=()) for entry in entries)


class Tongue:
    """The acts of one language, or those of own files, compiled."""

    def __init__(self, acts: Sequence[Act]) -> None:
        self.matcher = Matcher(acts)
        self.acts = _lean(acts)


class Rulebook:
    """The rules of `lexicons` and what reads with them, with the numbers that ship. `version` names their content;
    `languages` are those of which our acts code a refusal."""

    def __init__(self, lexicons: Sequence[Lexicon], version: str, languages: Collection[str] = LANGUAGES) -> None:
        rules = [rule for lexicon in lexicons for rule in lexicon.rules]
        self.matcher = Matcher(rules)
        self.rules = _lean(rules)
        own = [act for lexicon in lexicons for act in lexicon.acts]
        self._own = [Tongue(own)] if own else []
        self.acts = tuple(act for tongue in self._own for act in tongue.acts)  # of own files
        self._languages = frozenset(languages)
        self._tongues: dict[str, Tongue] = {}
        self.tongues(("en",))  # the others when a refusal is in them: together they cost half as much as all rules
        self.wishes = Wishes(lexicons)
        self.speech = Speech(lexicons, words_of_languages())
        self._vocabularies: dict[str, Vocabulary] = {}
        for lexicon in lexicons:
            known = self._vocabularies.get(lexicon.language, Vocabulary())
            self._vocabularies[lexicon.language] = known | lexicon.vocabulary
        self.weights = load_weights()
        self.wording = load_wording()
        self.version = version

    def tongues(self, languages: Collection[str]) -> list[Tongue]:
        """The acts to look for in a text that is in these languages: theirs; English ones, which stand in many texts;
        those of own files."""
        names = [name for name in LANGUAGES if name in self._languages and (name in languages or name == "en")]
        for name in names:
            if name not in self._tongues:
                self._tongues[name] = Tongue(our_acts(name))
        return [self._tongues[name] for name in names] + self._own

    def has_acts(self, languages: Collection[str]) -> bool:
        """Whether refusals in one of these languages can be coded."""
        return not self._languages.isdisjoint(languages) or any(act.language in languages for act in self.acts)

    def vocabulary(self, language: str | None) -> Vocabulary:
        """The words of a language; of one that no lexicon covers there are none."""
        return self._vocabularies.get(language or "", Vocabulary())

    def with_numbers(self, weights: Weights, wording: Wording) -> Rulebook:
        """The same rules, weighed by other numbers."""
        other = copy(self)
        other.weights, other.wording = weights, wording
        return other

    @classmethod
    def load(cls, extra: Sequence[Path] = (), languages: Collection[str] | None = None) -> Rulebook:
        """Our lexicons for `languages` (None: all) and the files in `extra`. Raises LexiconError."""
        return cls(*load_lexicons(extra, languages), LANGUAGES if languages is None else languages)
