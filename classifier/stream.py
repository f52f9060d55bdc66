"""Events → sessions → verdict: one session per choice, fed as its text arrives."""

from __future__ import annotations

from dataclasses import replace

from demur.classifier.answer import INSPECT_CHARS, StreamAnswer
from demur.classifier.judge import Classifier, combine, default_classifier
from demur.classifier.session import Session
from demur.classifier.sse import Event
from demur.classifier.trace import Ask, Choice
from demur.classifier.verdict import Verdict


class StreamJudge:
    """Feed it the events of one response stream; ask for the verdict of a finished choice, in the end for the whole.

    Arguments as for `StreamAnswer`; `classifier` None: our own rules. `answer` tells what was read.
    """

    def __init__(
        self,
        ask: Ask,
        api: str | None = None,
        *,
        status: int = 200,
        classifier: Classifier | None = None,
        inspect_chars: int = INSPECT_CHARS,
    ) -> None:
        self.answer = StreamAnswer(ask, api, status=status, inspect_chars=inspect_chars)
        self._classifier = classifier or default_classifier()
        self._sessions: dict[int, Session] = {}
        self._judged: dict[int, tuple[Choice, Verdict]] = {}

    def feed(self, event: Event) -> tuple[int, ...]:
        """The choices that got their finish reason in this event."""
        answer = self.answer
        for index, text in answer.feed(event):
            session = self._sessions.get(index)
            if session is None:
                session = self._sessions[index] = self._classifier.session(answer.ask)
            session.feed(text)
        return answer.newly_finished

    def choice_verdict(self, index: int) -> Verdict:
        """The verdict of a choice that finished (on what arrived of it, if it has not)."""
        trace = self.answer.trace()
        choice = next((c for c in trace.choices if c.index == index), Choice(index))
        return replace(self._judge(choice), model=trace.model)

    def finish(self, *, cut: bool = False) -> Verdict:
        """The verdict on the whole response, equal to the one on the saved stream. `cut`: its end was abnormal."""
        trace = self.answer.trace(cut=cut)
        verdict = combine([self._judge(choice) for choice in trace.choices], trace)
        return replace(verdict, rules_version=self._classifier.rules_version)

    def _judge(self, choice: Choice) -> Verdict:
        known = self._judged.get(choice.index)
        if known is not None and known[0] == choice:  # asked for at its finish reason, and again at the end
            return known[1]
        session = self._sessions.get(choice.index) or self._classifier.session(self.answer.ask)
        verdict = replace(session.finish(choice), index=choice.index)
        self._judged[choice.index] = choice, verdict
        return verdict
