from __future__ import annotations

import pytest

from demur.config import ConfigError, load
from demur.config.own_address import leads_to


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://127.0.0.1:8787/v1", "127.0.0.1"),
        ("http://localhost:8787", "127.0.0.1"),
        ("http://LOCALHOST.:8787", "::1"),
        ("http://127.0.0.1:8787", "localhost"),
        ("http://0.0.0.0:8787", "127.0.0.1"),
        ("http://127.0.0.1:8787", "0.0.0.0"),
        ("http://127.9.9.9:8787", "0.0.0.0"),
        ("http://[::]:8787", "::1"),
        ("http://[::1]:8787", "::"),
        ("http://127.0.0.1:8787", "::"),
        ("http://[::ffff:127.0.0.1]:8787", "127.0.0.1"),
        ("http://127.1:8787", "127.0.0.1"),
        ("http://2130706433:8787", "127.0.0.1"),
        ("http://192.0.2.7:8787", "192.0.2.7"),
        ("http://Gateway.example:8787", "gateway.example"),
        ("https://localhost:8787", "127.0.0.1"),
    ],
)
def test_its_own_address(url: str, host: str) -> None:
    assert leads_to(url, host, 8787)


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("http://127.0.0.1:8788/v1", "127.0.0.1", 8787),
        ("http://127.0.0.1:8787", "127.0.0.1", 0),
        ("http://127.0.0.2:8787", "127.0.0.1", 8787),
        ("http://[::1]:8787", "127.0.0.1", 8787),
        ("http://[::1]:8787", "0.0.0.0", 8787),
        ("http://192.0.2.7:8787", "127.0.0.1", 8787),
        ("http://api.example:8787", "localhost", 8787),
        ("http://127.0.0.1", "127.0.0.1", 8787),
    ],
)
def test_another_address(url: str, host: str, port: int) -> None:
    assert not leads_to(url, host, port)


def test_the_port_of_the_scheme_counts() -> None:
    assert leads_to("http://localhost", "0.0.0.0", 80)
    assert leads_to("https://localhost", "0.0.0.0", 443)


def test_an_upstream_that_is_one_of_our_listeners_is_refused_with_its_sources() -> None:
    with pytest.raises(ConfigError) as info:
        load(None, {"DEMUR_UPSTREAM": "http://localhost:8787/v1"}, {})
    assert str(info.value) == (
        "DEMUR_UPSTREAM: upstream is demur itself, listening on 127.0.0.1 port 8787; requests would go in circles: "
        "upstream from DEMUR_UPSTREAM, host from default, port from default"
    )
    with pytest.raises(ConfigError, match=r"port 9001.*admin_port from --admin-port"):
        load(None, {}, {"upstream": "http://127.0.0.1:9001", "admin_port": "9001"})
