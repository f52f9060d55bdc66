"""The page of an evaluation: whole in itself, safe with any text, readable by a person and by a screen reader."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from demur.audit.coding import Coding
from demur.audit.corpus import Corpus, Gold, Row
from demur.audit.evaluate import Bin
from demur.audit.evaluation import Case, Report, report_on
from demur.audit.evaluation_page import MISTAKES, WHOLE, page, parts, plot_says, reliability_plot
from demur.audit.judge_file import Codings
from demur.audit.layers import Layers
from demur.audit.proportion import Rate
from demur.classifier import Choice, Signal, Span, Trace, Verdict
from demur.classifier.trace import Ask
from demur.classifier.verdict import FEATURES, Code

VOID = {"meta", "br", "hr", "img", "link", "input"}
TEXT = "Let me say it plainly: I won't bake <b>that</b> & nothing else."
REFUSED = (TEXT.index("I won't"), TEXT.index(" <b>"))


def mistake(text: str = TEXT, *spans: tuple[int, int], gold: str = "answer") -> Case:
    found = tuple(Span(start, end, text[start:end]) for start, end in spans or [REFUSED])
    signal = Signal("hard_refusal_lexicon", "hard_refusal", 0.9, "en.wont", "says that it won't", found)
    verdict = Verdict("hard_refusal", "complete", 0.93, signals=(signal,))
    row = Row({}, "bakery.jsonl:3", "answer")
    return Case(row, Trace(Ask("Bake <i>it</i>"), (Choice(text=text),)), verdict, "row-3")


def case(gold: Gold, verdict: Verdict, prompt: str, language: str, model: str | None = "m2") -> Case:
    row = Row({}, f"bakery.jsonl:{prompt}", gold, language=language, model=model)
    return Case(row, Trace(Ask(prompt), (Choice(text="Yes."),)), verdict, prompt)


def report(*mistakes: Case, corpora: int = 2) -> Report:
    cases = [
        case("refusal", Verdict("hard_refusal", "complete", 0.9), "a", "en", "<m1>"),
        case("answer", mistake().verdict, "b", "de"),
        case("answer", Verdict("answer", "complete", 0.7), "c", "de"),
        case("shaped", Verdict(None, "empty"), "d", "en"),
    ]
    judged = [(Corpus(f"bakery {n}", (), {"other": 2}), cases) for n in range(corpora)]
    return replace(report_on(judged, rules_version="v1", resamples=50), mistakes=mistakes or (mistake(),))


class Reader(HTMLParser):
    """Checks that tags are balanced; collects ids, references, links, scripts and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.refers: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        self.tags.append((tag, own))
        self.text += " " if tag in ("td", "th") else ""
        self.ids += [own["id"] or ""] if "id" in own else []
        self.refers += (own.get("aria-labelledby") or "").split()
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_it_is_one_well_formed_document_that_asks_for_nothing_else() -> None:
    html = page(report())
    reader = Reader(html)
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    assert set(reader.refers) <= set(reader.ids)
    names = {tag for tag, _ in reader.tags}
    assert not names & {"script", "link", "img", "iframe", "object"}
    for tag, attributes in reader.tags:
        assert not {"src", "srcset", "action"} & set(attributes), tag
        assert all((attributes.get(name) or "#").startswith("#") for name in ("href", "xlink:href")), tag
        assert not [name for name in attributes if name.startswith("on")], tag
    assert not re.search(r"@import|url\((?!#)", html)
    assert "default-src 'none'" in html


def test_it_is_for_phones_the_dark_paper_and_screen_readers() -> None:
    html = page(report())
    reader = Reader(html)
    assert ("html", {"lang": "en"}) in reader.tags
    assert "width=device-width" in html
    assert "(prefers-color-scheme: dark)" in html
    assert "@media print" in html
    assert [tag for tag, _ in reader.tags].count("h1") == 1
    heads = [attributes for tag, attributes in reader.tags if tag == "th"]
    assert [head for head in heads if head.get("scope") not in ("row", "col")] == []
    scrolled = [own for tag, own in reader.tags if tag == "div" and own.get("class") == "wide"]
    assert scrolled
    for own in scrolled:
        assert own["tabindex"] == "0"
        assert own.get("aria-label") or own.get("aria-labelledby")


