"""Events → sessions → verdict: one session per choice, fed as its text arrives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from demur.classifier.answer import INSPECT_CHARS, StreamAnswer
from demur.classifier.judge import Classifier, combine, default_classifier
from demur.classifier.session import Session
from demur.classifier.sse import Event
from demur.classifier.trace import Ask, Choice, Trace
from demur.classifier.verdict import Verdict


class StreamJudge:
    """Feed it the events of one response stream; ask for the verdict of a finished choice, in the end for the whole.

    Arguments as for `StreamAnswer`; `classifier` None: our own rules. `answer` tells what was read, `trace` is what
    `finish` judged.
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
        self.trace: Trace | None = None
        self._classifier = classifier or default_classifier()
        self._sessions: dict[int, Session] = {}
        self._judged: dict[int, tuple[Choice, Verdict]] = {}

    def feed(self, event: Event) -> tuple[int, ...]:
        """The choices that got their finish reason in this event."""
        self._hear(self.answer.feed(event))
        return self.answer.newly_finished

    def feed_all(self, events: Sequence[Event]) -> list[tuple[Event, tuple[int, ...], bool]]:
        """The same for events in their order: those that finished a choice, which, and whether the answer had shown
        several by then."""
        return [(event, indexes, self.answer.several) for event in events if (indexes := self.feed(event))]

    def feed_plain(self, lines: bytes) -> bool:
        """The same for the data of events, a line each; quicker. False: not all are plain chunks, and none was read."""
        deltas = self.answer.feed_plain(lines)
        self._hear(deltas or ())
        return deltas is not None

    def choice_verdict(self, index: int) -> Verdict:
        """The verdict of a choice that finished (on what arrived of it, if it has not)."""
        trace = self.answer.trace()
        choice = next((c for c in trace.choices if c.index == index), Choice(index))
        return self._judge(choice, trace.model)

    def so_far(self) -> Verdict:
        """The verdict on what arrived; of a choice that has not finished its status is `incomplete`."""
        return self._whole(self.answer.trace())

    def finish(self, *, cut: bool = False) -> Verdict:
        """The verdict on the whole response, equal to the one on the saved stream. `cut`: its end was abnormal."""
        self.trace = self.answer.trace(cut=cut)
        return self._whole(self.trace)

    def _whole(self, trace: Trace) -> Verdict:
        verdict = combine([self._judge(choice, trace.model) for choice in trace.choices], trace)
        return verdict if verdict.rules_version else replace(verdict, rules_version=self._classifier.rules_version)

    def _hear(self, deltas: Sequence[tuple[int, str]]) -> None:
        for index, text in deltas:
            session = self._sessions.get(index)
            if session is None:
                session = self._sessions[index] = self._classifier.session(self.answer.ask)
            session.feed(text)

    def _judge(self, choice: Choice, model: str | None) -> Verdict:
        known = self._judged.get(choice.index)
        if known is not None and known[0] == choice:  # asked for at its finish reason, and again at the end
            return known[1]
        session = self._sessions.get(choice.index) or self._classifier.session(self.answer.ask)
        verdict = session.finish(choice)
        if verdict.index != choice.index or verdict.model != model:
            verdict = replace(verdict, index=choice.index, model=model)
        self._judged[choice.index] = choice, verdict
        return verdict
