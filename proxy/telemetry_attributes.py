"""What a span or an event says about an exchange: pure functions from our records to attributes of the right type.

Nothing here may break an export: one string that UTF-8 cannot hold, or one integer beyond 64 bits, would lose the
whole batch it travels in. So strings from the wire are clipped, integers checked. Only `content_attributes` has texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

import msgspec
from opentelemetry.util.types import AttributeValue

from demur.classifier import Classifier
from demur.classifier.trace import Choice
from demur.classifier.verdict import Verdict
from demur.proxy import telemetry_names as names
from demur.proxy.labels import clip, features_of
from demur.proxy.observe import Exchange

Attributes = dict[str, AttributeValue]

#: Entries kept of a list (rules, signals, finish reasons, evidence).
LIST_LIMIT = 32
#: Characters kept of one captured text, so that a batch of spans stays within what collectors accept.
TEXT_LIMIT = 65_536
#: Bodies beyond it are not read for request parameters: decoding a second time would hold up the event loop.
PARAMETERS_LIMIT = 1024 * 1024


class _Parameters(TypedDict, total=False):
    """The keys that are read, of every API; a typed decode skips the others without building objects."""

    temperature: Any
    top_p: Any
    topP: Any
    max_tokens: Any
    max_completion_tokens: Any
    max_output_tokens: Any
    maxOutputTokens: Any
    maxTokens: Any
    num_predict: Any
    seed: Any
    n: Any
    candidateCount: Any
    conversation: Any
    generationConfig: _Parameters | None  # Gemini
    inferenceConfig: _Parameters | None  # Bedrock
    options: _Parameters | None  # Ollama


_decode = msgspec.json.Decoder(_Parameters).decode
_NESTED = ("generationConfig", "inferenceConfig", "options")
_FLOATS = {"temperature": names.REQUEST_TEMPERATURE, "top_p": names.REQUEST_TOP_P, "topP": names.REQUEST_TOP_P}
_INTEGERS = {
    "max_tokens": names.REQUEST_MAX_TOKENS,
    "max_completion_tokens": names.REQUEST_MAX_TOKENS,
    "max_output_tokens": names.REQUEST_MAX_TOKENS,
    "maxOutputTokens": names.REQUEST_MAX_TOKENS,
    "maxTokens": names.REQUEST_MAX_TOKENS,
    "num_predict": names.REQUEST_MAX_TOKENS,
    "seed": names.REQUEST_SEED,
    "n": names.REQUEST_CHOICE_COUNT,
    "candidateCount": names.REQUEST_CHOICE_COUNT,
}


def request_attributes(body: bytes) -> Attributes:
    """Temperature, token limit and their like from a request body of any API. What is not readable is left out."""
    if len(body) > PARAMETERS_LIMIT:
        return {}
    try:
        found: dict[str, Any] = dict(_decode(body))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}
    for key in _NESTED:
        found |= found.pop(key, None) or {}
    out: Attributes = {}
    for key, value in found.items():
        if key == "conversation":
            known = value.get("id") if isinstance(value, dict) else value
            if isinstance(known, str):
                out[names.CONVERSATION_ID] = clip(known)
        elif isinstance(value, bool):
            continue
        elif (name := _FLOATS.get(key)) and isinstance(value, int | float):
            out[name] = float(value)
        elif (name := _INTEGERS.get(key)) and _is_int64(value) and (key not in ("n", "candidateCount") or value != 1):
            out[name] = value
    return out


def response_attributes(exchange: Exchange) -> Attributes:
    """Model, id, finish reasons, token counts and end marker, as far as the response states them."""
    out: Attributes = {}
    if exchange.stream and exchange.first_event is not None:
        out[names.RESPONSE_TIME_TO_FIRST_CHUNK] = exchange.first_event - exchange.started
    if exchange.stream and exchange.done_marker is not None:
        out[names.STREAM_DONE_MARKER] = exchange.done_marker
    if (trace := exchange.trace) is None:
        return out
    if trace.model:
        out[names.RESPONSE_MODEL] = clip(trace.model)
    if trace.response_id:
        out[names.RESPONSE_ID] = clip(trace.response_id)
    if reasons := [clip(c.finish_reason) for c in trace.choices[:LIST_LIMIT] if c.finish_reason]:
        out[names.RESPONSE_FINISH_REASONS] = reasons
    usage = trace.usage
    for name, count in (
        (names.USAGE_INPUT_TOKENS, usage.input_tokens),
        (names.USAGE_OUTPUT_TOKENS, usage.output_tokens),
        (names.USAGE_CACHE_READ_INPUT_TOKENS, usage.cached_tokens),
        (names.USAGE_REASONING_OUTPUT_TOKENS, usage.reasoning_tokens),
    ):
        if count is not None and _is_int64(count):
            out[name] = count
    return out


def verdict_attributes(verdict: Verdict) -> Attributes:
    """The verdict as flat primitives, without any text of the answer."""
    out: Attributes = {
        names.REFUSAL_ID: verdict.id,
        names.REFUSAL_STATUS: verdict.status,
        names.REFUSAL_CLASSIFIER_NAME: Classifier.name,
        names.REFUSAL_CLASSIFIER_VERSION: verdict.rules_version,
    }
    if verdict.label is not None:
        out[names.REFUSAL_VERDICT] = verdict.label
        out[names.REFUSAL_IS_REFUSAL] = verdict.is_refusal()
    if verdict.confidence is not None:
        out[names.REFUSAL_SCORE] = float(verdict.confidence)
    for name, word in (
        (names.REFUSAL_ACTION, verdict.action),
        (names.REFUSAL_RATIONALE, verdict.rationale),
        (names.REFUSAL_STRATEGY, verdict.strategy),
        (names.REFUSAL_LANGUAGE, verdict.language),
        (names.REFUSAL_BLOCKED_BY, verdict.blocked_by and clip(verdict.blocked_by)),
    ):
        if word is not None:
            out[name] = word
    if (features := features_of(verdict)) is not None:
        out[names.REFUSAL_FEATURES] = features
    if verdict.signals:
        out[names.REFUSAL_SIGNALS] = _distinct(s.name for s in verdict.signals)
        out[names.REFUSAL_RULES] = rules_of(verdict)
    if verdict.inspected < 1:
        out[names.REFUSAL_INSPECTED] = float(verdict.inspected)
    return out


def rules_of(verdict: Verdict) -> list[str]:
    """The ids of the rules that fired, bounded in number."""
    return _distinct(signal.rule for signal in verdict.signals)


def content_attributes(exchange: Exchange) -> Attributes:
    """The words themselves: the ask, the answers, the evidence. Only for who has switched content capture on.

    Messages are JSON strings in the shape of the GenAI conventions. The ask is the last user text: the proxy keeps no
    more of the conversation.
    """
    prompt, system = _text(exchange.ask.prompt), _text(exchange.ask.system)
    choices = exchange.trace.choices[:LIST_LIMIT] if exchange.trace else ()
    out: Attributes = {
        names.INPUT_MESSAGES: _json([{"role": "user", "parts": [{"type": "text", "content": prompt}]}]),
        names.OUTPUT_MESSAGES: _json([_message(choice) for choice in choices]),
        names.INPUT_VALUE: prompt,
        names.OUTPUT_VALUE: "\n\n".join(_text(c.text or c.refusal) for c in choices),
    }
    if system:
        out[names.SYSTEM_INSTRUCTIONS] = _json([{"type": "text", "content": system}])
    if exchange.verdict is not None:
        found = [e.spans for e in exchange.verdict.signals] + [e.spans for e in exchange.verdict.codes]
        out[names.REFUSAL_EVIDENCE] = _distinct(_text(span.text) for spans in found for span in spans)
    return out


def _message(choice: Choice) -> Mapping[str, Any]:
    parts: list[dict[str, Any]] = []
    if text := _text(choice.text or choice.refusal):
        parts.append({"type": "text", "content": text})
    parts += [
        {"type": "tool_call", "name": clip(c.name), "arguments": _text(c.arguments)}
        for c in choice.tool_calls[:LIST_LIMIT]
    ]
    return {"role": "assistant", "parts": parts, "finish_reason": clip(choice.finish_reason or "")}


def _distinct(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))[:LIST_LIMIT]


def _text(text: str) -> str:
    return clip(text, TEXT_LIMIT)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _is_int64(value: object) -> bool:
    return isinstance(value, int) and -(2**63) <= value < 2**63
