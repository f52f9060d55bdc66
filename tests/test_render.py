"""The evidence is marked in the text, with or without colour, and what a model wrote cannot play with the terminal."""

from __future__ import annotations

import io
import itertools
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from demur.classifier import Ask, Choice, Trace, Verdict
from demur.classifier.explain import ChoiceExplanation, Hit
from demur.classifier.verdict import Code, Review, Signal, Span
from demur.cli.classify import Judged
from demur.cli.render import DETAILED, WHOLE_TEXT, marked, show, show_explanation, show_one
from demur.cli.traces import Item

TEXT = "Thanks for asking. I'd rather not do that, but the weather is fine."
PHRASE = "I'd rather not do that"


def judged(text: str = TEXT, *phrases: str, id: str = "one", label: str = "hard_refusal") -> Judged:
    spans = tuple(Span(at, at + len(p), p) for p in phrases if (at := text.find(p)) >= 0)
    signal = Signal("hard_refusal_lexicon", "hard_refusal", 0.9, "en.rather-not", "declines in words", spans)
    trace = Trace(ask=Ask(prompt="Please do that"), choices=(Choice(text=text),))
    verdict = Verdict(label, "complete", 0.93, signals=(signal,) if spans else ())  # type: ignore[arg-type]
    return Judged(Item(text, id, id), trace, verdict)


def drawn(one: Judged, *, width: int = 60, colour: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=colour, color_system="standard" if colour else None)
    show_one(console, one)
    return out.getvalue()


def test_without_colour_a_line_of_carets_marks_the_evidence() -> None:
    lines = drawn(judged(TEXT, PHRASE), width=100).splitlines()
    at = next(index for index, line in enumerate(lines) if PHRASE in line)
    assert lines[at + 1] == " " * lines[at].index(PHRASE) + "^" * len(PHRASE)


def test_evidence_over_a_line_break_is_marked_on_both_lines() -> None:
    lines = drawn(judged(TEXT, PHRASE), width=34).splitlines()
    marked = [(above, marks) for above, marks in itertools.pairwise(lines) if set(marks) == {" ", "^"}]
    assert len(marked) == 2
    words = " ".join(above[marks.index("^") : len(marks)].strip() for above, marks in marked)
    assert words == PHRASE


def test_carets_stand_under_wide_characters() -> None:
    lines = drawn(judged("好的。我不能。", "我不能")).splitlines()
    assert f"  {' ' * 6}{'^' * 6}" in lines


def test_with_colour_the_evidence_is_underlined() -> None:
    out = drawn(judged(TEXT, PHRASE), width=100, colour=True)
    assert f"\x1b[1;4m{PHRASE}\x1b[0m" in out
    assert "^^^" not in out


def test_a_long_text_is_cut_down_to_what_surrounds_its_evidence() -> None:
    text = "Filler. " * 400 + PHRASE + " Filler." * 400
    start = text.index(PHRASE)
    shown = marked(text, [(start, start + len(PHRASE))])
    assert shown.plain.startswith("[…] ")
    assert shown.plain.endswith(" […]")
    assert len(shown) < WHOLE_TEXT
    assert [shown.plain[span.start : span.end] for span in shown.spans] == [PHRASE]


def test_a_long_text_without_evidence_shows_its_beginning() -> None:
    shown = marked("Filler. " * 400, [])
    assert shown.plain.startswith("Filler.")
    assert len(shown) < WHOLE_TEXT


def test_spans_that_do_not_fit_the_text_are_left_out() -> None:
    assert marked("short", [(3, 99), (-1, 2), (2, 2)]).spans == []


@pytest.mark.parametrize("evil", ["\x1b[2J", "\x9b31m", "\u202e", "\x07", "\r"])
def test_what_a_model_wrote_cannot_play_with_the_terminal(evil: str) -> None:
    one = judged(f"{evil}{TEXT}", PHRASE, id=f"id{evil}")
    out = drawn(one, width=100)
    assert evil not in out
    lines = out.splitlines()
    at = next(index for index, line in enumerate(lines) if PHRASE in line)
    assert lines[at + 1].strip() == "^" * len(PHRASE)


def test_markup_in_a_text_is_text() -> None:
    assert "[bold]x[/bold] :smile:" in drawn(judged("[bold]x[/bold] :smile:"))


def test_a_signal_from_a_structured_fact_names_the_field() -> None:
    signal = Signal(
        "content_filter", "hard_refusal", 1.0, "structure.block", "the provider blocked it", (), "finish_reason"
    )
    trace = Trace(choices=(Choice(finish_reason="content_filter"),))
    one = Judged(Item({}, "x", "x"), trace, Verdict("hard_refusal", "complete", 1.0, signals=(signal,)))
    assert "[finish_reason]" in drawn(one)


