"""Clients in Node, called by `run.mjs`: what they give behind the proxy is what they give in front of the vendor.

Scenarios named `verdict…` look for the verdict, which is not there without the proxy.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from both_ways import Ways, comparable, without_verdicts
from vendor import REFUSAL, Seen

HERE = Path(__file__).parent
REFUSED = "hard_refusal"

#: What each scenario that looks for the verdict finds.
VERDICTS: dict[str, dict[str, Any]] = {
    "openai.mjs": {
        "verdictOfJson": [REFUSAL, REFUSED],
        "verdictOfStream": ["pending", REFUSED],
        "verdictOfResponses": ["response.completed", REFUSED],
        "verdictInHelper": [REFUSED, REFUSED],
    },
    "ai_sdk.mjs": {
        "verdictOfJson": [REFUSED, REFUSED, REFUSED],
        "verdictOfStream": [REFUSED, "pending"] * 3,
    },
    "langchain.mjs": {"verdictOfJson": [REFUSED], "verdictOfStream": [REFUSED]},
    "anthropic.mjs": {
        "verdictOfJson": ["end_turn", REFUSED],
        "verdictOfStream": ["pending", "message_delta", REFUSED],
        "verdictInHelper": [REFUSED],
    },
}
#: Requests that reach the vendor under a name: two retries are what each client was told.
ASKED = {"flaky-429": 2, "flaky-500": 2, "error-429:always": 3, "stall": 1, "endless": 1, "cut": 1}
#: Scripts of the vendor that each client leaves: by a timeout, and in the middle of a stream.
WAITING = {"stall", "endless"}


def scenarios(script: str) -> list[str]:
    return re.findall(r"^export (?:const|async function) (\w+)", (HERE / script).read_text("utf-8"), re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """What the scenarios of a script returned, what the vendor saw, and which of its waiting scripts were left."""

    results: dict[str, Any]
    requests: list[Seen]
    gone: set[str]


@cache
def run(script: str, url: str, ways: Ways) -> Run:
    ways.vendor.forget()
    command = ["node", "run.mjs", script, url]
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()
    deadline = time.monotonic() + 20
    while not {*ways.vendor.gone} >= WAITING and time.monotonic() < deadline:
        time.sleep(0.02)
    return Run(json.loads(done.stdout), list(ways.vendor.requests), {*ways.vendor.gone})


def named(*, verdict: bool) -> list[tuple[str, str]]:
    return [
        (script, name) for script in VERDICTS for name in scenarios(script) if name.startswith("verdict") is verdict
    ]


@pytest.mark.parametrize(("script", "name"), named(verdict=False))
def test_the_client_sees_no_difference(ways: Ways, script: str, name: str) -> None:
    direct, proxied = (run(script, url, ways).results[name] for url in (ways.direct, ways.proxied))
    assert direct is not None, "the scenario returned nothing"
    assert "unexpected" not in direct, direct["unexpected"]
    assert without_verdicts(proxied) == direct


@pytest.mark.parametrize("script", VERDICTS)
def test_the_vendor_sees_no_difference(ways: Ways, script: str) -> None:
    """The same requests in the same order: none is added, none repeated but by the client itself."""
    direct, proxied = (run(script, url, ways) for url in (ways.direct, ways.proxied))
    assert [comparable(seen) for seen in proxied.requests] == [comparable(seen) for seen in direct.requests]
    assert direct.gone >= WAITING
    assert proxied.gone >= WAITING
    for model, times in ASKED.items():
        assert sum(seen.model == model for seen in proxied.requests) == times, model


@pytest.mark.parametrize(("script", "name"), named(verdict=True))
def test_the_verdict_is_where_the_docs_say(ways: Ways, script: str, name: str) -> None:
    assert run(script, ways.proxied, ways).results[name] == VERDICTS[script][name]
