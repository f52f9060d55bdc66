from __future__ import annotations

import pytest
from pydantic import ValidationError

from demur.config import Settings
from demur.config.values import mask_url, parse_bytes, parse_seconds, write_bytes, write_seconds


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (10, 10),
        (0.5, 0.5),
        ("10", 10),
        ("10s", 10),
        (" 1.5 s ", 1.5),
        ("500ms", 0.5),
        ("700ms", 0.7),
        ("1.1 ms", 0.0011),
        ("2m", 120),
        ("2 min", 120),
        ("1H", 3600),
    ],
)
def test_seconds(written: object, seconds: float) -> None:
    assert parse_seconds(written) == seconds


@pytest.mark.parametrize(
    "written", ["", "s", "-1", "1 week", "1m30s", "1e3", "inf", float("nan"), float("inf"), True, None, []]
)
def test_no_seconds(written: object) -> None:
    with pytest.raises(ValueError):
        parse_seconds(written)


@pytest.mark.parametrize(
    ("written", "size"),
    [(10, 10), ("10", 10), ("64MiB", 64 * 2**20), ("2 MB", 2_000_000), ("1.5 KiB", 1536), ("1gb", 10**9), ("3b", 3)],
)
def test_bytes(written: object, size: int) -> None:
    assert parse_bytes(written) == size


@pytest.mark.parametrize("seconds", [0.0, 0.5, 0.0011, 1.0, 59.0, 60.0, 90.0, 300.0, 3600.0, 5400.0, 1e9, 0.7])
def test_seconds_are_written_as_they_are_read(seconds: float) -> None:
    assert parse_seconds(write_seconds(seconds)) == seconds


@pytest.mark.parametrize("size", [1, 1000, 1024, 1536, 2**20, 3 * 2**19, 2**31, 2**50])
def test_sizes_are_written_as_they_are_read(size: int) -> None:
    assert parse_bytes(write_bytes(size)) == size


def test_the_largest_unit_that_fits_is_written() -> None:
    assert [write_seconds(s) for s in (0.5, 30.0, 60.0, 90.0, 300.0, 7200.0)] == [
        "0.5s",
        "30s",
        "1m",
        "90s",
        "5m",
        "2h",
    ]
    assert [write_bytes(size) for size in (100, 2**11, 2**21, 2**31)] == ["100b", "2KiB", "2MiB", "2GiB"]


@pytest.mark.parametrize("written", ["", "MiB", "1M", "1 MIB/s", False, None])
def test_no_bytes(written: object) -> None:
    with pytest.raises(ValueError):
        parse_bytes(written)


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("https://api.example/v1/", "https://api.example/v1"),
        ("http://localhost:11434", "http://localhost:11434"),
        ("http://[::1]:8080/openai", "http://[::1]:8080/openai"),
        ("https://key:pass@api.example", "https://key:pass@api.example"),
    ],
)
def test_upstream(written: str, url: str) -> None:
    assert Settings(upstream=written).upstream == url


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("api.openai.com/v1", "does not begin with http"),
        ("ftp://api.example", "does not begin with http"),
        ("https://", "names no host"),
        ("https:///v1", "names no host"),
        ("https://api.example/v1?key=1", "no query"),
        ("https://api.example/v1#x", "no fragment"),
        ("https://api.example/v1?", "no query"),
        ("https://api.example:port", "port is not a number"),
        ("https://api.example:70000", "port is not a number"),
        ("https://api.example:0", "port is not a number"),
        ("https://api .example", "characters"),
        ("https://api.example/\n", "characters"),
        ("https://bücher.example", "xn--"),
        ("http://[::1", "IPv6"),
        ("http://[::1];/", "host is not an address"),
        ("http://a..example/", "host is not an address"),
        (f"http://{'a' * 64}.example/", "host is not an address"),
        (f"http://{'a.' * 130}example/", "host is not an address"),
        ("http://a^b/", "host is not an address"),
        ("http://999.1.1.1/", "host is not an address"),
    ],
)
def test_no_upstream(written: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Settings(upstream=written)


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("0.0.0.0", "0.0.0.0"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("localhost", "localhost"),
        ("a-1.example", "a-1.example"),
        ("127.1", "127.1"),
        ("0", "0"),
        ("1.2.3.4.example", "1.2.3.4.example"),
    ],
)
def test_host(written: str, host: str) -> None:
    assert Settings(host=written).host == host


@pytest.mark.parametrize(
    "written",
    [
        "",
        "a b",
        "http://localhost",
        "localhost:80",
        "[localhost]",
        "*",
        "a..b",
        "a" * 64,
        "999.1.1.1",
        "1.2.3.4.5",
        "08",
    ],
)
def test_no_host(written: str) -> None:
    with pytest.raises(ValidationError):
        Settings(host=written)


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": -1},
        {"port": 65536},
        {"port": True},
        {"port": 1.5},
        {"min_confidence": float("nan")},
        {"min_confidence": True},
        {"min_confidence": 1.01},
        {"verdict_keep": -1},
        {"tag_limit": False},
        {"idle_timeout": 0},
        {"drain_seconds": -1},
        {"max_request_bytes": 0},
        {"admin_token": "two words"},
        {"admin_token": ""},
        {"admin_token": "naïve"},
        {"log_level": "loud"},
        {"verdict_log": ""},
        {"verdict_log": "a\0b"},
        {"verdict_log": 5},
        {"ca_file": "/"},
    ],
)
def test_out_of_range(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Settings(**wrong)  # type: ignore[arg-type]


def test_words_are_read_in_any_case() -> None:
    settings = Settings.model_validate({"log_level": "WARNING", "log_format": " Json", "stream_verdict": "Off"})
    assert (settings.log_level, settings.log_format, settings.stream_verdict) == ("warning", "json", "off")


def test_zero_drain_is_no_wait() -> None:
    assert Settings(drain_seconds=0).drain_seconds == 0


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("https://a.example/v1", "https://a.example/v1"),
        ("https://user:pass@a.example/v1", "https://****@a.example/v1"),
        ("https://key@a.example:8443", "https://****@a.example:8443"),
        ("https://a.example/@x", "https://a.example/@x"),
    ],
)
def test_mask_url(url: str, masked: str) -> None:
    assert mask_url(url) == masked
