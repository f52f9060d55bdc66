"""A client's call made twice, straight to a scripted vendor and through `demur serve`: the invisible proxy, shown.

`same` holds it: what the client gets is the same, and so is what the vendor gets, request by request.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from processes import started
from vendor import Seen, Vendor, vendor

KEY = "refusal_verdict"
#: Request headers that differ by right: the address, the connection, and the coding, which is `identity` for streams.
_OWN_HEADERS = frozenset({"host", "connection", "accept-encoding", "content-length", "transfer-encoding"})
_KEPT = frozenset({"HOME", "LANG", "PATH", "TMPDIR", "VIRTUAL_ENV"})


@dataclass(frozen=True)
class Ways:
    """Root URLs, without /v1: of the vendor itself, and of the proxy before it."""

    vendor: Vendor
    proxied: str

    @property
    def direct(self) -> str:
        return self.vendor.url

    def looked_up(self, id: str) -> Any:
        """The verdict under /-/verdicts/: a stream's may come a moment after its last byte."""
        deadline = time.monotonic() + 30
        while (found := httpx.get(f"{self.proxied}/-/verdicts/{id}", trust_env=False, verify=False)).status_code == 202:
            assert time.monotonic() < deadline, "still pending"
            time.sleep(0.02)
        assert found.status_code == 200
        return found.json()


@contextmanager
def both_ways() -> Iterator[Ways]:
    with vendor() as up, serving(up.url) as url:
        yield Ways(up, url)


@contextmanager
def serving(upstream: str, *args: str) -> Iterator[str]:
    """A `demur serve` process with default settings; gives its root URL."""
    command = [sys.executable, "-m", "demur.cli.main", "serve", "--upstream", upstream, "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if name in _KEPT}
    with started([*command, "--admin-port", "0", *args], seconds=1200, env=environment) as run:
        assert run.stdout is not None
        found = next((match for line in run.stdout if (match := re.search(r'base_url="(\S+)/v1"', line))), None)
        assert found is not None, "demur serve did not start"
        yield found[1]


def same(ways: Ways, call: Callable[[str], Any]) -> Any:
    """Makes the call both ways, with the root URL; it returns plain data. Gives what it returned behind the proxy."""
    results, requests = [], []
    for url in (ways.direct, ways.proxied):
        ways.vendor.forget()
        results.append(call(url))
        requests.append([comparable(seen) for seen in ways.vendor.requests])
    direct, proxied = results
    assert requests[0], "the call never reached the vendor"
    assert requests[1] == requests[0]
    assert without_verdicts(proxied) == direct
    return proxied


def without_verdicts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_verdicts(inner) for key, inner in value.items() if key != KEY}
    return [without_verdicts(inner) for inner in value] if isinstance(value, list) else value


def verdicts_in(value: Any) -> list[Any]:
    """Every `refusal_verdict` in it, in order."""
    if isinstance(value, dict):
        inner = [found for key, item in value.items() if key != KEY for found in verdicts_in(item)]
        return ([value[KEY]] if KEY in value else []) + inner
    return [found for item in value for found in verdicts_in(item)] if isinstance(value, list) else []


def comparable(seen: Seen) -> tuple[str, str, list[tuple[str, str]], bytes]:
    headers = [pair for pair in seen.headers if pair[0] not in _OWN_HEADERS]
    body = seen.body
    if boundary := re.search(r"boundary=(\S+)", dict(headers).get("content-type", "")):
        body = body.replace(boundary[1].encode(), b"boundary")
        headers = [(name, value.replace(boundary[1], "boundary")) for name, value in headers]
    return seen.method, seen.path, headers, body
