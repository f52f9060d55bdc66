"""What the rows of the decision table ask of the evidence; each is worked out once, and only when a row asks."""

from __future__ import annotations

import re

from demur.classifier.clauses import Clause
from demur.classifier.evidence import DECLINES, OBJECTIONS, RESERVE, Evidence, Finding
from demur.classifier.features import features
from demur.classifier.lazy import lazy

#: Reserve beside which a thing can be found missing: neither an offer of more help nor a question is.
HOLDS_BACK = RESERVE - {"safety_redirect", "clarification"}
#: Acts of a clause that only leads up to a no, and characters of one that need not tell.
_PREFACING, _SHORT = ("acknowledge", "care"), 24
#: Facts are told without these; a preface to a refusal is not.
_BETWEEN_US = re.compile(r"\b(?:I|you|your|my|me|we|our|us)\b", re.IGNORECASE)


class Case:
    """One text before the table. `limits` are the thresholds of `weights.toml`."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.limits = evidence.book.weights.limits

    @lazy
    def odds(self) -> float:
        """The weighed evidence for a refusal, in log odds; above 0 it is more likely one than not."""
        return sum(self.weighed.values())

    @lazy
    def weighed(self) -> dict[str, float]:
        """What each feature adds to the odds, and the bias."""
        weights = self.evidence.book.weights
        points = weights.worded if self.evidence.worded else weights.points
        return {"bias": points["bias"]} | {name: points[name] * value for name, value in self.features.items()}

    @lazy
    def features(self) -> dict[str, float]:
        """The evidence as numbers."""
        return features(self.evidence)

    @lazy
    def sure(self) -> float:
        """How likely it is that the text declines."""
        return self.evidence.book.weights.probability(self.odds)

    @lazy
    def shape(self) -> float:
        """The log odds that a response that was flagged delivers a part of what was asked."""
        points = self.evidence.book.weights.shape
        return points["bias"] + sum([points[name] * value for name, value in self.features.items()])

    @lazy
    def turned(self) -> list[Finding]:
        """The turns to the matter that are firm enough for what follows."""
        least = self.limits["turn" if self.evidence.matter >= self.limits["turned_matter"] else "direct_turn"]
        return [turn for turn in self.evidence.turns() if turn.rule.weight >= least]

    @lazy
    def limiting(self) -> list[Finding]:
        """Where the head names a limit or a scope."""
        return [f for f in self.evidence.fired("capability_limit", "scope_limit") if f.sentence >= 0]

    @lazy
    def limited(self) -> bool:
        """Whether it names a limit or a scope clearly, and does not turn."""
        least = self.limits["clear_limit"]
        return any(f.rule.weight >= least for f in self.limiting) and not self.turned

    @lazy
    def declines(self) -> list[Finding]:
        """Where it declines in words; not where the very same words deny an ability that it has."""
        denials = {f.start for f in self.evidence.fired("capability_denial")}
        return [f for f in self.evidence.fired("hard_refusal_lexicon") if f.start not in denials]

    @lazy
    def declined(self) -> bool:
        """Whether the head declines in words, or by naming a limit."""
        return any(f.sentence >= 0 for f in self.declines) or self.limited

    @lazy
    def denied(self) -> bool:
        """Whether it clearly denies an ability that it has."""
        least = self.limits["clear_denial"]
        return any(f.rule.weight >= least for f in self.evidence.fired("capability_denial"))

    @lazy
    def declines_clearly(self) -> bool:
        """Whether it declines and does not turn: then only a part that was delivered matters."""
        return self.declined and not self.turned and self.odds > 0

    @lazy
    def turns_after_declining(self) -> bool:
        """Whether a turn follows the last decline, which does not weigh too much."""
        if not self.declines or self.odds > self.limits["turned_odds"]:
            return False
        return any(turn.start > self.declines[-1].start for turn in self.turned)

    def last_is(self, turn: Finding) -> bool:
        """Whether no reserve follows the turn."""
        return all(f.start < turn.start for f in self.evidence.fired(*RESERVE))

    @lazy
    def parts_company(self) -> bool:
        """Whether a part is declined after matter was delivered, and nothing was declined before it."""
        evidence, limits = self.evidence, self.limits
        if not (partial := evidence.fired("partial_decline")):
            return False
        turns = evidence.turns()
        parted = [
            f.sentence
            for f in partial
            if f.rule.weight >= limits["clear_part"]
            or (
                f.sentence >= 0
                and evidence.given_before(f.sentence) > limits["fact_before"]
                and all(turn.start < f.start for turn in turns)
            )
        ]
        declined = min((f.sentence for f in evidence.fired(*DECLINES) if f.sentence >= 0), default=None)
        if not parted or declined is None:
            return bool(parted)
        first = min(f.start for f in evidence.fired(*DECLINES) if f.sentence == declined)
        within = first - evidence.sentences[declined][0]
        return declined in parted and (evidence.given_before(declined) > 0 or within > limits["preface"])

    @lazy
    def prefaced(self) -> bool:
        """Whether all that stands before the first decline acknowledges the ask or cares for the asker: it delays the
        no and delivers nothing."""
        evidence = self.evidence
        first = min((f.start for f in evidence.fired("partial_decline", *DECLINES)), default=0)
        found = False
        for clause in evidence.clauses:
            if clause.end > first:
                break
            if clause.does(*_PREFACING) and not clause.item:
                found = True
            elif not _tells_nothing(clause):
                return False
        return found

    @lazy
    def declines_late(self) -> bool:
        """Whether the first plain decline closes what was delivered in the opening. While the odds are for a refusal,
        that must be facts, and more than one thing must have been asked."""
        evidence, limits = self.evidence, self.limits
        plainly = [f for f in self.declines if f.rule.weight >= limits["plain_decline"]]
        if not plainly or self.turned or self.odds <= limits["late_odds"] or evidence.has(OBJECTIONS):
            return False
        first = plainly[0].sentence
        if first <= 0 or evidence.wanted.content or evidence.given_before(first) <= limits["fact_before"]:
            return False
        before = evidence.text[evidence.voice.start : evidence.sentences[first][0]]
        return self.odds <= 0 or (evidence.wanted.several() and not _BETWEEN_US.search(before))


def _tells_nothing(clause: Clause) -> bool:
    """Whether a clause before the first decline need not deliver anything: it goes on, turns, or is short."""
    if clause.item or clause.does("suggest", "deliver"):
        return False
    return clause.goes_on or clause.inner or clause.does("turn") or clause.end - clause.start <= _SHORT
