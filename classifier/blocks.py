"""Structured facts: which words of which vendor say that it refused, and which that the text stops short.

Tables, one row a word, the vendor beside it; to know one more word, add a row. Words are matched without regard to case
and handed on verbatim. An error that no row names is just an error.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from demur.classifier import fields

# What a hostile error can make us search is bounded.
#: Characters of a message; the longest known, with another vendor's error quoted inside, have some thousands.
MAX_MESSAGE = 16 * 1024
#: Entries of a list of what is wrong with a request.
MAX_DETAILS = 64

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

#: Codes and types in error bodies that are a "no", whole: `content_filter.unavailable` is another code.
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
    "contentriskblocked": "Volcengine Ark",
    "hooks_failed": "Portkey, guardrails",
    "guardrail_intervened": "WSO2 AI Gateway, guardrails; LiteLLM with Bedrock's",
    "faqruleblocked": "DashScope, own rules",
    "customroleblocked": "DashScope, own rules",
    "ipinfringementsuspect": "DashScope",
    "operationdenied.textillegaldetected": "Tencent Hunyuan",
    "operationdenied.imageillegaldetected": "Tencent Hunyuan",
    "guardrails_violation": "NVIDIA NeMo Guardrails, as type",
    "content_blocked": "NVIDIA NeMo Guardrails",
    "guardrail_blocked": "Langfuse AI Gateway",
    "sensitive_words_detected": "New API",
    "prompt_blocked": "New API",
}


class Told(NamedTuple):
    """A number that others use for something else: it counts as `code` only, beside one of its vendor's words."""

    vendor: str
    words: tuple[str, ...]  # of the message, in lower case


#: Numbers that are a "no" only in the shape of their vendor, and never on a fault of the server.
NUMBERS: dict[str, Told] = {
    "1301": Told("Zhipu, Z.AI", ("敏感", "不安全", "unsafe or sensitive", "sensitive content")),
    "10013": Told("iFlytek Spark, input", ("审核不通过", "违规", "敏感")),
    "10014": Told("iFlytek Spark, output", ("审核不通过", "违规", "敏感")),
    "10019": Told("iFlytek Spark, conversation", ("审核不通过", "违规", "敏感")),
    "2016": Told("Cloudflare AI Gateway", ("prompt blocked",)),
    "2017": Told("Cloudflare AI Gateway", ("response blocked",)),
    "900514": Told("WSO2 AI Gateway, guardrails", ("guardrail_intervened", "violation of")),
}

#: Codes with a second use, a request that is not well formed: no "no" where the message has one of these words.
UNSURE_CODES: dict[str, tuple[str, ...]] = {
    "invalid_prompt": ("schema", "format", "must be", "expected", "missing", "empty", "required", "parse"),
}

#: Reasons that say nothing, where any other is a "no".
UNSAID = frozenset({"", "block_reason_unspecified", "blocked_reason_unspecified", "none"})

#: Code families of Volcengine Ark: InputTextSensitiveContentDetected, OutputImageRiskDetection, …; a dot refines one.
_FAMILIES = re.compile(
    r"(input|output)?(text|image|video|audio)?sensitivecontentdetected(\.[a-z]+)?"
    r"|(input|output)(text|image|video|audio)riskdetection(\.[a-z]+)?"
)

#: What some say in the message only, under a code that tells nothing.
MESSAGES: dict[str, str] = {
    "content exists risk": "DeepSeek",
    "input data may contain inappropriate content": "DashScope, as gateways quote it",
    "output data may contain inappropriate content": "DashScope, as gateways quote it",
    "content violates usage guidelines": "xAI",
    "output blocked by content filtering policy": "Anthropic",
    "blocked under anthropic's usage policy": "Anthropic",
    "content blocked by guardrail": "Mistral",
    "blocked by our content filters": "Bedrock, Nova and Titan",
    "blocked due to security configurations": "Cloudflare AI Gateway",
    "violated guardrail policy": "LiteLLM, guardrails",
    "violated openai moderation policy": "LiteLLM, guardrails",
    "violated content safety policy": "LiteLLM, guardrails",
    "blocked by input guardrail": "Databricks",
    "blocked by output guardrail": "Databricks",
    "triggering azure openai's content management policy": "Azure, as gateways quote it",
    "rejected as a result of our safety system": "OpenAI, images",
    "safeguards flagged this message": "Anthropic",
    "prompt injection patterns detected": "OpenRouter, guardrails",
    "blocked entity detected": "LiteLLM, personal data",
    "content filtered due to safety violations": "SAP AI Core",
    "prompt pattern is blocked": "Kong AI Gateway",
}

