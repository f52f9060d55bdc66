"""Tables on a terminal: no lines, the first column names what is told, the others are numbers."""

from __future__ import annotations

from rich.table import Table


def plain_table(*heads: str) -> Table:
    """A table with these heads, or with none."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(heads))
    for number, name in enumerate(heads):
        table.add_column(name, justify="right" if number else "left")
    return table


def narrow_table(first: str, *others: str) -> Table:
    """A table of many columns, of which the first gives way: its names may be of any length."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, overflow="fold", min_width=10)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table