def test_every_choice_is_shown() -> None:
    first, second = judged(TEXT, PHRASE).verdict, judged("A plain answer.", label="answer").verdict
    trace = Trace(choices=(Choice(0, TEXT), Choice(1, "A plain answer.")))
    top = Verdict("hard_refusal", "complete", 0.93, choices=(first, second))
    out = drawn(Judged(Item({}, "x", "x"), trace, top), width=100)
    assert PHRASE in out
    assert "A plain answer." in out


def test_several_traces_end_in_a_table_with_counts(capsys: pytest.CaptureFixture[str]) -> None:
    unjudged = Judged(Item(None, "f:3", "f:3"), Trace(), Verdict(None, "unparsed", reason="no JSON"))
    show([judged(TEXT, PHRASE, id="a"), judged("Fine.", id="b", label="answer"), unjudged])
    out = capsys.readouterr().out
    assert PHRASE in out
    rows = [line.split() for line in out.splitlines()]
    assert ["a", "hard_refusal", "0.93", "complete", "hard_refusal_lexicon"] in rows
    assert ["b", "answer", "0.93", "complete"] in rows
    assert ["f:3", "-", "unparsed", "no", "JSON"] in rows
    assert "1 of 2 judged are flagged (1 hard_refusal); 1 not judged (1 unparsed)" in out