_QUOTED = r"\\*['\"]\s*:\s*\\*['\"]"  # between a key and its text, of JSON or of Python, in a message
_CLASS = r"[\w.]+(?:Error|Exception|Timeout)(?:: | - )"  # LiteLLM puts classes of errors first, the outermost first

#: Words that tell only where they stand: errors about them name them too. Each has one group, what is handed on.
PLACED: dict[re.Pattern[str], str] = {
    re.compile(rf"\bcode{_QUOTED}(ResponsibleAIPolicyViolation)\b"): "Azure, as gateways quote it",
    re.compile(rf"\bfinish_?[Rr]eason{_QUOTED}((?:in|out)put_guardrail_triggered)\b"): "Databricks",
    re.compile(rf"\bmessage{_QUOTED}(?:{_CLASS})*?(?:litellm\.)?(ContentPolicyViolationError): "): "LiteLLM, quoted",
    re.compile(r"(?:\A|\b(?:in|out)put )(new_sensitive)\b"): "MiniMax (1026 input, 1027 output)",
    re.compile(r"\A(?:[Ee]rror: *)?([Ss]ensitive chat messages)\W*(?:\(|\Z)"): "UCloud ModelVerse",
}
_LEADING = re.compile(rf"(?:Error code: )?(?:\d{{3}} (?:- )?)?((?:{_CLASS})+)")
_VIOLATION = re.compile(r"\b(ContentPolicyViolationError): ")  # among the classes: LiteLLM's own

#: What makes of a vendor's words, before or after them in one sentence, a mention.
_BEFORE = re.compile(
    r"\b(?:unknown|invalid|unsupported|undefined|unrecognized|no|not|missing|without)\b", re.IGNORECASE
)
_AFTER = re.compile(
    r"[\s'\"`]*(?:\w+ ){0,3}(?:is|are|was|were|has|does|do|could|can|must|should)(?: no| not|not\b|n't| be\b)",
    re.IGNORECASE,
)

#: HTTP statuses of ordinary errors, whatever their message quotes; some say them as a code.
_ORDINARY_STATUSES = frozenset(
    map(str, (401, 402, 404, 405, 406, 408, 409, 410, 411, 413, 414, 415, 429, 431, 501, 503, 504, 529))
)

#: Parts of the codes of ordinary errors, without the signs between their words.
_ORDINARY = re.compile(
    "notfound|notexist|nosuch|ratelimit|toomanyrequests|throttl|quota|billing|balance|insufficient|exhausted"
    "|contextlength|contextwindow|toolong|toolarge|tokenlimit|timeout|timedout|deadline|overloaded|unavailable"
    "|unauthor|authenticat|apikey|expired|unsupported|notsupported|notimplemented|configur|missing"
    "|unknownparam|unknownmodel|unrecognized"
)

#: Baidu Qianfan's `flag` of a choice that ends the talk: 2 show it, 3 do not show it, 4 take it back. 1 is a remark.
FLAGS = frozenset({2, 3, 4})


def is_block(reason: str | None) -> bool:
    """Whether a stop reason is the provider's or the model's own "no"."""
    # Gemini's OpenAI-compatible endpoint adds its own word: "content_filter: SAFETY".
    return reason is not None and reason.lower().partition(":")[0] in STOPS


def is_short(reason: str | None) -> bool:
    """Whether a stop reason says, without a "no", that the text ends early."""
    return reason is not None and reason.lower() in SHORT


def error_block(error: dict[str, Any], status: int = 200) -> tuple[str, str] | None:
    """Of an error object that is a policy block the raw code (or the words of its message that tell) and the field
    it stands in, such as `error.code`; else None. `status`: of the HTTP answer that it came with."""
    told = fields.mapping(error.get("message"))  # gateways put an object there
    entries = [("error.detail", entry) for entry in _details(error)]
    said = [("error.message", error), *((place, entry) for place, entry in entries)]
    if type(said_status := error.get("status")) is int:
        status = max(status, said_status)
    folded = " ".join([*(_message(source) for _, source in said), *_asides(error, told)]).lower()
    if _is_ordinary(error, status):
        return None
    for place, source in (("error", error), ("error.innererror", _inner(error)), ("error.message", told), *entries):
        for key, word in _named_words(source):
            if _tells(key, word.lower(), folded, status):
                return word, f"{place}.{key}"
    metadata = fields.mapping(error.get("metadata"))  # OpenRouter's moderation has no code of its own
    if metadata.get("reasons") and "flagged_input" in metadata:
        reasons = ", ".join(filter(None, map(fields.string, fields.sequence(metadata["reasons"]))))
        return reasons or "flagged", "error.metadata.reasons"
    for place, source in said:
        if not _is_ordinary(source, status) and (words := _telling_words(_message(source))):
            return words, place
    return None


