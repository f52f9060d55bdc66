"""`make bench`: what demur costs, beside nginx and a bare pass-through, in one interleaved run.

    .venv/bin/python tests/bench/run.py [--quick] [--telemetry] [--json FILE]

Candidates, each one process pinned to the first core (stub upstream and load generator share the second):

* direct: no proxy, the stub upstream alone. It is the head room of stub and load; a proxy near it is not measured.
* nginx: one worker, keep-alive upstream, `proxy_buffering off`. The limit to stand beside.
* bare pass-through: our transport on uvicorn, uvloop and httptools, nothing inspected (`passthrough.py`).
* demur: `demur serve` in its default settings, telemetry off.
* demur, verdict off: the same with `--stream-verdict off` (finish chunks untouched). Streams only.
* demur, OTLP (`--telemetry`): spans exported to a sink on loopback.

Every scenario is measured in windows of a second after a warm-up, in rounds A B C … C B A; each figure is the best of
its rounds (noise only ever adds). CPU is the process's own clock, user and system, all threads: it stays true when
others use the machine, while rates and latencies do not. Absolute figures belong to the machine, ratios travel. Every
answer is compared byte by byte while it is counted; one wrong answer ends the run with code 1. Scenarios:

* JSON, 1 connection: latency; `added` is minus the direct row's.
* JSON, 16 and 64 connections: requests/s and CPU per request.
* streams of 200 events, 16 and 128 at a time, as fast as they go: each stream has one event under way, the next one
  leaves the stub when the client has it. So every event is one read and one write, whichever proxy is in between
  (a stub that sends blindly measures how many events a slow proxy finds in one read).
* paced streams, 128 opened at the same moment, 20 ms between events, as a model sends them: CPU per event when the
  proxy is mostly idle, from the request to the verdict; time to the first chunk; and the share of events that reached
  the client in one read with another (`coalesced`).

Needs Linux (process clocks, /proc). Takes under 3 minutes, `--quick` under 30 seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import uvloop
from candidates import (
    DEMUR,
    DEMUR_OFF,
    DEMUR_OTLP,
    NGINX,
    NGINX_MISSING,
    Cores,
    Process,
    Runner,
    StartError,
    on_core,
)
from classifier_timing import measure
from load import LoadError, Steps, Window, call_once, run_window, verdict_in
from payloads import EXPORT_COUNT, Exchange, json_exchange, stream_exchange
from tables import classifier_table, proxy_tables, ratios

STREAM_EVENTS = 200
PACE_MS = 20
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    exchange: Exchange
    connections: int
    paced: bool = False


@dataclass(slots=True)
class Candidate:
    """One row: its process, its memory and the windows of each scenario."""

    process: Process
    streams_only: bool = False
    rest_mb: float = 0.0
    after_mb: float = 0.0
    windows: dict[str, list[Window]] = field(default_factory=dict)

    def best(self) -> dict[str, dict[str, float]]:
        """Each figure's best over the rounds: the highest rate, the lowest of everything else."""
        return {
            scenario: {
                key: (max if key in ("count", "per_second") else min)(w.to_dict()[key] for w in windows)
                for key in Window.__dataclass_fields__
            }
            for scenario, windows in self.windows.items()
        }


def scenarios(options: Namespace) -> list[Scenario]:
    stream = stream_exchange(STREAM_EVENTS)
    return [
        Scenario("json_1", json_exchange(), 1),
        Scenario("json_16", json_exchange(), 16),
        Scenario("json_64", json_exchange(), 64),
        Scenario("stream_16", stream, 16),
        Scenario("stream_128", stream, 128),
        Scenario("paced_128", stream_exchange(options.paced_events, PACE_MS), 128, paced=True),
    ]


def start(runner: Runner, stub: Process, sink: Process | None) -> list[Candidate]:
    rows = [Candidate(stub)]
    if nginx := runner.nginx(stub.port):
        rows.append(Candidate(nginx))
    rows.append(Candidate(runner.passthrough(stub.port)))
    rows.append(Candidate(runner.demur(DEMUR, stub.port)))
    rows.append(Candidate(runner.demur(DEMUR_OFF, stub.port, "--stream-verdict", "off"), streams_only=True))
    if sink:
        rows.append(Candidate(runner.demur(DEMUR_OTLP, stub.port, otlp=sink.port)))
    return rows


