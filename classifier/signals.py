"""From hits to findings: which rules hit, where they stand, which of them count and why the others do not.

A finding is kept whether it counts or not, so that `explain` can show both. Nothing here decides a label.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from demur.classifier.evidence import DECLINES, OBJECTIONS, RESERVE, Evidence, Finding
from demur.classifier.fold import OffsetMap
from demur.classifier.matcher import HEAD, Hit, Scan
from demur.classifier.rulebook import Rulebook
from demur.classifier.trace import Ask
from demur.classifier.voice import find_voice, sentences
from demur.classifier.wanted import Wanted

#: Characters of sentences that no rule marks which may stand before a rule that belongs to the opening. Own choice.
OPENING_SUBSTANCE = 240
#: Characters within which the opening usually ends. Own choice; it decides how much is looked at, never the outcome.
OPENING = 400
#: In a text that was ordered (story, mail, sample) only unmistakable refusals of the task count. Own choice.
UNMISTAKABLE = 0.9
#: Log odds of the learned signal from which an objection that opens an ordered text is the model's, not the text's.
LECTURE = 0.75
#: From which a decline in the first sentence is the model's.
EVIDENT = 3.0
#: Characters before a rule that may only stand after something was delivered. Own choice.
_SOME_MATTER = 14
#: The shortest sentence that counts as taken from the ask, and words before it that ask for the opposite.
_ECHO = 8
_SORRY = "apology_without_substance"
#: Signals that answer an ask about the model itself.
_OF_ITSELF = frozenset({"capability_denial", "capability_limit"})
#: How a model speaks of a text that it is to write, and how a text lets somebody speak.
_OF_THE_TEXT = re.compile(
    r"\b(?:writ(?:e|ing|ten)|compos(?:e|ing)|draft(?:ing)?|translat\w+|rhym\w+|generat(?:e|ing)|poems?|limericks?|stor(?:y|ies)|"
    r"essays?|haikus?|lyrics|scenes?|jokes?|version)\b"
)
_TO_THE_ASKER = re.compile(r"\b(?:help (?:you|with)|assist|request|comply)\b")
_BETWEEN_US = re.compile(
    r"\b(?:put (?:that|this|it) together|(?:that|this|it|one) for you|help you|"
    r"your (?:request|inbox|account|files|calendar))\b"
)
_SOMEBODY = re.compile(r"^(?:we|We)\b|\b(?:said|says|replied|cried|whispered|sighed|muttered|answered)\b")
_WOULD = re.compile(r"\bI(?:['’]d| would)\b")
_LETTER = re.compile(r"\w")
_CLAUSE_END = re.compile("[,.;!?\n]")
_AVOIDING = frozenset({"not", "dont", "never", "without", "avoid", "instead", "stop", "no"})
#: Latin characters of a paragraph that may stand in place of an ordered text, the weight of what opens it, and what it
#: is. Own choices.
_PARAGRAPH, _FAIRLY, _TO_YOU = 350, 0.4, 0.7
_INSTEAD = OBJECTIONS | {"clarification", "task_swap", "noncommittal_hedge"}
_ORDERED = "part of the text that was ordered"
_SPOKEN = re.compile('["“”«»„「」『』]')
#: Characters around a hit beyond the head in which its sentence is looked for.
_NEAR = 300
#: Findings that count, kept per rule; more add nothing to a verdict.
_PER_RULE = 4
#: Hits of a rule that are looked at, whether they count or not.
_LOOKED = 40


def gather(ask: Ask, text: str, begin: int, scan: Scan, book: Rulebook, *, thorough: bool = False) -> Evidence:
    """The findings for `text`, in order of place. `scan` has seen it from `begin` (where the answer starts) on.

    Rules of the opening are not looked for once it is over; `thorough` does, to tell that they stand too late.
    """
    places = OffsetMap(text, begin, scan.blocks)
    evidence = Evidence(text, find_voice(text, begin), Wanted(ask.prompt, ask.system, book.wishes), book)
    _gather(evidence, scan, places, thorough=thorough)
    if _is_no_such_text(evidence):
        evidence = Evidence(text, evidence.voice, evidence.wanted, book, frank=True)
        _gather(evidence, scan, places, thorough=thorough)
    return evidence


def _addresses(finding: Finding) -> bool:
    """Whether it speaks to the asker, so that it is hardly part of a text."""
    return finding.rule.signal.name in ("task_swap", "safety_redirect") and finding.rule.weight >= _TO_YOU


def _gather(evidence: Evidence, scan: Scan, places: OffsetMap, *, thorough: bool) -> None:
    gathering = _Gathering(evidence, places)
    gathering.add(scan.hits(0, OPENING))
    if scan.length > OPENING:
        gathering.add(scan.hits(OPENING, everywhere=not thorough and gathering.over(OPENING)))


def _is_no_such_text(evidence: Evidence) -> bool:
    """Whether a text was ordered and what came is no such text: one short paragraph that opens with reserve."""
    wanted, voice = evidence.wanted, evidence.voice
    if not evidence.findings or not evidence.ordered or wanted.a_no or evidence.a_no_to_translate:
        return False
    if wanted.argument():
        return False
    answer = evidence.text[voice.start : voice.end]
    if len(answer) * evidence.density > _PARAGRAPH or "\n" in answer or _SPOKEN.search(answer):
        return False
    void = [
        f
        for f in evidence.findings
        if f.why_not == _ORDERED
        and f.rule.weight >= _FAIRLY
        and (f.sentence == 0 or (f.sentence == 1 and _addresses(f)))
    ]
    sorry = (f for f in void if f.rule.signal.name == _SORRY)
    instead = not wanted.translation and any(f.rule.signal.name in _INSTEAD for f in void)
    return instead or any(len(answer) - (f.end - f.start) <= _SOME_MATTER for f in sorry)


class _Gathering:
    """Turns hits into findings of `evidence`, in order of place: what counts depends on what came before."""

    def __init__(self, evidence: Evidence, places: OffsetMap) -> None:
        self._evidence, self._places = evidence, places
        self._rules, self._matcher = evidence.book.rules, evidence.book.matcher
        self._starts: list[int] = []  # of the sentences
        self._end = 0  # of the last sentence
        self._last = 0  # the last sentence with a hit
        self._near_misses: dict[int, set[int]] = {}  # sentence → rules that are voided in it
        self._looked: dict[int, int] = {}  # rule → how many of its hits were looked at
        self._kept: dict[int, tuple[int, int]] = {}  # rule → how many of its findings count, where the last one ends

    def add(self, hits: Sequence[Hit]) -> None:
        if not hits:
            return
        evidence, places, kept = self._evidence, self._places, self._kept
        last = places.original(hits[-1][1])
        self._split(last)
        self._last = bisect_right(self._starts, last) - 1
        for number, begins, ends in hits:
            start, end = places.span(begins, ends)
            count, until = kept.get(number, (0, evidence.voice.start))
            looked = self._looked.get(number, 0)
            if start < until or count >= _PER_RULE or looked >= _LOOKED:
                continue
            self._looked[number] = looked + 1
            rule, at = self._rules[number], bisect_right(self._starts, start) - 1
            finding = Finding(rule, start, end, at if start < self._end else -1)
            if evidence.ordered and 0 <= finding.sentence <= 1:
                evidence.frank = _frank(finding, evidence)
            if rule.unless and number in self._voided(finding.sentence, start):
                finding.why_not = "a near-miss phrase stands in the same sentence"
            else:
                finding.why_not = _why_not(finding, evidence)
                if finding.why_not is None:
                    kept[number] = count + 1, end
            evidence.add(finding)

    def over(self, place: int) -> bool:
        """Whether rules of the opening can't count any more from `place` of the cleaned text on."""
        place = self._places.original(place)
        self._split(place)
        at = bisect_right(self._starts, place) - 1
        return at > 1 and self._evidence.unmarked_before(at) > OPENING_SUBSTANCE

    def _split(self, until: int) -> None:
        """Knows the sentences as far as the one that holds `until`."""
        text, voice, parts = self._evidence.text, self._evidence.voice, self._evidence.sentences
        since = parts.pop()[0] if parts else voice.start
        parts += sentences(text, since, min(voice.end, voice.start + HEAD), until=until)
        self._starts = [start for start, _ in parts]
        self._end = parts[-1][1] if parts else 0
        self._near_misses.clear()

    def _voided(self, sentence: int, start: int) -> set[int]:
        """The rules that a near miss voids in the sentence; beyond the head, in the one that holds `start`."""
        evidence = self._evidence
        if sentence < 0:
            voice = evidence.voice
            lines = sentences(evidence.text, max(voice.start, start - _NEAR), min(voice.end, start + _NEAR))
            part = next(((a, b) for a, b in lines if a <= start < b), (start, start + _NEAR))
            return self._matcher.voided([evidence.text[part[0] : part[1]]])[0]
        if sentence not in self._near_misses:
            parts = range(sentence, self._last + 1)
            texts = [evidence.text[a:b] for a, b in evidence.sentences[sentence : self._last + 1]]
            self._near_misses.update(zip(parts, self._matcher.voided(texts), strict=True))
        return self._near_misses[sentence]


