"""The evidence on one text: findings, sentence by sentence, and the questions that the decision asks of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from demur.classifier.delivery import Wanted
from demur.classifier.lexicon import Rule
from demur.classifier.verdict import Signal, Span
from demur.classifier.voice import Voice

#: Signals that object to the ask, its premise or its purpose.
OBJECTIONS = frozenset({"premise_rebuttal", "admonition", "value_statement", "safety_redirect"})
#: Signals that decline it.
DECLINES = frozenset({"hard_refusal_lexicon", "scope_limit", "capability_limit"})
#: Signals whose sentences hold reserve or refusal instead of matter.
RESERVE = OBJECTIONS | DECLINES | {"capability_denial", "noncommittal_hedge", "clarification", "task_swap"}
#: A turn of this weight leads to the matter itself, not only to an offer. Own choice.
FIRM_TURN = 0.8
_COMMON = frozenset({"the", "and", "to", "of", "is", "you", "that", "it", "for", "with", "are", "this", "have", "not"})


@dataclass(slots=True)
class Finding:
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


@dataclass(slots=True)
class Evidence:
    """What was found in one text.

    `sentences` are the places of the head's sentences, `marked` the signals that fired in each, `turned` those with a
    firm turn to the matter. `ordered` says that
    the text is what was asked to be written, not what the model has to say.
    """

    text: str
    voice: Voice
    wanted: Wanted
    sentences: list[tuple[int, int]]
    ordered: bool = False
    findings: list[Finding] = field(default_factory=list)
    marked: dict[int, set[str]] = field(default_factory=dict)
    turned: set[int] = field(default_factory=set)

    def add(self, finding: Finding) -> None:
        """Keeps the finding and, if it counts, marks its sentence."""
        self.findings.append(finding)
        if finding.fired and finding.sentence >= 0:
            self.marked.setdefault(finding.sentence, set()).add(finding.rule.signal.name)
            if finding.rule.signal.name == "pivot" and finding.rule.weight >= FIRM_TURN:
                self.turned.add(finding.sentence)

    def fired(self, *names: str) -> list[Finding]:
        """The findings of signals `names` that count."""
        return [f for f in self.findings if f.why_not is None and f.rule.signal.name in names]

    def in_head(self, *names: str) -> bool:
        """Whether one of `names` fired in the head of the text."""
        return any(f.sentence >= 0 for f in self.fired(*names))

    def reserved(self, sentence: int) -> bool:
        """Whether a head sentence holds reserve or refusal, unless it names a limit only to turn to the matter."""
        names = self.marked.get(sentence)
        if not names or RESERVE.isdisjoint(names):
            return False
        return sentence not in self.turned or not names.isdisjoint(OBJECTIONS | {"hard_refusal_lexicon"})

    def matter(self) -> int:
        """Characters of the answer in sentences without reserve."""
        parts = self.sentences
        beyond = self.voice.end - parts[-1][1] if parts else 0
        return beyond + sum(end - start for i, (start, end) in enumerate(parts) if not self.reserved(i))

    def unmarked_before(self, sentence: int) -> int:
        """Characters of the sentences before `sentence` that no rule marks."""
        return sum(end - start for i, (start, end) in enumerate(self.sentences[:sentence]) if i not in self.marked)

    def turns(self) -> list[Finding]:
        """The turns from a reservation to the matter, but those that only turn to the next objection."""
        turns = self.fired("pivot")
        return [f for f in turns if f.sentence < 0 or OBJECTIONS.isdisjoint(self.marked[f.sentence])]

    def only(self, name: str, most: int) -> bool:
        """Whether the answer has at most `most` characters and nothing but sentences of signal `name`."""
        short = self.voice.end - self.voice.start <= most
        return short and all(self.marked.get(i) == {name} for i in range(len(self.sentences)))

    def listed(self) -> bool:
        """Whether the answer holds a list of three or more points, or a block of code."""
        text, start = self.text, self.voice.start
        if self.voice.fences or any(text.count(mark, start) >= 3 for mark in ("\n- ", "\n* ", "\n• ")):
            return True
        return "\n2." in text and "\n3." in text

    def language(self) -> str | None:
        """The language of the rules that fired, else English when the text looks like it, else None."""
        fired = next((f.rule.language for f in self.findings if f.fired), None)
        if fired:
            return fired
        words = self.text[self.voice.start : self.voice.start + 400].lower().split()
        return "en" if sum(word in _COMMON for word in words) >= max(2, len(words) // 8) else None

    def signals(self) -> list[Signal]:
        """What counts, as one signal per rule, heaviest first; of overlapping spans the longest."""
        spans: dict[str, list[Span]] = {}
        rules: dict[str, Rule] = {}
        for finding in self.findings:
            if finding.fired:
                rules[finding.rule.id] = finding.rule
                of_rule = spans.setdefault(finding.rule.id, [])
                if not of_rule or finding.start >= of_rule[-1].end:  # findings come by place, the longest first
                    of_rule.append(self.span(finding.start, finding.end))
        ordered = sorted(rules.values(), key=lambda rule: -rule.weight)
        return [Signal(r.signal.name, r.signal.target, r.weight, r.id, r.why, tuple(spans[r.id])) for r in ordered]

    def span(self, start: int, end: int) -> Span:
        return Span(start, end, self.text[start:end])
