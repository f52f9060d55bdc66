"""An evaluation on a terminal: a row for each corpus, then all rows together in full, then the groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from demur.audit.agreement_words import LABELS_AND_RULES
from demur.audit.corpus import GOLDS
from demur.audit.evaluate import GOT, Scores
from demur.audit.evaluation import (
    NOT_DEFINED,
    Case,
    Evaluated,
    Report,
    counted,
    interval,
    miscoding,
    says,
    shown,
    written,
)
from demur.cli.agreement_render import show_agreement
from demur.cli.classify import Judged
from demur.cli.judge_render import show_judges
from demur.cli.render import STYLES, make_console, show_marked, show_one, show_rows, visible
from demur.cli.tables import narrow_table, plain_table
from demur.cli.traces import Item

#: The columns of a table of corpora or groups: what fits a screen. The interval is that of the first.
_COLUMNS = ("f1", "precision", "recall", "false_alarms", "macro_f1", "kappa", "ece")
_HEADS = {"precision": "P", "recall": "R", "false_alarms": "FA", "macro_f1": "3-cls", "kappa": "kappa", "ece": "ECE"}


def show(report: Report, *, errors: bool) -> None:
    """The whole report; with `errors` every misjudged row with its evidence."""
    console = make_console()
    if errors:
        for mistake in report.mistakes:
            _show_mistake(console, mistake)
        for case in report.miscoded:
            _show_miscoded(console, case)
    if len(report.corpora) > 1:
        rows = [(evaluated.name, evaluated.scores) for evaluated in (*report.corpora, report.pooled)]
        console.print(_table("corpus", rows))
        console.print()
    _show_whole(console, report.pooled)
    layered = [evaluated for evaluated in report.corpora if evaluated.agreement]
    if len(layered) > 1:
        console.print()
        console.print(_layers_by_corpus([*layered, report.pooled]))
    if report.pooled.agreement:
        console.print()
        show_agreement(console, report.pooled.agreement, LABELS_AND_RULES, "How it was declined")
    show_judges(console, report.judges, report.between_judges)
    for column, groups in report.shown_groups.items():
        console.print()
        console.print(_table(column, groups.items()))
    _show_notes(console, report, errors=errors)


def _show_whole(console: Console, evaluated: Evaluated) -> None:
    scores = evaluated.scores
    head = f"{evaluated.name}: {scores.rows} rows, {scores.prompts} prompts"
    if scores.unjudged:
        head += f"; no verdict, so wrong: {counted(scores.unjudged)}"
    if evaluated.skipped:
        head += f"; left out: {counted(evaluated.skipped)}"
    console.print(Text(visible(head), style="bold"))
    console.print()
    table = plain_table()
    for figure in shown(scores):
        value = Text(written(figure.name, scores.value(figure.name)), style="bold")
        table.add_row(figure.title, value, Text(interval(scores, figure.name)), Text(says(scores, figure), style="dim"))
    console.print(table)
    console.print()
    console.print(_confusion(scores))
    console.print()
    console.print(_calibration(scores))


def _confusion(scores: Scores) -> Table:
    none = any(row[3] for row in scores.confusion)
    table = plain_table("labelled \\ judged", *(GOT if none else GOLDS))
    for gold, row in zip(GOLDS, scores.confusion, strict=True):
        cells = zip(GOT, row if none else row[:3], strict=False)
        table.add_row(gold, *(Text(str(n), style="bold" if got == gold else "") for got, n in cells))
    return table


def _calibration(scores: Scores) -> Table:
    table = plain_table("confidence", "rows", "said", "were right")
    for one in scores.bins:
        if one.said is not None and one.right.value is not None:
            span = f"{one.low:.1f} to {one.high:.1f}"
            table.add_row(span, str(one.right.of), f"{one.said:.3f}", f"{one.right.value:.3f}")
    return table


def _table(what: str, rows: Iterable[tuple[str, Scores]]) -> Table:
    table = narrow_table(what, "rows", "F1", "95 %", *(_HEADS[name] for name in _COLUMNS[1:]))
    for name, scores in rows:
        first, *others = (written(column, scores.value(column)) for column in _COLUMNS)
        table.add_row(Text(visible(name)), str(scores.rows), first, _short(scores), *others)
    return table


def _layers_by_corpus(corpora: Sequence[Evaluated]) -> Table:
    layered = (name for layer in ("action", "rationale", "strategy", "features") for name in (layer, "kappa"))
    table = narrow_table("corpus", "refusals", *layered)
    table.title, table.title_style, table.title_justify = "How it was declined, accuracy and kappa", "", "left"
    for evaluated in corpora:
        if (of := evaluated.agreement) is not None:
            layers = of.action, of.refused.rationale, of.refused.strategy, of.refused.means
            figures = [written(name, layer.value(name)) for layer in layers for name in ("accuracy", "kappa")]
            table.add_row(Text(visible(evaluated.name)), str(of.refused.rows), *figures)
    return table


def _short(scores: Scores) -> str:
    """The interval of F1 in two decimals."""
    low, high = scores.intervals.get("f1", (None, None))
    return NOT_DEFINED if low is None or high is None or scores.f1 is None else f"{low:.2f}–{high:.2f}"


def _show_mistake(console: Console, mistake: Case) -> None:
    got = mistake.verdict.label or "no label"
    line = Text.assemble(("labelled ", "dim"), (mistake.gold, "bold"), (", judged ", "dim"))
    line.append(got, style=STYLES[mistake.verdict.label])
    line.append(f"  {mistake.row.source}", style="dim")
    console.print(line)
    show_one(console, Judged(Item(mistake.row.obj, mistake.row.source, mistake.id), mistake.trace, mistake.verdict))


def _show_miscoded(console: Console, case: Case) -> None:
    """A refusal that is coded otherwise than labelled: what is, and the evidence of its codes."""
    codes = case.verdict.codes
    console.print(
        Text.assemble(("coded otherwise ", "dim"), (visible(str(case.id)), "bold"), (f"  {case.row.source}", "dim"))
    )
    show_rows(console, [(name, f"labelled {gold}, coded {got}") for name, gold, got in case.differences], 2)
    console.print()
    show_marked(console, case.response, [(span.start, span.end) for code in codes for span in code.spans])
    if codes:
        show_rows(console, [(code.rule, code.name, code.why) for code in codes], 2)
        console.print()


def _show_notes(console: Console, report: Report, *, errors: bool) -> None:
    wrong, rows = len(report.mistakes), report.pooled.scores.rows
    text = f"\n{wrong} of {rows} rows misjudged"
    if report.miscoded:
        text += f"; {miscoding(report)}"
    if (wrong or report.miscoded) and not errors:
        text += "; --errors shows them"
    if len(report.corpora) > 1 or report.shown_groups:
        text += "\nP: precision, R: recall, FA: false alarms, 3-cls: three-class F1"
    if report.resamples:
        text += f"\n95 % intervals from {report.resamples} resamples by prompt; no width: no other case was seen"
    console.print(Text(text, style="dim"))
