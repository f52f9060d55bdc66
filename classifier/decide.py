"""From the evidence to the verdict."""

from __future__ import annotations

from demur.classifier.fold import OffsetMap
from demur.classifier.lexicon import Rule
from demur.classifier.matcher import Hit
from demur.classifier.trace import Ask, Choice
from demur.classifier.verdict import Signal, Span, Verdict


def decide(ask: Ask, choice: Choice, cleaned: str, hits: list[Hit], rules: tuple[Rule, ...], min_confidence: float) -> Verdict:
    text = choice.text
    status = "incomplete" if choice.truncated else "complete"
    if choice.blocked_by or choice.refusal:
        signal = Signal(
            "content_filter", "hard_refusal", 1.0, "fact.blocked", "the API says that it was refused",
            field="refusal" if choice.refusal else "finish_reason",
        )
        return Verdict("hard_refusal", "complete", 1.0, signals=(signal,), blocked_by=choice.blocked_by)
    if not text.strip():
        return Verdict(None, "tool_call" if choice.tool_calls else "empty")
    places = OffsetMap(text, len(cleaned))
    signals = []
    for hit in hits:
        if hit.start > 300 or hit.unless or any(h.unless and h.rule == hit.rule for h in hits):
            continue
        rule = rules[hit.rule]
        start, end = places.span(hit.start, hit.end)
        signals.append(
            Signal(rule.signal.name, rule.signal.target, rule.weight, rule.id, rule.why, (Span(start, end, text[start:end]),))
        )
    if not signals:
        return Verdict("answer", status, 0.8, language="en")
    best = max(signals, key=lambda s: s.weight)
    return Verdict(best.target, status, best.weight, signals=tuple(signals), language="en")
