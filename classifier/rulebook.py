"""All lexicons, compiled: what every session shares. Immutable after building."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from pathlib import Path

from demur.classifier.act import Act
from demur.classifier.languages import Speech
from demur.classifier.lexicon import Lexicon, Vocabulary, load_lexicons, words_of_languages
from demur.classifier.matcher import Matcher
from demur.classifier.weights import Weights, load_weights
from demur.classifier.wishes import Wishes
from demur.classifier.wording import Wording, load_wording


class Tongue:
    """The acts of one language, compiled."""

    def __init__(self, acts: tuple[Act, ...]) -> None:
        self.acts = acts
        self.matcher = Matcher(acts)


class Rulebook:
    """The rules of `lexicons` and what reads with them, with the numbers that ship. `version` names their content."""

    def __init__(self, lexicons: Sequence[Lexicon], version: str) -> None:
        self.rules = tuple(rule for lexicon in lexicons for rule in lexicon.rules)
        self.matcher = Matcher(self.rules)
        self.acts = tuple(act for lexicon in lexicons for act in lexicon.acts)
        self._tongues = {
            language: Tongue(tuple(act for act in self.acts if act.language == language))
            for language in dict.fromkeys(act.language for act in self.acts)
        }
        self.wishes = Wishes(lexicons)
        self.speech = Speech(lexicons, words_of_languages())
        self._vocabularies: dict[str, Vocabulary] = {}
        for lexicon in lexicons:
            known = self._vocabularies.get(lexicon.language, Vocabulary())
            self._vocabularies[lexicon.language] = known | lexicon.vocabulary
        self.weights = load_weights()
        self.wording = load_wording()
        self.version = version

    def tongues(self, languages: Collection[str]) -> Sequence[Tongue]:
        """The acts to look for in a text that is in one of these languages: theirs, and English ones, which stand in
        many texts. Where none of the languages is known, all."""
        known = [name for name in self._tongues if name in languages]
        if not known:
            return tuple(self._tongues.values())
        return [self._tongues[name] for name in dict.fromkeys((*known, "en")) if name in self._tongues]

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
