"""A few hundred exchanges of the soak; `make soak` plays ten thousand."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from wire.soak import soak
from wire.soak_plan import draw


@pytest.mark.skipif(sys.platform != "linux", reason="sockets and memory of a process are read in /proc")
def test_nothing_is_left_over_by_mixed_exchanges(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    figures = asyncio.run(soak(400, seed=5))
    assert figures.faults == []
    assert (figures.count, figures.spans, figures.sockets) == (400, 800, 0)
    assert 200 < figures.verdicts < 400
    assert len(figures.fates) == 6  # every kind of end was played


def test_a_seed_is_a_soak() -> None:
    assert draw(3, 17) == draw(3, 17)
    assert draw(3, 17) != draw(4, 17)
