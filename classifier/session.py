"""One choice's text, fed in any pieces and judged once: the same verdict for any cut."""

from __future__ import annotations

from dataclasses import replace

from demur.classifier.decide import decide, from_facts
from demur.classifier.evidence import Evidence
from demur.classifier.replies import reply_text
from demur.classifier.rulebook import Rulebook
from demur.classifier.signals import gather
from demur.classifier.trace import Ask, Choice
from demur.classifier.verdict import Verdict
from demur.classifier.voice import answer_start

#: Pieces are gathered up to this many characters before they are scanned: starting a scan costs more than a token does.
BLOCK = 512


class Session:
    """Built by `Classifier.session`. Feed text, ask for the verdict so far, finish with the structured facts."""

    def __init__(self, ask: Ask, book: Rulebook, min_confidence: float) -> None:
        self._ask, self._book, self._min = ask, book, min_confidence
        self._scan = book.matcher.scan()
        self._parts: list[str] = []  # everything fed
        self._fresh: list[str] = []  # fed and not yet scanned
        self._waiting = 0  # characters of `_fresh`
        self._enough = BLOCK
        self._begin: int | None = None  # where the answer starts, once that is certain

    def feed(self, text: str) -> None:
        self._parts.append(text)
        self._fresh.append(text)
        self._waiting += len(text)
        if self._waiting >= self._enough:
            self._advance()

    def verdict(self) -> Verdict:
        """The verdict on what was fed so far; its status is `incomplete`."""
        return self.finish(Choice(truncated=True))

    def finish(self, choice: Choice, *, model: str | None = None, id: str = "") -> Verdict:
        """The verdict on the text fed and the structured facts of `choice` (whose own text is not read).

        `model` and `id` as the response has them, for the verdict.
        """
        known = {
            "rules_version": self._book.version,
            "model": model or self._ask.model,
            "id": id,
            "inspected": choice.inspected,
            "index": choice.index,
        }
        if told := self.reply(choice):
            return told.finish(replace(choice, tool_calls=()), model=model, id=id)
        verdict = from_facts(choice, self._text(), **known)
        return verdict or decide(self.evidence(), choice, self._min, **known)

    def reply(self, choice: Choice) -> Session | None:
        """A session for the reply that a tool call hands over, if there is no text beside it."""
        if not choice.tool_calls or self._text().strip() or not (reply := reply_text(choice.tool_calls)):
            return None
        told = Session(self._ask, self._book, self._min)
        told.feed(reply)
        return told

    def evidence(self, *, thorough: bool = False) -> Evidence:
        """What the rules find in the text fed so far; `thorough`: also where they can't count."""
        text = self._text()
        if self._begin is None:  # too short to be certain, or still thinking: look without settling anything
            begin = answer_start(text, final=True)
            scan = self._book.matcher.scan()
            scan.run(text[begin:])
            return gather(self._ask, text, begin, scan, self._book, thorough=thorough)
        self._advance()
        return gather(self._ask, text, self._begin, self._scan, self._book, thorough=thorough)

    def _advance(self) -> None:
        """Scans what was fed since. Until the start of the answer is certain it only waits, ever longer."""
        fresh = "".join(self._fresh)
        if self._begin is None:
            self._begin = answer_start(fresh)
            if self._begin is None:
                self._fresh, self._enough = [fresh], 2 * self._waiting
                return
            fresh, self._enough = fresh[self._begin :], BLOCK
        self._scan.run(fresh)
        self._fresh, self._waiting = [], 0

    def _text(self) -> str:
        if len(self._parts) != 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0]