async def preflight(candidate: Candidate) -> None:
    """One call of each kind: right bytes, and a demur that really judges (else there is nothing to compare)."""
    process = candidate.process
    headers, body = await call_once(process.port, json_exchange())
    stream = stream_exchange(STREAM_EVENTS, pace_ms=1)
    _, events = await call_once(process.port, stream)
    for exchange, got in ((json_exchange(), body), (stream, events)):
        if fault := exchange.fault(got):
            raise LoadError(fault)
    if process.name.startswith(DEMUR):
        if headers.get("x-refusal-verdict") != "answer":
            raise LoadError(f"x-refusal-verdict is {headers.get('x-refusal-verdict')!r}, not 'answer'")
        if (verdict_in(events) is not None) is (process.name == DEMUR_OFF):
            raise LoadError("the finish chunk carries a verdict where it should not, or none where it should")


async def run(options: Namespace, rows: list[Candidate]) -> None:
    steps = Steps(rows[0].process.stdin)
    for row in rows:
        await named(row, preflight(row))
        row.rest_mb = row.process.rss_mb()
    for scenario in scenarios(options):
        rounds = min(options.rounds, 2 if options.window >= 1 else 1) if scenario.paced else options.rounds
        for number in range(rounds):
            for row in rows if number % 2 == 0 else reversed(rows):
                if row.streams_only and not scenario.exchange.events:
                    continue
                seconds = 0.0 if scenario.paced else options.window
                window = run_window(
                    row.process.port,
                    scenario.exchange,
                    scenario.connections,
                    row.process.cpu,
                    steps=steps,
                    warm=options.window / 5,
                    seconds=seconds,
                )
                row.windows.setdefault(scenario.name, []).append(await named(row, window))
        print(f"  {scenario.name}: {rounds} rounds", file=sys.stderr, flush=True)
    for row in rows:
        row.after_mb = row.process.rss_mb()


async def named(row: Candidate, measuring: Coroutine[Any, Any, T]) -> T:
    """Awaits `measuring`; a fault says whose it is."""
    try:
        return await measuring
    except (LoadError, OSError) as error:
        raise LoadError(f"{row.process.name} (port {row.process.port}): {error}") from error


def machine(cores: Cores) -> dict[str, object]:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    pinned = cores.proxy is not None
    return {"cpu": model, "cores": os.cpu_count(), "pinned": pinned, "python": platform.python_version()}


def measure_proxies(options: Namespace, cores: Cores) -> dict[str, dict[str, Any]]:
    """Starts all candidates, runs all scenarios, ends them; the results by candidate, in the order of the rows."""
    with tempfile.TemporaryDirectory(prefix="demur-bench-") as directory, Runner(Path(directory), cores) as runner:
        stub = runner.stub()
        sink = runner.stub("otlp-sink") if options.telemetry else None
        rows = start(runner, stub, sink)
        with on_core(cores.load), asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
            loop.run(run(options, rows))
            if sink:
                _, exports = loop.run(call_once(sink.port, EXPORT_COUNT))
                if not int(exports):
                    raise LoadError(f"{DEMUR_OTLP}: no export reached the sink")
    results: dict[str, dict[str, Any]] = {}
    for row in rows:
        rounds = {name: [window.to_dict() for window in windows] for name, windows in row.windows.items()}
        memory = {"rest_mb": row.rest_mb, "after_mb": row.after_mb}
        results[row.process.name] = {**row.best(), "memory": memory, "rounds": rounds}
    if NGINX not in results:
        results[NGINX] = {"note": NGINX_MISSING}
    return results


def options_from(arguments: list[str] | None) -> Namespace:
    parser = ArgumentParser(
        prog="make bench", description="Requests/s, CPU and latency of demur beside nginx and a bare pass-through."
    )
    parser.add_argument("--quick", action="store_true", help="short windows and few rounds: under 30 seconds")
    parser.add_argument("--telemetry", action="store_true", help="one more row: demur exporting spans over OTLP")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round to FILE")
    parser.add_argument("--window", type=float, help="seconds of one window (default 1, quick 0.25)")
    parser.add_argument("--rounds", type=int, help="windows of each candidate in each scenario (default 3, quick 2)")
    options = parser.parse_args(arguments)
    options.window = options.window or (0.25 if options.quick else 1.0)
    options.rounds = options.rounds or (2 if options.quick else 3)
    options.paced_events = max(10, round(STREAM_EVENTS * min(1.0, options.window)))
    options.classifier_budget = options.window / 3
    return options


def main(arguments: list[str] | None = None) -> int:
    options = options_from(arguments)
    cores = Cores.available()
    began = time.monotonic()
    try:
        proxies = measure_proxies(options, cores)
    except (LoadError, StartError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    with on_core(cores.proxy):
        classifier = measure(options.classifier_budget)
    report = {
        "machine": machine(cores),
        "options": {"window_seconds": options.window, "rounds": options.rounds, "paced_events": options.paced_events},
        "proxies": proxies,
        "ratios": ratios(proxies),
        "classifier": classifier,
        "seconds": round(time.monotonic() - began, 1),
    }
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    print(proxy_tables(report), classifier_table(report), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
