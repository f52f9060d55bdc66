"""From hits to findings: which rules hit, where they stand, which of them count and why the others do not.

A finding is kept whether it counts or not, so that `explain` can show both. Nothing here decides a label.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

from demur.classifier.delivery import Wanted
from demur.classifier.evidence import Evidence, Finding
from demur.classifier.fold import OffsetMap
from demur.classifier.lexicon import Rule
from demur.classifier.matcher import HEAD, Scan
from demur.classifier.trace import Ask
from demur.classifier.voice import find_voice, sentences

#: Characters of sentences that no rule marks which may stand before a rule that belongs to the opening. Own choice.
OPENING_SUBSTANCE = 240
#: In a text that was ordered (story, mail, sample) only unmistakable refusals of the task count. Own choice.
UNMISTAKABLE = 0.9
#: Characters before a rule that may only stand after something was delivered. Own choice.
_SOME_MATTER = 20
#: The shortest sentence that counts as taken from the ask, and words before it that ask for the opposite.
_ECHO = 8
_AVOIDING = frozenset({"not", "dont", "never", "without", "avoid", "instead", "stop", "no"})
#: Findings that count, kept per rule; more add nothing to a verdict.
_PER_RULE = 4


def gather(ask: Ask, text: str, begin: int, scan: Scan, rules: Sequence[Rule]) -> Evidence:
    """The findings for `text`, in order of place. `scan` has seen it from `begin` (where the answer starts) on."""
    _, hits = scan.finish()
    voice = find_voice(text, begin)
    evidence = Evidence(text, voice, Wanted(ask.prompt, ask.system))
    if not hits:
        return evidence
    parts = evidence.sentences = sentences(text, voice.start, min(voice.end, voice.start + HEAD))
    places = OffsetMap(text, begin, scan.blocks)
    starts = [start for start, _ in parts]
    voids = {(rules[h.rule].id, bisect_right(starts, places.original(h.start)) - 1) for h in hits if h.unless}
    kept: Counter[int] = Counter()
    for hit in hits:
        start, end = places.span(hit.start, hit.end)
        if hit.unless or kept[hit.rule] >= _PER_RULE or start < voice.start:
            continue
        rule, at = rules[hit.rule], bisect_right(starts, start) - 1
        finding = Finding(rule, start, end, at if parts and start < parts[-1][1] else -1)
        if rule.weight >= UNMISTAKABLE and 0 <= finding.sentence <= 1:
            evidence.frank = True  # who opens like that speaks for itself
        near_miss = (rule.id, at) in voids
        finding.why_not = "a near-miss phrase stands in the same sentence" if near_miss else _why_not(finding, evidence)
        kept[hit.rule] += finding.fired
        evidence.add(finding)
    return evidence


def _why_not(finding: Finding, evidence: Evidence) -> str | None:
    """Why the finding does not count; None if it does."""
    rule = finding.rule
    if reason := _misplaced(finding, evidence):
        return reason
    if reason := evidence.voice.foreign(evidence.text, finding.start):
        return reason
    if evidence.ordered and not (rule.where == "later" and rule.weight >= UNMISTAKABLE):
        return "part of the text that was ordered"
    if _echoes(finding, evidence):
        return "the ask holds this very sentence"
    return None


def _misplaced(finding: Finding, evidence: Evidence) -> str | None:
    """Whether the rule may not stand where it was found."""
    where, sentence = finding.rule.where, finding.sentence
    first = 0 <= sentence <= 1
    if where == "start" and not (first and finding.start <= evidence.sentences[sentence][0] + 3):
        return "does not open the answer"
    if where == "first" and not first:
        return "stands after the first two sentences"
    late = sentence < 0 or (not first and evidence.unmarked_before(sentence) > OPENING_SUBSTANCE)
    if where == "opening" and late:
        return "stands after the opening"
    if where == "later" and sentence >= 0:
        within = finding.start - evidence.sentences[sentence][0]
        if evidence.unmarked_before(sentence) + within < _SOME_MATTER:
            return "nothing was delivered before it"
    return None


def _echoes(finding: Finding, evidence: Evidence) -> bool:
    """Whether the whole sentence of the finding stands in the ask or the system message, and not as one to avoid."""
    if finding.sentence < 0:
        return False
    asked = evidence.wanted.asked
    start, end = evidence.sentences[finding.sentence]
    sentence = evidence.text[start:end].strip(" \n.!\"'“”*").lower().replace("'", "").replace("’", "")
    at = asked.find(sentence) if len(sentence) >= _ECHO else -1
    return at >= 0 and _AVOIDING.isdisjoint(asked[max(0, at - 40) : at].split())
