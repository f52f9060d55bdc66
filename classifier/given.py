"""What an answer holds: a figure, lines, a language, a row of things, the words that tell something.

Each is told by cheap marks, on bounded pieces of text. Knows nothing of the ask.
"""

from __future__ import annotations

import re

from demur.classifier.asks import COUNTS, LETTERS
from demur.classifier.fold import holds_word

#: Where scripts begin that need fewer characters.
UNSPACED = "\u2e80"
#: Letters of a number word that is looked for in a longer word.
_TELLING = 3
#: A longer word may be put together of words for numbers (German, Dutch).
_COMPOUND = 10
#: From here on words may be joined to others.
_JOINED = "\u0590"
#: Characters of an answer that may be a mere row of things, words of one of them, and what stands between them.
_ROW_LONGEST, _THING, _THING_UNSPACED = 120, 3, 10
_ROW = re.compile(
    r",? (?:&|and|or|und|oder|sowie|et|ou|y|o|u|e|en|of|alsook|nonché|i|oraz|lub|и|да|или|ve|veya|ile|và|hoặc|cùng|dan|"
    r"serta|atau|और|तथा|या|एवं) |[,،]? و|[,،]\s|、|，|；|以及|还有|或者?|[和及与與跟とや]|および|그리고|"
    r"(?<=[가-힣])(?:[과와이]|이?랑|하고|이나) "
)
_NUMBER_WORDS = frozenset(COUNTS) | frozenset(
    """thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty
    ninety hundred thousand million billion half quarter third dozen twice none no""".split()  # noqa: SIM905
)
#: Numbers that mean something else too (Spanish eleven, Italian two): they count among as few words as this.
_ALSO_NUMBERS, _FEW = frozenset({"once", "due", "seize", "tiers", "elf"}), 4
_ENGLISH = frozenset(
    "the and of to is in that it for you with are this be as on can not your or have a".split()  # noqa: SIM905
)
#: Words of an answer by which its language is told, and the share of English ones that tells it.
_LEAST_WORDS, _ENGLISH_SHARE = 12, 0.3
#: A word with a capital that opens no sentence, or is all that the answer is.
_CAPITAL = re.compile(r"(?<![.!?:\n] )(?<![\n\"“])(?<!^)\b[A-Z][\w'-]+|^[A-Z][\w' -]{1,40}[.!]?$")
_PART = re.compile(r"[,;\n、。；，！？]|[.!?:] |, and ")
_WORD = re.compile(r"[a-z]{3,}")
_WORDS = re.compile(r"[a-z]+")
#: Words of other letters; of Chinese characters and katakana, two on end.
_OTHER_WORD = re.compile("[\u00df-\u1fff]{4,}|[\uac00-\ud7a3]{2}|(?=([\u3400-\u9fff\u30a1-\u30fa]{2}))")
#: What sort of thing a question asks for: the context has one, not the word.
_SORT_ASKED = re.compile(r"\b(?:which|what) ([a-z]+)")
_STOP = frozenset(
    """the and for that this with was were are you your from who what which when where why how does did not but has have
    had can could would should will its his her their our they she him than then there into about out one all any some
    been being more most very just""".split()  # noqa: SIM905
)


def enumerated(answer: str) -> int:
    """How many things an answer names that is nothing but a row of them; 0 if it is anything else."""
    if len(answer) >= _ROW_LONGEST or answer[:1] in ("{", "[") or not any(map(str.isalpha, answer)):
        return 0
    things = [thing.strip() for thing in _ROW.split(answer.strip().rstrip(".。"))]
    short = all(len(thing) <= _THING_UNSPACED or thing[0] < UNSPACED for thing in things if thing)
    return len(things) if short and all(0 < len(thing.split()) <= _THING for thing in things) else 0


def several(answer: str, count: int) -> bool:
    """Whether the answer may hold `count` things: sentences, lines, or parts between commas."""
    return len(_PART.findall(answer)) + 1 >= count


def has_figure(head: str, numbers: frozenset[str]) -> bool:
    """Whether a number is told in `head` (folded), in figures or in words; `numbers`: those of its language."""
    words = _WORD.findall(head)
    if any(map(str.isdigit, head)) or not _NUMBER_WORDS.isdisjoint(words):
        return True
    if not _ALSO_NUMBERS.isdisjoint(words) and len(words) <= _FEW:
        return True
    if not (numbers - _ALSO_NUMBERS).isdisjoint(re.findall(r"\w+", head)):
        return True
    long = [word for word in head.split() if len(word) > _COMPOUND]
    if any(number in word for word in long for number in numbers if len(number) > _TELLING):
        return True
    if any(number in head for number in numbers if " " in number):
        return True
    if head.isascii():
        return False
    others = [word for word in numbers if not word.isascii()]
    return any(holds_word(head, word) if word[0] < _JOINED else word in head for word in others)


def in_lines(answer: str) -> bool:
    """Whether the answer may hold a poem: it stands in lines, or somebody is quoted."""
    return "\n" in answer.strip() or "/" in answer or ":" in answer or '"' in answer or "“" in answer


def has_name(answer: str, ask: str) -> bool:
    """Whether a word of the answer that is none of the ask has a capital, and not only because it opens a sentence."""
    names = (match.group() for match in _CAPITAL.finditer(answer))
    return any(name.lower() not in ask for name in names) or any(map(str.isdigit, answer)) or not answer.isascii()


def in_language(answer: str, head: str, language: str) -> bool:
    """Whether the answer may hold a text in `language`: it has its letters, or is not just English."""
    if letters := LETTERS.get(language):
        if letters.search(answer):
            return True
    elif not answer.isascii():
        return True
    words = _WORDS.findall(head)
    if len(words) < _LEAST_WORDS or '"' in answer or ":" in answer or "*" in answer or "'" in answer:
        return True
    return sum(word in _ENGLISH for word in words) < _ENGLISH_SHARE * len(words)


def holds(context: str, question: str) -> bool:
    """Whether the context speaks of everything that the question names: then the answer should be in it."""
    _, _, rest = question.strip().partition(" ")  # what comes first asks: who, wann, où
    asked = content_words(rest or question) - frozenset(_SORT_ASKED.findall(question))
    return bool(asked) and all(word[: max(4, len(word) - 2)] in context for word in asked)


def content_words(text: str, like: str | None = None) -> frozenset[str]:
    """The words that tell something; of a text in other letters (or one `like` such a text), those in such letters."""
    if not (text if like is None else like).isascii():
        other = frozenset(match.group(1) or match.group() for match in _OTHER_WORD.finditer(text))
        if other or (like is not None and _OTHER_WORD.search(like)):
            return other
    return frozenset(_WORD.findall(text)) - _STOP