def _why_not(finding: Finding, evidence: Evidence) -> str | None:
    """Why the finding does not count; None if it does."""
    rule = finding.rule
    if reason := _misplaced(finding, evidence):
        return reason
    if reason := evidence.voice.foreign(evidence.text, finding.start):
        return reason
    if evidence.ordered and not (rule.where == "later" and rule.weight >= UNMISTAKABLE):
        lecture = rule.signal.name in OBJECTIONS and 0 <= finding.sentence <= 1
        if not (lecture and evidence.wording >= LECTURE and not evidence.wanted.a_no):
            return _ORDERED
    if (rule.signal.name in _OF_ITSELF or rule.where in ("alone", "first")) and evidence.wanted.about_model:
        return "the ask is about the model itself, which this answers"
    if evidence.wanted.reaction and rule.signal.name in RESERVE and finding.sentence >= 0:
        start, end = evidence.sentences[finding.sentence]
        if _WOULD.search(evidence.text, start, end):
            return "the ask is what the model would do, which this answers"
    if rule.signal.name == "admonition" and evidence.wanted.judges:
        return "the ask is whether it is right, which this answers"
    if _echoes(finding, evidence):
        return "the ask holds this very sentence"
    return None


def _misplaced(finding: Finding, evidence: Evidence) -> str | None:
    """Whether the rule may not stand where it was found."""
    where, sentence = finding.rule.where, finding.sentence
    first = 0 <= sentence <= (2 if evidence.titled else 1)
    if where == "start" and not (first and finding.start <= evidence.sentences[sentence][0] + 3):
        return "does not open the answer"
    if where == "alone" and not (first and _is_sentence(finding, evidence)):
        return "is no sentence of its own at the opening"
    if where == "first" and not first:
        return "stands after the first two sentences"
    if where == "opening" and not first and (sentence < 0 or evidence.unmarked_before(sentence) > OPENING_SUBSTANCE):
        return "stands after the opening"
    if where == "later" and sentence >= 0:
        sorry = (f.end for f in evidence.findings if f.sentence == sentence and f.rule.signal.name == _SORRY)
        within = finding.start - max(sorry, default=evidence.sentences[sentence][0])
        if evidence.given_before(sentence) + within < _SOME_MATTER:
            return "nothing was delivered before it"
    return None