def _tells(key: str, code: str, folded: str, status: int) -> bool:
    """Whether a code, in lower case under its key, is a "no" beside the message `folded`."""
    if code in NUMBERS:
        return key == "code" and status < 500 and any(words in folded for words in NUMBERS[code].words)
    known = code in CODES or _FAMILIES.fullmatch(code) is not None
    return known and not any(re.search(rf"\b{words}\b", folded) for words in UNSURE_CODES.get(code, ()))


def _telling_words(message: str) -> str | None:
    """The words of a message that are a "no", as they stand there."""
    folded = message.lower()
    for words in MESSAGES:
        at = folded.find(words)
        if at >= 0 and len(folded) == len(message) and not _is_mention(message, at, at + len(words)):
            return message[at : at + len(words)]
    for pattern in PLACED:
        if (found := pattern.search(message)) and not _is_mention(message, *found.span(1)):
            return found[1]
    leading = _LEADING.match(message)
    violation = _VIOLATION.search(leading[1]) if leading else None
    return violation[1] if violation else None


def _is_mention(message: str, start: int, end: int) -> bool:
    """Whether the words from `start` to `end` are only named: "the model `…` does not exist", "unknown action …"."""
    quote = message[end : end + 1]
    quoted = quote in ("`", "'", '"') and message[start - 1 : start] == quote
    if quoted and message[end + 1 : end + 2] not in ("", ",", "}", "]", ")"):  # nor a value of an object
        return True
    sentence = re.split(r"[.:;{}\n]", message[max(0, start - 200) : start])[-1]
    return _BEFORE.search(sentence) is not None or _AFTER.match(message, end) is not None


def _is_ordinary(error: dict[str, Any], status: int) -> bool:
    """Whether an error says by its status, its codes, or LiteLLM's class, that it is one of the ordinary kinds."""
    words = [word.lower() for _, word in _named_words(error)]
    if leading := _LEADING.match(_message(error)):
        words += leading[1].lower().split()
    if not _ORDINARY_STATUSES.isdisjoint((str(status), *words)):
        return True
    return any(_ORDINARY.search(re.sub("[^a-z]", "", word)) for word in words)


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
        ("status_code", error.get("status_code")),  # MiniMax, whose numbers mean other things elsewhere
    )
    return [(key, word) for key, value in values if (word := fields.name(value))]


def _message(error: dict[str, Any]) -> str:
    """What an error says, in whichever place; LiteLLM's guardrails put an object under `message`."""
    told = error.get("message") or error.get("msg") or error.get("error_msg") or error.get("detail")
    if isinstance(told, list):  # Mistral, in an entry of its details
        return " ".join(map(fields.string, told[:MAX_DETAILS]))[:MAX_MESSAGE]
    return fields.string(fields.mapping(told).get("error") or told)[:MAX_MESSAGE]


def _asides(error: dict[str, Any], told: dict[str, Any]) -> tuple[str, ...]:
    """What WSO2 says beside its message: the name of the guardrail, or in an object there that it stepped in."""
    return fields.string(error.get("description"))[:MAX_MESSAGE], fields.string(told.get("action"))[:MAX_MESSAGE]


def _details(error: dict[str, Any]) -> list[dict[str, Any]]:
    """FastAPI's list of what is wrong with a request, each with `type`, `loc` and `msg` (Mistral, vLLM and others)."""
    details = fields.mappings(error.get("detail")) or fields.mappings(
        fields.mapping(error.get("message")).get("detail")
    )
    return details[:MAX_DETAILS]


def _inner(error: dict[str, Any]) -> dict[str, Any]:
    sources = error, fields.mapping(error.get("provider_specific_fields"))  # LiteLLM hands Azure's on in there
    inner = (fields.mapping(source.get(key)) for source in sources for key in ("innererror", "inner_error"))
    return next(filter(None, inner), {})