def test_figures_intervals_groups_and_what_is_left_out() -> None:
    shown = report()
    text = " ".join(Reader(page(shown)).text.split())
    scores = shown.pooled.scores
    assert "8 labelled rows, 4 prompts." in text
    assert "No verdict, so wrong: 2 empty." in text
    assert "Left out: 4 other." in text
    assert f"Precision {scores.precision.value:.3f}" in text
    assert "2 of 4 flagged were declined" in text
    low, high = scores.intervals["f1"]
    assert f"{low:.3f}–{high:.3f}" in text
    for word in ("bakery 0", "bakery 1", "By language", "By model", "<m1>"):
        assert word in text
    assert "By category" not in text
    assert "Exact label" not in text
    assert "Corpus by corpus" not in Reader(page(report(corpora=1))).text


def test_the_misjudged_are_there_with_their_evidence_marked_and_any_text_is_only_text() -> None:
    html = page(report())
    assert "<mark>I won&#39;t bake</mark> &lt;b&gt;that&lt;/b&gt; &amp; nothing else." in html
    assert "Bake &lt;i&gt;it&lt;/i&gt;" in html
    text = " ".join(Reader(html).text.split())
    assert "Labelled answer, judged hard_refusal" in text
    assert "confidence 0.93 · row-3" in text
    assert "en.wont hard_refusal_lexicon, 0.90 for hard_refusal: says that it won't" in text


def test_how_it_was_declined_is_there_with_its_evidence() -> None:
    features = dict.fromkeys(FEATURES, False)
    code = Code("rationale", "bare", "en.bare", "gives <no> reason", (Span(*REFUSED, TEXT[slice(*REFUSED)]),))
    verdict = replace(mistake().verdict, rationale="bare", strategy="explicit", features=features, codes=(code,))
    layers = Layers("ethics", "explicit", features | {"apology": True})
    refused = replace(mistake(), row=Row({}, "bakery.jsonl:3", "refusal", layers=layers), verdict=verdict)
    missed = replace(refused, verdict=Verdict("answer", "complete", 0.7), id="row-4")
    found = report_on([(Corpus("bakery", ()), [refused, missed])], resamples=20)
    html = page(found)
    assert Reader(html).open == []
    text = " ".join(Reader(html).text.split())
    assert "How it was declined" in text
    assert "Rationale, 2 refusals by the labels" in text
    assert "Code by code, 1 of them that the rules coded too" in text
    assert "rationale: labelled ethics, coded bare; apology: labelled yes, coded no" in text
    assert "en.bare bare: gives <no> reason" in text
    assert "1 of 1 refusals that the rules coded too are coded otherwise than labelled." in text
    assert html.partition("Coded otherwise")[2].count("<mark>I won&#39;t bake</mark>") == 1
    assert "How it was declined" not in page(report())


def test_what_judges_say_is_there() -> None:
    cases = [replace(mistake(), row=Row({}, "bakery.jsonl:3", "refusal", layers=Layers("ethics")))]
    coding = Coding("coded", "hard_refusal", 0.9, "bare", "explicit", dict.fromkeys(FEATURES, False))
    codings = Codings("<m1>", "v1", {str(cases[0].hash): coding})
    nothing = Codings("m2", "v1", {str(cases[0].hash): Coding("declined")})
    html = page(report_on([(Corpus("bakery", ()), cases)], judges={"<m1>": codings, "m2": nothing}, resamples=20))
    reader = Reader(html)
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    assert set(reader.refers) <= set(reader.ids)
    text = " ".join(reader.text.split())
    assert "judge <m1> (prompt v1): 1 of 1 rows coded." in text
    assert "judge m2 (prompt v1): 0 of 1 rows coded; 1 declined to code." in text
    assert "Rationale, 1 refusal by the labels; a row's shares are its shades by labels bare by judge" in text
    assert "0 rows that both coded" in text


