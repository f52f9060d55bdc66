"""Verdicts on a terminal: the response with its evidence marked, and why. Readable without colour: then ^^^ marks it.

What a model wrote is never trusted: control characters, with which a text could rewrite the screen, are made visible.
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from demur.audit.excerpt import excerpt, merged, to_words
from demur.classifier import Verdict
from demur.classifier.explain import ChoiceExplanation, Hit, Part
from demur.classifier.replies import judged_text
from demur.classifier.verdict import Code, Review, Signal
from demur.cli.classify import Judged, listed

Row = TypeVar("Row", bound=Hashable)

#: More traces than this are shown as a table only.
DETAILED = 5
#: A longer text is cut down to what surrounds its evidence: this many characters on either side.
WHOLE_TEXT = 1200
AROUND = 160

STYLES = {
    "answer": "green",
    "hard_refusal": "bold red",
    "disguised_refusal": "bold magenta",
    "shaped": "bold yellow",
    None: "dim",
}
#: Characters that a column of the table needs, on average.
_NARROWEST = 8
_EVIDENCE = "bold underline"
_GAP = "[…]"
#: Stands where a response has no text.
NO_TEXT = "(no text)"

# One character for one, so that offsets stay right: C0 controls as their pictures, other controls and the characters
# that reorder a line (bidirectional overrides) as U+FFFD, exotic line ends and tabs as a space.
_VISIBLE = {
    **{code: 0x2400 + code for code in range(0x20)},
    **dict.fromkeys([*range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD),
    **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD),
    **dict.fromkeys([0x09, 0x0B, 0x0C, 0x0D, 0x85, 0x2028, 0x2029], 0x20),
    0x0A: 0x0A,
}


def make_console() -> Console:
    """A console on standard output that never fails on a character the terminal's encoding lacks.

    No line that it prints ends in blanks, with which rich fills tables and wraps sentences.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    console = Console(highlight=False, markup=False, emoji=False)
    console.push_render_hook(_Stripping())
    return console


class _Stripping(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Stripped(renderable) for renderable in renderables]


@dataclass(frozen=True, slots=True)
class _Stripped:
    """What a renderable prints, without the blanks at the ends of its lines."""

    renderable: ConsoleRenderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in Segment.split_lines(console.render(self.renderable, options)):
            while line and not line[-1].text.rstrip(" "):
                line.pop()
            yield from line[:-1]
            yield from (Segment(last.text.rstrip(" "), last.style) for last in line[-1:])
            yield Segment.line()


def visible(text: str) -> str:
    """The text with its control characters made visible, one character for one."""
    return text.translate(_VISIBLE)


def show(results: Sequence[Judged]) -> None:
    """A few traces in full, many as a table; several always with the counts, each with what it is out of."""
    console = make_console()
    if len(results) <= DETAILED or results[0].explanation is not None:
        for judged in results:
            show_one(console, judged)
    if len(results) > 1:
        console.print(_table(console, results))
        console.print(_counts([judged.verdict for judged in results]))


def show_one(console: Console, judged: Judged) -> None:
    """One trace: verdict, ask, the text with its evidence, and the signals that decided."""
    verdict, trace = judged.verdict, judged.trace
    console.print(_headline(str(judged.item.id), verdict))
    if trace.ask.prompt:
        console.print(Text(f"  asked: {_clip(trace.ask.prompt, 200)}", style="dim"))
    for choice, of_choice in zip(trace.choices, verdict.choices or (verdict,), strict=False):
        if verdict.choices:
            console.print(_headline(f"  choice {of_choice.index}", of_choice))
        show_text(console, judged_text(choice), of_choice, rules=judged.explanation is not None)
    if judged.explanation is not None:
        for choice, explained in zip(trace.choices, judged.explanation.choices, strict=False):
            show_explanation(console, explained, judged_text(choice))


def show_text(console: Console, text: str, verdict: Verdict, *, rules: bool = False) -> None:
    """The text with its evidence marked, then one line for every signal: rule, signal, weight and why; below, how it
    says no. `rules`: also by which rule that is told."""
    console.print()
    show_marked(console, text, [(span.start, span.end) for signal in verdict.signals for span in signal.spans])
    show_rows(console, [(s.rule, s.name, f"{s.weight:.2f}", _why(s, text)) for s in verdict.signals], 2)
    if verdict.codes:
        show_indented(console, Text("how it says no", style="bold"))
        show_rows(console, [_code(code, rules=rules) for code in verdict.codes], 4)
    if verdict.review is not None:
        show_indented(console, _review(verdict.review), hanging=4)
    if verdict.signals or verdict.review:
        console.print()


def show_marked(console: Console, text: str, spans: Sequence[tuple[int, int]]) -> None:
    """The text, or what matters of it, with the given parts marked. Spans are offsets in characters, end exclusive."""
    for line in _marked_lines(console, marked(text.rstrip() or NO_TEXT, spans)):
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
    console.print()


