"""Low-cardinality words for spans and metrics: the operation, the route, the kind of error, capped label values.

Everything that a client or an upstream chose (model, path, tag, finish reason) passes through here before it becomes a
label, a span name or an attribute: bounded in length, in number where it is a label, and always encodable.
"""

from __future__ import annotations

from demur.classifier.verdict import Verdict
from demur.proxy.observe import Exchange

#: Characters kept of a name that came over the wire (model, tag, response id, …); real ones are far shorter.
NAME_LIMIT = 256
OTHER = "other"

#: `gen_ai.operation.name` by API, as the GenAI semantic conventions name them; the rest is "chat".
_OPERATIONS = {"openai.completions": "text_completion", "gemini": "generate_content"}

#: How the path of a judged API ends, with placeholders for what varies.
_ROUTES = {
    "openai.chat": "/chat/completions",
    "openai.completions": "/completions",
    "openai.responses": "/responses",
    "anthropic.messages": "/messages",
    "gemini": "/models/{model}:generateContent",
    "ollama.chat": "/api/chat",
    "bedrock.converse": "/model/{model}/converse",
}
#: Resources of OpenAI-compatible APIs: paths below them are told apart, all other paths are not.
_RESOURCES = frozenset(
    {"assistants", "audio", "batches", "chat", "completions", "containers", "conversations", "embeddings", "evals"}
    | {"files", "fine_tuning", "images", "messages", "models", "moderations", "realtime", "rerank", "responses"}
    | {"threads", "uploads", "vector_stores", "videos"}
)


def clip(text: str, limit: int = NAME_LIMIT) -> str:
    """At most `limit` characters, without lone surrogates: one of those would spoil a whole export batch or scrape."""
    text = text[:limit]
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def features_of(verdict: Verdict) -> list[str] | None:
    """The names of the features that a refusal has, None where they are not coded."""
    return None if verdict.features is None else [name for name, present in verdict.features.items() if present]


def operation_of(api: str) -> str:
    return _OPERATIONS.get(api, "chat")


def route_of(api: str | None, path: str) -> str | None:
    """The path with its variable parts as placeholders, or None when we know nothing about it."""
    if api is not None:
        suffix = _ROUTES.get(api)
        if suffix is None or path in (suffix, "/v1" + suffix):
            return suffix and path
        return "/{prefix}" + suffix
    version, _, rest = path.removeprefix("/").partition("/")
    resource, _, below = rest.partition("/")
    if version != "v1" or resource not in _RESOURCES:
        return None
    return f"/v1/{resource}/{{path}}" if below else f"/v1/{resource}"


def error_type(exchange: Exchange) -> str | None:
    """What went wrong between us and the upstream: how the exchange ended early, else the error status, else None.

    A refusal is not an error, even when it comes as HTTP 400 (a provider's content filter).
    """
    if exchange.end != "complete":
        return exchange.end
    if exchange.verdict is not None and exchange.verdict.is_refusal():
        return None
    if exchange.status_code is not None and exchange.status_code >= 400:
        return str(exchange.status_code)
    return None


class LabelCap:
    """Lets the first `limit` distinct values through; every later one, and any that is too long, is `other`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[str, str] = {}

    def __call__(self, value: str | None) -> str:
        if not value:
            return ""
        known = self._known.get(value)
        if known is None:
            if len(value) > NAME_LIMIT or len(self._known) >= self._limit:
                return OTHER
            known = self._known[value] = clip(value)
        return known
