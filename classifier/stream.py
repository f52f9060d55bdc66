"""Events → sessions → verdict: one session per choice, fed as its text arrives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from demur.classifier.answer import INSPECT_CHARS, StreamAnswer
from demur.classifier.judge import Classifier, combine, default_classifier
from demur.classifier.session import Session
from demur.classifier.sse import Event
from demur.classifier.trace import Ask, Choice, Trace
from demur.classifier.verdict import Verdict

#: How often choices that have finished are judged once more because they finish again, all of them together: older
#: models of Gemini give a reason with every chunk, of which their longest answers have some hundred. After that, a
#: choice is judged once more when it has doubled.
MAX_REPEATS = 128


class Finish(NamedTuple):
    """An event that finished choices. `verdicts` has them, each with the verdict on what had come by then, that event
    included, or None where it was not judged once more; `several`: the answer had shown several choices by then."""

    event: Event
    verdicts: Mapping[int, Verdict | None]
    several: bool


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
        self._repeats = 0
        self._sizes: dict[int, int] = {}  # characters of each choice when it was last judged at a finish reason

    def feed(self, event: Event) -> tuple[int, ...]:
        """The choices that got their finish reason in this event."""
        self._hear(self.answer.feed(event))
        return self.answer.newly_finished

    def feed_all(self, events: Sequence[Event]) -> list[Finish]:
        """The same for some events in their order: those that finished a choice, with the verdicts of that moment."""
        finished = []
        for event in events:
            if indexes := self.feed(event):
                verdicts = {index: self._at_finish(index) for index in indexes}
                finished.append(Finish(event, verdicts, self.answer.several))
        return finished

    def feed_plain(self, lines: bytes) -> bool:
        """The same for the data of events, a line each; quicker. False: not all are plain chunks, and none was read."""
        deltas = self.answer.feed_plain(lines)
        self._hear(deltas or ())
        return deltas is not None

    def choice_verdict(self, index: int) -> Verdict:
        """The verdict of a choice that finished (on what arrived of it, if it has not)."""
        trace = self.answer.trace(only=index)
        return self._judge(trace.choices[0] if trace.choices else Choice(index), trace.model)

    def _at_finish(self, index: int) -> Verdict | None:
        """The same; None for one that has finished before, too often for the time it takes. A block is always told."""
        size, last = self.answer.size(index), self._sizes.get(index)
        if last is not None:
            if self._repeats >= MAX_REPEATS and size < 2 * last and not self.answer.blocked(index):
                return None
            self._repeats += 1
        self._sizes[index] = size
        return self.choice_verdict(index)

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
