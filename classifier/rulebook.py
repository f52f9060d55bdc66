"""All lexicons, compiled: what every session shares. Immutable after building."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from pathlib import Path

from demur.classifier.languages import Speech
from demur.classifier.lexicon import Lexicon, Vocabulary, load_lexicons, words_of_languages
from demur.classifier.matcher import Matcher
from demur.classifier.weights import Weights, load_weights
from demur.classifier.wishes import Wishes
from demur.classifier.wording import Wording, load_wording


class Rulebook:
    """The rules of `lexicons` and what reads with them, with the numbers that ship. `version` names their content."""

    def __init__(self, lexicons: Sequence[Lexicon], version: str) -> None:
        self.rules = tuple(rule for lexicon in lexicons for rule in lexicon.rules)
        self.matcher = Matcher(self.rules)
        self.acts = tuple(act for lexicon in lexicons for act in lexicon.acts)
        self.act_matcher = Matcher(self.acts)
        self.wishes = Wishes(lexicons)
        self.speech = Speech(lexicons, words_of_languages())
        self._vocabularies: dict[str, Vocabulary] = {}
        for lexicon in lexicons:
            known = self._vocabularies.get(lexicon.language, Vocabulary())
            self._vocabularies[lexicon.language] = known | lexicon.vocabulary
        self.weights = load_weights()
        self.wording = load_wording()
        self.version = version

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
        return cls(*load_lexicons(extra, languages))
