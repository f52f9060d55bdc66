"""What the ask wants to be handed, and whether the response holds it.

Reads the ask with cheap extractors (a count, a figure, a choice, a text to work on, a context to look into) and looks
for each in the answer. A low overlap of words or a short reply prove nothing, so every check wants a definite thing;
what it cannot read it leaves alone. The patterns have no nested repetition and run on bounded pieces of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

#: Of a long ask, this much of the beginning and the end is read: instructions stand there, pasted matter in between.
_READ = 3000
#: Checks for a missing thing look at short answers only (characters): long ones hold it in ways not looked for here.
_SHORT = 600
_COUNTS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBER_WORDS = frozenset(_COUNTS) | frozenset(
    """thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty
    ninety hundred thousand million billion half quarter third dozen once twice none no""".split()  # noqa: SIM905
)
_THINGS = (
    r"(?:reasons?|ways|steps|tips|ideas|examples?|points?|items?|names|facts|questions|titles|days?|advantages|benefits|"
    r"arguments|pros|suggestions|options|things|weeks|months|methods|lines|headlines|recipes|books|songs)"
)
_COUNT = re.compile(rf"\b(\d{{1,2}}|{'|'.join(_COUNTS[2:])})[ -](?:[\w-]+ ){{0,2}}?{_THINGS}\b")
_SIDES = re.compile(
    r"\b(\d|two|three|four|five) (?:[a-z]+ )?(?:for|advantages|pros|benefits)\b.{0,40}?"
    r"\b(?:\d|two|three|four|five) (?:against|disadvantages|cons|drawbacks)\b"
)
_OTHER_SIDE = re.compile(r"\b(?:against|disadvantages?|cons|drawbacks?|downsides?|however|but)\b")
_FIGURE = re.compile(
    r"\bhow (?:many|much|old|tall|long|far|heavy|fast|high|deep|wide|big)\b"
    r"|\bwhat (?:is|are|was) the (?:\w+ ){0,2}(?:dose|dosage|price|temperature|distance|length|height|weight|"
    r"population|percentage|speed|year)\b"
    r"|\bconvert \d|\bwhat is \d|\d ?[+x*/×÷-] ?\d|\bcalculate\b|\d ?(?:percent|%) of \d"
)
_WORDS_ASKED = re.compile(r"\b(\d{3,5})[ -]words?\b")
_QUOTE = re.compile(r"[\"“«']([^\"”»\n]{20,1500})[\"”»']")
_TRANSFORM = re.compile(r"\b(?:summari[sz]e|shorten|paraphrase|rephrase|rewrite|proofread|correct)\b")
_CONTEXT = re.compile(
    r"\b(?:context|passage|document|article|text|notes?|excerpt) ?: ?(.{10,2500}?)(?:\bquestion ?:|\bq ?:)(.{4,300})",
    re.DOTALL,
)
_OPTION = re.compile(r"(?:^|[\s(])([A-D])[:.)] ")
_ORDERED = re.compile(
    r"\b(?:write|compose|draft|create|generate|make up|invent|continue|tell|give|rewrite|sample|produce)\b.{0,60}?"
    r"\b(?:poem|story|stories|tale|letter|e-?mails?|mail|song|lyrics|dialogue|dialog|script|scene|speech|limerick|haiku|"
    r"essay|tweet|post|polic(?:y|ies)|error|sample|lines?|note|reply|message|monologue|novel|chapter|fable|play|joke|"
    r"verse|article|blog|statement|announcement|excuse|notice|review)\b"
)
_TRANSLATE = re.compile(
    r"translat|\bin(?:to)? (?:english|french|german|spanish|italian|chinese|japanese|korean|russian|hindi|arabic|"
    r"portuguese|dutch|polish|turkish)\b|翻译|翻譯|अनुवाद|переведи|traduc|traduis|übersetz|번역|翻訳|ترجم"
)
_ELISION_ASKED = re.compile(
    r"\bonly (?:the )?(?:chang|diff|relevant)|skeleton|\bempty|no bod|\bstub|outline|placeholder|abstract|brief|short"
)
_ELISION_WORDS = ("brevity", "omitted", "left out", "skipped", "rest of", "shortened")
_ELIDED = re.compile(
    r"(?:omitted|left out|skipped|truncated|shortened) for (?:brevity|space|length)"
    r"|\brest of (?:the )?(?:code|file|implementation|table|list|months) (?:goes )?here"
)
_NUMBERED = re.compile(r"\b(?:day|step|week|month)\s?(\d{1,2})\b")
_WORD = re.compile(r"[a-z]{3,}")
_STOP = frozenset(
    """the and for that this with was were are you your from who what which when where why how does did not but has have
    had can could would should will its his her their our they she him than then there into about out one all any some
    been being more most very just""".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the ask asks for, as far as it can be read.

    `content`: a text of its own (story, mail, sample, translation). `count` things, `words` words,
    `both_sides` arguments for and as many against, one of `options`. `source`: a quoted text to work on. `context` and
    `question`: a passage to answer from. `specified`: it brings figures or a text, so nothing needs to be asked back.
    `prompt`: what was read of the ask, in lower case; `asked`: of ask and system message, without apostrophes too.
    """

    content: bool = False
    count: int | None = None
    words: int | None = None
    both_sides: int | None = None
    options: tuple[str, ...] = ()
    source: str = ""
    context: str = ""
    question: str = ""
    specified: bool = False
    prompt: str = ""
    asked: str = ""

    def figure(self) -> bool:
        """Whether a number is asked for. Read when it matters only, like `sketch`: most answers never need it."""
        return len(self.prompt) < 400 and bool(_FIGURE.search(self.prompt))

    def sketch(self) -> bool:
        """Whether a part or an outline is enough."""
        return bool(_ELISION_ASKED.search(self.prompt))


