"""What the ask wants to be handed, and whether the response holds it.

Reads the ask with cheap extractors (a count, a figure, a choice, a text to work on, a context to look into) and looks
for each in the answer. A low overlap of words or a short reply prove nothing, so every check here wants a definite thing;
what it cannot read it leaves alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Of a long ask, the beginning and the end are read: instructions stand there, pasted matter in between.
_READ = 3000
_NUMBERS = {w: n for n, w in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())}
_NUMBER_WORDS = frozenset(_NUMBERS) | frozenset(
    "thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred thousand million billion half quarter third dozen once twice none no zero".split()
)
_COUNTED = (
    r"(?:[a-z-]+ )?(?:reasons?|ways|steps|tips|ideas|examples?|points?|items?|names?|facts|questions|titles|"
    r"days?|advantages|disadvantages|benefits|arguments|pros|cons|suggestions|options|things|words|months|weeks|methods|"
    r"sentences|lines|bullet points|headlines|slogans|recipes|books|films|movies|songs|synonyms)\b"
)
_COUNT = re.compile(r"\b(\d{1,2}|" + "|".join(list(_NUMBERS)[2:]) + r")[ -](?:\w+ ){0,2}?" + _COUNTED)
_AGAINST = re.compile(r"\b(\d|two|three|four|five) (?:[a-z]+ )?(?:for|advantages|pros|benefits|arguments for)\b.{0,40}?\b(?:\d|two|three|four|five) (?:against|disadvantages|cons|drawbacks)\b")
_FIGURE = re.compile(
    r"\bhow (?:many|much|old|tall|long|far|heavy|fast|high|deep|wide|big)\b|\bwhat (?:is|are|was) the (?:usual |typical |normal |average |maximum |recommended )?"
    r"(?:\w+ )?(?:dose|dosage|price|temperature|distance|length|height|weight|population|number|percentage|speed|date|year)\b"
    r"|\bconvert \d|\bwhat is \d|\b\d+ ?[+x*/×÷-] ?\d+|\bcalculate\b|\d+ (?:percent|%) of \d"
)
_QUOTE = re.compile(r"[\"“«']([^\"”»\n]{20,1500})[\"”»']")
_TRANSFORM = re.compile(r"\b(?:summari[sz]e|shorten|paraphrase|rephrase|rewrite|proofread|correct)\b")
_CONTEXT = re.compile(r"\b(?:context|passage|document|article|text|notes?|excerpt) ?: ?(.{10,2500}?)(?:\bquestion ?:|\bq ?:)(.{4,300})", re.DOTALL)
_OPTION = re.compile(r"(?:^|[\s(])([A-D])[:.)] ")
_CONTENT = re.compile(
    r"\b(?:write|compose|draft|create|generate|make up|invent|continue|tell|give|rewrite|sample|produce)\b.{0,60}?\b(?:poem|story|stories|tale|"
    r"letter|e-?mails?|mail|song|lyrics|dialogue|dialog|script|scene|speech|limerick|haiku|essay|tweet|post|polic(?:y|ies)|error|"
    r"sample|lines?|note|reply|message|monologue|novel|chapter|fable|play|joke|verse|article|blog|statement|announcement|excuse|notice|review)\b"
)
_TRANSLATE = re.compile(r"\btranslat|\bin(?:to)? (?:english|french|german|spanish|italian|chinese|japanese|korean|russian|hindi|arabic|portuguese|dutch|polish|turkish)\b|翻译|翻譯|अनुवाद|переведи|traduc|traduis|übersetz|번역|翻訳|ترجم")
_ELISION_ASKED = re.compile(r"\bonly (?:the )?(?:changed|changes|diff|relevant)|\bskeleton|\bempty|\bno bod|\bstub|\boutline|\bplaceholder|\babstract|\bbrief|\bshort")
_ELIDED = re.compile(r"(?:omitted|left out|skipped|truncated|shortened) for (?:brevity|space|length)|\brest of (?:the )?(?:code|file|implementation|table|list|months) (?:goes )?here")
_ELISION_WORDS = ("brevity", "omitted", "left out", "skipped", "rest of", "shortened")
_TOLD = re.compile(r"\b(?:say|reply|answer|respond|write|output|return|tell)\b")
_ITEM = re.compile(r"(?m)^[ \t]*(?:\d{1,3}[.):]|[-*•–]|#{2,4} |day \d+|step \d+|\*\*\d+)")
_WORD = re.compile(r"[a-z]{3,}")
_STOP = frozenset(
    "the and for that this with was were are you your from who what which when where why how does did not but has have had can could "
    "would should will its his her their our they she him than then there into about out one all any some been being more most very just".split()
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the ask asks for, as far as it can be read. `content`: a text of its own (story, mail, sample)."""

    content: bool = False
    translation: bool = False
    figure: bool = False
    count: int | None = None
    both_sides: int | None = None
    options: tuple[str, ...] = ()
    source: str = ""
    context: str = ""
    question: str = ""
    specified: bool = False
    elision_asked: bool = False
    told: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """Something definite that was asked for and is missing: wholly, or (`part`) in part.

    `alone`: it stands without other evidence. The span is the whole answer.
    """

    signal: str
    rule: str
    why: str
    weight: float
    part: bool = False
    alone: bool = True


