"""What judges said of a corpus, on a terminal: each beside labels and rules, and every two beside each other."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from demur.audit.agreement import Agreement, Compared, Means
from demur.audit.agreement_words import Coders, side_by_side
from demur.audit.evaluation import NOT_DEFINED
from demur.audit.judge_report import Between, JudgeReport
from demur.audit.judge_words import LABELS_AND_JUDGE, TWO_JUDGES, compared, head, head_of_two, usage
from demur.cli.agreement_render import show_confusions


def show_judges(console: Console, judges: Sequence[JudgeReport], every_two: Sequence[Between]) -> None:
    """Each judge in turn, then what two of them say of the same rows."""
    for judge in judges:
        console.print(Text(f"\n{head(judge)}", style="bold"))
        console.print(Text(usage(judge), style="dim"))
        if judge.fates["coded"]:
            console.print(_side_by_side(compared(judge)))
            show_confusions(console, judge.labels_and_judge, LABELS_AND_JUDGE)
    for two in every_two:
        console.print(Text(f"\n{head_of_two(two)}", style="bold"))
        if two.agreement.action.rows:
            console.print(_side_by_side([(TWO_JUDGES, two.agreement)]))
            show_confusions(console, two.agreement, TWO_JUDGES)


def _side_by_side(pairs: Sequence[tuple[Coders, Agreement]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("rows, accuracy, kappa", no_wrap=True)
    for coders, _ in pairs:
        table.add_column(f"{coders.reference}, {coders.other}", justify="right", no_wrap=True)
    for name, figures in side_by_side([agreement for _, agreement in pairs]):
        table.add_row(name, *map(_cell, figures))
    return table


def _cell(figures: Compared | Means) -> str:
    if figures.value("accuracy") is None:
        return NOT_DEFINED
    accuracy, kappa = figures.value("accuracy"), figures.value("kappa")
    return f"{figures.rows} {accuracy:.3f} {NOT_DEFINED if kappa is None else f'{kappa:.3f}':>6}"
