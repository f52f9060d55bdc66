"""The soak: mixed exchanges, cut at random at both ends, through a real `demur serve`; then nothing may be left over.

Bodies are equal byte for byte, or broken off where the upstream broke off; a stream has one key for each choice that
ended in it. Of a request that its client breaks off, nothing reaches the upstream on a judged path, and half a body
where it goes up as it comes. What goes up has one pair of spans; on a judged path each exchange has one verdict.
Metrics agree with what was counted; no socket stays open; memory stays flat.

`make soak` plays ten thousand, `make test` a few hundred. `python -m wire.soak --seed 7 --count 50 --first 1200` plays
some of them again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from fake_upstream import Answer, call_port, request
from otlp_sink import OtlpSink
from wire.notation import keys, without_keys
from wire.soak_ends import AT_ONCE, Clients, Upstream
from wire.soak_plan import Exchange, Fate, draw

#: How much more memory the last tenth may hold than the second, when pools and caches are filled; and of a short soak.
GROWTH, GROWTH_OF_FEW, FEW = 1.1, 1.25, 2000


@dataclass
class Figures:
    """What was seen; `faults` is empty when all of it is as it should be."""

    count: int = 0
    fates: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    memory: list[int] = field(default_factory=list)  # after each tenth
    spans: int = 0
    verdicts: int = 0
    sockets: int = 0
    keys: int = 0
    broken_off: int = 0  # requests that went up as they came, until their client left
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"{self.count} exchanges in {self.seconds:.0f} s, {AT_ONCE} at once",
            *(f"  {number:6} {fate}" for fate, number in self.fates.most_common()),
            f"{self.spans} spans, {self.verdicts} verdicts, {self.keys} finish keys, {self.sockets} sockets left open",
            f"{self.broken_off} of the requests that broke off had begun to go up",
            f"memory after each tenth, in MB: {', '.join(f'{size / 1e6:.0f}' for size in self.memory)}",
            f"{len(self.faults)} faults",
            *self.faults[:20],
        ]
        return "\n".join(lines)


def _faults_of(exchange: Exchange, answer: Answer | None, mode: str) -> str | None:
    """What is wrong with what the client got."""
    if answer is None:
        return None
    told = answer.status in (502, 504) and answer.body.startswith(b'{"error":{"message":"demur: ')
    cut_answer = exchange.fate in (Fate.UPSTREAM_RESETS, Fate.UPSTREAM_ENDS)
    if exchange.fate in (Fate.NO_ANSWER, Fate.UPLOAD_REFUSED):
        return None if told else "no answer is not told"
    if told and cut_answer:
        return None
    body = answer.body
    if exchange.finishes and mode == "chunk":
        body = without_keys(body)
        wanted = _keys_in(exchange, len(body), answer.clean)
        if len(keys(answer.body)) not in wanted:
            return f"{len(keys(answer.body))} keys, not {wanted}"
    if not cut_answer:
        return None if answer.clean and body == exchange.body else "its answer's body is another"
    if answer.clean and not (exchange.framing == "close" and exchange.fate is Fate.UPSTREAM_ENDS):
        return "half an answer looks whole"
    part = exchange.body[: exchange.cut]
    if exchange.fate is Fate.UPSTREAM_RESETS:  # a reset may overtake what was sent before it
        return None if part.startswith(body) else "the part of its answer is another"
    return None if part == body else "not all of the part that arrived went on"


def _keys_in(exchange: Exchange, size: int, clean: bool) -> set[int]:
    """How many keys the first `size` bytes of a stream have: an event is over with its blank line, at the LF of CR LF
    or before it; the last one of a stream that ends in order may lack that line."""
    if clean:
        return {sum(line <= size for line, _ in exchange.finishes)}
    return {sum(end <= size + slack for _, end in exchange.finishes) for slack in (0, 1)}


@asynccontextmanager
async def _serving(upstream_port: int, sink: OtlpSink, log: Path, mode: str) -> AsyncIterator[tuple[int, int, int]]:
    """`demur serve` as a process: its id, its port, its admin port. Stopped by a signal at the end."""
    settings = {"port": 0, "admin-port": 0, "verdict-log": log, "verdict-keep": 500, "log-level": "error"}
    settings["stream-verdict"] = mode
    flags = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    url = f"http://127.0.0.1:{upstream_port}/v1"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "demur.cli.main", "serve", "--upstream", url, *flags),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={
            **os.environ,
            "PYTHONUTF8": "1",
            "PYTHONUNBUFFERED": "1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint,
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
            "OTEL_BSP_MAX_QUEUE_SIZE": "20000",
        },
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        said = b""
        async with asyncio.timeout(60):
            while b"/metrics" not in said:
                line = await process.stdout.readline()
                if not line:
                    raise RuntimeError((await process.stderr.read()).decode())
                said += line
        ports = [int(port) for port in re.findall(rb"http://127\.0\.0\.1:(\d+)", said)]
        own = [port for port in ports if port != upstream_port]
        yield process.pid, own[0], own[-1]
        process.terminate()
        async with asyncio.timeout(60):
            _, errors = await process.communicate()
        if process.returncode or b"Traceback" in errors:
            raise RuntimeError(f"demur ended with {process.returncode}: {errors.decode()[-2000:]}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def _sockets(pid: int, *, but: int) -> int:
    """Connections of a process that are open, without those to port `but`."""
    table = {}
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        table[fields[9]] = (int(fields[2].rpartition(":")[2], 16), fields[3])
    inodes = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            inodes += re.findall(r"socket:\[(\d+)\]", str(entry.readlink()))
    found = [table[inode] for inode in inodes if inode in table]
    return sum(state != "0A" and remote != but for remote, state in found)  # 0A: it listens


def _rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def soak(count: int, seed: int, *, first: int = 0, mode: str = "chunk") -> Figures:
    """Plays exchanges `first` to `first + count` of `seed` and looks at what they left; `mode`: `stream_verdict`."""
    figures = Figures(count)
    plan = {number: draw(seed, number) for number in range(first, first + count)}
    upstream = Upstream(plan)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, OtlpSink() as sink:
        log = Path(folder) / "verdicts.jsonl"
        async with await asyncio.start_server(upstream, "127.0.0.1", 0, limit=2**20) as server:
            port = server.sockets[0].getsockname()[1]
            async with _serving(port, sink, log, mode) as (pid, own, admin):
                await _play(plan, upstream, own, pid, figures, mode)
                upstream.hang_up()
                await _settle(pid, int(sink.endpoint.rpartition(":")[2]), figures)
                metrics = (await call_port(admin, request("GET", "/metrics"))).body.decode()
        _check_memory(figures)
        _check_requests(plan, upstream, figures)
        _check_records(plan, log, figures)
        _check_spans(plan, sink, figures)
        _check_metrics(plan, metrics, figures)
    figures.seconds = time.perf_counter() - begun
    return figures


async def _play(
    plan: dict[int, Exchange], upstream: Upstream, port: int, pid: int, figures: Figures, mode: str
) -> None:
    turns, clients, over = asyncio.Semaphore(AT_ONCE), Clients(port), 0

    async def one(exchange: Exchange) -> None:
        nonlocal over
        async with turns:
            try:
                answer = await clients.call(exchange, upstream.arrived[exchange.number])
                fault = _faults_of(exchange, answer, mode)
                figures.keys += len(keys(answer.body)) if answer and exchange.finishes else 0
            except Exception as exc:
                fault = repr(exc)
        over += 1
        if over * 10 // len(plan) > len(figures.memory):
            figures.memory.append(_rss(pid))
        figures.fates[exchange.fate.value] += 1
        if fault:
            figures.faults.append(f"exchange {exchange.number} ({exchange.name}, {exchange.fate.value}): {fault}")

    await asyncio.gather(*map(one, plan.values()))
    await clients.close()


async def _settle(pid: int, sink_port: int, figures: Figures) -> None:
    """All is over for the clients; the proxy may take a moment to close the connections that it kept."""
    for _ in range(200):
        figures.sockets = _sockets(pid, but=sink_port)
        if not figures.sockets:
            return
        await asyncio.sleep(0.05)
    figures.faults.append(f"{figures.sockets} sockets stayed open")


def _check_memory(figures: Figures) -> None:
    if figures.count < 10:
        return  # no tenths to compare
    second, last = figures.memory[1], figures.memory[-1]
    if last > second * (GROWTH if figures.count > FEW else GROWTH_OF_FEW):
        figures.faults.append(f"memory grew from {second / 1e6:.0f} to {last / 1e6:.0f} MB")


def _check_requests(plan: dict[int, Exchange], upstream: Upstream, figures: Figures) -> None:
    figures.faults += upstream.faults
    for number, exchange in plan.items():
        begun, whole = upstream.begun[number], upstream.whole[number]
        if begun > 1 + exchange.repeatable:
            figures.faults.append(f"exchange {number}: it went up {begun} times")
        if exchange.sent_short:
            figures.broken_off += begun
            if whole or (begun and not exchange.goes_up):
                figures.faults.append(f"exchange {number}: half a request went up{' as a whole one' * whole}")


def _check_records(plan: dict[int, Exchange], log: Path, figures: Figures) -> None:
    records = defaultdict(list)
    for line in log.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        records[int(record["tag"].removeprefix("e"))].append(record)
    said: dict[str, set[str]] = defaultdict(set)
    for number, exchange in plan.items():
        found = records[number]
        verdicts = [record["verdict"] for record in found if record["verdict"]]
        figures.verdicts += len(verdicts)
        if (len(found), len(verdicts)) != (1, exchange.judged):
            figures.faults.append(f"exchange {number}: {len(found)} records, {len(verdicts)} verdicts")
        elif exchange.sent_short and found[0]["end"] != "client_disconnect":
            figures.faults.append(f"exchange {number}: half a request ended with {found[0]['end']}")
        elif verdicts and exchange.fate in (Fate.WHOLE, Fate.EARLY_ANSWER):
            (verdict,) = verdicts
            said[exchange.name].add(f"{verdict['label']} {verdict['status']} {found[0]['end']}")
    figures.faults += [f"{name} is judged in several ways: {ways}" for name, ways in said.items() if len(ways) > 1]


def _check_spans(plan: dict[int, Exchange], sink: OtlpSink, figures: Figures) -> None:
    kinds: dict[str, list[str]] = defaultdict(list)
    for span in sink.spans():
        kinds[span.trace_id].append(span.kind)
        figures.spans += 1
    for number, exchange in plan.items():
        if sorted(kinds[exchange.trace_id]) != ["CLIENT", "SERVER"]:
            figures.faults.append(f"exchange {number}: its spans are {kinds[exchange.trace_id]}")


def _check_metrics(plan: dict[int, Exchange], text: str, figures: Figures) -> None:
    def total(name: str) -> int:
        return int(sum(float(value) for value in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE)))

    wanted = {
        "refusal_requests_total": len(plan),
        "refusal_verdicts_total": sum(exchange.judged for exchange in plan.values()),
        "refusal_requests_in_flight": 0,
        "refusal_export_dropped_spans_total": 0,
        "refusal_verdict_log_lost_records_total": 0,
    }
    for name, number in wanted.items():
        if f" {name} " not in text or total(name) != number:
            figures.faults.append(f"{name} is {total(name)}, not {number}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="how many exchanges")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--stream-verdict", choices=["chunk", "off"], default="chunk")
    options = parser.parse_args()
    mode = options.stream_verdict
    figures = asyncio.run(soak(options.count, options.seed, first=options.first, mode=mode))
    print(figures)
    return bool(figures.faults)


if __name__ == "__main__":
    sys.exit(main())
