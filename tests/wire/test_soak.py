"""A few hundred exchanges of the soak; `make soak` plays ten thousand."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from wire.soak import Figures, soak
from wire.soak_plan import Fate, draw

COUNT, FEW, SEED = 200, 9, 6


@pytest.mark.skipif(sys.platform != "linux", reason="sockets and memory of a process are read in /proc")
def test_nothing_is_left_over_by_mixed_exchanges(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    async def run() -> tuple[Figures, Figures]:
        return await asyncio.gather(soak(COUNT, SEED), soak(FEW, SEED, mode="off"))

    figures, few = asyncio.run(run())
    assert figures.faults == few.faults == []
    plan = [draw(SEED, number) for number in range(COUNT)]
    assert (figures.count, figures.spans, figures.sockets) == (COUNT, 2 * COUNT, 0)
    assert figures.verdicts == sum(exchange.judged for exchange in plan)
    assert set(figures.fates) == {fate.value for fate in Fate}  # every kind of end was played
    assert not all(exchange.goes_up for exchange in plan)
    assert figures.broken_off
    assert figures.keys > COUNT / 5
    assert few.keys == 0
    assert any(draw(SEED, number).finishes for number in range(FEW))


def test_a_seed_is_a_soak() -> None:
    assert draw(3, 17) == draw(3, 17)
    assert draw(3, 17) != draw(4, 17)
