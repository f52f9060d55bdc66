"""Which API a request path speaks, and whose it is. Paths decide what is judged; everything else passes as it is."""

from __future__ import annotations

import re
from urllib.parse import unquote

# The end of the path tells; what stands before it (/v1, /openai/deployments/x, a gateway's base path) does not matter.
_PATHS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (api, re.compile(pattern + r"/*\Z"))
    for api, pattern in (
        ("openai.chat", r"/chat/completions"),
        ("openai.completions", r"(?<!/chat)/completions"),
        ("openai.responses", r"/responses"),
        ("anthropic.messages", r"(?<!/threads)(?<!/beta)/messages"),
        ("anthropic.messages", r"/publishers/anthropic/models/[^/]+:(?:rawPredict|streamRawPredict)"),
        ("gemini", r"/(?:models|tunedModels|endpoints)/[^/]+:(?:generateContent|streamGenerateContent)"),
        ("bedrock.converse", r"/model/[^/]+/converse"),
        ("ollama.chat", r"/api/(?:chat|generate)"),
    )
)
# Google's names for what a model does stand behind a colon, which names of models may have as well.
_MODEL = re.compile(
    r"/(?:models|tunedModels|endpoints|model|deployments|engines)/([^/]+?)"
    r"(?::(?:\w*(?:[gG]enerate|[eE]mbed)\w*|\w*[pP]redict\w*|countTokens|computeTokens))?(?:/|\Z)"
)
_THREADS = re.compile(r"/threads/[^/]+/messages")

# gen_ai.provider.name, as the OpenTelemetry semantic conventions (1.41) spell them; a host matches by its end.
_HOSTS: tuple[tuple[str, str], ...] = (
    ("openai.azure.com", "azure.ai.openai"),
    ("cognitiveservices.azure.com", "azure.ai.openai"),
    ("services.ai.azure.com", "azure.ai.inference"),
    ("models.ai.azure.com", "azure.ai.inference"),
    ("openai.com", "openai"),
    ("anthropic.com", "anthropic"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("amazonaws.com", "aws.bedrock"),
    ("x.ai", "x_ai"),
    ("deepseek.com", "deepseek"),
    ("groq.com", "groq"),
    ("mistral.ai", "mistral_ai"),
    ("cohere.com", "cohere"),
    ("cohere.ai", "cohere"),
    ("perplexity.ai", "perplexity"),
    ("ml.cloud.ibm.com", "ibm.watsonx.ai"),
)
_OWNERS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
    "bedrock": "aws.bedrock",
    "ollama": "ollama",
}


def api_of_path(path: str) -> str | None:
    """The API of a request path (a query is ignored), None when its responses are not judged."""
    path = path.partition("?")[0]
    for api, pattern in _PATHS:
        if pattern.search(path):
            return None if _THREADS.search(path) else api
    return None


def model_of_path(path: str) -> str | None:
    """The model that a path names (Gemini, Vertex, Bedrock, Azure's deployments, OpenAI's `/models/…`), if any."""
    found = _MODEL.search(path.partition("?")[0])
    return unquote(found[1]) if found else None


def provider_of(api: str | None, host: str | None) -> str | None:
    """gen_ai.provider.name: by the upstream's host where that is known, else the one whose API it speaks."""
    if host:
        host = host.lower().rstrip(".")
        for end, provider in _HOSTS:
            if host == end or host.endswith((f".{end}", f"-{end}")):  # us-east1-aiplatform…
                return provider
    return _OWNERS.get(api.partition(".")[0]) if api else None
