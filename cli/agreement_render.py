"""The agreement of two coders on a terminal: every layer, the rationales taken for each other, the codes one by one."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from demur.audit.agreement import Agreement, Below, Compared
from demur.audit.agreement_words import Coders, codes, mean_note, summary, tables, used
from demur.audit.evaluation import NOT_DEFINED, Figures, interval, written


def show_agreement(console: Console, agreement: Agreement, coders: Coders, title: str) -> None:
    """All that is compared; the layers below the action as far as they are coded."""
    _show(console, title, _summary(agreement, coders), style="bold")
    _show_rationales(console, agreement, coders)
    for rows, table in tables(agreement, coders):
        if codes(table):
            _show(console, f"\n{rows}", _codes(table, coders))
        if table.means.frequent:
            console.print(Text(mean_note(table), style="dim"))


def show_confusions(console: Console, agreement: Agreement, coders: Coders) -> None:
    """Which actions, and which rationales, were taken for each other."""
    _show(console, f"\naction, {agreement.action.rows} rows", _confusion(agreement.action, coders))
    _show_rationales(console, agreement, coders)


def _show_rationales(console: Console, agreement: Agreement, coders: Coders) -> None:
    for rows, table in tables(agreement, coders):
        if table.rationale.rows:
            _show(console, f"\nrationale, {rows}", _confusion(table.rationale, coders))


def _show(console: Console, title: str, table: Table, style: str = "") -> None:
    console.print(Text(title, style=style))
    console.print()
    console.print(table)


def _summary(agreement: Agreement, coders: Coders) -> Table:
    table = _table("layer", "rows", "accuracy", "95 %", "kappa", "95 %")
    for line in summary(agreement, coders):
        table.add_row(line.layer, str(line.rows), *_with_interval(line.figures, "accuracy", "kappa"))
    return table


def _confusion(compared: Compared, coders: Coders) -> Table:
    rows, columns = used(compared)
    table = _table(f"{coders.reference} \\ {coders.other}", *(compared.classes[n] for n in columns))
    for row in rows:
        cells = (Text(str(compared.cells[row][n]), style="bold" if n == row else "") for n in columns)
        table.add_row(compared.classes[row], *cells)
    return table


def _codes(below: Below, coders: Coders) -> Table:
    table = _table("code", coders.reference, coders.other, "P", "R", "acc", "95 %", "kappa", "95 %")
    for name, compared in codes(below):
        counts = str(compared.recall.of), str(compared.precision.of)
        found = (_short(compared.value(figure)) for figure in ("precision", "recall"))
        table.add_row(name, *counts, *found, *_with_interval(compared, "accuracy", "kappa", short=True))
    return table


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number else "left", no_wrap=True)
    return table


def _with_interval(figures: Figures, *names: str, short: bool = False) -> list[str]:
    """Each figure and its interval, in three decimals or two."""
    return [
        text
        for name in names
        for text in (
            (_short(figures.value(name)), "–".join(map(_short, figures.intervals.get(name, ()))))
            if short
            else (written(name, figures.value(name)), interval(figures, name))
        )
    ]


def _short(value: float | None) -> str:
    return NOT_DEFINED if value is None else f"{value:.2f}"
