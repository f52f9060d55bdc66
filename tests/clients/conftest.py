"""For the tests with real clients: one scripted vendor and one proxy before it, for all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from both_ways import Ways, both_ways

# Before anything imports LiteLLM or LangChain: neither is to fetch a list of prices, nor to report what it does.
os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANGSMITH_TRACING": "false", "DO_NOT_TRACK": "1"}


@pytest.fixture(scope="session")
def ways() -> Iterator[Ways]:
    with both_ways() as pair:
        yield pair
