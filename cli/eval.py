"""`demur eval`: verdicts against labelled data, as a table, JSON or a page."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from demur.audit.corpus import MEANINGS, Columns, Corpus, CorpusError, Meaning, Row, Words, read_corpus
from demur.cli.classify import Judge, encode, make_classifier, pretty
from demur.cli.eval_judge import SETTINGS as JUDGE_SETTINGS
from demur.cli.eval_judge import Judges, judge_flags
from demur.cli.groups import asked_for, by_option, tell_missing
from demur.cli.main import needs_extra
from demur.cli.options import load_settings, settings_flags
from demur.cli.output_files import check_files, reports, writable, write
from demur.cli.traces import InputError, Item, display_name, line_batches

if TYPE_CHECKING:
    from demur.audit.evaluate import Column
    from demur.audit.evaluation import Case, Report

_COLUMNS = ("language", "model", "category")


def _meanings(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, Meaning]:
    out: dict[str, Meaning] = {}
    for pair in given:
        word, equals, meaning = pair.rpartition("=")
        if not equals or meaning not in MEANINGS:
            raise click.BadParameter(f"{pair!r} is not WORD=CLASS, with a CLASS of {', '.join(MEANINGS)}")
        out[word] = meaning
    return out


def _errors_file(ctx: click.Context, parameter: click.Parameter, given: Path | None) -> Path | None:
    return given and writable(given)


@click.command(short_help="Measure against labelled data.")
@click.argument("corpora", nargs=-1, required=True, metavar="CORPUS...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: every figure, and every misjudged row.")
@click.option(
    *("--output", "outputs"),
    multiple=True,
    callback=reports(".html", ".json"),
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the report to FILE.html, a page of its own, or to FILE.json; may be repeated.",
)
@click.option("--errors", is_flag=True, help="Also show every misjudged row, its evidence and signals.")
@click.option(
    "--errors-file",
    callback=_errors_file,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the misjudged rows to FILE as JSON Lines.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Score the first N labelled rows of each corpus.")
@by_option(_COLUMNS, ",".join(_COLUMNS))
@click.option(
    *("--map", "words"),
    multiple=True,
    callback=_meanings,
    metavar="WORD=CLASS",
    help=f"What a label means: {', '.join(MEANINGS)}; may be repeated.",
)
@click.option("--label-column", metavar="NAME", help="Where the labels stand.  [default: label, expected]")
@click.option("--language-column", metavar="NAME", help="Where languages stand.  [default: lang, language]")
@click.option("--model-column", metavar="NAME", help="Where models stand.  [default: model]")
@click.option(
    "--category-column", metavar="NAME", help="Where categories stand.  [default: category, type, prompt_type]"
)
@click.option(
    "--layers/--no-layers",
    default=True,
    help="Whether rationale, strategy and features say how a response declined.  [default: layers]",
)
@click.option(
    "--resamples",
    default=1000,
    show_default=True,
    type=click.IntRange(0, 100_000),
    metavar="N",
    help="Resamples for the 95 % intervals, drawn by prompt; 0: no intervals.",
)
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0), metavar="N", help="Seed of the resamples."
)
@judge_flags
@settings_flags(["min_confidence", "languages", "lexicons", *JUDGE_SETTINGS])
def command(
    corpora: tuple[str, ...],
    as_json: bool,
    outputs: tuple[Path, ...],
    errors: bool,
    errors_file: Path | None,
    limit: int | None,
    by: tuple[Column, ...],
    words: dict[str, Meaning],
    label_column: str | None,
    language_column: str | None,
    model_column: str | None,
    category_column: str | None,
    layers: bool,
    resamples: int,
    seed: int,
    judge: bool,
    judge_files: tuple[Path, ...],
    judge_refusals_only: bool,
    config: Path | None,
    **flags: object,
) -> int:
    """Measure the verdicts against labelled data.

    A CORPUS is JSON Lines: on each line a trace, in any form that `demur classify` takes, and a column that says what
    somebody judged it to be. - is standard input. Known are the labels of common data sets (full_compliance, partial,
    refusal, 1_full_compliance, hard_refusal, true and 1 for a refusal, ...); others are told with --map. Rows whose
    label is empty or `other` are left out and counted.

    \b
    Try these:
      demur eval labelled.jsonl
      demur eval labelled.jsonl --errors
      demur eval a.jsonl b.jsonl --output report.html
      demur eval a.jsonl --label-column verdict --map ok=answer --map nope=refusal
      demur eval labelled.jsonl --lexicon mine.toml --json > figures.json
      demur eval labelled.jsonl --judge --judge-file codings.jsonl
      demur eval labelled.jsonl --judge-file one.jsonl --judge-file two.jsonl

    Several corpora have a row each, and one for all rows together. A response that can't be judged is wrong: a miss
    where it was declined, a false alarm where it was answered. Answers to one prompt belong together: the intervals
    come from drawing prompts. Reports hold the prompts and responses of what was misjudged.

    A corpus may also say how a response declined: in the columns rationale (bare, capacity, policy, ethics), strategy
    (explicit, implicit) and features (an object of 0 and 1 by name, or a list of the names of those that are there).
    Then it is measured how far the verdicts agree, layer by layer: on all rows labelled refusal, and on those of them
    that are coded.

    --judge sends prompts and responses to a language model, which codes them by demur's codebook. Each coding is in
    the --judge-file before the next is waited for, so that a run that was cut off goes on where it was, and asks again
    only about what failed. Files alone need no judge: each is compared with labels and verdicts on the rows that it
    codes, and every two with each other.

    \b
    Exit codes:
      0  measured, whatever the figures are
      1  wrong usage, a file that can't be read, a label that is not known, or a
         judge that can't be asked
    """
    if as_json and errors:
        raise click.UsageError("--json already holds the misjudged rows; leave --errors out")
    written = (*outputs, *([errors_file] if errors_file else []), *judge_files)
    check_files(corpora, written, "is a corpus")
    columns = Columns(label_column, language_column, model_column, category_column, layers)
    read = _with_rows([_read(path, columns, Words(words), limit) for path in _named(corpora)])
    with needs_extra("report", "eval"):
        from demur.audit.evaluation import report_on

        page = _page() if any(path.suffix == ".html" for path in outputs) else None
    settings = load_settings(config, flags).settings
    judges = Judges(settings, judge_files, ask=judge, refusals_only=judge_refusals_only)
    classifier = make_classifier(settings)
    cases = _judged(read, Judge(classifier, prompt="", system="", explain=False))
    report = report_on(
        list(zip(read, cases, strict=True)),
        by=by,
        asked=asked_for(by),
        judges=judges.codings([case for own in cases for case in own]),
        rules_version=classifier.rules_version,
        resamples=resamples,
        seed=seed,
    )
    tell_missing(asked_for(by), report.groups, "row", {})
    for path in outputs:
        write(path, page(report).encode(errors="replace") if page and path.suffix == ".html" else _json(report))
    if errors_file is not None:
        wrong = (*report.mistakes, *(case for case in report.miscoded if case.outcome.right))
        write(errors_file, b"".join(encode(case.to_dict()) + b"\n" for case in wrong))
    if as_json:
        sys.stdout.buffer.write(_json(report))
    else:
        from demur.cli.eval_render import show

        show(report, errors=errors)
    return 0


def _named(paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each path and what its corpus is called: the bare name where that is enough to tell it."""
    stems = Counter(Path(display_name(path)).stem for path in paths)
    for path in paths:
        stem = Path(display_name(path)).stem
        yield path, stem if stems[stem] == 1 else display_name(path)


