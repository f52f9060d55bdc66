"""The benchmark runs, measures every column it prints, and stops at a wrong answer. Nothing here judges speed."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).parent / "bench"
JSON_SCENARIOS = ("json_1", "json_16", "json_64")
STREAM_SCENARIOS = ("stream_16", "stream_128", "paced_128")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the benchmark needs Linux's process clocks")


@pytest.fixture
def payloads(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("payloads")


def test_every_column_is_measured(tmp_path: Path) -> None:
    result = tmp_path / "bench.json"
    run = subprocess.run(
        [sys.executable, BENCH / "run.py", "--window", "0.5", "--rounds", "1", "--telemetry", "--json", result],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    report = json.loads(result.read_text())
    proxies = report["proxies"]
    assert set(proxies) == {"direct", "nginx", "bare pass-through", "demur", "demur, verdict off", "demur, OTLP"}
    for name, row in proxies.items():
        assert name in run.stdout
        if name == "nginx" and "note" in row:
            assert row["note"] in run.stdout
            continue
        for scenario in STREAM_SCENARIOS if name == "demur, verdict off" else JSON_SCENARIOS + STREAM_SCENARIOS:
            plausible(row[scenario], f"{name}, {scenario}")
        assert 1 < row["memory"]["rest_mb"] < 1000
        assert 1 < row["memory"]["after_mb"] < 1000
    for scenario in ("json_16", "json_64", *STREAM_SCENARIOS):
        assert 0.01 < report["ratios"][f"{scenario}.cpu.bare"] < 100, scenario
    assert "CPU per stream event, demur (telemetry off) ÷ bare pass-through" in run.stdout
    timings = report["classifier"]
    assert 0 < timings["answer, 2 KB"]["one_shot_us"] < timings["answer, 1 MB"]["one_shot_us"]
    assert timings["answer, 2 KB"]["stream_ratio"] > 0
    assert timings["import"]["ms"] > 0
    assert timings["stream event"]["cut_us"] > 0
    assert timings["stream event"]["read_us"] > 0


def plausible(window: dict[str, Any], where: str) -> None:
    assert window["count"] > 0, where
    assert 1 < window["per_second"] < 10_000_000, where
    assert 0.01 < window["cpu_us"] < 1_000_000, where
    assert 0 < window["first_p50_ms"] <= window["first_p99_ms"], where
    assert 0 <= window["p50_ms"] <= window["p99_ms"], where
    assert 0 <= window["shared"] <= 1, where


def test_an_unmeasurable_candidate_ends_the_run(tmp_path: Path) -> None:
    """A copy of the benchmark whose pass-through does not start: exit code 1, and the output says which and why."""
    for file in BENCH.glob("*.py"):
        (tmp_path / file.name).write_text(file.read_text())
    (tmp_path / "passthrough.py").write_text("raise SystemExit('out of order')\n")
    run = subprocess.run([sys.executable, tmp_path / "run.py"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert "bare pass-through: ended with code 1" in run.stderr
    assert "out of order" in run.stderr


def test_a_wrong_answer_is_noticed(payloads: ModuleType) -> None:
    exchange = payloads.json_exchange()
    assert exchange.fault(exchange.body) is None
    assert "bytes came back" in exchange.fault(exchange.body[:-1])
    assert "differ" in exchange.fault(exchange.body.replace(b"starter", b"stopper", 1))


def test_a_stream_may_gain_a_verdict_and_nothing_else(payloads: ModuleType) -> None:
    exchange = payloads.stream_exchange(12)
    body: bytes = exchange.body
    assert body.count(b"\n\n") == exchange.events == 12
    assert exchange.fault(body) is None
    judged = body[: exchange.finish] + body[exchange.finish :].replace(b'"choices"', b'"x_refusal":{},"choices"')
    assert judged != body
    assert exchange.fault(judged) is None
    assert "before its finish chunk" in exchange.fault(body.replace(b"works", b"fails", 1))
    assert "ends with" in exchange.fault(body.removesuffix(b"data: [DONE]\n\n") + b"data: [OVER]\n\n")
    assert "ends with" in exchange.fault(body.replace(b'"stop"', b'"length"'))
