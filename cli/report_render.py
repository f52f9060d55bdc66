"""A facework report on a terminal: all responses in words and figures, then a table and the words for each column."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.console import Console
from rich.text import Text

from demur.audit.facework import SMALL, Column, Facework, Group, Profile
from demur.audit.facework_differences import differences
from demur.audit.facework_files import between, interval, share
from demur.audit.facework_words import head, reading, told
from demur.audit.proportion import Proportion
from demur.cli.render import make_console, marked, show_indented
from demur.cli.tables import narrow_table, plain_table

#: Groups of a column that are shown; the files have all.
SHOWN = 20
#: The rates of a table of groups, and their heads: what fits a screen.
_HEADS = {
    "refusal": "refused",
    "rationale.bare": "bare",
    "rationale.ethics": "ethics",
    "feature.negative_stance": "stance",
    "feature.alternative_offer": "offer",
    "feature.executed_alternative": "instead",
    "feature.apology": "apology",
}
_LEGEND = (
    "bare: gives no reason; ethics: objects to what is asked; stance: calls the request wrong; offer: of other help; "
    "instead: carries out something else. refused is out of the judged, the others out of the coded refusals; below a "
    "share is its 95 % interval, which takes the responses as independent. --json and --output have all codes."
)


def show(report: Facework, asked: Collection[Column] = ()) -> None:
    """The whole report. A column with one value says what the whole says: it is shown when it was `asked` for."""
    console = make_console()
    _show_whole(console, report)
    grouped = {column: groups for column, groups in report.groups.items() if len(groups) > 1 or column in asked}
    for column, groups in grouped.items():
        _show_groups(console, column, groups)
    if grouped:
        console.print(Text(f"\n{_LEGEND}", style="dim"))


def _show_whole(console: Console, report: Facework) -> None:
    console.print(Text(head(report), style="bold"))
    console.print(Text(reading(report.whole)))
    console.print()
    table = plain_table("", "share", "95 %", "responses")
    for title, names in _sections(report.whole).items():
        table.add_row(Text(title, style="bold"))
        for name in names:
            rate = report.whole.rates()[name]
            table.add_row(f"  {name.rpartition('.')[2]}", share(rate), interval(rate), f"{rate.hits:,} of {rate.of:,}")
    console.print(table)


def _sections(profile: Profile) -> dict[str, list[str]]:
    """The names of the rates under their titles, codes by how frequent they are."""
    rates = profile.rates()
    titles = {"": "all judged", "rationale": "why", "strategy": "how", "feature": "what else"}
    out: dict[str, list[str]] = {title: [] for title in titles.values()}
    for name in sorted(rates, key=lambda name: -rates[name].hits if "." in name else 0):
        out[titles[name.rpartition(".")[0]]].append(name)
    return out


def _show_groups(console: Console, column: Column, groups: Sequence[Group]) -> None:
    table = narrow_table(column, "judged", "coded", *_HEADS.values())
    # The newest periods, the most frequent of other values.
    shown = groups[-SHOWN:] if column == "period" else groups[:SHOWN]
    for group in shown:
        profile, rates = group.profile, group.profile.rates()
        counts = f"{profile.judged:,}", f"{profile.coded:,}"
        table.add_row(marked(group.name, ()), *counts, *(_cell(rates[name]) for name in _HEADS))
    console.print()
    console.print(table)
    console.print()
    many = [group for group in shown if group.profile.coded >= SMALL]
    for group in many:
        show_indented(console, marked(f"{group.name}: {reading(group.profile)}", ()), hanging=2)
    if len(many) < len(shown):
        show_indented(console, Text(_few(len(shown) - len(many), len(shown)), style="dim"), hanging=2)
    if len(shown) < len(groups):
        console.print(Text(f"  … and {len(groups) - len(shown)} more: --json or --output has all", style="dim"))
    if found := differences(groups):
        apart = "; ".join(told(difference) for difference in found)
        show_indented(console, Text.assemble(("apart: ", "bold"), marked(apart, ())), hanging=2)


def _cell(rate: Proportion) -> Text:
    """A share, below it its interval."""
    return Text.assemble(share(rate), (f"\n{ends}" if (ends := between(rate)) else "", "dim"))


def _few(few: int, groups: int) -> str:
    """Which groups nothing is said of in words, and why."""
    have, they = ("has", "it has") if few == 1 else ("have", "they have")
    return (
        f"{few} of {groups} group{'' if groups == 1 else 's'} {have} fewer than {SMALL} coded refusals, too few for a "
        f"rate: {they} counts, and no sentence"
    )