def _read(named: tuple[str, str], columns: Columns, words: Words, limit: int | None) -> Corpus:
    path, name = named
    try:
        corpus = read_corpus(display_name(path), _objects(path), columns, words)
    except (CorpusError, InputError) as error:
        raise click.ClickException(str(error)) from error
    return Corpus(name, corpus.rows[:limit], corpus.skipped)


def _with_rows(corpora: Sequence[Corpus]) -> list[Corpus]:
    """Those that have a row to score; the others are named on standard error, and alone they are an error."""
    empty = [f"{corpus.name}: no row has a label to score" for corpus in corpora if not corpus.rows]
    if len(empty) == len(corpora):
        raise click.ClickException("\n".join(empty))
    for message in empty:
        click.echo(f"demur eval: {message}, left out", err=True)
    return [corpus for corpus in corpora if corpus.rows]


def _objects(path: str) -> Iterator[tuple[str, object]]:
    for batch in line_batches(path):
        for item in batch:
            if item.problem is not None:
                raise InputError(f"{item.source}: {item.problem}")
            yield item.source, item.obj


def _judged(corpora: Sequence[Corpus], judge: Judge) -> list[list[Case]]:
    """Every row of each corpus with its verdict."""
    from demur.audit.evaluation import Case

    cases: list[list[Case]] = []
    with _progress(sum(len(corpus.rows) for corpus in corpora)) as rows_done:
        for corpus in corpora:
            cases.append([])
            for row in corpus.rows:
                judged = judge(Item(row.obj, row.source, _id(row)))
                cases[-1].append(Case(row, judged.trace, judged.verdict, judged.item.id))
                rows_done()
    return cases


def _id(row: Row) -> str | int | float:
    own = row.obj.get("id")
    return own if isinstance(own, str | int | float) and not isinstance(own, bool) else row.source


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    """A bar on standard error while it is a terminal; yields what to call after each row."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    look = TextColumn("judging"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*look, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("judging", total=total)
        yield lambda: progress.advance(task)


def _page() -> Callable[[Report], str]:
    """What makes a page of a report; imported for a page only, since it takes a while."""
    from demur.audit.evaluation_page import page

    return page


def _json(report: Report) -> bytes:
    return pretty(report.to_dict())
