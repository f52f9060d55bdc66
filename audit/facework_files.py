"""A facework report for machines and documents: JSON-ready data, CSV and Markdown.

Models, tags and categories were named by others: in CSV no cell begins like a formula, in Markdown none breaks its
table.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from demur.audit.facework import SCHEMA_VERSION, SMALL, Facework, Group, Profile
from demur.audit.facework_differences import differences
from demur.audit.facework_words import percent, reading, told
from demur.audit.proportion import LEVEL, Proportion

NOT_DEFINED = "–"
#: What a spreadsheet reads as a formula when a cell begins with it (OWASP, CSV Injection).
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_MARKS = re.compile(r"[\\`*_{}\[\]<>|&#~]")


def to_dict(report: Facework) -> dict[str, Any]:
    """The whole report as JSON-ready data, with what it says in words."""
    return {
        "schema_version": SCHEMA_VERSION,
        "interval": {"level": LEVEL, "method": "Wilson score"},
        "too_few_below": SMALL,
        "records": report.records,
        "reviewed": report.reviewed,
        "left_out": dict(report.left_out),
        "period": report.period,
        "whole": _profile(report.whole),
        "by": {column: [_group(group) for group in groups] for column, groups in report.groups.items()},
        "differences": {
            column: [{**difference.to_dict(), "told": told(difference)} for difference in differences(groups)]
            for column, groups in report.groups.items()
        },
    }


def to_csv(report: Facework) -> str:
    """One line for every figure of every group; rates and intervals are shares from 0 to 1, empty out of none."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["by", "value", "figure", "hits", "of", "rate", "low", "high"])
    profiles = [("all", "", report.whole)]
    profiles += [(column, group.name, group.profile) for column, groups in report.groups.items() for group in groups]
    for column, value, profile in profiles:
        for figure, hits, of in _counts(profile):
            table.writerow([column, _harmless(value), figure, hits, of, "", "", ""])
        for figure, rate in profile.rates().items():
            low, high = rate.interval() or (None, None)
            numbers = ("" if number is None else f"{number:.6f}" for number in (rate.value, low, high))
            table.writerow([column, _harmless(value), figure, rate.hits, rate.of, *numbers])
    return out.getvalue()


def to_markdown(report: Facework) -> str:
    """Headings, what the report says in words, and tables."""
    whole, rates = report.whole, report.whole.rates()
    parts = ["# How it said no", reading(whole)]
    rows = ([name, share(rate), interval(rate), f"{rate.hits:,} of {rate.of:,}"] for name, rate in rates.items())
    parts.append(_table(["", "share", "95 %", "responses"], rows))
    for column, groups in report.groups.items():
        head = [column, "responses", "judged", "coded", *(name.rpartition(".")[2] for name in rates)]
        parts += [f"## By {column}", _table(head, map(_row, groups))]
        parts += (
            ["Apart: " + "; ".join(_plain(told(difference)) for difference in found) + "."]
            if (found := differences(groups))
            else []
        )
        parts.append("\n".join(f"* {_plain(group.name)}: {reading(group.profile)}" for group in groups))
    return "\n\n".join(parts) + "\n"


def share(rate: Proportion) -> str:
    """A share for a table: in percent, as counts when they are too few for a rate, a dash out of none."""
    if not rate.of:
        return NOT_DEFINED
    if rate.of < SMALL:
        return f"{rate.hits}/{rate.of}"
    return percent(rate.hits, rate.of).replace("under ", "<").replace("over ", ">")


def interval(rate: Proportion) -> str:
    """The interval in percent, with a decimal; a dash where there is no rate."""
    found = rate.interval()
    if found is None or rate.of < SMALL:
        return NOT_DEFINED
    return f"{100 * found[0]:.1f}–{100 * found[1]:.1f} %"


def _profile(profile: Profile) -> dict[str, Any]:
    return profile.to_dict() | {"reading": reading(profile)}


def _group(group: Group) -> dict[str, Any]:
    return {"value": group.value, "name": group.name} | _profile(group.profile)


def _counts(profile: Profile) -> Iterator[tuple[str, int, int]]:
    yield "responses", profile.responses, profile.responses
    yield "judged", profile.judged, profile.responses
    for status, count in profile.unjudged.items():
        yield f"unjudged.{status}", count, profile.responses
    yield "answers", profile.answers, profile.judged
    yield "coded", profile.coded, profile.refusals
    yield "not_coded", profile.not_coded, profile.refusals


def _row(group: Group) -> list[str]:
    profile = group.profile
    counts = (f"{count:,}" for count in (profile.responses, profile.judged, profile.coded))
    return [_plain(group.name), *counts, *map(share, profile.rates().values())]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def _plain(text: str) -> str:
    """The text as Markdown shows it unchanged, what no page shows (control characters) made visible."""
    shown = "".join(char if char.isprintable() else "\ufffd" for char in text)
    return _MARKS.sub(lambda mark: f"\\{mark[0]}", shown)
