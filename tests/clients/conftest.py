"""For the tests with real clients: one scripted vendor and one proxy before it, for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from both_ways import Ways, both_ways


@pytest.fixture(scope="session")
def ways() -> Iterator[Ways]:
    with both_ways() as pair:
        yield pair
