"""The benchmark's result as text: aligned tables, the ratios asked for, and what to make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from candidates import BARE, DEMUR, DEMUR_OFF, DEMUR_OTLP, DIRECT, NGINX

#: The goal of the project: CPU per stream event, demur with telemetry off ÷ the bare pass-through.
EVENT_GOAL = 1.5
ORDER = (DIRECT, NGINX, BARE, DEMUR, DEMUR_OFF, DEMUR_OTLP)
MISSING = "-"

Proxies = Mapping[str, Mapping[str, Any]]


def ratios(proxies: Proxies) -> dict[str, float]:
    """demur ÷ bare and demur ÷ nginx, of the best rounds; the nginx ones are left out where it is not installed."""
    found: dict[str, float] = {}
    for other, word in ((BARE, "bare"), (NGINX, "nginx")):
        if "note" in proxies[other]:
            continue
        for scenario in ("json_16", "json_64", "stream_16", "stream_128", "paced_128"):
            mine, theirs = proxies[DEMUR][scenario], proxies[other][scenario]
            found[f"{scenario}.cpu.{word}"] = mine["cpu_us"] / theirs["cpu_us"]
            if scenario != "paced_128":
                found[f"{scenario}.rate.{word}"] = mine["per_second"] / theirs["per_second"]
    return found


def proxy_tables(report: Mapping[str, Any]) -> str:
    proxies: Proxies = report["proxies"]
    options, where = report["options"], report["machine"]
    pinned = "proxy on one core, stub and load on another" if where["pinned"] else "NOT pinned: a single core"
    head = (
        f"{where['cpu']}, {where['cores']} cores, Python {where['python']}; {pinned}.\n"
        f"Best of {options['rounds']} interleaved windows of {options['window_seconds']:g} s each."
    )
    return "\n".join(
        [head, "", requests(proxies), "", streams(proxies), "", memory(proxies), "", summary(report["ratios"])]
    )


def requests(proxies: Proxies) -> str:
    lines = []
    for name, row in rows(proxies):
        if "json_1" not in row:
            continue
        one, direct = row["json_1"], proxies[DIRECT]["json_1"]
        cells = [f"{one['p50_ms']:.3f}", f"{one['p99_ms']:.3f}"]
        cells += [added(one, direct, key, name) for key in ("p50_ms", "p99_ms")]
        for scenario in ("json_16", "json_64"):
            cells += [f"{row[scenario]['per_second']:,.0f}", f"{row[scenario]['cpu_us']:.1f}"]
        cells += [share(proxies, name, other, "json_64", "per_second") for other in (NGINX, BARE)]
        lines.append([name, *cells])
    head = [
        "JSON answer, 2 KB",
        "p50 ms",
        "p99 ms",
        "added p50",
        "added p99",
        "req/s c=16",
        "CPU µs",
        "req/s c=64",
        "CPU µs",
    ]
    return table([*head, "÷ nginx", "÷ bare"], lines, notes(proxies))


def streams(proxies: Proxies) -> str:
    lines = []
    for name, row in rows(proxies):
        cells = []
        for scenario in ("stream_16", "stream_128"):
            cells += [f"{row[scenario]['per_second']:,.0f}", f"{row[scenario]['cpu_us']:.2f}"]
        cells += [share(proxies, name, other, "stream_128", "per_second") for other in (NGINX, BARE)]
        paced, direct = row["paced_128"], proxies[DIRECT]["paced_128"]
        cells += [f"{paced['cpu_us']:.2f}", share(proxies, name, BARE, "paced_128", "cpu_us")]
        cells += [added(paced, direct, key, name) for key in ("first_p50_ms", "first_p99_ms")]
        lines.append([name, *cells, f"{paced['shared']:.1%}"])
    head = [
        "Streams, 200 events",
        "ev/s N=16",
        "CPU µs",
        "ev/s N=128",
        "CPU µs",
        "÷ nginx",
        "÷ bare",
    ]
    head += ["paced: CPU µs", "÷ bare", "first chunk p50 +ms", "p99 +ms", "coalesced"]
    return table(head, lines, notes(proxies))


def memory(proxies: Proxies) -> str:
    lines = [
        [name, f"{row['memory']['rest_mb']:.1f}", f"{row['memory']['after_mb']:.1f}"] for name, row in rows(proxies)
    ]
    return table(["Memory, MB", "at rest", "after the run"], lines, notes(proxies))


def summary(found: Mapping[str, float]) -> str:
    """The two ratios that the project asks for, each way of streaming held against the goal by itself."""
    ways = (("stream_16", "16 streams, busy"), ("stream_128", "128 streams, busy"), ("paced_128", "128 streams, paced"))
    lines = ["CPU per stream event, demur (telemetry off) ÷ bare pass-through:"]
    for scenario, words in ways:
        ratio = found[f"{scenario}.cpu.bare"]
        lines.append(f"  {ratio:.2f}  {words}; goal ≤ {EVENT_GOAL}: {'met' if ratio <= EVENT_GOAL else 'NOT met'}")
    lines.append("CPU per request, demur (telemetry off) ÷ bare pass-through:")
    lines += [f"  {found[f'json_{count}.cpu.bare']:.2f}  {count} connections" for count in (16, 64)]
    return "\n".join(lines)


def classifier_table(report: Mapping[str, Any]) -> str:
    timings: Mapping[str, Mapping[str, float]] = report["classifier"]
    lines = []
    for name, row in timings.items():
        if "chars" in row:
            stream = [f"{row['stream_us']:,.0f}", f"{row['stream_ratio']:.2f}"] if "stream_us" in row else [MISSING] * 2
            lines.append([name, f"{row['one_shot_us']:,.0f}", f"{row['us_per_1000']:,.1f}", *stream])
    head = ["Classifier, in process", "one shot µs", "µs/1,000 chars", "streamed µs", "÷ one shot"]
    event = timings["stream event"]
    last = (
        f"One event of a chat stream: cut from the bytes {event['cut_us']:.2f} µs, read {event['read_us']:.2f} µs, "
        f"matched {event['match_us']:.2f} µs; the verdict at its end {event['verdict_us']:.0f} µs.\n"
        f"import demur.classifier: {timings['import']['ms']:.0f} ms; "
        f"compiling the rules: {timings['rules']['ms']:.0f} ms. Streamed: pieces of 20 characters.\n"
        f"The whole run took {report['seconds']:.0f} s."
    )
    return "\n" + table(head, lines, []) + "\n\n" + last


def rows(proxies: Proxies) -> list[tuple[str, Mapping[str, Any]]]:
    return [(name, proxies[name]) for name in ORDER if name in proxies and "note" not in proxies[name]]


def notes(proxies: Proxies) -> list[list[str]]:
    return [[name, row["note"]] for name, row in proxies.items() if "note" in row]


def added(mine: Mapping[str, float], direct: Mapping[str, float], key: str, name: str) -> str:
    return MISSING if name == DIRECT else f"{mine[key] - direct[key]:.3f}"


def share(proxies: Proxies, name: str, other: str, scenario: str, key: str) -> str:
    """`name` ÷ `other`, for the rows that this says something about."""
    if name == DIRECT or "note" in proxies[other]:
        return MISSING
    return f"{proxies[name][scenario][key] / proxies[other][scenario][key]:.2f}"


def table(head: Sequence[str], lines: Sequence[Sequence[str]], remarks: Sequence[Sequence[str]]) -> str:
    """Aligned columns, the first to the left, numbers to the right; `remarks` are rows of a name and a sentence."""
    grid = [list(head), *[list(line) for line in lines]]
    widths = [max(len(line[column]) for line in grid) for column in range(len(head))]
    widths[0] = max([widths[0], *[len(remark[0]) for remark in remarks]])
    text = [
        "  ".join([line[0].ljust(widths[0]), *[c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True)]])
        for line in grid
    ]
    text.insert(1, "-" * len(text[0]))
    return "\n".join([*text, *[f"{remark[0].ljust(widths[0])}  {remark[1]}" for remark in remarks]])
