"""A facework report on a terminal: all responses in words and figures, then a table and the words for each column."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from demur.audit.facework import SMALL, Column, Facework, Group, Profile
from demur.audit.facework_differences import differences
from demur.audit.facework_files import interval, share
from demur.audit.facework_words import reading, told
from demur.cli.render import make_console, marked, show_indented

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
    "instead: carries out something else; all of these out of the coded refusals. --json and --output have the rest, "
    "and intervals, which take the responses as independent."
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
    console.print(Text("; ".join(_head(report)), style="bold"))
    console.print(Text(reading(report.whole)))
    console.print()
    table = _plain("", "share", "95 %", "responses")
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


def _head(report: Facework) -> Iterator[str]:
    whole = report.whole
    yield f"{whole.responses:,} response{'' if whole.responses == 1 else 's'}, {whole.judged:,} judged"
    if whole.unjudged:
        yield f"not judged: {_counted(whole.unjudged)}"
    if report.left_out:
        yield f"records without a verdict: {_counted(report.left_out)}"
    if report.reviewed:
        yield f"{report.reviewed:,} replaced by their review"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())


def _show_groups(console: Console, column: Column, groups: Sequence[Group]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(column, overflow="fold", min_width=10)
    for head in ("judged", "coded", *_HEADS.values()):
        table.add_column(head, justify="right", no_wrap=True)
    # The newest periods, the most frequent of other values.
    shown = groups[-SHOWN:] if column == "period" else groups[:SHOWN]
    for group in shown:
        profile, rates = group.profile, group.profile.rates()
        counts = f"{profile.judged:,}", f"{profile.coded:,}"
        table.add_row(marked(group.name, ()), *counts, *(share(rates[name]) for name in _HEADS))
    console.print()
    console.print(table)
    console.print()
    many = [group for group in shown if group.profile.coded >= SMALL]
    for group in many:
        show_indented(console, marked(f"{group.name}: {reading(group.profile)}", ()), hanging=2)
    if len(many) < len(shown):
        few = (
            f"fewer than {SMALL} coded refusals are too few for a rate: {len(shown) - len(many)} of {len(shown)} above"
        )
        show_indented(console, Text(few, style="dim"), hanging=2)
    if len(shown) < len(groups):
        console.print(Text(f"  … and {len(groups) - len(shown)} more: --json or --output has all", style="dim"))
    if found := differences(groups):
        apart = "; ".join(told(difference) for difference in found)
        show_indented(console, Text.assemble(("apart: ", "bold"), marked(apart, ())), hanging=2)


def _plain(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head in heads:
        table.add_column(head, justify="left" if head == heads[0] else "right")
    return table