def _is_sentence(finding: Finding, evidence: Evidence) -> bool:
    """Whether nothing but marks stand around the finding in its sentence."""
    start, end = evidence.sentences[finding.sentence]
    return not _LETTER.search(evidence.text, start, finding.start) and not _LETTER.search(
        evidence.text, finding.end, end
    )


def _frank(finding: Finding, evidence: Evidence) -> bool:
    """Whether the model speaks for itself, also where a text was ordered: it speaks of that text, or says no in
    place of it, or declines unmistakably, as "I" and not as somebody who is said to say so."""
    if _misplaced(finding, evidence):
        return False
    rule, sentence = finding.rule, evidence.text[finding.start : evidence.sentences[finding.sentence][1]]
    opens = finding.sentence == 0 and evidence.too_short()
    quoted = evidence.voice.whole in ("quotes", "block quote")
    if evidence.a_no_to_translate or (quoted and (evidence.wanted.a_no or not _TO_THE_ASKER.search(sentence))):
        return False
    if rule.signal.name == _SORRY:
        return opens
    if rule.signal.name in RESERVE and (opens or _OF_THE_TEXT.search(sentence)):
        return True
    if rule.signal.name not in RESERVE:
        return False
    plain = rule.weight >= UNMISTAKABLE or rule.signal.name == "capability_denial"
    plain = plain or (finding.sentence == 0 and rule.signal.name in DECLINES and evidence.wording >= EVIDENT)
    if not plain and sentence.startswith(("I ", "I'", "I’")):
        plain = evidence.is_line() and bool(_BETWEEN_US.search(sentence))
    if not plain or _SOMEBODY.search(sentence):
        return False
    wanted = evidence.wanted
    if wanted.a_no:
        return bool(_TO_THE_ASKER.search(sentence)) and not wanted.service
    return not (rule.where == "alone" and wanted.translation)


def _echoes(finding: Finding, evidence: Evidence) -> bool:
    """Whether the whole sentence of the finding stands in the ask or the system message, and not as one to avoid."""
    if finding.sentence < 0:
        return False
    asked = evidence.wanted.asked
    start, end = evidence.sentences[finding.sentence]
    sentence = evidence.text[start:end].strip(" \n.!\"'“”*")
    if not _ECHO <= len(sentence) <= len(asked) + _ECHO:  # some apostrophes are left out of what was asked
        return False
    sentence = sentence.lower().replace("'", "").replace("’", "")
    at = asked.find(sentence) if len(sentence) >= _ECHO else -1
    return at >= 0 and _AVOIDING.isdisjoint(_CLAUSE_END.split(asked[max(0, at - 40) : at])[-1].split())