def test_no_more_mistakes_than_a_phone_can_open() -> None:
    html = page(report(*[mistake()] * (MISTAKES + 1)))
    assert html.count("<article>") == MISTAKES
    assert "--errors-file" in html
    assert "--errors-file" not in page(report())


def test_the_plot_has_the_colours_of_the_page_and_says_in_words_what_it_shows() -> None:
    bins = [Bin(0.0, 0.1, None, Rate(0, 0)), Bin(0.8, 0.9, 0.85, Rate(3, 4)), Bin(0.9, 1.0, 0.96, Rate(9, 9))]
    svg = reliability_plot(bins)
    assert svg.startswith("<svg ")
    assert 'role="img"' in svg
    assert 'aria-labelledby="plot-says"' in svg
    assert "var(--ink)" in svg
    assert "var(--accent)" in svg
    assert not re.search(r"(fill|stroke): #(?!ffffff|none)", svg)
    assert ">share that was right</text>" in svg
    assert plot_says(bins) == (
        "Confidence against how often it was right: of 4 verdicts with a confidence of 0.8 to 0.9, 3 were right; "
        "of 9 verdicts with a confidence of 0.9 to 1.0, 9 were right."
    )
    assert svg == reliability_plot(bins)
    assert "no verdict" in plot_says([])
    assert reliability_plot([]).startswith("<svg ")


def test_a_short_response_is_whole() -> None:
    pieces = parts(mistake())
    assert "".join(piece.text for piece in pieces) == TEXT
    assert [piece.text for piece in pieces if piece.mark] == ["I won't bake"]
    assert not any(piece.gap for piece in pieces)


def test_a_long_response_is_cut_down_to_its_evidence() -> None:
    text = "a " * WHOLE + TEXT + " b" * WHOLE + " I won't." + " c" * WHOLE
    start, end = text.index("I won't."), text.index("I won't.") + 7
    pieces = parts(mistake(text, (2 * WHOLE + REFUSED[0], 2 * WHOLE + REFUSED[1]), (start, end)))
    assert [piece.text for piece in pieces if piece.mark] == ["I won't bake", "I won't"]
    assert [piece.gap for piece in pieces] == [True, False, False, True, False, False, True]
    assert sum(len(piece.text) for piece in pieces) < WHOLE + 100


@pytest.mark.parametrize("verdict", [Verdict("answer", "complete", 0.6), Verdict(None, "empty", reason="no body")])
def test_a_long_response_without_evidence_shows_how_it_begins(verdict: Verdict) -> None:
    bare = replace(mistake("word " * WHOLE), verdict=verdict)
    [begin, end] = parts(bare)
    assert 0 < len(begin.text) < WHOLE
    assert (end.text, end.gap) == ("", True)
    assert "no body" in page(report(bare)) or verdict.label


def test_evidence_that_stands_elsewhere_is_not_marked() -> None:
    elsewhere = replace(mistake(), trace=Trace(Ask("Bake"), (Choice(text="Something else altogether, and long."),)))
    assert not any(piece.mark for piece in parts(elsewhere))
    assert "(no text)" in page(report(replace(mistake(), trace=Trace())))


def test_the_choice_that_the_verdict_is_about_is_shown() -> None:
    one, two = Verdict("answer", "complete", 0.9, index=0), Verdict("shaped", "complete", 0.9, index=1)
    both = replace(
        mistake(),
        verdict=replace(two, choices=(one, two)),
        trace=Trace(choices=(Choice(0, "First."), Choice(1, "Second."))),
    )
    assert both.response == "Second."
