"""Structured facts: which words of which vendor say that it refused, and which that the text stops short.

Tables, one row a word, the vendor beside it; to know one more word, add a row. Words are matched without regard to case
and handed on verbatim. An error that no row names is just an error.
"""

from __future__ import annotations

from typing import Any

from demur.classifier import fields

#: Stop reasons that are a "no": finish_reason, stop_reason, finishReason, stopReason, incomplete_details.reason.
STOPS: dict[str, str] = {
    "content_filter": "OpenAI, Azure, Mistral, DeepSeek, Moonshot and most gateways",
    "content_filtered": "Bedrock Converse",
    "guardrail_intervened": "Bedrock Converse",
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
    "error_toxic": "Cohere",
    "input_guardrail_triggered": "Databricks",
    "output_guardrail_triggered": "Databricks",
}

#: Stop reasons that only say that the text ends early.
SHORT: dict[str, str] = {
    "length": "OpenAI, Ollama and most others",
    "max_tokens": "Anthropic, Gemini, Bedrock, Cohere, watsonx",
    "max_output_tokens": "OpenAI Responses",
    "model_context_window_exceeded": "Anthropic, Bedrock",
    "model_length": "Mistral",
    "token_limit": "watsonx",
    "time_limit": "watsonx",
    "error_limit": "Cohere",
    "insufficient_system_resource": "DeepSeek",
    "network_error": "Zhipu",
    "pause_turn": "Anthropic",
    "abort": "vLLM",
    "error": "OpenRouter, Mistral",
}

#: Codes and types in error bodies that are a "no".
CODES: dict[str, str] = {
    "content_filter": "Azure; Moonshot, as type",
    "responsibleaipolicyviolation": "Azure, inner error",
    "invalid_prompt": "OpenAI, reasoning models",
    "content_policy_violation": "OpenAI, OpenRouter, LiteLLM",
    "image_content_policy_violation": "OpenAI",
    "misalignment_policy_violation": "OpenAI",
    "cyber_policy": "OpenAI",
    "bio_policy": "OpenAI",
    "moderation_blocked": "OpenAI, images",
    "data_inspection_failed": "DashScope",
    "datainspectionfailed": "DashScope",
    "censorship_blocked": "StepFun",
    "sensitivecontentdetected": "Volcengine Ark",
    "contentriskblocked": "Volcengine Ark",
    "1301": "Zhipu, Z.AI",
    "10013": "iFlytek Spark, input",
    "10014": "iFlytek Spark, output",
    "10019": "iFlytek Spark, conversation",
    "2016": "Cloudflare AI Gateway, prompt",
    "2017": "Cloudflare AI Gateway, response",
    "hooks_failed": "Portkey, guardrails",
    "900514": "WSO2 AI Gateway, guardrails",
    "guardrail_intervened": "WSO2 AI Gateway, guardrails; LiteLLM with Bedrock's",
    "faqruleblocked": "DashScope, own rules",
    "customroleblocked": "DashScope, own rules",
    "ipinfringementsuspect": "DashScope",
    "textillegaldetected": "Tencent Hunyuan, behind OperationDenied",
    "imageillegaldetected": "Tencent Hunyuan, behind OperationDenied",
    "guardrails_violation": "NVIDIA NeMo Guardrails, as type",
    "content_blocked": "NVIDIA NeMo Guardrails",
    "guardrail_blocked": "Langfuse AI Gateway",
    "sensitive_words_detected": "New API",
    "prompt_blocked": "New API",
}

#: Codes with a second use: no "no" where the message has one of these words.
UNSURE_CODES: dict[str, tuple[str, ...]] = {
    "invalid_prompt": ("schema", "format", "must be", "expected", "missing"),  # a request that is not well formed
}

#: Reasons that say nothing, where any other is a "no".
UNSAID = frozenset({"", "block_reason_unspecified", "blocked_reason_unspecified", "none"})

#: Ends of code families: InputTextSensitiveContentDetected, OutputImageRiskDetection, …
CODE_ENDS: dict[str, str] = {
    "sensitivecontentdetected": "Volcengine Ark",
    "riskdetection": "Volcengine Ark",
}

