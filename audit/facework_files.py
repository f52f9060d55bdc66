"""A facework report for machines and documents: JSON-ready data, CSV and Markdown.

Models, tags and categories were named by others: in CSV no cell begins like a formula, in Markdown none breaks its
table, and in neither do control characters stand.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from demur.audit.facework import SCHEMA_VERSION, SMALL, Facework, Group, Profile
from demur.audit.facework_differences import differences
from demur.audit.facework_words import head, percent, reading, told
from demur.audit.proportion import LEVEL, Proportion

NOT_DEFINED = "–"
#: What a spreadsheet reads as a formula when a cell begins with it (OWASP, CSV Injection), at any width.
_FORMULA = ("=", "+", "-", "@")
_ABOUT_GROUPS = (
    "In the tables of groups each share has its 95 % interval (Wilson), in percent. Those of a first table are out of "
    "the judged responses, those of the next three out of the coded refusals; out of fewer than "
    f"{SMALL} there are counts."
)
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
    parts = ["# How it said no", f"{head(report)}.", reading(whole)]
    rows = ([name, share(rate), interval(rate), f"{rate.hits:,} of {rate.of:,}"] for name, rate in rates.items())
    parts.append(_table(["", "share", "95 %", "responses"], rows))
    parts += [_ABOUT_GROUPS] * bool(report.groups)
    for column, groups in report.groups.items():
        parts.append(f"## By {column}")
        parts += (_groups(column, groups, of, names) for of, names in _parted(rates))
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


def between(rate: Proportion) -> str:
    """The interval in whole percent, for a narrow table; nothing where there is no rate."""
    found = rate.interval()
    return "" if found is None or rate.of < SMALL else f"{100 * found[0]:.0f}–{100 * found[1]:.0f}"


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


def _parted(rates: Iterable[str]) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """The names of the rates as tables have them, six at the most, with the counts that they are out of."""
    names = list(rates)
    coded = [name for name in names if "." in name]
    yield ("responses", "judged"), [name for name in names if "." not in name]
    for start in range(0, len(coded), 6):
        yield ("coded",), coded[start : start + 6]


def _groups(column: str, groups: Iterable[Group], of: Sequence[str], names: Sequence[str]) -> str:
    """The rates of these names, each with its interval, of every group."""

    def row(group: Group) -> list[str]:
        rates = group.profile.rates()
        counts = (f"{getattr(group.profile, name):,}" for name in of)
        return [_plain(group.name), *counts, *(_with_interval(rates[name]) for name in names)]

    return _table([column, *of, *(name.rpartition(".")[2] for name in names)], map(row, groups))


def _with_interval(rate: Proportion) -> str:
    return f"{share(rate)} ({ends})" if (ends := between(rate)) else share(rate)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _harmless(text: str) -> str:
    """The text as a cell that no spreadsheet takes for a formula."""
    shown = _visible(text)
    return f"'{shown}" if unicodedata.normalize("NFKC", shown[:1]).startswith(_FORMULA) else shown


def _plain(text: str) -> str:
    """The text as Markdown shows it unchanged."""
    return _MARKS.sub(lambda mark: f"\\{mark[0]}", _visible(text))


def _visible(text: str) -> str:
    """The text with a sign for each character that no page shows, such as control characters."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
