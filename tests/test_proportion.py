from __future__ import annotations

import pytest
from scipy.stats import binomtest

from demur.audit.proportion import Proportion


@pytest.mark.parametrize("level", [0.8, 0.95, 0.9999])
def test_the_interval_is_that_of_scipy(level: float) -> None:
    cases = [(hits, of) for of in (1, 2, 7, 19, 20, 61) for hits in range(of + 1)]
    for hits, of in [*cases, (3, 100_000), (99_999, 100_000), (1_234_567, 9_999_999)]:
        expected = binomtest(hits, of).proportion_ci(level, method="wilson")
        assert Proportion(hits, of).interval(level) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    # R. G. Newcombe, Statistics in Medicine 17 (1998) 857-872, table I, method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_published_intervals(hits: int, of: int, low: float, high: float) -> None:
    assert Proportion(hits, of).interval() == pytest.approx((low, high), abs=5e-5)


def test_none_and_all_end_exactly() -> None:
    assert (Proportion(0, 9).interval() or (1, 1))[0] == 0.0
    assert (Proportion(9, 9).interval() or (0, 0))[1] == 1.0


def test_out_of_none_there_is_nothing() -> None:
    assert Proportion(0, 0).to_dict() == {"value": None, "hits": 0, "of": 0, "low": None, "high": None}
