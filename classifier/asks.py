"""The patterns by which `wanted` reads an ask, most of them English; other languages have theirs in `[asks]` of their
lexicons.

Where a few words of each language do, those of all stand here. They have no nested repetition and run on bounded pieces
of text, nearly all in lower case.
"""

from __future__ import annotations

import re

#: Of a long ask, this much of the beginning and the end is read: instructions stand there, pasted matter in between.
READ = 3000
#: Where it says what to do: as much of both ends.
TOLD = 800
#: A shorter ask (characters) that only points at something is vague. Own choice.
VAGUE = 40
#: A longer one may leave something open, for all its figures.
PLAIN = 300
#: A still shorter one is, whatever it says.
TERSE = 16
POINTING = re.compile(r"\b(?:it|this|that|these|them|something)\b")
#: Numbers that are told in words, from 0 on.
COUNTS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
THINGS = (
    r"(?:reasons?|ways|steps|tips|ideas|examples?|points?|items?|names|facts|questions|titles|days?|advantages|benefits|"
    r"arguments|pros|suggestions|options|things|weeks|months|methods|lines|headlines|recipes|books|songs)"
)
COUNT = re.compile(rf"\b(\d{{1,2}}|{'|'.join(COUNTS[2:])})[ -](?:[\w-]+ ){{0,2}}?{THINGS}\b")
COUNT_ORDERED = re.compile(
    rf"\b(?:list|give|name|write|suggest|share|provide|offer|tell|show)(?: me| us)? (?:[a-z]+ )?{COUNT.pattern}"
)
COUNT_NAMED = re.compile(
    r"(?:^|[.?!:;,\n] ?|\b(?:please|just|you|and|then) )(?:list|give|name|suggest|tell)(?: me| us)? "
    r"(?:(?:the|any|some|at least|exactly|my|your|these|top|only|just) )?"
    rf"(\d{{1,2}}|{'|'.join(COUNTS[2:])}) (?:[\w-]+ ){{0,2}}?\w+s\b"
)
SIDES = re.compile(
    r"\b(\d|two|three|four|five) (?:[a-z]+ )?(?:for|advantages|pros|benefits)\b.{0,40}?"
    r"\b(?:\d|two|three|four|five) (?:against|disadvantages|cons|drawbacks)\b"
)
#: Words that open the other side of a question.
OTHER_SIDE = re.compile(
    r"\b(?:against|disadvantages?|cons|drawbacks?|downsides?|however|but|then again|mais|aber|dafür|jedoch|allerdings|"
    r"pero|sin embargo|ma|però|mas|porém|maar|ale|jednak|но|однако|ama|fakat|nhưng|tetapi|namun|लेकिन)\b|"
    r"لكن|但|不过|しかし|ただ|하지만|그러나"
)
#: One side is enough.
ONE_SIDE = re.compile(r"\b(?:just|only|forget|nur|solo|sólo|seulement|uniquement|apenas|alleen|tylko|только|sadece)\b")
#: What takes the harshness out again.
KIND = re.compile(r"\b(?:polite|kinder|kind|nicer|softer|gentler|friendl\w+)\b")
#: What asks for a number, each with the word that it can't do without.
FIGURE = {
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
SUM = re.compile(
    r"\b(?:what is|what's|calculate|compute|work out|how much is) (?:\d[\d.,]* ?(?:[+x*×÷]|times|plus|minus|"
    r"multiplied by|divided by|percent of|% of) ?[1-9]|the sum of \d)|\bconvert \d[\d.,]* ?\w+ (?:in)?to \w+"
)
#: A number before these measures, and does not count things.
MEASURES = tuple("歳才岁年月日时時分秒人円元度%％살년월일시분명원")
FIGURES = re.compile(r"\d+(?:[.,]\d+)*")
#: Two numbers that are reckoned with, in any of our languages.
ARITHMETIC = re.compile(
    r"\d ?(?:[%+×*÷]|(?:percent|prozent|por ?ciento|pour ?cent|per ?cento|por ?cento|procent|yüzde|phần trăm|persen|"
    r"процент\w*|mal|fois|vezes|veces|keer|razy|kali|lần|kere|x|geteilt durch|plus|minus|più|mais|más)\b)\D{0,12}\d|"
    r"\d\D{0,4}\d+ ?(?:[%％]|퍼센트|パーセント|분의)|\d ?[乘除加减+×÷]\D{0,3}\d"
)
#: A longer ask (characters) that has two numbers may be about something else.
TERSE_SUM = 120
#: A longer ask (characters) may want more than one figure, date or choice.
SHORT = 400
YES_OR_NO = re.compile(r"\b(?:yes or no|yes/no|ja oder nein|oui ou non|sí o no)\b")
#: What asks for the name of somebody or of a place, in a question of one clause.
NAME = re.compile(
    r"^(?:please |so |and )?(?:who (?:was the (?:first|last)|wrote|painted|invented|discovered|composed|directed|"
    r"founded|built|designed|won|sang|played)|"
    r"(?:what|which) (?:city|country|river|mountain|planet|author|king|queen|president) (?:is|was|has|did|wrote|won)|"
    r"what(?:'s| is) the capital of)\b[^?.!\n]{2,120}\?\s*$"
)
OURS = re.compile(r"\b(?:you|your|me|my|us|our)\b")
#: What asks for a date. "When I was young, …" does not.
DATE = re.compile(
    r"(?:^|[.?!,] |\band )when (?:did|was|were|is|are|does|do|will)\b|\b(?:what|which) (?:date|day|month)\b"
)
#: What asks for one of two things, and the things.
EITHER = re.compile(
    r"\b(?:should|shall|which|pick|choose|prefer|better|best|between|cheaper|faster|decide|recommend|buy|get|take)\b"
    r"[^.?!\n]{0,80}?\b([\w'&-]{2,30}) or "
    r"(?:to |the |a |an |in |for |with |on |my |go |buy |get |take ){0,3}([\w'&-]{2,30})"
)
NO_OPTION = frozenset(
    {"not", "no", "wrong", "false", "bad", "more", "less", "so", "else", "later", "two", "both", "something"}
)
#: What stands before "should I" where an amount is asked for, not whether it is right.
AMOUNT = re.compile(r"\bhow (?:many|much|long|often|far|soon)(?: \w+){0,3} $")
#: What asks whether something is right, lawful, safe or wise, what comes of it, or what helps against it.
JUDGES = re.compile(
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
#: How many words are ordered; not how many there may be at most.
WORDS_ASKED = re.compile(
    r"\b(?:write|compose|draft|give|create|produce|answer|reply|respond)\b[^.?!\n]{0,60}?"
    r"(?<!than )(?<!to )(?<!under )(?<!within )(?<!most )(?<!max )(?<!maximum )\b(\d{3,5})[ -]words?\b"
)
QUOTE = re.compile(r"[\"“«'„‹「『《]([^\"”»\n“›」』》]{12,1500})[\"”»'“›」』》]")
AFTER_COLON = re.compile(r"^[^:：]{0,120}[:：]\s*([^:：]{30,})", re.DOTALL)
#: A quotation this far (characters) from the word that says what to do with it is another matter.
NEAR = 160
#: A text to work on has so many characters; one in an unspaced script, half of it.
WORTH_WORK = {"quoted": 20, "told": 65}
#: A shorter one, said in other words, may have none of its own left.
WORTH_WORDS = 120
IN_OTHER_WORDS = re.compile(r"\b(?:paraphrase|rephrase|in other words)\b")
TRANSFORM = re.compile(r"\b(?:summari[sz]e|shorten|paraphrase|rephrase|rewrite|proofread|correct)\b")
SHORTEN = re.compile(r"\b(?:summari[sz]e|shorten)\b")
CONTEXT = re.compile(
    r"(?:\b(?:context|passage|document|article|text|notes?|excerpt|kontext|dokument|texte|contexte|contexto|texto|"
    r"contesto|testo|documento|tekst|metin|bağlam|teks|konteks|văn bản|текст|контекст|النص|السياق|संदर्भ)|"
    r"文章|上下文|资料|文脈|本文|지문|문맥|본문) ?[:：]"
)
QUESTION = re.compile(
    r"(?:\b(?:question|q|frage|pregunta|domanda|pergunta|vraag|pytanie|soru|câu hỏi|pertanyaan|вопрос|السؤال|سؤال|"
    r"प्रश्न)|问题|問題|質問|질문|문제) ?[:：]"
)
OPTION = re.compile(r"(?:^|[\s(])([A-D])[:.)] ?((?:(?![\s(][A-D][:.)])[^\n]){0,60})")
ORDERED = re.compile(
    r"\b(?:write|compose|draft|create|generate|make up|invent|continue|tell|give|rewrite|sample|produce)\b.{0,60}?"
    r"\b(?:poem|story|stories|tale|letter|e-?mails?|mail|song|lyrics|dialogue|dialog|script|scene|speech|limerick|haiku|"
    r"essay|tweet|post|polic(?:y|ies)|error|sample|lines?|note|reply|message|monologue|novel|chapter|fable|play|"
    r"verse|article|blog|paragraph|statement|announcement|excuse|notice|review|page|faq|terms|section|bio|profile|caption|toast|"
    r"press release|disclaimer|memo|greeting)\b"
)
NO_ORDERED = re.compile(
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
    r"\b(?:sample|example|model) (?:reply|answer|response)\b|\bkeeps? saying\b|"
    r"\bquote (?:the|his|her|their|its|[\w]+'s) (?:answer|reply|words|line)\b|"
    r"\b(?:rewrite|rephrase|paraphrase|proofread|correct|fix|complete|translate|shorten|summari[sz]e)\b"
    r"[^:'\"“]{0,60}[:'\"“].{0,200}?\b(?:nope|cannot|can't|cant|won't|decline|refuse|rather|not able|unable)\b",
    re.DOTALL,
)
#: A no in the text that is to be translated.
NO_TO_TRANSLATE = re.compile(
    r"\b(?:can't|cannot|won't|will not|unable|refuse|decline|rather not|no puedo|ne peux pas|ne veux pas|kann nicht|"
    r"non posso|não posso|не могу)\b|[无無]法|不能|できません|할 수 없|لا أستطيع"
)
SERVICE = re.compile(
    r"\b(?:chat)?bots?\b|\b(?:fallback|assistant|refusals?|rejections?|customers?|clients?|service|agent)\b"
)
LENGTHY = re.compile(
    r"\b(?:poem|story|stories|tale|song|lyrics|dialogue|dialog|script|scene|speech|limerick|haiku|essay|monologue|novel|"
    r"chapter|fable|verse|article|blog)\b"
)
ONE_LINE = re.compile(r"\b(?:short|one|single|two|tiny|six|brief|micro|last|first|next|line|sentence|title|name)\b")
#: Forms that stand in lines.
VERSE = re.compile(
    r"\b(?:write|compose|make|create|(?:give|need|want)(?: me| us)? an?)\b(?: [\w-]+){0,4}? "
    r"(?:poem|haiku|limerick|sonnet|couplet|rhyme|verses?)\b(?! (?:recommendation|title|name|book))"
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
INTO = re.compile(
    r"\b(?:translate|translation|say|write|put|answer|reply|respond)\b.{0,80}?\b(?:in|into|to) "
    r"(?:simple |formal |plain )?(french|german|spanish|italian|portuguese|dutch|polish|turkish|vietnamese|"
    rf"indonesian|swedish|{'|'.join(LETTERS)})\b",
    re.DOTALL,
)
INTO_ENGLISH = re.compile(r"\b(?:in|into|to) english\b")
TRANSLATE = re.compile(
    r"translat|\bin(?:to)? (?:english|french|german|spanish|italian|chinese|japanese|korean|russian|hindi|arabic|"
    r"portuguese|dutch|polish|turkish)\b"
)
ARGUES = re.compile(
    r"\b(?:why|against|wrong|important|importance|respect|apolog\w*|sorry|rules|warning|dangers?|risks?|awareness)\b"
)
#: What makes a larger number, or an ordinal, of the sign after it.
MORE_DIGITS = "第十百千万零一二三四五六七八九"
#: The most things of which an answer may lack some, and how near (characters) their number stands to the order.
MANY, BESIDE, BESIDE_UNSPACED = 30, 24, 10
#: What joins two things that are wanted.
AND = re.compile(r" (?:and|y|e|et|und|en|oraz|i|и|ve|dan|và|और|aur) | و|と|、|和|并|並|以及|하고|그리고|[와과] ")
ABOUT_MODEL = re.compile(
    r"\b(?:are|were) you (?:\w+ ){0,3}?(?:human|conscious|sentient|alive|real|robot|ai|bot|machine|self-aware)\b|"
    r"\bdo you (?:\w+ ){0,2}?(?:have|feel|experience|possess) (?:\w+ ){0,3}?(?:feelings?|emotions?|consciousness|body|"
    r"memory|soul|gender|senses|lonely|tired|bored|sad|happy|pain|dreams?)\b|"
    r"\bcan you (?:swim|walk|run|fly|dance|sing|drive|ride|jump|smell|taste|touch|feel|breathe|sleep|eat|drink|cry|"
    r"laugh|die|dream|whistle|love|get (?:tired|sick|bored))\b|"
    r"\bdo you (?:ever )?(?:dream|sleep|eat|remember me|get (?:tired|bored|lonely))\b|\b(?:who|what) are you\b|"
    r"\b(?:describe|introduce|about) yourself\b|"
    r"\bwhat can(?:'t)? you do\b|"
    r"\bcan you (?:see|hear|view) (?:me|images|pictures|audio|sounds?|videos?|(?:the |my )?\w+ (?:on|in) my)\b|"
    r"\bcan you (?:access|use|open) (?:my|the) (?:camera|microphone|files|phone|computer|screen|location|internet|web|"
    r"e-?mails?|contacts|calendar|desktop|photos)\b|"
    r"\bdo you have (?:\w+ )?(?:internet|web|live|real-time)? ?access to (?:the )?(?:internet|web|news)\b"
)
#: What asks how the model would act.
REACTION = re.compile(
    r"\b(?:what|how) (?:would|will) you (?:do|say|respond|react|answer|reply|handle it) (?:if|when)\b"
)
ELISION_ASKED = re.compile(
    r"\bonly (?:the )?(?:chang|diff|relevant)|skeleton|\bempty|no bod|\bstub|outline|placeholder|abstract|brief|short"
)
CODE_WORDS = ("function", "regex", "regular expression", "sql", "script", "program", "code", "command", "one-liner")
CODE_ASKED = re.compile(
    r"\b(?:write|create|give|implement|generate|make|provide)\b(?: me| us)?(?: an?| the| some)?(?: [\w+#-]+){0,2} "
    r"(?:function\b(?! (?:of|name|room|hall|space)\b)|"
    r"regex|regular expression|sql (?:query|statement|command|script|code)|code (?:that|to|which|snippet)|"
    r"(?:python|bash|shell|java|javascript|powershell|php|ruby|lua|perl) "
    r"(?:script|program|code|class|method|command|one-liner)|"
    r"(?:script|program|code|class|method) in (?:python|bash|java|javascript|powershell|php|ruby|lua|perl|rust|go|c))\b"
)
LETTER_ASKED = re.compile(
    r"\b(?:write|draft|compose)\b.{0,60}?\b(?:letter|e-?mail)\b(?! (?:subject|title|address|header))"
)
#: Texts in which somebody speaks to somebody, or that play; none of them reasons about an act.
PIECE_ASKED = re.compile(
    r"\b(?:write|draft|compose|create|make|give|send|tell)\b.{0,40}?\b(?:letter|e-?mail|message|text|note|tweet|sms|review|"
    r"reference|joke|limerick|haiku|poem|song|rap|chant|ad|slogan|story|roast|toast|testimonial|ransom note)\b"
)
NO_WANTED = re.compile(
    r"\b(?:yes|no|word|whether|if|antonym|opposite|synonym|term|mean\w*)\b|"
    r"\b(?:is|are|was|were|do|does|did|has|have|may|should|am) \w+ [^?]{0,200}\?"
)
#: A question that no bare no answers; "How about tea?" and "Why not?" are offers.
OPEN_QUESTION = re.compile(r"(?:please |now |ok,? |hey,? |so |and )*how (?:do|can|to|could|would|should|does|did)\b")
ORDER = re.compile(
    r"(?:please |now |ok,? |hey,? )*(?:(?:can|could|will|would) you (?:please |kindly )?)?"
    r"(?:write|tell|give|list|explain|show|make|create|describe|translate|summari[sz]e|draft|compose|generate|name|help|"
    r"teach|rewrite|continue|find|say|suggest|provide|compare|design|plan|build|convert|calculate|answer|send|repeat|"
    r"print|act|pretend|imagine)\b"
)
