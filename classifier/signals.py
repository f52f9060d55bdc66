"""From hits to findings: which rules hit, where they stand, which of them count and why the others do not.

A finding is kept whether it counts or not, so that `explain` can show both. Nothing here decides a label.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from demur.classifier.delivery import Wanted, read_wanted
from demur.classifier.fold import OffsetMap
from demur.classifier.lexicon import Rule
from demur.classifier.matcher import HEAD, Scan
from demur.classifier.trace import Ask
from demur.classifier.verdict import Signal, Span
from demur.classifier.voice import Voice, find_voice, sentences

#: Substance (characters of sentences that no rule marks) that may stand before a rule which belongs to the opening.
OPENING_SUBSTANCE = 240
#: In a text that was ordered (story, mail, sample) only unmistakable refusals of the task count.
UNMISTAKABLE = 0.9
#: Signals whose sentences hold reserve or refusal instead of matter.
RESERVE = frozenset(
    {
        "hard_refusal_lexicon",
        "capability_limit",
        "scope_limit",
        "capability_denial",
        "value_statement",
        "premise_rebuttal",
        "admonition",
        "noncommittal_hedge",
        "safety_redirect",
        "clarification",
    }
)
_COMMON = frozenset("the and to of is you that it for with are as be this have i not on or can your".split())
#: Findings kept per rule; the rest adds nothing to a verdict.
_PER_RULE = 4


@dataclass(slots=True)
class Finding:
    """One hit at `start` to `end` of the original text, in head sentence `sentence` (-1: beyond the head)."""

    rule: Rule
    start: int
    end: int
    sentence: int
    why_not: str | None = None

    @property
    def fired(self) -> bool:
        return self.why_not is None


@dataclass(slots=True)
class Evidence:
    """Everything the decision looks at, for one text."""

    text: str
    voice: Voice
    wanted: Wanted
    sentences: list[tuple[int, int]]
    findings: list[Finding]
    marked: dict[int, set[str]] = field(default_factory=dict)
    ordered: bool = False

    @property
    def listed(self) -> bool:
        """Whether the answer holds a list of three or more points, or a block of code."""
        text, start = self.text, self.voice.start
        return bool(self.voice.fences) or any(text.count(mark, start) >= 3 for mark in ("\n- ", "\n* ", "\n• ")) or (
            "\n2." in text and "\n3." in text
        )

    def fired(self, *names: str) -> list[Finding]:
        return [f for f in self.findings if f.fired and f.rule.signal.name in names]

    @property
    def language(self) -> str | None:
        """The language of the rules that fired, else English when the text looks like it, else None."""
        tongue = next((f.rule.language for f in self.findings if f.fired), None)
        return tongue or ("en" if _looks_english(self.text[self.voice.start : self.voice.start + 400]) else None)

    def opening(self, *names: str) -> bool:
        """Whether one of `names` fired in the head of the text."""
        return any(f.sentence >= 0 for f in self.fired(*names))

    def matter(self) -> int:
        """Characters of the answer in sentences without reserve."""
        parts = self.sentences
        beyond = self.voice.end - parts[-1][1] if parts else 0
        return beyond + sum(end - start for i, (start, end) in enumerate(parts) if not self.reserved(i))

    def reserved(self, sentence: int) -> bool:
        """Whether a head sentence holds reserve or refusal."""
        return not RESERVE.isdisjoint(self.marked.get(sentence, ()))

    def alone(self, name: str) -> bool:
        """Whether the answer is short and has nothing but sentences of signal `name`."""
        short = self.voice.end - self.voice.start < 120
        return short and all(self.marked.get(i) == {name} for i in range(len(self.sentences)))


def gather(ask: Ask, text: str, begin: int, scan: Scan, rules: Sequence[Rule]) -> Evidence:
    """The findings for `text`, in order of place. `scan` has seen it from `begin` (where the answer starts) on."""
    cleaned, hits = scan.finish()
    voice = find_voice(text, begin)
    wanted = read_wanted(ask.prompt, ask.system)
    parts = sentences(text, voice.start, min(voice.end, voice.start + HEAD))
    evidence = Evidence(text, voice, wanted, parts, [], ordered=wanted.content)
    if not hits:
        return evidence
    places = OffsetMap(text, begin, len(cleaned))
    starts = [start for start, _ in parts]
    voids = {(rules[h.rule].id, bisect_right(starts, places.original(h.start)) - 1) for h in hits if h.unless}
    counts: dict[int, int] = {}
    for hit in hits:
        if hit.unless or counts.get(hit.rule, 0) >= _PER_RULE:
            continue
        rule = rules[hit.rule]
        start, end = places.span(hit.start, hit.end)
        if start < voice.start:
            continue
        at = bisect_right(starts, start) - 1
        finding = Finding(rule, start, end, at if parts and start < parts[-1][1] else -1)
        if evidence.ordered and rule.weight >= UNMISTAKABLE and 0 <= finding.sentence <= 1:
            evidence.ordered = False
        finding.why_not = _why_not(finding, at, evidence, voids)
        evidence.findings.append(finding)
        if finding.fired:
            counts[hit.rule] = counts.get(hit.rule, 0) + 1
            if finding.sentence >= 0:
                evidence.marked.setdefault(finding.sentence, set()).add(rule.signal.name)
    return evidence


def as_signals(findings: Sequence[Finding], text: str) -> list[Signal]:
    """One signal per rule, heaviest first, with all its spans."""
    spans: dict[str, list[Span]] = {}
    rules: dict[str, Rule] = {}
    for finding in findings:
        rules[finding.rule.id] = finding.rule
        spans.setdefault(finding.rule.id, []).append(Span(finding.start, finding.end, text[finding.start : finding.end]))
    ordered = sorted(rules.values(), key=lambda rule: -rule.weight)
    return [Signal(r.signal.name, r.signal.target, r.weight, r.id, r.why, tuple(spans[r.id])) for r in ordered]


def substance_before(evidence: Evidence, sentence: int) -> int:
    """Characters of unmarked sentences before `sentence`."""
    marked = evidence.marked
    return sum(end - start for i, (start, end) in enumerate(evidence.sentences[:sentence]) if i not in marked)


def _why_not(finding: Finding, at: int, evidence: Evidence, voids: set[tuple[str, int]]) -> str | None:
    """Why the finding does not count; None if it does."""
    rule, sentence = finding.rule, finding.sentence
    if (rule.id, at) in voids:
        return "a near-miss phrase stands in the same sentence"
    if reason := evidence.voice.foreign(evidence.text, finding.start, finding.end):
        return reason
    if rule.where != "anywhere":
        before = substance_before(evidence, sentence) if sentence >= 0 else OPENING_SUBSTANCE + 1
        if rule.where == "start" and not (0 <= sentence <= 1 and finding.start <= evidence.sentences[sentence][0] + 3):
            return "does not open the answer"
        if rule.where == "first" and not 0 <= sentence <= 1:
            return "stands after the first two sentences"
        if rule.where == "opening" and not (0 <= sentence <= 1 or before <= OPENING_SUBSTANCE):
            return "stands after the opening"
        if rule.where == "later" and not before:
            return "nothing was delivered before it"
    if evidence.ordered and not (rule.where == "later" and rule.weight >= UNMISTAKABLE):
        return "part of the text that was ordered"
    if evidence.wanted.told and _told(finding, evidence):
        return "the ask says to answer so"
    return None


def _told(finding: Finding, evidence: Evidence) -> bool:
    """Whether the whole sentence of the finding stands in the ask or the system message."""
    if finding.sentence < 0:
        return False
    start, end = evidence.sentences[finding.sentence]
    sentence = evidence.text[start:end].strip(" \n.!\"'“”*").lower().replace("’", "'")
    return len(sentence) >= 6 and sentence in evidence.wanted.told


def _looks_english(text: str) -> bool:
    """A cheap test: several of the commonest English words. Says nothing about short or mixed texts."""
    words = text.lower().split()
    return sum(word in _COMMON for word in words) >= max(2, len(words) // 8)
