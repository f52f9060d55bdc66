"""Which language a text is in: by its letters where they tell, else by the frequent words of the lexicons.

Needs no model and no list of its own. It names the language in the verdict and tells when nothing was read; the rules
of all languages are matched whatever it says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from demur.classifier.lexicon import Lexicon

#: Scripts that one of our languages is written in; kana before Han, which Japanese has too.
_SCRIPTS = tuple(
    (language, re.compile(f"[{letters}]"))
    for language, letters in (
        ("ja", "\u3041-\u30fa"),
        ("ko", "\uac00-\ud7a3\u1100-\u11ff"),
        ("zh", "\u4e00-\u9fff\u3400-\u4dbf"),
        ("ru", "\u0400-\u04ff"),
        ("ar", "\u0600-\u06ff"),
        ("hi", "\u0900-\u097f"),
    )
)
#: Letters from here on are not Latin.
_BEYOND_LATIN = re.compile("[\u0370-\u1dff\u3040-\ud7ff\U00020000-\U0002ffff]")
#: Of so many words one must be a frequent one of the language.
_ONE_IN = 8
#: Characters in which the script is looked for.
_SCRIPT = 200
#: Words that are looked at.
_ENOUGH = 60
#: Fewer words or letters tell nothing.
_LEAST = 4


class Speech:
    """What tells the languages of `lexicons` apart."""

    def __init__(self, lexicons: Sequence[Lexicon], words: Mapping[str, frozenset[str]] | None = None) -> None:
        """`words`: those of further languages, that are told apart and not read."""
        self.known = frozenset(lexicon.language for lexicon in lexicons)
        own = [(lexicon.language, lexicon.vocabulary.words) for lexicon in lexicons]
        others = [(language, some) for language, some in (words or {}).items() if language not in self.known]
        self._languages: dict[str, tuple[str, ...]] = {}
        for language, some in (*own, *others):
            for word in some:
                self._languages[word] = (*self._languages.get(word, ()), language)

    def language(self, words: Sequence[str], text: str) -> str | None:
        """The language of `text` (its beginning, and the folded words of that), if a lexicon covers it and it can be
        told."""
        language = self._told(words, text)
        return language if language in self.known else None

    def unread(self, words: Sequence[str], text: str) -> bool:
        """Whether `text` is evidently in a language that no lexicon covers."""
        language = self._told(words, text)
        if language is not None:
            return language not in self.known
        foreign = len(_BEYOND_LATIN.findall(text))
        few = max(self._votes(words).values(), default=0) < 2
        return (sum(map(str.isalpha, words)) >= 2 * _LEAST and few) or foreign > _LEAST

    def _told(self, words: Sequence[str], text: str) -> str | None:
        if not text.isascii() and (language := _by_script(text[:_SCRIPT])):
            return language
        votes = self._votes(words)
        if not votes:
            return None
        best = max(votes, key=votes.__getitem__)
        return best if votes[best] >= max(2, min(len(words), _ENOUGH) // _ONE_IN) else None

    def _votes(self, words: Sequence[str]) -> dict[str, int]:
        votes: dict[str, int] = {}
        for languages in filter(None, map(self._languages.get, words[:_ENOUGH])):
            for language in languages:
                votes[language] = votes.get(language, 0) + 1
        return votes


def _by_script(text: str) -> str | None:
    """The language of the script that most letters are in; kana tells Japanese wherever it stands."""
    if not _BEYOND_LATIN.search(text):
        return None
    counts = {language: len(letters.findall(text)) for language, letters in _SCRIPTS}
    language = max(counts, key=lambda name: counts[name])
    letters = sum(map(str.isalpha, text))
    if language == "zh" and counts["ja"] * 12 > counts["zh"]:
        language = "ja"
    return language if counts[language] * 3 > letters else None
