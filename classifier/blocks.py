"""Structured facts: which words of which vendor say "the provider or the model refused", and which only "it got too long".

Tables, one row a word, the vendor beside it. A reason is matched without regard to case and kept verbatim.
Any error that no row names is just an error.
"""

from __future__ import annotations

from typing import Any

from demur.classifier import fields

#: finish_reason, stop_reason, finishReason, stopReason, done_reason, incomplete_details.reason, blockReason.
_STOPS: dict[str, str] = {
    "content_filter": "OpenAI, Azure, Mistral, DeepSeek and most gateways",
    "refusal": "Anthropic",
    "sensitive": "Zhipu, Z.AI, Tencent Hunyuan",
    "safety": "Gemini",
    "recitation": "Gemini",
    "blocklist": "Gemini",
    "prohibited_content": "Gemini",
    "spii": "Gemini",
    "image_safety": "Gemini",
    "image_prohibited_content": "Gemini",
    "image_recitation": "Gemini",
    "model_armor": "Vertex AI",
    "jailbreak": "Vertex AI",
    "guardrail_intervened": "Bedrock",
    "content_filtered": "Bedrock",
    "error_toxic": "Cohere",
}

_LENGTHS: dict[str, str] = {
    "length": "OpenAI, Ollama and most others",
    "max_tokens": "Anthropic, Gemini, Bedrock, Cohere",
    "max_output_tokens": "OpenAI Responses",
    "model_context_window_exceeded": "Anthropic, Bedrock",
    "model_length": "Mistral",
}

#: Codes and types of error bodies.
_ERRORS: dict[str, str] = {
    "content_filter": "Azure, Moonshot",
    "responsibleaipolicyviolation": "Azure",
    "invalid_prompt": "OpenAI reasoning models",
    "content_policy_violation": "OpenAI images, LiteLLM",
    "cyber_policy": "OpenAI",
    "data_inspection_failed": "DashScope",
    "datainspectionfailed": "DashScope",
    "1301": "Zhipu, Z.AI",
}


def is_block(reason: str | None) -> bool:
    """Whether a stop reason is the provider's or the model's own "no"."""
    return reason is not None and reason.lower() in _STOPS


def is_length(reason: str | None) -> bool:
    """Whether a stop reason says that the text ends early for its length alone."""
    return reason is not None and reason.lower() in _LENGTHS


def error_block(error: dict[str, Any]) -> str | None:
    """The raw code of an error object when it is a policy block, None for any other error."""
    inner = fields.mapping(error.get("innererror")) or fields.mapping(error.get("inner_error"))
    for source in (error, inner):
        for key in ("code", "type", "status"):
            word = fields.name(source.get(key))
            if word and word.lower() in _ERRORS:
                return word
    return None


def error_code(error: dict[str, Any]) -> str:
    """The short code of an error, for `why`. Never its message: that may quote the prompt or a key."""
    return next((word[:80] for key in ("code", "type", "status") if (word := fields.name(error.get(key)))), "")
