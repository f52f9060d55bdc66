"""An evaluation as one page: a file that needs no other and no script, for any screen and for paper."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import matplotlib as mpl
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure as Plot

from demur.audit.agreement_words import LABELS_AND_RULES, codes, mean_note, summary, tables, used
from demur.audit.corpus import GOLDS
from demur.audit.evaluate import GOT, Bin
from demur.audit.evaluation import FIGURES, Case, Report, counted, interval, miscoding, says, shown, written
from demur.audit.excerpt import Part, excerpt
from demur.audit.judge_words import TWO_JUDGES, compared, head, head_of_two, usage
from demur.classifier import Span

#: More mistakes than this are not shown, only counted: a page has to open on a phone.
MISTAKES = 200
#: A longer response is cut down to what surrounds its evidence: so many characters on either side.
WHOLE = 600
AROUND = 140

# Stand for the page's own colours, which follow the reader's light or dark; nothing else in the plot has these.
_INK, _ACCENT = "#010203", "#040506"
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "demur",
    "font.size": 10,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def page(report: Report) -> str:
    """The report as HTML."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(_template),
    )
    environment.globals.update(written=written, interval=interval, says=says, shown=shown, counted=counted)
    environment.globals.update(miscoding=miscoding)
    environment.globals.update(parts=parts, coded_parts=coded_parts, labels_and_rules=LABELS_AND_RULES)
    environment.globals.update(summary=summary, tables=tables, codes=codes, used=used, mean_note=mean_note)
    environment.globals.update(judge_head=head, judge_usage=usage, compared=compared)
    environment.globals.update(head_of_two=head_of_two, two_judges=TWO_JUDGES)
    return environment.get_template("evaluation.html").render(
        report=report,
        scores=report.pooled.scores,
        figures=FIGURES,
        golds=GOLDS,
        got=GOT,
        mistakes=report.mistakes[:MISTAKES],
        miscoded=report.miscoded[:MISTAKES],
        plot=Markup(reliability_plot(report.pooled.scores.bins)),
        plot_says=plot_says(report.pooled.scores.bins),
    )


def reliability_plot(bins: Sequence[Bin]) -> str:
    """How often verdicts were right against how sure they were, as an SVG element in the colours of the page."""
    points = [(b.said, b.right.value, b.right.of) for b in bins if b.said is not None and b.right.value is not None]
    with mpl.rc_context(_STYLE):
        plot = Plot(figsize=(4.6, 4.2), layout="constrained")
        axes = plot.add_subplot()
        axes.plot([0, 1], [0, 1], color=_INK, linestyle=":", linewidth=1)
        if points:
            said, right, rows = zip(*points, strict=True)
            sizes = [20 + 380 * count / max(rows) for count in rows]
            axes.plot(said, right, color=_ACCENT, linewidth=1.5)
            axes.scatter(said, right, s=sizes, color=_ACCENT, alpha=0.75, clip_on=False, zorder=3)
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="share that was right", aspect="equal")
        out = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        plot.savefig(out, format="svg", transparent=True, metadata=nothing)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]+", r"font: \1 var(--sans)", out.getvalue()[out.getvalue().index("<svg") :])
    svg = svg.replace(_INK, "var(--ink)").replace(_ACCENT, "var(--accent)")
    return svg.replace("<svg ", '<svg role="img" aria-labelledby="plot-says" ', 1)


def plot_says(bins: Sequence[Bin]) -> str:
    """The plot in words."""
    said = [
        f"of {b.right.of} verdicts with a confidence of {b.low:.1f} to {b.high:.1f}, {b.right.hits} were right"
        for b in bins
        if b.right.of
    ]
    return f"Confidence against how often it was right: {'; '.join(said) or 'no verdict'}."


def parts(case: Case) -> list[Part]:
    """The response of a case in pieces, the evidence marked; a long one is cut down to what surrounds it."""
    return _marked(case, [span for signal in case.verdict.signals for span in signal.spans])


def coded_parts(case: Case) -> list[Part]:
    """The same, with the evidence of the codes marked."""
    return _marked(case, [span for code in case.verdict.codes for span in code.spans])


def _marked(case: Case, spans: Sequence[Span]) -> list[Part]:
    text = case.response
    marks = [(span.start, span.end) for span in spans if text[span.start : span.end] == span.text]
    marks = [(start, end) for start, end in marks if end - start < len(text.rstrip())]  # all of it is none of it
    return excerpt(text, marks, whole=WHOLE, around=AROUND)


def _template(name: str) -> str:
    return files("demur.audit").joinpath(name).read_text(encoding="utf-8")
