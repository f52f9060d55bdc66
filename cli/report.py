"""`demur report`: verdicts in; how many were refusals, and how these were put, out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from demur.audit.facework import COLUMNS, PERIODS, Column, Facework, Period, Tally
from demur.audit.facework_files import to_csv, to_dict, to_markdown
from demur.cli.classify import pretty
from demur.cli.groups import asked_for, by_option, tell_missing
from demur.cli.output_files import check_files, reports, write
from demur.cli.traces import InputError
from demur.cli.verdict_files import records

_DEFAULT = "model,category,language,period,tag"
_TOLD_BY = {"period": "time", "release": "model"}
_WRITERS: dict[str, Callable[[Facework], bytes]] = {
    ".json": lambda report: pretty(to_dict(report)),
    ".csv": lambda report: to_csv(report).encode(),
    ".md": lambda report: to_markdown(report).encode(),
}


@click.command(short_help="Tell how refusals are put.")
@click.argument("verdicts", nargs=-1, required=True, metavar="VERDICTS...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: every figure of every group.")
@click.option(
    *("--output", "outputs"),
    multiple=True,
    callback=reports(*_WRITERS),
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the report to FILE.json, FILE.csv or FILE.md; may be repeated.",
)
@by_option(COLUMNS, _DEFAULT)
@click.option(
    "--period",
    type=click.Choice(PERIODS),
    default="week",
    show_default=True,
    help="How long a period is. Weeks are those of ISO 8601, times are in UTC.",
)
@click.option("--skip-bad", is_flag=True, help="Leave lines out that can't be read, and tell how many.")
def command(
    verdicts: tuple[str, ...],
    as_json: bool,
    outputs: tuple[Path, ...],
    by: tuple[Column, ...],
    period: Period,
    skip_bad: bool,
) -> int:
    """Tell how many responses were refusals, and how these were put.

    VERDICTS are files of verdicts as JSON Lines or a JSON list: the proxy's verdict log, what `demur classify --jsonl`
    or --json prints, the results of a probe run; - is standard input. A record may have `model`, `category`,
    `language`, `tag` and `time` beside its verdict. `release` is the model as the response names it.

    \b
    Try these:
      demur report verdicts.jsonl
      demur report verdicts.jsonl --by model --by period --period month
      demur report verdicts.jsonl --output report.csv --output report.md
      demur classify --jsonl traces.jsonl | demur report - --by category
      zcat verdicts.jsonl.*.gz | demur report - --by tag --json

    Every rate has a 95 % interval (Wilson). Reasons, strategies and features are out of the coded refusals; what the
    provider blocked and what was not coded is counted apart. Below twenty there are counts, no rates. Each choice of
    a response counts; a record with "reviewed": true replaces the earlier one of its id. Only counts are kept in
    memory.

    \b
    Exit codes:
      0  reported, whatever the figures are
      1  wrong usage, a line that can't be read (without --skip-bad), no verdict
    """
    check_files(verdicts, outputs, "holds verdicts")
    report = _read(verdicts, by, period, skip_bad)
    tell_missing(asked_for(by), report.groups, "record", _TOLD_BY)
    for path in outputs:
        write(path, _WRITERS[path.suffix](report))
    if as_json:
        sys.stdout.buffer.write(pretty(to_dict(report)))
    else:
        from demur.cli.report_render import show

        show(report, asked_for(by))
    return 0


def _read(paths: Sequence[str], by: Sequence[Column], period: Period, skip_bad: bool) -> Facework:
    tally, bad = Tally(by, period), _Bad(skip=skip_bad)
    try:
        for record in records(paths, bad, tally.replaced):
            tally.add(record)
    except InputError as error:
        raise click.ClickException(str(error)) from error
    report = tally.report()
    bad.tell()
    if not report.whole.responses:
        left_out = ", ".join(f"{count} with {why}" for why, count in report.left_out.items())
        raise click.ClickException(f"{', '.join(paths)}: no verdict to report on{f' ({left_out})' if left_out else ''}")
    return report


class _Bad:
    """What becomes of lines that can't be read: the end of the run, or with `skip` a count."""

    def __init__(self, *, skip: bool) -> None:
        self._skip, self._count, self._first = skip, 0, ""

    def __call__(self, message: str) -> None:
        if not self._skip:
            raise click.ClickException(f"{message}\n--skip-bad leaves such lines out")
        self._count += 1
        self._first = self._first or message

    def tell(self) -> None:
        if self._count:
            lines = "1 line" if self._count == 1 else f"{self._count:,} lines"
            click.echo(f"demur report: {lines} left out, the first is {self._first}", err=True)
