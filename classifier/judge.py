"""The judge: traces in, verdicts out. `Classifier` holds the compiled rules; everything else is built on it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from demur.classifier.examples import check_examples
from demur.classifier.explain import Explanation, explain_choice
from demur.classifier.rulebook import Rulebook
from demur.classifier.session import Session
from demur.classifier.shapes import normalize
from demur.classifier.trace import Ask, Trace
from demur.classifier.verdict import Verdict, gravest
from demur.classifier.weights import Weights
from demur.classifier.wording import Wording


class TieBreaker(Protocol):
    """A second opinion: receives the trace and our verdict, returns the verdict to report."""

    def __call__(self, trace: Trace, verdict: Verdict) -> Verdict: ...


class Classifier:
    """Compiled rules and thresholds; immutable, safe to share.

    `lexicons` are rule files besides ours, `languages` those of ours to use (None: all); `min_confidence` (0 to 1): a
    flag less sure than this stays an answer.
    Raises LexiconError, which names the file, the rule and what is wrong.
    """

    name = "demur-rules"

    def __init__(
        self, *, lexicons: Sequence[Path] = (), languages: Collection[str] | None = None, min_confidence: float = 0.5
    ) -> None:
        self._book = Rulebook.load(lexicons, languages)
        own = set(map(str, lexicons))
        check_examples((rule for rule in self._book.rules if rule.file in own), self._book)
        check_examples(self._book.acts, self._book)
        self._min_confidence = min_confidence
        self.rules_version = self._book.version

    def with_numbers(self, weights: Weights, wording: Wording) -> Classifier:
        """The same rules, weighed by other numbers (for fitting them)."""
        other = copy(self)
        other._book = self._book.with_numbers(weights, wording)
        return other

    def session(self, ask: Ask) -> Session:
        """A session for the text of one choice that answers `ask`."""
        return Session(ask, self._book, self._min_confidence)

    def classify(self, trace: Trace) -> Verdict:
        """The verdict on a whole trace; over several choices the gravest, with one verdict each below it."""
        return self._judge(trace)[0]

    def explain(self, trace: Trace) -> Explanation:
        """The verdict on a trace with every rule that hit, fired or not, and why."""
        verdict, sessions = self._judge(trace)
        singles = verdict.choices or (verdict,)
        return Explanation(verdict, tuple(map(explain_choice, sessions, singles)))

    def _judge(self, trace: Trace) -> tuple[Verdict, list[Session]]:
        verdicts, sessions = [], []
        id = (trace.id or "") if len(trace.choices) == 1 else ""
        for choice in trace.choices:
            session = self.session(trace.ask)
            session.feed(choice.text)
            session = session.reply(choice) or session
            sessions.append(session)
            verdicts.append(session.finish(choice, model=trace.model, id=id))
        verdict = combine(verdicts, trace)
        if verdict.rules_version != self.rules_version:  # nothing was judged
            verdict = replace(verdict, rules_version=self.rules_version)
        return verdict, sessions


@cache
def default_classifier() -> Classifier:
    """Our own rules with the default threshold, compiled once."""
    return Classifier()


def classify(trace: Trace | str | dict[str, Any], judge: TieBreaker | None = None) -> Verdict:
    """The verdict on a trace, a response text, or an object of any accepted shape."""
    trace = _as_trace(trace)
    verdict = default_classifier().classify(trace)
    return judge(trace, verdict) if judge else verdict


def explain(trace: Trace | str | dict[str, Any]) -> Explanation:
    """How the verdict on `trace` comes about."""
    return default_classifier().explain(_as_trace(trace))


def _as_trace(trace: Trace | str | dict[str, Any]) -> Trace:
    return trace if isinstance(trace, Trace) else normalize(trace)


def combine(verdicts: Sequence[Verdict], trace: Trace) -> Verdict:
    """One verdict for the whole response: of several choices the gravest on top, all of them below."""
    model = trace.model or trace.ask.model
    if trace.problem or not verdicts:
        status: Any = trace.problem or "empty"
        return Verdict(None, status, reason=trace.why or None, model=model, id=trace.id or "")
    top = gravest(tuple(verdicts))
    id = trace.id or ""
    if len(verdicts) == 1:
        return top if (top.model, top.id) == (model, id) else replace(top, model=model, id=id)
    return replace(top, choices=tuple(replace(v, model=model) for v in verdicts), model=model, id=id)
