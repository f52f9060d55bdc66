"""What the ask wants to be handed, as far as it can be read with cheap extractors.

A count, a figure, a choice, a text to work on, a context to look into, code, a letter. What it cannot read it leaves
alone. Knows nothing of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from demur.classifier import asks
from demur.classifier.fold import holds_word, plain
from demur.classifier.lazy import lazy
from demur.classifier.wishes import Wishes


class Wanted:
    """What an ask wants to be handed, as far as it can be read. A wish is read when it matters, which few ever do."""

    def __init__(self, prompt: str, system: str, wishes: Wishes | None = None) -> None:
        self._ask = prompt if len(prompt) <= 2 * asks.READ else f"{prompt[: asks.READ]}\n{prompt[-asks.READ :]}"
        self._system = system[: asks.READ]
        self._reader = wishes
        self.prompt = self._ask.lower().replace("’", "'")
        """What is read of the ask, in lower case."""
        ask = self.prompt
        self.brief = ask if len(ask) <= 2 * asks.TOLD else f"{ask[: asks.TOLD]}\n{ask[-asks.TOLD :]}"
        """The ends of it, where it says what to do."""

    @lazy
    def asked(self) -> str:
        """What is read of ask and system message, in lower case and without apostrophes."""
        return _plain(f"{self.prompt}\n{self._system.lower()}")

    @lazy
    def wishes(self) -> Mapping[str, list[tuple[int, int]]]:
        """What the phrases of the lexicons say that it wants (names of `lexicon.WISHES`), and where in the ask."""
        return self._reader.read(self._ask) if self._reader else {}

    @lazy
    def content(self) -> bool:
        """Whether a text of its own is wanted: story, mail, sample, translation."""
        return self.translation or "content" in self.wishes or bool(asks.ORDERED.search(self.brief)) or self.a_no

    @lazy
    def a_no(self) -> bool:
        """Whether the text that is wanted is itself a refusal, an excuse or a reply to somebody."""
        if "refusal" in self.wishes or asks.NO_ORDERED.search(self.brief):
            return True
        return self.translation and bool(asks.NO_TO_TRANSLATE.search(self.brief))

    @property
    def service(self) -> bool:
        """Whether words for somebody who serves others are wanted."""
        return bool(asks.SERVICE.search(self.brief))

    @lazy
    def lengthy(self) -> bool:
        """Whether a text of more than a line is wanted."""
        if self.a_no or self.translation:
            return False
        return "content" in self.wishes or (
            bool(asks.LENGTHY.search(self.brief)) and not asks.ONE_LINE.search(self.brief)
        )

    @lazy
    def translation(self) -> bool:
        """Whether text in some other language is wanted."""
        return "translation" in self.wishes or bool(asks.TRANSLATE.search(self.brief))

    @lazy
    def about_model(self) -> bool:
        """Whether it asks what the model is or feels."""
        if "model" in self.wishes:
            return True
        return "you" in self.prompt[:200] and bool(asks.ABOUT_MODEL.search(self.prompt[:200]))

    @lazy
    def reaction(self) -> bool:
        """Whether it asks what the model would say or do in some case."""
        return "you" in self.prompt[:200] and bool(asks.REACTION.search(self.prompt[:200]))

    @lazy
    def source(self) -> str:
        """The text to work on: quoted, or what follows the first colon where its words come back in what is wanted."""
        told = asks.TRANSFORM.search(self.prompt)
        if (not told and "work" not in self.wishes) or self.translation:
            return ""
        quoted = asks.QUOTE.search(self._ask)
        if quoted and _worth(quoted.group(1), "quoted"):
            if len(quoted.group(1)) < asks.WORTH_WORDS and asks.IN_OTHER_WORDS.search(self.prompt):
                return ""  # said in other words it may share none
            near = not told or abs(quoted.start() - told.end()) <= asks.NEAR
            return quoted.group(1).lower() if near else ""
        if told and not asks.SHORTEN.search(self.prompt):
            return ""
        after = asks.AFTER_COLON.search(self._ask)
        return after.group(1).lower() if after and _worth(after.group(1), "told") else ""

    @lazy
    def passage(self) -> tuple[str, str]:
        """The context to answer from, and the question to it; empty when there is none."""
        if ":" not in self.prompt and "：" not in self.prompt:
            return "", ""
        context = asks.CONTEXT.search(self.prompt)
        question = asks.QUESTION.search(self.prompt, context.end()) if context else None
        if context is None or question is None:
            return "", ""
        return self.prompt[context.end() : question.start()], self.prompt[question.end() :][: asks.PLAIN]

    @lazy
    def count(self) -> int | None:
        """How many things are wanted."""
        return _number(asks.COUNT.search(self.brief))

    @lazy
    def count_ordered(self) -> int | None:
        """How many things the ask tells to list."""
        return _number(asks.COUNT_ORDERED.search(self.brief)) if self.count is not None else None

    def count_named(self, counts: Callable[[], Sequence[tuple[str, int]]] = tuple) -> int | None:
        """The same, whatever the things are. `counts` gives the words for numbers of the language."""
        if len(self.prompt) >= asks.SHORT:
            return None
        if count := _number(asks.COUNT_NAMED.search(self.prompt)):
            return count
        if not (orders := self.wishes.get("list")):
            return None
        ask = plain(self._ask)
        figures = [at for at in asks.FIGURES.finditer(ask) if at.group().isdecimal()]
        told = [(at.start(), int(at.group())) for at in figures if not ask.startswith(asks.MEASURES, at.end())]
        told += _counted(ask, counts())
        if len(told) != 1 or not 1 < told[0][1] <= asks.MANY:
            return None
        (at, count), beside = told[0], asks.BESIDE if " " in ask.strip() else asks.BESIDE_UNSPACED
        # behind the order, or before it where verbs come last
        return count if any(start - beside <= at <= end + beside for start, end in orders) else None

    def words(self) -> int | None:
        """How many words are wanted."""
        if "word" not in self.prompt or self.translation:
            return None
        return _number(asks.WORDS_ASKED.search(self.prompt))

    def both_sides(self) -> int | None:
        """How many arguments for, where as many against are wanted."""
        return _number(asks.SIDES.search(self.brief)) if asks.OTHER_SIDE.search(self.brief) else None

    def sides(self, pairs: Sequence[tuple[str, str]]) -> bool:
        """Whether both sides of a question are wanted, by pairs of words for them."""
        both = any(holds_word(self.brief, one) and holds_word(self.brief, other) for one, other in pairs)
        return both and not asks.ONE_SIDE.search(self.brief)

    def harsh(self) -> bool:
        """Whether a text that finds fault is wanted."""
        return "harsh" in self.wishes and not asks.KIND.search(self.brief)

    def options(self) -> dict[str, str]:
        """The letters to choose from, each with what it stands for."""
        return dict(asks.OPTION.findall(self._ask)) if "which" in self.prompt else {}

    def either(self) -> tuple[str, str] | None:
        """The two things to choose from, a word of each."""
        match = asks.EITHER.search(self.prompt) if " or " in self.prompt and len(self.prompt) < asks.SHORT else None
        if match is None or not asks.NO_OPTION.isdisjoint(match.groups()):
            return None
        return match.group(1), match.group(2)

    @lazy
    def judges(self) -> bool:
        """Whether it asks if something is right, lawful, safe or wise: there an admonition is the answer."""
        if asks.JUDGES.search(self.brief):
            return True
        ask = plain(self._ask)
        return any(not asks.AMOUNT.search(ask, 0, start) for start, _ in self.wishes.get("judgement", ()))

    def yes_or_no(self) -> bool:
        """Whether a yes or a no is asked for in so many words."""
        return bool(asks.YES_OR_NO.search(self.brief))

    def name(self) -> bool:
        """Whether the name of a person or a place is wanted."""
        return (
            len(self.prompt) < asks.SHORT and bool(asks.NAME.search(self.prompt)) and not asks.OURS.search(self.prompt)
        )

    def date(self) -> bool:
        """Whether a date is wanted."""
        return "wh" in self.prompt and len(self.prompt) < asks.SHORT and bool(asks.DATE.search(self.prompt))

    def verse(self) -> bool:
        """Whether a poem is wanted, or some other form that stands in lines."""
        return bool(asks.VERSE.search(self.brief))

    def into(self) -> str:
        """The language, not English, that a text is wanted in; empty when none is named."""
        match = asks.INTO.search(self.brief) if self.translation and not asks.INTO_ENGLISH.search(self.brief) else None
        return match.group(1) if match else ""

    def argument(self) -> bool:
        """Whether reasons for or against something are wanted: there a lecture is the text."""
        return bool(asks.ARGUES.search(self.brief))

    def several(self) -> bool:
        """Whether more than one thing is asked."""
        return bool(asks.AND.search(self.prompt)) or self.prompt.count("?") + self.prompt.count("？") > 1

    def specified(self) -> bool:
        """Whether the ask brings figures or a text, so that nothing needs to be asked back."""
        return bool(self.source) or (
            len(self.prompt) < asks.PLAIN and any(char in self.prompt for char in "0123456789")
        )

    def vague(self) -> bool:
        """Whether so little is said that asking back is the right answer."""
        if self.specified():
            return False
        ask = self.prompt.strip()
        return len(ask) < asks.TERSE or (len(ask) < asks.VAGUE and bool(asks.POINTING.search(ask)))

    def figure(self) -> bool:
        """Whether a number is wanted."""
        ask = self.prompt
        if len(ask) >= asks.SHORT:
            return False
        return "figure" in self.wishes or any(
            word in ask and pattern.search(ask) for word, pattern in asks.FIGURE.items()
        )

    def sum(self) -> bool:
        """Whether a sum or a conversion is wanted."""
        if not any(map(str.isdigit, self.prompt[: asks.SHORT])):
            return False
        if asks.SUM.search(self.prompt):
            return True
        return len(self.prompt) < asks.TERSE_SUM and self.figure() and bool(asks.ARITHMETIC.search(self.prompt))

    def order(self) -> bool:
        """Whether something is told to be done."""
        return bool(asks.ORDER.match(self.prompt.lstrip()))

    def no_answers(self) -> bool:
        """Whether a bare no may be the answer: to a question, or where a word is ordered."""
        ask = self.brief.lstrip()
        if asks.OPEN_QUESTION.match(ask):
            return False
        return not self.order() or bool(asks.NO_WANTED.search(ask))

    def may_say_no(self) -> bool:
        """Whether a bare no may be what is wanted: as the answer, or as the text."""
        return self.translation or self.a_no or self.no_answers()

    def code(self) -> bool:
        """Whether code is wanted."""
        ask = self.brief
        if "ask me" in ask or "need to know" in ask:
            return False
        return "code" in self.wishes or (
            any(word in ask for word in asks.CODE_WORDS) and bool(asks.CODE_ASKED.search(ask))
        )

    def letter(self) -> bool:
        """Whether a letter or a mail is wanted."""
        return self.order() and bool(asks.LETTER_ASKED.search(self.brief))

    def piece(self) -> bool:
        """Whether a message, a joke or the like is wanted."""
        return bool(asks.PIECE_ASKED.search(self.brief))

    def sketch(self) -> bool:
        """Whether a part or an outline is enough."""
        return bool(asks.ELISION_ASKED.search(self.brief))


def _counted(text: str, counts: Sequence[tuple[str, int]]) -> list[tuple[int, int]]:
    """Where words for numbers stand in `text`, and what they count, the longest first; not as a part of a larger
    number, or as a place in a row ("the third", where the word says so before it)."""
    told = []
    for word, count in sorted(counts, key=lambda one: -len(one[0])):
        if holds_word(text, word):
            at = text.find(word)
            if text[at - 1 : at] not in tuple(asks.MORE_DIGITS):
                told.append((at, count))
            text = text.replace(word, " " * len(word))
    return told


def _number(match: re.Match[str] | None) -> int | None:
    if match is None:
        return None
    word = match.group(1)
    return int(word) if word.isdecimal() else asks.COUNTS.index(word)


def _worth(text: str, how: str) -> bool:
    """Whether `text` is long enough to be worked on."""
    return len(text) * (1 if text.isascii() or text[len(text) // 2] < "\u2e80" else 2) >= asks.WORTH_WORK[how]


def _plain(text: str) -> str:
    return text.replace("'", "").replace("’", "")