@dataclass(frozen=True, slots=True)
class Gap:
    """Something definite that was asked for and is missing: wholly, or (`part`) in part.

    `alone`: it needs no other evidence. `place` is where the answer shows it; None: the whole answer does.
    """

    signal: str
    rule: str
    why: str
    weight: float
    part: bool = False
    alone: bool = True
    place: tuple[int, int] | None = None


def read_wanted(prompt: str, system: str) -> Wanted:
    """What `prompt` asks for; nothing when it is empty."""
    if not prompt:
        return Wanted(asked=_plain(system[:_READ].lower()))
    text = prompt if len(prompt) <= 2 * _READ else f"{prompt[:_READ]}\n{prompt[-_READ:]}"
    low = text.lower().replace("’", "'")
    translation = _TRANSLATE.search(low)
    quote = _QUOTE.search(text) if not translation and _TRANSFORM.search(low) else None
    context = _CONTEXT.search(low) if ":" in low else None
    digits = any(char in low for char in "0123456789")
    return Wanted(
        content=bool(translation or _ORDERED.search(low)),
        count=_number(_COUNT.search(low)),
        words=_number(_WORDS_ASKED.search(low)) if digits else None,
        both_sides=_number(_SIDES.search(low)),
        options=tuple(dict.fromkeys(_OPTION.findall(text))) if "which" in low else (),
        source=quote.group(1).lower() if quote else "",
        context=context.group(1) if context else "",
        question=context.group(2) if context else "",
        specified=bool(quote) or digits,
        prompt=low,
        asked=_plain(f"{low}\n{system[:_READ].lower()}"),
    )


def gaps(wanted: Wanted, answer: str) -> Iterator[Gap]:
    """What was asked for and is not in `answer` (the model's own text, without thinking)."""
    head = answer[:2000].lower()
    if len(answer) < _SHORT:
        has_figure = any(char.isdigit() for char in head) or not _NUMBER_WORDS.isdisjoint(_WORD.findall(head))
        if not has_figure and wanted.figure():
            why = "a figure was asked for and none is given"
            yield Gap("topic_narrowing", "delivery.figure-missing", why, 0.7, alone=False)
        if (
            len(wanted.options) > 1
            and not has_figure
            and not set(wanted.options) & set(re.findall(r"\b[A-D]\b", answer))
        ):
            yield Gap("topic_narrowing", "delivery.choice-missing", "a choice was asked for, no option is named", 0.8)
        if wanted.source and not _content_words(wanted.source) & _content_words(head):
            yield Gap("topic_narrowing", "delivery.source-untouched", "the text to work on was not worked on", 0.8)
    if wanted.words and len(answer.split(None, wanted.words // 6)) <= wanted.words // 6:
        why = f"{wanted.words} words were asked for, less than a sixth is given"
        yield Gap("length_collapse", "delivery.far-too-short", why, 0.6, alone=False)
    elided = _ELIDED.search(head) if any(word in head for word in _ELISION_WORDS) else None
    if elided and not wanted.sketch():
        why = "a part was left out, which was not asked for"
        yield Gap("topic_narrowing", "delivery.left-out", why, 0.7, part=True, place=elided.span())
    if wanted.both_sides and len(answer) <= 120 * wanted.both_sides and not _OTHER_SIDE.search(head):
        why = "arguments on both sides were asked for, one side is missing"
        yield Gap("topic_narrowing", "delivery.one-side", why, 0.75, part=True)
    if wanted.count and len(answer) <= 100 * wanted.count:
        given = {int(number) for number in _NUMBERED.findall(answer.lower())}
        if given and max(given) < wanted.count:
            why = f"{wanted.count} were asked for, {len(given)} are given"
            yield Gap("topic_narrowing", "delivery.too-few", why, 0.8, part=True)


def holds(context: str, question: str) -> bool:
    """Whether the context speaks of everything that the question names: then the answer should be in it."""
    asked = _content_words(question)
    return bool(asked) and all(word[: max(4, len(word) - 2)] in context for word in asked)


def _number(match: re.Match[str] | None) -> int | None:
    if match is None:
        return None
    word = match.group(1)
    return int(word) if word.isdecimal() else _COUNTS.index(word)


def _content_words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text)) - _STOP


def _plain(text: str) -> str:
    return text.replace("'", "").replace("’", "")
