"""What the ask wants to be handed, as far as it can be read with cheap extractors.

A count, a figure, a choice, a text to work on, a context to look into, code, a letter. What it cannot read it leaves
alone. The patterns have no nested repetition and run on bounded pieces of text. Knows nothing of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from demur.classifier.lazy import lazy
from demur.classifier.wishes import Wishes

#: Scripts from here on are written without spaces, or with endings joined to the word.
UNSPACED = "\u0e00"
#: Of a long ask, this much of the beginning and the end is read: instructions stand there, pasted matter in between.
_READ = 3000
#: Where it says what to do: as much of both ends.
_TOLD = 800
#: A shorter ask (characters) that only points at something is vague. Own choice.
_VAGUE = 40
#: A longer one may leave something open, for all its figures.
_PLAIN = 300
#: A still shorter one is, whatever it says.
_TERSE = 16
_POINTING = re.compile(r"\b(?:it|this|that|these|them|something)\b")
#: Numbers that are told in words, from 0 on.
COUNTS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_THINGS = (
    r"(?:reasons?|ways|steps|tips|ideas|examples?|points?|items?|names|facts|questions|titles|days?|advantages|benefits|"
    r"arguments|pros|suggestions|options|things|weeks|months|methods|lines|headlines|recipes|books|songs)"
)
_COUNT = re.compile(rf"\b(\d{{1,2}}|{'|'.join(COUNTS[2:])})[ -](?:[\w-]+ ){{0,2}}?{_THINGS}\b")
_COUNT_ORDERED = re.compile(
    rf"\b(?:list|give|name|write|suggest|share|provide|offer|tell|show)(?: me| us)? (?:[a-z]+ )?{_COUNT.pattern}"
)
_COUNT_NAMED = re.compile(
    r"\b(?:list|give|name|suggest|tell)(?: me| us)? (?:[a-z]+ )?"
    rf"(\d{{1,2}}|{'|'.join(COUNTS[2:])}) (?:[\w-]+ ){{0,2}}?\w+s\b"
)
_SIDES = re.compile(
    r"\b(\d|two|three|four|five) (?:[a-z]+ )?(?:for|advantages|pros|benefits)\b.{0,40}?"
    r"\b(?:\d|two|three|four|five) (?:against|disadvantages|cons|drawbacks)\b"
)
#: Words that open the other side of a question.
OTHER_SIDE = re.compile(r"\b(?:against|disadvantages?|cons|drawbacks?|downsides?|however|but)\b")
#: What asks for a number, each with the word that it can't do without.
_FIGURE = {
    "how ": re.compile(r"\bhow (?:many|much|old|tall|long|far|heavy|fast|high|deep|wide|big)\b"),
    "what ": re.compile(
        r"\bwhat (?:is|are|was|were) the (?:\w+ ){0,2}(?:dose|dosage|price|temperature|distance|length|height|weight|"
        r"population|percentage|speed|year)\b|\bwhat is \d"
    ),
    "convert ": re.compile(r"\bconvert \d"),
    "calculate": re.compile(r"\bcalculate\b"),
    "year": re.compile(r"\b(?:what|which) year\b"),
    "": re.compile(r"\d ?(?:[+x*/×÷-] ?\d|(?:percent|%) of \d)"),
}
_SUM = re.compile(
    r"\b(?:what is|what's|calculate|compute|work out|how much is) (?:\d[\d.,]* ?(?:[+x*×÷]|times|plus|minus|"
    r"multiplied by|divided by|percent of|% of) ?[1-9]|the sum of \d)|\bconvert \d[\d.,]* ?\w+ (?:in)?to \w+"
)
_FIGURES = re.compile(r"\d+(?:[.,]\d+)*")
#: Two numbers that are reckoned with, in any of our languages.
_ARITHMETIC = re.compile(
    r"\d ?(?:[%+×*÷]|(?:percent|prozent|por ?ciento|pour ?cent|per ?cento|por ?cento|procent|yüzde|phần trăm|persen|"
    r"процент\w*|mal|fois|vezes|veces|keer|razy|kali|lần|kere|x|geteilt durch|plus|minus|più|mais|más)\b)\D{0,12}\d|"
    r"\d\D{0,4}\d+ ?(?:[%％]|퍼센트|パーセント|분의)|\d ?[乘除加减+×÷]\D{0,3}\d"
)
#: A longer ask (characters) that has two numbers may be about something else.
_TERSE_SUM = 120
#: A longer ask (characters) may want more than one figure, date or choice.
_SHORT = 400
#: What asks for a date. "When I was young, …" does not.
_DATE = re.compile(
    r"(?:^|[.?!,] |\band )when (?:did|was|were|is|are|does|do|will)\b|\b(?:what|which) (?:date|day|month)\b"
)
#: What asks for one of two things, and the things.
_EITHER = re.compile(
    r"\b(?:should|shall|which|pick|choose|prefer|better|best|between|cheaper|faster|decide|recommend|buy|get|take)\b"
    r"[^.?!\n]{0,80}?\b([\w'&-]{2,30}) or "
    r"(?:to |the |a |an |in |for |with |on |my |go |buy |get |take ){0,3}([\w'&-]{2,30})"
)
_NO_OPTION = frozenset(
    {"not", "no", "wrong", "false", "bad", "more", "less", "so", "else", "later", "two", "both", "something"}
)
#: What asks whether something is right, lawful, safe or wise, what comes of it, or what helps against it.
_JUDGES = re.compile(
    r"(?:^|[.?!,;:\n] ?)(?:so |and |but |then |also )?(?:is|are|was|were|isn't|aren't|would) "
    r"(?:[\w',]+ ){1,8}?"
    r"(?:legal|illegal|wrong|right|ok|okay|fine|safe|dangerous|bad|good|ethical|unethical|immoral|moral|racist|sexist|"
    r"rude|weird|normal|allowed|acceptable|healthy|unhealthy|harmful|appropriate|inappropriate|crime|sin|idea|fair|unfair|cruel|"
    r"offensive|cheating|stealing)\b|"
    r"(?:^|[.?!,;:\n] ?)(?:so |and |but |then |also )?(?:should|may|must|can) (?:i|we|you|one|my|people)\b|"
    r"\bwhat (?:are|is|were|would be) the (?:\w+ ){0,2}"
    r"(?:consequences?|risks?|dangers?|penalt(?:y|ies)|punishments?|harms?|side effects)\b|"
    r"\bwhat (?:happens|would happen|could happen) (?:if|to|when)\b|"
    r"\bwhy (?:is|are|was) (?:[\w',]+ ){1,8}?(?:wrong|bad|illegal|harmful|dangerous|important|unethical)\b|"
    r"\bhow (?:can|do|should|could) (?:i|we|you) (?:best )?(?:report|protect|deal with|cope|support|prevent|respond)\b|"
    r"\b(?:am i wrong|do you agree|agree\?|what do you think of|rate my|judge my|good or bad|right or wrong)\b"
)
_WORDS_ASKED = re.compile(r"\b(\d{3,5})[ -]words?\b")
_QUOTE = re.compile(r"[\"“«'„‹「『《]([^\"”»\n“›」』》]{12,1500})[\"”»'“›」』》]")
_AFTER_COLON = re.compile(r"^[^:：]{0,120}[:：]\s*([^:：]{30,})", re.DOTALL)
#: A quotation this far (characters) from the word that says what to do with it is another matter.
_NEAR = 160
#: A text to work on has so many characters; one in an unspaced script, half of it.
_WORTH_WORK = {"quoted": 20, "told": 65}
_TRANSFORM = re.compile(r"\b(?:summari[sz]e|shorten|paraphrase|rephrase|rewrite|proofread|correct)\b")
_SHORTEN = re.compile(r"\b(?:summari[sz]e|shorten)\b")
_CONTEXT = re.compile(
    r"(?:\b(?:context|passage|document|article|text|notes?|excerpt|kontext|dokument|texte|contexte|contexto|texto|"
    r"contesto|testo|documento|tekst|metin|bağlam|teks|konteks|văn bản|текст|контекст|النص|السياق|संदर्भ)|"
    r"文章|上下文|资料|文脈|本文|지문|문맥|본문) ?[:：] ?(.{6,2500}?)"
    r"(?:\b(?:question|q|frage|pregunta|domanda|pergunta|vraag|pytanie|soru|câu hỏi|pertanyaan|вопрос|السؤال|سؤال|"
    r"प्रश्न)|问题|問題|質問|질문|문제) ?[:：](.{3,300})",
    re.DOTALL,
)
_OPTION = re.compile(r"(?:^|[\s(])([A-D])[:.)] ")
_ORDERED = re.compile(
    r"\b(?:write|compose|draft|create|generate|make up|invent|continue|tell|give|rewrite|sample|produce)\b.{0,60}?"
    r"\b(?:poem|story|stories|tale|letter|e-?mails?|mail|song|lyrics|dialogue|dialog|script|scene|speech|limerick|haiku|"
    r"essay|tweet|post|polic(?:y|ies)|error|sample|lines?|note|reply|message|monologue|novel|chapter|fable|play|"
    r"verse|article|blog|paragraph|statement|announcement|excuse|notice|review|page|faq|terms|section|bio|profile|caption|toast|"
    r"press release|disclaimer|memo|greeting)\b"
)
_NO_ORDERED = re.compile(
    r"\b(?:write|draft|create|generate|give|make|compose|suggest|need|want)\b.{0,60}?\b(?:refusals?|rejections?|fallback|"
    r"apology|apologies|excuses?|denial|(?:to|that) (?:decline|refuse|reject|say no)|declining|refusing|rejecting|"
    r"saying no|break-?up|says? no)\b|"
    r"\bwhat (?:should|can|could|do|would) i (?:say|reply|write|answer|respond|text)\b|"
    r"\bhow (?:should|do|can|could|would) i (?:\w+ )?(?:say|reply|respond|answer|phrase|decline|refuse|turn down)\b|"
    r"\b(?:reply|respond) to (?:this|him|her|them|my)\b|\bexcuse (?:to|for)\b|\b(?:polite|nice|kind) way to\b|"
    r"\bwhat (?:does|did|do|would|will) (?:[\w',]+ ){1,5}?(?:say|reply|answer|respond)"
    r"(?:\?| (?:to|when|as|while|in (?:[\w']+ ){0,4}?"
    r"(?:story|novel|book|film|movie|play|poem|song|scene|tale|fable))\b)|"
    r"\b(?:famous|last|first|closing|opening|best-known) (?:line|words|quote)\b|\bcatchphrase\b|"
    r"\b(?:rewrite|rephrase|paraphrase|proofread|correct|fix|complete|translate)\b[^:'\"“]{0,60}[:'\"“].{0,200}?"
    r"\b(?:nope|cannot|can't|cant|won't|decline|refuse|rather)\b",
    re.DOTALL,
)
#: A no in the text that is to be translated.
_NO_TO_TRANSLATE = re.compile(
    r"\b(?:can't|cannot|won't|will not|unable|refuse|decline|rather not|no puedo|ne peux pas|ne veux pas|kann nicht|"
    r"non posso|não posso|не могу)\b|[无無]法|不能|できません|할 수 없|لا أستطيع"
)
_SERVICE = re.compile(
    r"\b(?:chat)?bots?\b|\b(?:fallback|assistant|refusals?|rejections?|customers?|clients?|service|agent)\b"
)
_LENGTHY = re.compile(
    r"\b(?:poem|story|stories|tale|song|lyrics|dialogue|dialog|script|scene|speech|limerick|haiku|essay|monologue|novel|"
    r"chapter|fable|verse|article|blog)\b"
)
_ONE_LINE = re.compile(r"\b(?:short|one|single|two|tiny|six|brief|micro|last|first|next|line|sentence|title|name)\b")
#: Forms that stand in lines.
_VERSE = re.compile(
    r"\b(?:write|compose|give|make|create|need|want)\b.{0,40}?\b(?:poem|haiku|limerick|sonnet|couplet|rhyme|verses?)\b"
)
#: Languages that are written in letters of their own; the others have Latin ones.
LETTERS = {
    language: re.compile(f"[{letters}]")
    for letters, languages in {
        "\u3400-\u9fff": "chinese mandarin",
        "\u3040-\u30ff\u3400-\u9fff": "japanese",
        "\uac00-\ud7a3": "korean",
        "\u0400-\u04ff": "russian ukrainian bulgarian",
        "\u0900-\u097f": "hindi",
        "\u0600-\u06ff": "arabic persian urdu",
        "\u0370-\u03ff": "greek",
        "\u0590-\u05ff": "hebrew",
        "\u0e00-\u0e7f": "thai",
    }.items()
    for language in languages.split()
}
_INTO = re.compile(
    r"\b(?:translate|translation|say|write|put|answer|reply|respond)\b.{0,80}?\b(?:in|into|to) "
    r"(?:simple |formal |plain )?(french|german|spanish|italian|portuguese|dutch|polish|turkish|vietnamese|"
    rf"indonesian|swedish|{'|'.join(LETTERS)})\b",
    re.DOTALL,
)
_TRANSLATE = re.compile(
    r"translat|\bin(?:to)? (?:english|french|german|spanish|italian|chinese|japanese|korean|russian|hindi|arabic|"
    r"portuguese|dutch|polish|turkish)\b"
)
_ARGUES = re.compile(
    r"\b(?:why|against|wrong|important|importance|respect|apolog\w*|sorry|rules|warning|dangers?|risks?|awareness)\b"
)
#: What makes a larger number, or an ordinal, of the sign after it.
_MORE_DIGITS = "第十百千万零一二三四五六七八九"
#: Digits of a year, and the most things of which an answer may lack some.
_YEAR, _MANY = 4, 30
#: What joins two things that are wanted.
_AND = re.compile(r" (?:and|y|e|et|und|en|oraz|i|и|ve|dan|và|और|aur) | و|と|、|和|并|並|以及|하고|그리고|[와과] ")
_ABOUT_MODEL = re.compile(
    r"\b(?:are|were) you (?:\w+ ){0,3}?(?:human|conscious|sentient|alive|real|robot|ai|bot|machine|self-aware)\b|"
    r"\bdo you (?:\w+ ){0,2}?(?:have|feel|experience|possess) (?:\w+ ){0,3}?(?:feelings?|emotions?|consciousness|body|"
    r"memory|soul|gender|senses|lonely|tired|bored|sad|happy|pain|dreams?)\b|"
    r"\bcan you (?:swim|walk|run|fly|dance|sing|drive|ride|jump|smell|taste|touch|feel|breathe|sleep|eat|drink|cry|"
    r"laugh|die|dream|whistle|love|get (?:tired|sick|bored))\b|"
    r"\bdo you (?:ever )?(?:dream|sleep|eat|remember me|get (?:tired|bored|lonely))\b|\b(?:who|what) are you\b|"
    r"\b(?:describe|introduce|about) yourself\b|"
    r"\bwhat can(?:'t)? you do\b|\bcan you (?:see|hear|view) (?:me|images|pictures|audio|sounds?|videos?)\b|"
    r"\bcan you (?:access|use|open) (?:my|the) (?:camera|microphone|files|phone|computer|screen|location|internet|web|"
    r"e-?mails?|contacts|calendar|desktop|photos)\b|"
    r"\bdo you have (?:\w+ )?(?:internet|web|live|real-time)? ?access to (?:the )?(?:internet|web|news)\b"
)
_ELISION_ASKED = re.compile(
    r"\bonly (?:the )?(?:chang|diff|relevant)|skeleton|\bempty|no bod|\bstub|outline|placeholder|abstract|brief|short"
)
_CODE_WORDS = ("function", "regex", "regular expression", "sql", "script", "program", "code", "command", "one-liner")
_CODE_ASKED = re.compile(
    r"\b(?:write|create|give|show|implement|generate|make|provide)\b.{0,40}?\b"
    r"(?:an? (?:\w+ ){0,2}?function\b(?! (?:of|name|room|hall|space)\b)|"
    r"regex|regular expression|sql|code (?:that|to|which|snippet)|"
    r"(?:python|bash|shell|java|javascript|powershell|php|ruby|lua|perl) "
    r"(?:script|program|code|class|method|command|one-liner)|"
    r"(?:script|program|code|class|method) in (?:python|bash|java|javascript|powershell|php|ruby|lua|perl|rust|go|c))\b"
)
_LETTER_ASKED = re.compile(r"\b(?:write|draft|compose)\b.{0,60}?\b(?:letter|e-?mail)\b")
#: Texts in which somebody speaks to somebody, or that play; none of them reasons about an act.
_PIECE_ASKED = re.compile(
    r"\b(?:write|draft|compose|create|make|give|send|tell)\b.{0,40}?\b(?:letter|e-?mail|message|text|note|tweet|sms|review|"
    r"reference|joke|limerick|haiku|poem|song|rap|chant|ad|slogan|story|roast|toast|testimonial|ransom note)\b"
)
_NO_WANTED = re.compile(
    r"\b(?:yes|no|word|whether|if)\b|\b(?:is|are|was|were|do|does|did|has|have|may|should|am) \w+ [^?]{0,200}\?"
)
#: A question that no bare no answers; "How about tea?" and "Why not?" are offers.
_OPEN_QUESTION = re.compile(
    r"(?:please |now |ok,? |hey,? |so |and )*(?:how|what|which|where|why|who|whom|whose|when)\b"
    r"(?! (?:about|if|not|don't|else|is it|are you)\b)"
)
_ORDER = re.compile(
    r"(?:please |now |ok,? |hey,? )*(?:(?:can|could|will|would) you (?:please |kindly )?)?"
    r"(?:write|tell|give|list|explain|show|make|create|describe|translate|summari[sz]e|draft|compose|generate|name|help|"
    r"teach|rewrite|continue|find|say|suggest|provide|compare|design|plan|build|convert|calculate|answer|send|repeat|"
    r"print|act|pretend|imagine)\b"
)


class Wanted:
    """What an ask wants to be handed, as far as it can be read. A wish is read when it matters, which few ever do."""

    def __init__(self, prompt: str, system: str, wishes: Wishes | None = None) -> None:
        self._ask = prompt if len(prompt) <= 2 * _READ else f"{prompt[:_READ]}\n{prompt[-_READ:]}"
        self._system = system[:_READ]
        self._reader = wishes
        self.prompt = self._ask.lower().replace("’", "'")
        """What is read of the ask, in lower case."""
        ask = self.prompt
        self.brief = ask if len(ask) <= 2 * _TOLD else f"{ask[:_TOLD]}\n{ask[-_TOLD:]}"
        """The ends of it, where it says what to do."""

    @lazy
    def asked(self) -> str:
        """What is read of ask and system message, in lower case and without apostrophes."""
        return _plain(f"{self.prompt}\n{self._system.lower()}")

    @lazy
    def wishes(self) -> frozenset[str]:
        """What the phrases of the lexicons say that it wants (names of `lexicon.WISHES`)."""
        return self._reader.read(self._ask) if self._reader else frozenset()

    @lazy
    def content(self) -> bool:
        """Whether a text of its own is wanted: story, mail, sample, translation."""
        return self.translation or "content" in self.wishes or bool(_ORDERED.search(self.brief)) or self.a_no

    @lazy
    def a_no(self) -> bool:
        """Whether the text that is wanted is itself a refusal, an excuse or a reply to somebody."""
        if "refusal" in self.wishes or _NO_ORDERED.search(self.brief):
            return True
        return self.translation and bool(_NO_TO_TRANSLATE.search(self.brief))

    @property
    def service(self) -> bool:
        """Whether words for somebody who serves others are wanted."""
        return bool(_SERVICE.search(self.brief))

    @lazy
    def lengthy(self) -> bool:
        """Whether a text of more than a line is wanted."""
        if self.a_no or self.translation:
            return False
        return "content" in self.wishes or (bool(_LENGTHY.search(self.brief)) and not _ONE_LINE.search(self.brief))

    @lazy
    def translation(self) -> bool:
        """Whether text in some other language is wanted."""
        return "translation" in self.wishes or bool(_TRANSLATE.search(self.brief))

    @lazy
    def about_model(self) -> bool:
        """Whether it asks what the model is or feels."""
        if "model" in self.wishes:
            return True
        return "you" in self.prompt[:200] and bool(_ABOUT_MODEL.search(self.prompt[:200]))

    @lazy
    def source(self) -> str:
        """The text to work on: quoted, or what follows the first colon where its words come back in what is wanted."""
        told = _TRANSFORM.search(self.prompt)
        if (not told and "work" not in self.wishes) or self.translation:
            return ""
        quoted = _QUOTE.search(self._ask)
        if quoted and _worth(quoted.group(1), "quoted"):
            near = not told or abs(quoted.start() - told.end()) <= _NEAR
            return quoted.group(1).lower() if near else ""
        if told and not _SHORTEN.search(self.prompt):
            return ""
        after = _AFTER_COLON.search(self._ask)
        return after.group(1).lower() if after and _worth(after.group(1), "told") else ""

    @lazy
    def passage(self) -> tuple[str, str]:
        """The context to answer from, and the question to it; empty when there is none."""
        match = _CONTEXT.search(self.prompt) if ":" in self.prompt or "：" in self.prompt else None
        return (match.group(1), match.group(2)) if match else ("", "")

    @lazy
    def count(self) -> int | None:
        """How many things are wanted."""
        return _number(_COUNT.search(self.brief))

    def count_ordered(self) -> int | None:
        """How many things the ask tells to list."""
        return _number(_COUNT_ORDERED.search(self.brief)) if self.count is not None else None

    def count_named(self, counts: Sequence[tuple[str, int]] = ()) -> int | None:
        """The same, whatever the things are. `counts`: words for numbers of the language."""
        if count := _number(_COUNT_NAMED.search(self.prompt)):
            return count
        if "list" not in self.wishes or len(self.prompt) >= _SHORT:
            return None
        told = [int(figure) for figure in _FIGURES.findall(self.prompt) if figure.isdecimal() and len(figure) < _YEAR]
        told += _counted(self.prompt, counts)
        return told[0] if len(told) == 1 and 1 < told[0] <= _MANY else None

    def words(self) -> int | None:
        """How many words are wanted."""
        return _number(_WORDS_ASKED.search(self.prompt)) if "word" in self.prompt else None

    def both_sides(self) -> int | None:
        """How many arguments for, where as many against are wanted."""
        return _number(_SIDES.search(self.brief)) if OTHER_SIDE.search(self.brief) else None

    def sides(self, pairs: Sequence[tuple[str, str]]) -> bool:
        """Whether both sides of a question are wanted, by pairs of words for them."""
        return any(holds_word(self.brief, one) and holds_word(self.brief, other) for one, other in pairs)

    def harsh(self) -> bool:
        """Whether a text that finds fault is wanted."""
        return "harsh" in self.wishes

    def options(self) -> frozenset[str]:
        """The letters to choose from."""
        return frozenset(_OPTION.findall(self._ask)) if "which" in self.prompt else frozenset()

    def either(self) -> tuple[str, str] | None:
        """The two things to choose from, a word of each."""
        match = _EITHER.search(self.prompt) if " or " in self.prompt and len(self.prompt) < _SHORT else None
        if match is None or not _NO_OPTION.isdisjoint(match.groups()):
            return None
        return match.group(1), match.group(2)

    def judges(self) -> bool:
        """Whether it asks if something is right, lawful, safe or wise: there an admonition is the answer."""
        return "judgement" in self.wishes or bool(_JUDGES.search(self.brief))

    def date(self) -> bool:
        """Whether a date is wanted."""
        return "wh" in self.prompt and len(self.prompt) < _SHORT and bool(_DATE.search(self.prompt))

    def verse(self) -> bool:
        """Whether a poem is wanted, or some other form that stands in lines."""
        return bool(_VERSE.search(self.brief))

    def into(self) -> str:
        """The language, not English, that a text is wanted in; empty when none is named."""
        match = _INTO.search(self.brief) if self.translation else None
        return match.group(1) if match else ""

    def argument(self) -> bool:
        """Whether reasons for or against something are wanted: there a lecture is the text."""
        return bool(_ARGUES.search(self.brief))

    def several(self) -> bool:
        """Whether more than one thing is asked."""
        return bool(_AND.search(self.prompt)) or self.prompt.count("?") + self.prompt.count("？") > 1

    def specified(self) -> bool:
        """Whether the ask brings figures or a text, so that nothing needs to be asked back."""
        return bool(self.source) or (len(self.prompt) < _PLAIN and any(char in self.prompt for char in "0123456789"))

    def vague(self) -> bool:
        """Whether so little is said that asking back is the right answer."""
        if self.specified():
            return False
        ask = self.prompt.strip()
        return len(ask) < _TERSE or (len(ask) < _VAGUE and bool(_POINTING.search(ask)))

    def figure(self) -> bool:
        """Whether a number is wanted."""
        ask = self.prompt
        if len(ask) >= _SHORT:
            return False
        return "figure" in self.wishes or any(word in ask and pattern.search(ask) for word, pattern in _FIGURE.items())

    def sum(self) -> bool:
        """Whether a sum or a conversion is wanted."""
        if not any(map(str.isdigit, self.prompt[:_SHORT])):
            return False
        if _SUM.search(self.prompt):
            return True
        return len(self.prompt) < _TERSE_SUM and self.figure() and bool(_ARITHMETIC.search(self.prompt))

    def order(self) -> bool:
        """Whether something is told to be done."""
        return bool(_ORDER.match(self.prompt.lstrip()))

    def no_answers(self) -> bool:
        """Whether a bare no may be the answer: to a question, or where a word is ordered."""
        ask = self.brief.lstrip()
        if _OPEN_QUESTION.match(ask):
            return False
        return not self.order() or bool(_NO_WANTED.search(ask))

    def may_say_no(self) -> bool:
        """Whether a bare no may be what is wanted: as the answer, or as the text."""
        return self.translation or self.a_no or self.no_answers()

    def code(self) -> bool:
        """Whether code is wanted."""
        ask = self.brief
        if "ask me" in ask or "need to know" in ask:
            return False
        return "code" in self.wishes or (any(word in ask for word in _CODE_WORDS) and bool(_CODE_ASKED.search(ask)))

    def letter(self) -> bool:
        """Whether a letter or a mail is wanted."""
        return self.order() and bool(_LETTER_ASKED.search(self.brief))

    def piece(self) -> bool:
        """Whether a message, a joke or the like is wanted."""
        return bool(_PIECE_ASKED.search(self.brief))

    def sketch(self) -> bool:
        """Whether a part or an outline is enough."""
        return bool(_ELISION_ASKED.search(self.brief))


def holds_word(text: str, word: str) -> bool:
    """Whether `text` (folded) has `word` as words of its own; in scripts without spaces, anywhere."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if word[0] >= UNSPACED or not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            return True
        at = text.find(word, at + 1)
    return False


def _counted(text: str, counts: Sequence[tuple[str, int]]) -> list[int]:
    """What the words for numbers in `text` count, the longest first; not as a part of a larger number, or as a place
    in a row ("the third", where the word says so before it)."""
    told = []
    for word, count in sorted(counts, key=lambda one: -len(one[0])):
        if holds_word(text, word):
            at = text.find(word)
            if text[at - 1 : at] not in tuple(_MORE_DIGITS):
                told.append(count)
            text = text.replace(word, " ")
    return told


def _number(match: re.Match[str] | None) -> int | None:
    if match is None:
        return None
    word = match.group(1)
    return int(word) if word.isdecimal() else COUNTS.index(word)


def _worth(text: str, how: str) -> bool:
    """Whether `text` is long enough to be worked on."""
    return len(text) * (1 if text.isascii() or text[len(text) // 2] < "\u2e80" else 2) >= _WORTH_WORK[how]


def _plain(text: str) -> str:
    return text.replace("'", "").replace("’", "")
