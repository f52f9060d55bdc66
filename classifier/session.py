"""One choice's text, fed in any pieces and judged once: the same verdict for any cut."""

from __future__ import annotations

from dataclasses import replace

from demur.classifier.decide import decide, from_facts
from demur.classifier.lexicon import Rule
from demur.classifier.matcher import Matcher
from demur.classifier.signals import Evidence, gather
from demur.classifier.trace import Ask, Choice
from demur.classifier.verdict import Verdict


class Session:
    """Built by `Classifier.session`. Feed text, ask for the verdict so far, finish with the structured facts."""

    def __init__(self, ask: Ask, rules: tuple[Rule, ...], matcher: Matcher, min_confidence: float, rules_version: str) -> None:
        self._ask, self._rules, self._min, self._version = ask, rules, min_confidence, rules_version
        self._pieces: list[str] = []
        self._scan = matcher.scan()

    def feed(self, text: str) -> None:
        self._pieces.append(text)
        self._scan.feed(text)

    def verdict(self) -> Verdict:
        """The verdict on what was fed so far; its status is `incomplete`."""
        return self.finish(Choice(truncated=True))

    def finish(self, choice: Choice) -> Verdict:
        """The verdict on the text fed and the structured facts of `choice` (whose own text is not read)."""
        evidence = self.evidence()
        choice = replace(choice, text=self._pieces[0] if self._pieces else "")
        verdict = from_facts(choice)
        if verdict is None and evidence is not None:
            verdict = decide(evidence, choice, self._min)
        assert verdict is not None  # without evidence there was no text, which is a fact
        return replace(
            verdict, rules_version=self._version, model=self._ask.model, inspected=choice.inspected
        )

    def evidence(self) -> Evidence | None:
        """What the rules found in the text fed so far; None without text."""
        text = "".join(self._pieces)
        if not text.strip():
            return None
        self._pieces = [text]
        cleaned, hits = self._scan.finish()
        return gather(self._ask, text, cleaned, hits, self._rules)