def table_of(results: list[Judged], width: int, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> list[str]:
    """The lines of the table below so many traces."""
    monkeypatch.setenv("COLUMNS", str(width))
    show(results * (DETAILED + 1))
    lines: list[str] = capsys.readouterr().out.splitlines()
    return lines[: lines.index("")]


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("width", [60, 72, 80, 100, 140])
def test_no_line_of_the_table_begins_with_a_comma_ends_in_a_blank_or_is_too_long(
    width: int, asked: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("hard_refusal_lexicon", "delivery", "learned_wording")
    signals = tuple(Signal(name, "hard_refusal", 0.9, "en.a", "why") for name in names)
    review = Review("m", "coded", "hard_refusal", "why", "answer", 0.6) if asked else None
    verdict = Verdict(
        "hard_refusal", "complete", 0.93, rationale="capacity", strategy="implicit", signals=signals, review=review
    )
    one = Judged(Item({}, "traces.jsonl:1", "traces.jsonl:1"), Trace(), verdict)
    lines = table_of([one], width, monkeypatch, capsys)
    assert max(map(cell_len, lines)) <= width
    assert not [line for line in lines if line.endswith(" ") or {" ,", " , "} & {line[-2:], line[-3:]}]
    assert not any(word.startswith(",") for line in lines for word in line.split())
    if width >= 80:
        assert any(line.endswith("hard_refusal_lexicon,") or "hard_refusal_lexicon, del" in line for line in lines)


def test_the_table_has_how_it_says_no_where_any_row_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = judged("Fine.", id="b", label="answer")
    coded = judged(TEXT, PHRASE, id="a")
    coded = replace(coded, verdict=replace(coded.verdict, rationale="bare", strategy="implicit"))
    lines = table_of([coded, plain], 80, monkeypatch, capsys)
    assert lines[0].split() == ["id", "label", "conf", "status", "how", "signals"]
    assert lines[1].split() == ["a", "hard_refusal", "0.93", "complete", "bare", "implicit", "hard_refusal_lexicon"]
    assert table_of([plain], 80, monkeypatch, capsys)[0].split() == ["id", "label", "conf", "status", "signals"]


def test_no_line_ends_in_a_blank(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    show([judged(TEXT, PHRASE, id=f"id{n}", label=("answer", "hard_refusal", "shaped")[n]) for n in range(3)])
    lines = capsys.readouterr().out.splitlines()
    assert any("3 judged are flagged" in line for line in lines)
    assert not [line for line in lines if line.endswith(" ")]


def test_many_traces_are_a_table_only(capsys: pytest.CaptureFixture[str]) -> None:
    show([judged(TEXT, PHRASE, id=f"id{n}") for n in range(DETAILED + 1)])
    out = capsys.readouterr().out
    assert PHRASE not in out
    assert all(f"id{n}" in out for n in range(DETAILED + 1))


def test_a_long_text_is_cut_between_words() -> None:
    text = "fillingwords " * 200 + PHRASE + " fillingwords" * 200
    start = text.index(PHRASE)
    words = set(marked(text, [(start, start + len(PHRASE))]).plain.split())
    assert words == {"fillingwords", "[…]", *PHRASE.split()}


def test_signals_are_one_line_each_in_columns() -> None:
    signals = tuple(
        Signal("hard_refusal_lexicon", "hard_refusal", weight, rule, "declines in words", (Span(0, 2, TEXT[:2]),))
        for rule, weight in (("en.a", 0.9), ("en.longer", 0.55))
    )
    trace = Trace(choices=(Choice(text=TEXT),))
    one = Judged(Item(TEXT, "x", "x"), trace, Verdict("hard_refusal", "complete", 0.9, signals=signals))
    assert drawn(one, width=100).splitlines()[-3:-1] == [
        "  en.a       hard_refusal_lexicon  0.90  declines in words",
        "  en.longer  hard_refusal_lexicon  0.55  declines in words",
    ]


def test_evidence_in_the_refusal_field_is_quoted_behind_its_reason() -> None:
    signal = Signal(
        "refusal_field", "hard_refusal", 1.0, "structure.refusal", "declined", (Span(0, 4, "Nope"),), "refusal"
    )
    trace = Trace(choices=(Choice(text="Shown.", refusal="Nope"),))
    one = Judged(Item({}, "x", "x"), trace, Verdict("hard_refusal", "complete", 1.0, signals=(signal,)))
    assert "declined [refusal] “Nope”" in drawn(one, width=100)


def explained(*hits: tuple[str, str | None], text: str = TEXT) -> str:
    """What `--explain` shows of hits on these phrases, each with why it did not count."""
    found = tuple(
        Hit(f"en.{phrase.split()[0]}", "a_signal", 0.5, "fits", Span(at, at + len(phrase), phrase), why_not)
        for phrase, why_not in hits
        for at in [text.index(phrase)]
    )
    out = io.StringIO()
    verdict = Verdict("hard_refusal", "complete", 0.9)
    show_explanation(Console(file=out, width=100), ChoiceExplanation(verdict, found, {}), text)
    return out.getvalue()


def test_words_that_several_rules_matched_are_shown_once() -> None:
    assert explained(("I'd rather not", None), ("rather not do that", "quoted"), ("weather", None)).splitlines() == [
        "  “I'd rather not do that”",
        "    fired       en.I'd     a_signal  0.50  fits",
        "    suppressed  en.rather  a_signal  0.50  quoted",
        "  “weather”",
        "    fired       en.weather  a_signal  0.50  fits",
        "",
    ]


def test_what_would_be_told_twice_in_the_same_words_is_told_once() -> None:
    text = "Sorry, sorry. Sorry, again. Sorry, sorry."
    spans = [(0, 5), (0, 12), (0, 12), (28, 33), (28, 40)]
    found = tuple(Hit("en.sorry", "a_signal", 0.5, "fits", Span(a, b, text[a:b]), None) for a, b in spans)
    out = io.StringIO()
    verdict = Verdict("hard_refusal", "complete", 0.9)
    show_explanation(Console(file=out, width=100), ChoiceExplanation(verdict, found, {}), text)
    assert out.getvalue().splitlines() == ["  “Sorry, sorry”", "    fired       en.sorry  a_signal  0.50  fits", ""]


def test_the_words_of_a_code_are_told_once() -> None:
    code = Code("feature", "apology", "en.act.regret", "sorry", tuple(Span(n, n + 1, "sorry") for n in range(3)))
    one = judged()
    out = drawn(replace(one, verdict=replace(one.verdict, codes=(code,))))
    assert "feature  apology  “sorry”\n" in out


def test_what_decided_comes_first_then_what_is_missing_then_the_numbers_with_their_meaning() -> None:
    missing = Hit("delivery.steps-missing", "topic_narrowing", 0.9, "no steps", Span(0, len(TEXT), TEXT), None)
    hit = Hit("en.w", "a_signal", 0.5, "fits", Span(51, 58, "weather"), None)
    verdict = Verdict("answer", "complete", 0.9)
    choice = ChoiceExplanation(verdict, (missing, hit), {"bias": -2.5}, "row 3: because", {"bias": "the start"})
    out = io.StringIO()
    show_explanation(Console(file=out, width=100), choice, TEXT)
    assert out.getvalue().splitlines() == [
        "  decided by: row 3: because",
        "  fired       delivery.steps-missing  topic_narrowing  0.90  no steps",
        "  “weather”",
        "    fired       en.w  a_signal  0.50  fits",
        "  log odds of a refusal -2.50, the sum of",
        "    -2.50  bias  the start",
        "",
    ]


def test_a_cut_word_is_shown_whole() -> None:
    assert explained(("rath", None), ("eath", None)).splitlines()[::2] == ["  “rather”", "  “weather”", ""]


def test_scripts_without_spaces_are_not_extended() -> None:
    assert explained(("我不能", None), text="好的我不能幫你").startswith("  “我不能”\n")


def test_long_evidence_is_cut_between_words() -> None:
    shown = explained(("fillingwords " * 40, None), text="fillingwords " * 40).splitlines()
    assert set(" ".join(shown[:3]).replace("“", "").replace("”", "").split()) <= {"fillingwords", "…"}