def marked(text: str, spans: Iterable[tuple[int, int]]) -> Text:
    """The text, styled where the evidence stands. A long one is reduced to the evidence and its surroundings."""
    out = Text()
    for part in excerpt(text, spans, whole=WHOLE_TEXT, around=AROUND):
        if part.gap:
            out.append(f" {_GAP}{' ' if part.text else ''}" if out else f"{_GAP} ")
        out.append(visible(part.text), _EVIDENCE if part.mark else "")
    return out


def show_indented(console: Console, text: Text, indent: int = 2, hanging: int = 0) -> None:
    """The text wrapped, each line indented, without the trailing blanks that rich's own Padding leaves.

    Lines after the first are indented by `hanging` more.
    """
    for number, line in enumerate(_wrapped(console, text, indent + hanging)):
        margin = " " * (indent + (hanging if number else 0))
        console.print(Text.assemble(margin, line) if line else line, no_wrap=True, overflow="ignore", crop=False)


def show_rows(console: Console, rows: Sequence[tuple[str, ...]], indent: int) -> None:
    """One line each, in columns; the last is free text, which goes on below itself when the line is full."""
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    for row in rows:
        head = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        show_indented(console, Text.assemble((head, "dim"), f"  {row[-1]}"), indent, hanging=4)


def _wrapped(console: Console, text: Text, indent: int = 2) -> Iterator[Text]:
    for line in text.wrap(console, max(console.width - indent, 20)):
        line.rstrip()
        yield line


def _marked_lines(console: Console, text: Text) -> Iterator[Text]:
    """The text wrapped and indented; without colour, a line of ^ below every line that holds evidence."""
    plain = console.color_system is None or console.no_color or console.is_dumb_terminal
    for line in _wrapped(console, text):
        yield Text.assemble("  " if line else "", line)
        under = {i for span in line.spans for i in range(span.start, span.end)}
        if plain and under:
            marks = "".join((" ^"[i in under]) * cell_len(char) for i, char in enumerate(line.plain))
            yield Text(f"  {marks}".rstrip())


def _headline(name: str, verdict: Verdict) -> Text:
    line = Text.assemble((_clip(name, 80), "bold"), "  ", (verdict.label or "no label", STYLES[verdict.label]))
    if verdict.confidence is not None:
        line.append(f"  confidence {verdict.confidence:.2f}")
    if verdict.status != "complete":
        line.append(f"  {verdict.status}")
    for part in (verdict.rationale, verdict.strategy):
        if part:
            line.append(f"  {part}", style="dim")
    if verdict.reason:
        line.append(f"  ({_clip(verdict.reason, 200)})")
    return line


def _code(code: Code, *, rules: bool) -> tuple[str, ...]:
    """A code with the words that show it, or, where none do, why it is given."""
    words = ", ".join(_each_once(f"“{_clip(span.text, 60)}”" for span in code.spans))
    if not rules:
        return code.layer, code.name, words or _clip(code.why, 200)
    return code.layer, code.name, code.rule, f"{_clip(code.why, 200)}{f': {words}' if words else ''}"


def _review(review: Review) -> Text:
    """Who was asked, what it said beside what the rules had said, and why."""
    ours = f"{review.rules_label} {review.rules_confidence or 0:.2f}"
    said = f"{review.label}, the rules said {ours}" if review.label else f"{_fate(review)}, the rules' verdict stays"
    return Text.assemble((f"judge {_clip(review.judge, 80)}: ", "bold"), said, f": {_clip(review.reason or '-', 300)}")


def _fate(review: Review) -> str:
    if review.label is None:
        return review.outcome.replace("_", " ")
    return "agrees" if review.label == review.rules_label else f"not {review.rules_label}"


def _why(signal: Signal, text: str) -> str:
    why = _clip(signal.why, 200)
    if signal.field is not None:
        why += f" [{_clip(signal.field, 80)}]"
    # The evidence of the API's own refusal field stands outside the text shown above.
    outside = [span.text for span in signal.spans if text[span.start : span.end] != span.text]
    return " ".join([why, *(f"“{_clip(words, 200)}”" for words in outside)])


def show_explanation(console: Console, choice: ChoiceExplanation, text: str) -> None:
    """What decided; what is missing; every rule that matched, below its words; then the numbers that were added up.

    Words that several rules matched are shown once, and whole, and so is what would be told twice in the same words.
    """
    if choice.decided:
        show_indented(console, Text.assemble(("decided by: ", "bold"), choice.decided), hanging=4)
    # What is missing was found in no particular place: its span is all that was looked at.
    show_rows(console, _each_once(_row(hit) for hit in choice.hits if _is_missing(hit)), 2)
    for words, rows in _each_once(_matched(choice, text)):
        show_indented(console, Text(f"“{words}”", style="bold"))
        show_rows(console, rows, 4)
    if choice.clauses:
        show_indented(console, Text("clause by clause", style="bold"))
        show_rows(console, [_clause(part) for part in choice.clauses], 4)
    if choice.points:
        show_indented(
            console, Text(f"log odds of a refusal {sum(choice.points.values()):+.2f}, the sum of", style="bold")
        )
        show_rows(console, [(f"{n:+.2f}", name, choice.meanings.get(name, "")) for name, n in choice.points.items()], 4)
    console.print()


