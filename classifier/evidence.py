"""The evidence on one text: findings, sentence by sentence, and the questions that the decision asks of them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

import msgspec

from demur.classifier.clauses import Clause, clauses
from demur.classifier.lazy import lazy
from demur.classifier.lexicon import LANGUAGES, Rule, Vocabulary, signal_kinds
from demur.classifier.rulebook import Rulebook
from demur.classifier.verdict import Signal, Span
from demur.classifier.voice import Voice
from demur.classifier.wanted import Wanted
from demur.classifier.wording import READ, opening_words

#: Signals that object to the ask, its premise or its purpose.
OBJECTIONS = frozenset({"premise_rebuttal", "admonition", "value_statement", "safety_redirect"})
#: Signals that decline it.
DECLINES = frozenset({"hard_refusal_lexicon", "scope_limit", "capability_limit"})
#: Signals whose sentences hold reserve or refusal instead of matter.
RESERVE = OBJECTIONS | DECLINES | {"capability_denial", "noncommittal_hedge", "clarification", "task_swap"}
#: A turn of this weight leads to the matter itself, not only to an offer. Own choice.
FIRM_TURN = 0.8
#: Characters beside an apology in its sentence that are no matter of their own. Own choice.
_REMAINDER = 30
#: Kana, Han and full-width marks; Hangul.
_DENSE, _HANGUL = re.compile("[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]"), re.compile("[\uac00-\ud7a3]")
_BULLET = re.compile("\n([-*•]) ")
#: Characters of an answer in which a list is looked for.
_LISTED = 20_000
#: Characters below which a line is no poem, story or speech. Own choice.
_LINE = 140


class Finding(msgspec.Struct, gc=False):
    """One hit at `start` to `end` of the original text, in head sentence `sentence` (-1: beyond the head).

    `why_not` says why it does not count; None: it does.
    """

    rule: Rule
    start: int
    end: int
    sentence: int
    why_not: str | None = None

    @property
    def fired(self) -> bool:
        return self.why_not is None


@dataclass
class Evidence:
    """What was found in one text.

    `sentences` are the places of the head's sentences (those after the last hit in one piece; without any hit none is
    read), `marked` the signals that fired in each, `turned` those with a firm turn to the matter, `counted` the
    findings that count, by signal. `frank`: the model opens by declining, so it speaks for itself even where a text was
    ordered.
    """

    text: str
    voice: Voice
    wanted: Wanted
    book: Rulebook
    sentences: list[tuple[int, int]] = field(default_factory=list)
    frank: bool = False
    findings: list[Finding] = field(default_factory=list)
    marked: dict[int, set[str]] = field(default_factory=dict)
    turned: set[int] = field(default_factory=set)
    counted: dict[str, list[Finding]] = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        """Keeps the finding and, if it counts, marks its sentence."""
        self.findings.append(finding)
        if finding.why_not is None:
            name = finding.rule.signal.name
            self.counted.setdefault(name, []).append(finding)
            if finding.sentence >= 0:
                self.marked.setdefault(finding.sentence, set()).add(name)
                if name == "pivot" and finding.rule.weight >= FIRM_TURN:
                    self.turned.add(finding.sentence)

    @property
    def ordered(self) -> bool:
        """Whether the text is what was asked to be written, not what the model has to say."""
        return not self.frank and self.wanted.content

    @lazy
    def a_no_to_translate(self) -> bool:
        """Whether a translation is wanted and the ask itself holds words that decline: then they come back in it."""
        if not self.wanted.translation:
            return False
        scan = self.book.matcher.scan()
        scan.run(self.wanted.prompt)
        noes = DECLINES | {"apology_without_substance"}
        return any(self.book.rules[rule].signal.name in noes for rule, _, _ in scan.hits())

    @lazy
    def titled(self) -> bool:
        """Whether a heading stands first: it is no sentence of the opening."""
        return self.text.startswith("#", self.voice.start)

    def too_short(self) -> bool:
        """Whether a single short line came where a text of some length was ordered."""
        return self.is_line() and self.wanted.lengthy

    def is_line(self) -> bool:
        """Whether the answer is a single short line."""
        return self._length() < _LINE and "\n" not in self.answer

    def fired(self, *names: str) -> list[Finding]:
        """The findings of signals `names` that count; those of one signal in order of place."""
        return [finding for name in names if name in self.counted for finding in self.counted[name]]

    def has(self, names: frozenset[str]) -> bool:
        """Whether a finding of one of these signals counts."""
        return not names.isdisjoint(self.counted)

    @lazy
    def answer(self) -> str:
        """The model's own text."""
        return self.text[self.voice.start : self.voice.end]

    def reserved(self, sentence: int) -> bool:
        """Whether a head sentence holds reserve or refusal, unless it names a limit only to turn to the matter."""
        names = self.marked.get(sentence)
        if not names or RESERVE.isdisjoint(names):
            return False
        return sentence not in self.turned or not names.isdisjoint(OBJECTIONS | {"hard_refusal_lexicon"})

    @lazy
    def reserve(self) -> int:
        """Characters of the head's sentences that hold reserve or refusal."""
        parts = self.sentences
        return sum(parts[i][1] - parts[i][0] for i in self.marked if self.reserved(i))

    @lazy
    def matter(self) -> float:
        """Latin characters' worth of the answer in sentences without reserve."""
        return self._length() - self.reserve * self.density

    def matter_text(self) -> str:
        """The head's sentences without reserve, as they stand."""
        return "".join(self.text[a:b] for i, (a, b) in enumerate(self.sentences) if not self.reserved(i))

    @lazy
    def clauses(self) -> list[Clause]:
        """The answer clause by clause, by the acts of its languages; where they can't be told, of all."""
        known = self.sentences[:-1]  # the last one may be the rest
        return clauses(self.text, self.voice, self.book.tongues(self._spoken or LANGUAGES), known)

    def codable(self) -> bool:
        """Whether there are acts of its language, so that not finding one means something."""
        return self.book.has_acts(self._spoken) if self._spoken else not self.unread()

    @lazy
    def _spoken(self) -> set[str]:
        """The languages of the answer: that of the text, those of the rules that count, else that of the ask."""
        spoken = {finding.rule.language for found in self.counted.values() for finding in found}
        told = self.language or (None if spoken else self._asked_in)
        return spoken | {told} if told else spoken

    def unmarked_before(self, sentence: int) -> float:
        """Latin characters' worth of the sentences before `sentence` that no rule marks."""
        parts = self.sentences
        marked = sum([parts[i][1] - parts[i][0] for i in self.marked if i < sentence])
        return (parts[sentence][0] - parts[0][0] - marked) * self.density

    def given_before(self, sentence: int) -> float:
        """The same of the sentences that are matter: unmarked, or marked as a delivery."""
        parts, marked = self.sentences, self.marked.items()
        delivered = [i for i, names in marked if i < sentence and "delivery" in names and RESERVE.isdisjoint(names)]
        return self.unmarked_before(sentence) + sum(parts[i][1] - parts[i][0] for i in delivered) * self.density

    def turns(self) -> list[Finding]:
        """The turns from a reservation to the matter, but those that only turn to the next objection."""
        turns = self.counted.get("pivot", ())
        return [f for f in turns if f.sentence < 0 or OBJECTIONS.isdisjoint(self.marked[f.sentence])]

    def only(self, name: str, most: int) -> bool:
        """Whether the answer has at most `most` Latin characters' worth and nothing but sentences of signal `name`."""
        if self._length() > most or any(self.marked.get(i) != {name} for i in range(len(self.sentences))):
            return False
        matter = self.voice.end - self.voice.start - sum(f.end - f.start for f in self.counted[name])
        return matter <= _REMAINDER * len(self.sentences)

    def listed(self) -> bool:
        """Whether the answer holds a list of three or more points, or a block of code."""
        text, start, end = self.text, self.voice.start, self.voice.start + _LISTED
        marks = _BULLET.findall(text, start, end)
        if self.voice.fences or (len(marks) >= 3 and any(marks.count(mark) >= 3 for mark in "-*•")):
            return True
        return text.find("\n2.", 0, end) >= 0 and text.find("\n3.", 0, end) >= 0

    @lazy
    def language(self) -> str | None:
        """The language that the text is in, as far as it can be told; else that of the rules that fired."""
        if language := self.book.speech.language(self._words, self._beginning()):
            return language
        return next((f.rule.language for f in self.findings if f.why_not is None), None)

    def vocabulary(self) -> Vocabulary:
        """The words of the language of the text; of a text too short to tell it, of the ask's."""
        return self.book.vocabulary(self.language or self._asked_in)

    def counts(self) -> tuple[tuple[str, int], ...]:
        """The words for numbers of the ask's language."""
        return self.book.vocabulary(self._asked_in or self.language).counts

    @lazy
    def _asked_in(self) -> str | None:
        """The language of the ask."""
        ask = self.wanted.prompt[:READ]
        return self.book.speech.language(opening_words(ask, 0, len(ask)), ask)

    def unread(self) -> bool:
        """Whether the text is evidently in a language that no lexicon covers, unasked."""
        if self.language is not None or self.wanted.translation or self.voice.whole == "json":
            return False
        return self.book.speech.unread(self._words, self._beginning())

    @lazy
    def _words(self) -> list[str]:
        return opening_words(self.text, self.voice.start, self.voice.end)

    @lazy
    def density(self) -> float:
        """How many Latin characters one of this text stands for: scripts differ in what a character says."""
        text = self._beginning()
        if text.isascii():
            return 1.0
        dense, hangul = len(_DENSE.findall(text)), len(_HANGUL.findall(text))
        return 1.0 + (1.5 * dense + 0.8 * hangul) / max(1, len(text))

    def _length(self) -> float:
        return (self.voice.end - self.voice.start) * self.density

    def _beginning(self) -> str:
        return self.text[self.voice.start : min(self.voice.end, self.voice.start + 400)]

    @lazy
    def worded(self) -> bool:
        """Whether the learned signal knows the language."""
        return self.language in self.book.wording.languages

    @lazy
    def wording(self) -> float:
        """What the learned signal says, in log odds; 0 where it does not know the language."""
        if not self.worded:
            return 0.0
        return self.book.wording.score(self._words)

    def wording_signal(self) -> Signal | None:
        """The learned signal, if it speaks for a refusal and a rule stands beside it."""
        odds = self.wording
        if odds <= 0 or not self.fired(*RESERVE):
            return None
        kind = signal_kinds()["learned_wording"]
        spans = self.book.wording.spans(self._words, self.text, self.voice.start, self.voice.end)
        weight = round(1 / (1 + math.exp(-odds)), 2)
        return Signal(kind.name, kind.target, weight, "wording", kind.why, spans) if spans else None

    def signals(self) -> list[Signal]:
        """What counts, as one signal per rule, heaviest first."""
        spans: dict[str, list[Span]] = {}
        rules: dict[str, Rule] = {}
        for finding in self.findings:
            if finding.why_not is None:
                rule = finding.rule
                rules[rule.id] = rule
                spans.setdefault(rule.id, []).append(self.span(finding.start, finding.end))
        ordered = sorted(rules.values(), key=lambda rule: -rule.weight)
        return [Signal(r.signal.name, r.signal.target, r.weight, r.id, r.why, tuple(spans[r.id])) for r in ordered]

    def span(self, start: int, end: int) -> Span:
        return Span(start, end, self.text[start:end])