def read_wanted(prompt: str, system: str) -> Wanted:
    """What `prompt` asks for; nothing when it is empty."""
    if not prompt:
        return Wanted()
    text = prompt if len(prompt) <= 2 * _READ else prompt[:_READ] + "\n" + prompt[-_READ:]
    low = text.lower().replace("’", "'")
    translation = bool(_TRANSLATE.search(low))
    transform = _TRANSFORM.search(low)
    quote = _QUOTE.search(text) if transform and not translation else None
    context = _CONTEXT.search(low)
    count, sides = _COUNT.search(low), _AGAINST.search(low)
    return Wanted(
        content=translation or bool(_CONTENT.search(low)),
        translation=translation,
        figure=bool(_FIGURE.search(low)) and len(low) < 400,
        count=_number(count.group(1)) if count else None,
        both_sides=_number(sides.group(1)) if sides else None,
        options=tuple(dict.fromkeys(_OPTION.findall(text))) if re.search(r"\bwhich\b", low) else (),
        source=quote.group(1).lower() if quote else "",
        context=context.group(1) if context else "",
        question=context.group(2) if context else "",
        specified=bool(quote) or bool(re.search(r"\d", low)),
        elision_asked=bool(_ELISION_ASKED.search(low)),
        told=f"{low}\n{system[:_READ].lower()}" if _TOLD.search(low) or _TOLD.search(system[:_READ].lower()) else "",
    )


def gaps(wanted: Wanted, answer: str) -> list[Gap]:
    """What was asked for and is not in `answer` (the model's own text, without thinking)."""
    head = answer[:2000].lower()
    found: list[Gap] = []
    if wanted.figure and len(answer) < 600 and not _has_figure(head):
        found.append(Gap("topic_narrowing", "delivery.figure-missing", "a figure was asked for and none is given", 0.7, alone=False))
    if len(wanted.options) >= 2 and len(answer) < 600 and not _names_option(answer, wanted.options) and not _has_figure(head):
        found.append(Gap("topic_narrowing", "delivery.choice-missing", "a choice was asked for and no option is named", 0.8))
    if wanted.source and len(answer) < 600 and not (_words(wanted.source) & _words(head)):
        found.append(Gap("topic_narrowing", "delivery.source-untouched", "the text to work on was not worked on", 0.8))
    if not wanted.elision_asked and any(word in head for word in _ELISION_WORDS) and (match := _ELIDED.search(head)):
        found.append(Gap("topic_narrowing", "delivery.left-out", f"parts were left out unasked ({match.group()!r})", 0.7, part=True))
    if wanted.both_sides and (side := _one_side(wanted.both_sides, head)):
        found.append(Gap("topic_narrowing", "delivery.one-side", side, 0.75, part=True))
    elif wanted.count and 2 < wanted.count <= 31 and (few := _too_few(wanted.count, answer)):
        found.append(few)
    return found


def holds(context: str, question: str) -> bool:
    """Whether the context speaks of everything that the question names: then the answer should be in it."""
    asked = _words(question)
    return bool(asked) and len(context) < 2500 and all(_stem(word) in context for word in asked)


def _has_figure(text: str) -> bool:
    return any(c.isdigit() for c in text) or not _NUMBER_WORDS.isdisjoint(re.findall(r"[a-z]+", text))


def _names_option(answer: str, options: tuple[str, ...]) -> bool:
    return any(re.search(rf"\b{option}\b", answer) for option in options)


def _one_side(each: int, text: str) -> str | None:
    if len(text) > 120 * each or _ITEM.search(text):
        return None
    sides = re.search(r"\b(?:against|disadvantages?|cons|drawbacks?|downsides?|minus(?:es)?|however|but)\b", text)
    return None if sides else "arguments on both sides were asked for, one side is missing"


def _too_few(count: int, answer: str) -> Gap | None:
    """Fewer days or steps than asked for, where the answer itself numbers them."""
    numbered = {int(n) for n in re.findall(r"\b(?:day|step|week|month)\s*(\d{1,2})\b", answer[:20000].lower())}
    if not numbered or max(numbered) >= count or len(numbered) >= count or len(answer) > 100 * count:
        return None
    return Gap("topic_narrowing", "delivery.too-few", f"{count} were asked for, {len(numbered)} are given", 0.8, part=True)


def _number(word: str) -> int:
    return int(word) if word.isdecimal() else _NUMBERS[word]


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text)) - _STOP


def _stem(word: str) -> str:
    return word[: max(4, len(word) - 2)]