def _matched(choice: ChoiceExplanation, text: str) -> Iterator[tuple[str, tuple[tuple[str, ...], ...]]]:
    """Place by place, the words and a row for each rule that matched there."""
    matched = [hit for hit in choice.hits if not _is_missing(hit)]
    for start, end in merged((hit.span.start, hit.span.end) for hit in matched):
        hits = [hit for hit in matched if start <= hit.span.start < max(end, start + 1)]
        words = text[slice(*to_words(text, start, end))]
        if hits[0].span.text not in words:  # the evidence of the API's own refusal field
            words = hits[0].span.text
        yield _clip(words, 200), tuple(_each_once(map(_row, hits)))


def _each_once(rows: Iterable[Row]) -> list[Row]:
    return list(dict.fromkeys(rows))


def _clause(part: Part) -> tuple[str, ...]:
    """What a clause is about, what it does, and its words."""
    return part.kind, f"{_clip(', '.join(part.acts) or '-', 60)}: “{_clip(part.span.text, 100)}”"


def _is_missing(hit: Hit) -> bool:
    return hit.rule.startswith("delivery.")


def _row(hit: Hit) -> tuple[str, ...]:
    what = "fired" if hit.why_not is None else "suppressed"
    return f"{what:10}", hit.rule, hit.signal, f"{hit.weight:.2f}", _clip(hit.why_not or hit.why, 200)


def _table(console: Console, results: Sequence[Judged]) -> Table:
    """A row each. What a judge said, and how it says no, are columns where they are told of any."""
    verdicts = [judged.verdict for judged in results]
    columns: dict[str, list[str]] = {
        "id": [_clip(str(judged.item.id), 80) for judged in results],
        "label": [verdict.label or "-" for verdict in verdicts],
        "conf": ["" if verdict.confidence is None else f"{verdict.confidence:.2f}" for verdict in verdicts],
        "status": [verdict.status for verdict in verdicts],
        "judge": [_fate(verdict.review) if verdict.review else "" for verdict in verdicts],
        "how": [_how(verdict) for verdict in verdicts],
        "signals": [
            _clip(verdict.reason or ", ".join(dict.fromkeys(s.name for s in verdict.signals)), 120)
            for verdict in verdicts
        ],
    }
    shown = {name: cells for name, cells in columns.items() if name not in ("judge", "how") or any(cells)}
    gap = 1 if "judge" in shown else 2
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for name in shown:
        whole = name in ("label", "conf")
        table.add_column(name, overflow="fold", no_wrap=whole, justify="right" if name == "conf" else "left")
    table.columns[-1].width = _last_width(console, gap, [[name, *cells] for name, cells in shown.items()])
    if table.columns[-1].width is None:
        shown["signals"] = [cell.replace(", ", " ") for cell in shown["signals"]]
    for verdict, row in zip(verdicts, zip(*shown.values(), strict=True), strict=True):
        id, label, *others = row
        table.add_row(Text(id), Text(label, style=STYLES[verdict.label]), *map(Text, others))
    return table


def _last_width(console: Console, gap: int, columns: Sequence[Sequence[str]]) -> int | None:
    """What the other columns leave to the last one, but its longest word at least: else a comma could begin a line.

    None where the screen is too narrow for that.
    """
    *others, last = (max(map(cell_len, column)) + gap for column in columns)
    longest = max(cell_len(word) for cell in columns[-1] for word in f"{cell} ".split(" "))
    width = min(last - gap, max(longest, console.width - sum(others)))
    return width if console.width - width >= (_NARROWEST + gap) * len(others) else None


def _how(verdict: Verdict) -> str:
    """How it says no, in the two words that fit a table."""
    return " ".join(filter(None, (verdict.rationale, verdict.strategy)))


def _counts(verdicts: Sequence[Verdict]) -> Text:
    """Flagged out of judged, and what could not be judged, by status."""
    judged = [verdict for verdict in verdicts if verdict.label]
    labels = Counter(verdict.label for verdict in judged if verdict.is_refusal())
    text = f"\n{labels.total()} of {len(judged)} judged are flagged{listed(labels)}"
    unjudged = Counter(verdict.status for verdict in verdicts if not verdict.label)
    if unjudged:
        text += f"; {unjudged.total()} not judged{listed(unjudged)}"
    return Text(text)


def _clip(text: str, limit: int) -> str:
    """The text on one line, of at most `limit` characters; cut between words where there are any."""
    line = " ".join(visible(text).split())
    if len(line) <= limit:
        return line
    cut = line[:limit].rpartition(" ")[0]
    return f"{cut} …" if len(cut) > limit // 2 else f"{line[: limit - 1]}…"
