from __future__ import annotations

import pytest

from demur.proxy.urls import Base

CHAT = b"/chat/completions"


@pytest.mark.parametrize(
    ("base", "path", "target"),
    [  # W58: with and without /v1, with and without a trailing slash, on both sides
        ("http://h/v1", b"/v1/chat/completions", b"/v1/chat/completions"),
        ("http://h/v1/", b"/v1/chat/completions", b"/v1/chat/completions"),
        ("http://h/v1", b"/chat/completions", b"/v1/chat/completions"),
        ("http://h/v1/", b"/chat/completions", b"/v1/chat/completions"),
        ("http://h", b"/v1/chat/completions", b"/v1/chat/completions"),
        ("http://h/", b"/v1/chat/completions", b"/v1/chat/completions"),
        ("http://h", b"/chat/completions", b"/chat/completions"),
        ("http://h/", b"/chat/completions", b"/chat/completions"),
        ("http://h/v1", b"/v1/chat/completions/", b"/v1/chat/completions/"),
        ("http://h/v1/", b"/v1/chat/completions/", b"/v1/chat/completions/"),
        ("http://h/v1", b"/chat/completions/", b"/v1/chat/completions/"),
        ("http://h/v1/", b"//chat/completions", b"/v1/chat/completions"),
        ("http://h", b"//v1/chat/completions", b"/v1/chat/completions"),
        ("http://h/", b"/v1/chat/completions/", b"/v1/chat/completions/"),
        ("http://h", b"/chat/completions/", b"/chat/completions/"),
        ("http://h/", b"//chat/completions", b"/chat/completions"),
        ("http://h//v1", b"/v1/chat/completions", b"/v1/chat/completions"),
        ("http://h//", b"/chat/completions", b"/chat/completions"),
    ],
)
def test_base_and_path_join_with_one_version_and_single_slashes(base: str, path: bytes, target: bytes) -> None:
    assert Base.parse(base).target(path, b"") == target


@pytest.mark.parametrize(
    ("base", "path", "query", "target"),
    [
        ("http://h/openai/v1", b"/v1/models", b"", b"/openai/v1/models"),
        ("http://h/v1", b"/v1/v1/models", b"", b"/v1/v1/models"),  # one is dropped, not all
        ("http://h/v1", b"/v1beta/models/m:generateContent", b"", b"/v1/v1beta/models/m:generateContent"),
        ("http://h/v1", b"/v1", b"", b"/v1"),
        ("http://h", b"/", b"", b"/"),
        ("http://h/v1", b"/v1/a%7Eb/../%2F", b"q=%7E&r=a+b&key=%zz", b"/v1/a%7Eb/../%2F?q=%7E&r=a+b&key=%zz"),
    ],
)
def test_bytes_of_path_and_query_stay(base: str, path: bytes, query: bytes, target: bytes) -> None:
    assert Base.parse(base).target(path, query) == target


@pytest.mark.parametrize(
    ("base", "host", "port", "netloc"),
    [
        ("https://api.test/v1", "api.test", 443, b"api.test"),
        ("http://api.test:8080", "api.test", 8080, b"api.test:8080"),
        ("http://[::1]:9/v1", "::1", 9, b"[::1]:9"),
    ],
)
def test_host_and_port(base: str, host: str, port: int, netloc: bytes) -> None:
    parsed = Base.parse(base)
    assert (parsed.host, parsed.port, parsed.netloc) == (host, port, netloc)
