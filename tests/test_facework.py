"""Counts and rates, against known answers and against a count of the same records by another way."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from scipy.stats import binomtest
from verdict_records import ANSWER, BLOCKED, EMPTY, NOT_CODED, SHAPED, TOOL_CALL, counted, refused

from demur.audit import facework
from demur.audit.facework import COLUMNS, Column, Period, period_of
from demur.audit.layers import RATIONALES, STRATEGIES
from demur.classifier.verdict import FEATURES, Status

COUNTS = ("responses", "judged", "answers", "partial", "refusals", "blocked", "not_coded", "coded")


def test_every_response_is_counted_in_one_place() -> None:
    refusals = [
        refused("apology"),
        refused("apology", "hedge", why="ethics", how="implicit", label="disguised_refusal"),
    ]
    whole = counted(ANSWER, ANSWER, SHAPED, EMPTY, EMPTY, TOOL_CALL, BLOCKED, NOT_CODED, *refusals).whole
    assert [getattr(whole, name) for name in COUNTS] == [10, 7, 2, 1, 4, 1, 1, 2]
    assert whole.unjudged == {"empty": 2, "tool_call": 1}
    assert whole.rationales == {"bare": 1, "capacity": 0, "policy": 0, "ethics": 1}
    assert whole.strategies == {"explicit": 1, "implicit": 1}
    assert {name: n for name, n in whole.features.items() if n} == {"apology": 2, "hedge": 1}


def test_rates_have_their_denominators() -> None:
    rates = counted(ANSWER, SHAPED, EMPTY, BLOCKED, NOT_CODED, refused("apology"), refused()).whole.rates()
    assert {name: (rates[name].hits, rates[name].of) for name in ("refusal", "partial", "blocked")} == {
        "refusal": (4, 6),
        "partial": (1, 6),
        "blocked": (1, 6),
    }
    codes = [name for name in rates if "." in name]
    assert len(codes) == 4 + 2 + 11
    assert {rates[name].of for name in codes} == {2}
    assert rates["feature.apology"].value == 0.5


def test_the_layers_of_a_block_or_of_half_a_coding_count_towards_no_rate() -> None:
    blocked = {**refused("apology", why="policy"), "blocked_by": "content_filter"}
    halves = [{**refused("apology"), layer: None} for layer in ("rationale", "strategy", "features")]
    whole = counted(blocked, *halves).whole
    assert (whole.refusals, whole.blocked, whole.not_coded, whole.coded) == (4, 1, 3, 0)
    assert not any((*whole.rationales.values(), *whole.strategies.values(), *whole.features.values()))


def test_without_a_refusal_nothing_is_divided() -> None:
    rates = counted(ANSWER, EMPTY).whole.to_dict()["rates"]
    assert rates["refusal"]["value"] == 0
    assert rates["feature"]["apology"] == {"value": None, "hits": 0, "of": 0, "low": None, "high": None}
    assert counted(EMPTY).whole.to_dict()["rates"]["refusal"]["value"] is None
    assert counted().whole.responses == 0


def test_records_without_a_verdict_are_no_responses() -> None:
    report = counted(ANSWER, {"verdict": None}, {"verdict": None, "error": "timeout"}, by=("model",))
    assert (report.records, report.whole.responses) == (3, 1)
    assert report.left_out == {"no verdict": 1, "error": 1}


def test_each_choice_counts() -> None:
    record = {"verdict": {**refused(), "choices": [ANSWER, refused(), refused(), EMPTY]}, "model": "m"}
    report = counted(record, by=("model",))
    assert (report.records, report.whole.responses, report.whole.judged, report.whole.refusals) == (1, 4, 3, 2)
    assert report.groups["model"][0].profile == report.whole


def test_groups_come_the_most_frequent_first_and_those_not_told_last() -> None:
    models = ["b", "é", "a", None, None, None, "b"]
    groups = counted(*({**ANSWER, "model": model} for model in models), by=("model",)).groups["model"]
    assert [(group.name, group.profile.responses) for group in groups] == [
        ("b", 2),
        ("a", 1),
        ("é", 1),
        ("(not told)", 3),
    ]


def test_a_column_that_no_record_tells_has_no_groups() -> None:
    report = counted({**ANSWER, "model": "m"}, ANSWER, by=COLUMNS)
    assert list(report.groups) == ["model", "release"]


@pytest.mark.parametrize(
    ("period", "first", "second"),
    [("day", "2025-12-29", "2026-01-04"), ("week", "2026-W01", "2026-W01"), ("month", "2025-12", "2026-01")],
)
def test_periods(period: Period, first: str, second: str) -> None:
    times = datetime(2025, 12, 29, tzinfo=UTC), datetime(2026, 1, 4, 23, 59, tzinfo=UTC)
    assert [period_of(time, period) for time in times] == [first, second]


def test_periods_stand_in_their_order_in_utc() -> None:
    times = ["2026-02-01T00:00:00Z", "2026-02-01T00:30:00+01:00", None, "2026-02-03T00:00:00Z", "2026-02-03T01:00:00Z"]
    groups = counted(*({**ANSWER, "time": time} for time in times), by=("period",), period="day").groups["period"]
    assert [group.name for group in groups] == ["2026-01-31", "2026-02-01", "2026-02-03", "(not told)"]


def test_values_beyond_so_many_are_one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facework, "KEPT", 3)
    tags = ["a", "b", "b", "c", "d", "e", "a", None]
    report = counted(*({"verdict": ANSWER, "tag": tag} for tag in tags), by=("tag",))
    groups = report.groups["tag"]
    assert [(group.name, group.profile.responses) for group in groups] == [
        ("a", 2),
        ("b", 2),
        ("c", 1),
        ("(not told)", 1),
        ("(other values)", 2),
    ]
    assert sum(group.profile.responses for group in groups) == report.whole.responses


def made_up(rng: random.Random) -> dict[str, Any]:
    """A record with everything at random."""
    kind = rng.choice(["answer", "shaped", "none", "blocked", "not_coded", "coded", "coded", "coded"])
    verdict: dict[str, Any] = {"answer": ANSWER, "shaped": SHAPED, "blocked": BLOCKED, "not_coded": NOT_CODED}.get(
        kind, EMPTY
    )
    if kind == "none":
        verdict = {**EMPTY, "status": rng.choice(get_args(Status))}
    if kind == "coded":
        features = [feature for feature in FEATURES if rng.random() < 0.3]
        verdict = refused(*features, why=rng.choice(RATIONALES), how=rng.choice(STRATEGIES))
    language = {"language": rng.choice(["en", "ko", None])}
    return {"verdict": verdict | language, "model": rng.choice(["a", "日本", None]), "kind": kind}


def test_figures_agree_with_another_count() -> None:
    rng = random.Random(4)
    records = [made_up(rng) for _ in range(700)]
    report = counted(*records, by=("model", "language"))
    parts: list[tuple[facework.Profile, list[dict[str, Any]]]] = [(report.whole, records)]
    parts += [(g.profile, [r for r in records if r["model"] == g.value]) for g in report.groups["model"]]
    parts += [
        (g.profile, [r for r in records if r["verdict"]["language"] == g.value]) for g in report.groups["language"]
    ]
    assert len(parts) == 1 + 3 + 3
    for profile, rows in parts:
        coded = [row["verdict"] for row in rows if row["kind"] == "coded"]
        judged = [row for row in rows if row["kind"] != "none"]
        refusals = [row for row in judged if row["kind"] not in ("answer", "shaped")]
        assert (profile.responses, profile.judged, profile.refusals) == (len(rows), len(judged), len(refusals))
        figures = profile.to_dict()["rates"]
        expect(figures["refusal"], len(refusals), len(judged))
        for code, figure in figures["rationale"].items():
            expect(figure, sum(v["rationale"] == code for v in coded), len(coded))
        for code, figure in figures["strategy"].items():
            expect(figure, sum(v["strategy"] == code for v in coded), len(coded))
        for code, figure in figures["feature"].items():
            expect(figure, sum(v["features"][code] for v in coded), len(coded))


def expect(figure: dict[str, Any], hits: int, of: int) -> None:
    interval = binomtest(hits, of).proportion_ci(method="wilson")
    assert figure == pytest.approx(
        {"value": hits / of, "hits": hits, "of": of, "low": interval.low, "high": interval.high}
    )


def test_columns_are_fields_of_a_response() -> None:
    from demur.audit.verdicts import Response

    columns: set[Column] = set(COLUMNS) - {"period"}
    assert columns <= set(Response.__dataclass_fields__)
