"""Which API a path speaks, and whose it is."""

from __future__ import annotations

import pytest

from demur.classifier.apis import api_of_path, provider_of


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/v1/chat/completions", "openai.chat"),
        ("/chat/completions", "openai.chat"),
        ("/v1/chat/completions/", "openai.chat"),
        ("/v1/chat/completions?api-version=2024-10-21", "openai.chat"),
        ("/openai/deployments/gpt-4o/chat/completions?api-version=1", "openai.chat"),
        ("/api/v3/team/chat/completions", "openai.chat"),
        ("/v1/completions", "openai.completions"),
        ("/openai/deployments/x/completions", "openai.completions"),
        ("/v1/responses", "openai.responses"),
        ("/v1/messages", "anthropic.messages"),
        ("/anthropic/v1/messages?beta=true", "anthropic.messages"),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict", "anthropic.messages"),
        ("/v1beta/models/gemini-2.0-flash:generateContent", "gemini"),
        ("/v1beta/models/gemini-2.0-flash:streamGenerateContent?alt=sse", "gemini"),
        ("/v1/projects/p/locations/l/publishers/google/models/g:generateContent", "gemini"),
        ("/model/anthropic.claude%3A0/converse", "bedrock.converse"),
        ("/api/chat", "ollama.chat"),
        ("/api/generate", "ollama.chat"),
    ],
)
def test_judged_paths(path: str, api: str) -> None:
    assert api_of_path(path) == api


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/v1/models",
        "/v1/embeddings",
        "/v1/chat/completions/chatcmpl-1",
        "/v1/responses/resp_1",
        "/v1/responses/resp_1/cancel",
        "/v1/messages/count_tokens",
        "/v1/messages/batches",
        "/v1/threads/t_1/messages",
        "/v1/models/gemini:countTokens",
        "/v1/audio/transcriptions",
        "/model/x/converse-stream",
        "/v1/completionsx",
        "/search?path=/v1/chat/completions",
    ],
)
def test_paths_that_are_not_judged(path: str) -> None:
    assert api_of_path(path) is None


@pytest.mark.parametrize(
    ("api", "host", "provider"),
    [
        ("openai.chat", "api.openai.com", "openai"),
        ("openai.chat", "EU.api.openai.com.", "openai"),
        ("openai.chat", "mine.openai.azure.com", "azure.ai.openai"),
        ("openai.chat", "mine.services.ai.azure.com", "azure.ai.inference"),
        ("openai.chat", "api.x.ai", "x_ai"),
        ("openai.chat", "api.mistral.ai", "mistral_ai"),
        ("openai.chat", "api.deepseek.com", "deepseek"),
        ("anthropic.messages", "api.anthropic.com", "anthropic"),
        ("anthropic.messages", "us-east5-aiplatform.googleapis.com", "gcp.vertex_ai"),
        ("gemini", "generativelanguage.googleapis.com", "gcp.gemini"),
        ("bedrock.converse", "bedrock-runtime.us-east-1.amazonaws.com", "aws.bedrock"),
        ("openai.chat", "notopenai.com", "openai"),
        ("openai.chat", "127.0.0.1", "openai"),
        ("openai.responses", None, "openai"),
        ("gemini", "localhost", "gcp.gemini"),
        ("ollama.chat", "localhost", "ollama"),
        (None, "localhost", None),
        (None, "api.groq.com", "groq"),
    ],
)
def test_providers(api: str | None, host: str | None, provider: str | None) -> None:
    assert provider_of(api, host) == provider


def test_provider_names_are_those_of_the_conventions() -> None:
    attributes = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    known = {member.value for member in attributes.GenAiProviderNameValues}
    hosts = [
        "openai.com",
        "openai.azure.com",
        "services.ai.azure.com",
        "x.ai",
        "aiplatform.googleapis.com",
        "cohere.com",
    ]
    assert {provider_of(None, host) for host in hosts} <= known