#: What some say in the message only, under a code that tells nothing.
MESSAGES: dict[str, str] = {
    "content exists risk": "DeepSeek",
    "content violates usage guidelines": "xAI",
    "output blocked by content filtering policy": "Anthropic",
    "blocked under anthropic's usage policy": "Anthropic",
    "content blocked by guardrail": "Mistral",
    "blocked by our content filters": "Bedrock, Nova and Titan",
    "blocked due to security configurations": "Cloudflare AI Gateway",
    "new_sensitive": "MiniMax (1026 input, 1027 output)",
    "contentpolicyviolationerror": "LiteLLM",
    "violated guardrail policy": "LiteLLM, guardrails",
    "violated openai moderation policy": "LiteLLM, guardrails",
    "violated content safety policy": "LiteLLM, guardrails",
    "input_guardrail_triggered": "Databricks",
    "output_guardrail_triggered": "Databricks",
    "blocked by input guardrail": "Databricks",
    "blocked by output guardrail": "Databricks",
    "triggering azure openai's content management policy": "Azure, as gateways quote it",
    "responsibleaipolicyviolation": "Azure, as gateways quote it",
    "rejected as a result of our safety system": "OpenAI, images",
    "safeguards flagged this message": "Anthropic",
    "prompt injection patterns detected": "OpenRouter, guardrails",
    "blocked entity detected": "LiteLLM, personal data",
    "content filtered due to safety violations": "SAP AI Core",
    "prompt pattern is blocked": "Kong AI Gateway",
    "sensitive chat messages": "UCloud ModelVerse",
}

#: Baidu Qianfan's `flag` of a choice that ends the talk: 2 show it, 3 do not show it, 4 take it back. 1 is a remark.
FLAGS = frozenset({2, 3, 4})


def is_block(reason: str | None) -> bool:
    """Whether a stop reason is the provider's or the model's own "no"."""
    # Gemini's OpenAI-compatible endpoint adds its own word: "content_filter: SAFETY".
    return reason is not None and reason.lower().partition(":")[0] in STOPS


def is_short(reason: str | None) -> bool:
    """Whether a stop reason says, without a "no", that the text ends early."""
    return reason is not None and reason.lower() in SHORT


def error_block(error: dict[str, Any]) -> tuple[str, str] | None:
    """Of an error object that is a policy block the raw code (or the words of its message that tell) and the field
    it stands in, such as `error.code`; else None."""
    told = fields.mapping(error.get("message"))  # gateways put an object there
    entries = [("error.detail", entry) for entry in _details(error)]
    messages = [("error.message", _message(error)), *((place, _message(entry)) for place, entry in entries)]
    folded = " ".join(message for _, message in messages).lower()
    for place, source in (("error", error), ("error.innererror", _inner(error)), ("error.message", told), *entries):
        for key, word in _named_words(source):
            # Dots refine: SensitiveContentDetected.SevereViolation (Volcengine), OperationDenied.TextIllegalDetected.
            for code in word.lower().split("."):
                known = code in CODES or code.endswith(tuple(CODE_ENDS))
                if known and not any(words in folded for words in UNSURE_CODES.get(code, ())):
                    return word, f"{place}.{key}"
    metadata = fields.mapping(error.get("metadata"))  # OpenRouter's moderation has no code of its own
    if metadata.get("reasons") and "flagged_input" in metadata:
        reasons = ", ".join(filter(None, map(fields.string, fields.sequence(metadata["reasons"]))))
        return reasons or "flagged", "error.metadata.reasons"
    for place, message in messages:
        folded = message.lower()
        for words in MESSAGES:
            at = folded.find(words)
            if at >= 0 and len(folded) == len(message):
                return message[at : at + len(words)], place
    return None


def error_code(error: dict[str, Any]) -> str:
    """The short code of an error, "" when it has none. Never its message: that may quote the prompt or a key."""
    words = [word for source in (error, *_details(error)) for _, word in _named_words(source)]
    return next((word for word in words if not word.isdigit()), words[0] if words else "")[:80]


def _named_words(error: dict[str, Any]) -> list[tuple[str, str]]:
    """What may be a code, each with its key."""
    status = error.get("status")  # Google's word; elsewhere the HTTP status, which is no code
    values = (
        ("code", error.get("code")),
        ("error_code", error.get("error_code")),  # Baidu Qianfan, Databricks
        ("type", error.get("type")),
        ("status", status if isinstance(status, str) else None),
        ("action", error.get("action")),
    )
    return [(key, word) for key, value in values if (word := fields.name(value))]


def _message(error: dict[str, Any]) -> str:
    """What an error says, in whichever place; LiteLLM's guardrails put an object under `message`."""
    told = error.get("message") or error.get("msg") or error.get("error_msg") or error.get("detail")
    if isinstance(told, list):  # Mistral, in an entry of its details
        return " ".join(map(fields.string, told))
    return fields.string(fields.mapping(told).get("error") or told)


def _details(error: dict[str, Any]) -> list[dict[str, Any]]:
    """FastAPI's list of what is wrong with a request, each with `type`, `loc` and `msg` (Mistral, vLLM and others)."""
    return fields.mappings(error.get("detail")) or fields.mappings(fields.mapping(error.get("message")).get("detail"))


def _inner(error: dict[str, Any]) -> dict[str, Any]:
    sources = error, fields.mapping(error.get("provider_specific_fields"))  # LiteLLM hands Azure's on in there
    inner = (fields.mapping(source.get(key)) for source in sources for key in ("innererror", "inner_error"))
    return next(filter(None, inner), {})
