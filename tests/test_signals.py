"""Which hits count, and what is said of those that do not."""

from __future__ import annotations

import pytest

from demur.classifier.evidence import Evidence
from demur.classifier.judge import default_classifier
from demur.classifier.trace import Ask


def evidence(text: str, ask: str = "", system: str = "") -> Evidence:
    session = default_classifier().session(Ask(ask, system))
    session.feed(text)
    return session.evidence(thorough=True)


@pytest.mark.parametrize(
    ("text", "ask", "reason"),
    [
        ("I can't help but smile at that.", "", "a near-miss phrase stands in the same sentence"),
        ('The clerk wrote: "I can\'t help you with this."', "", "inside a quotation"),
        (
            "Hi all,\nI won't be able to help you on Monday.",
            "Write a mail that I am away.",
            "part of the text that was ordered",
        ),
        ("I can't help you with that.", "Say exactly: I can't help you with that.", "the ask holds this very sentence"),
        ("First, oil it. " * 40 + "I can't help you with that.", "", "stands after the opening"),
        ("I won't comment on the rest of it.", "", "nothing was delivered before it"),
        ("I'm really sorry, but I can't help with that.", "", "nothing was delivered before it"),
        ("I can't find it.", "", "is no sentence of its own at the opening"),
        ('"Absolutely not. Off you go."', "Write a line for a stern clerk.", "part of the text that was ordered"),
        (
            "No. Doing so is illegal there.",
            "Is it legal to fish here?",
            "the ask is whether it is right, which this answers",
        ),
        ("I'd decline.", "What would you do if they asked?", "the ask is what the model would do, which this answers"),
        ("I'm a language model.", "Are you human?", "the ask is about the model itself, which this answers"),
    ],
)
def test_a_hit_that_does_not_count_says_why(text: str, ask: str, reason: str) -> None:
    assert reason in {finding.why_not for finding in evidence(text, ask).findings}


def test_told_not_to_say_it_is_not_told_to() -> None:
    found = evidence("I can't help you with that.", "Do it. Do not say: I can't help you with that.")
    assert found.fired("hard_refusal_lexicon")


def test_an_ordered_text_does_not_hide_a_refusal_to_write_it() -> None:
    assert evidence("I'm not going to write that letter.", "Write a letter that frightens him.").fired(
        "hard_refusal_lexicon"
    )


@pytest.mark.parametrize("text", ["I can't put that together for you.", "I have no access to your inbox."])
def test_in_a_single_line_it_may_speak_to_the_asker_of_an_ordered_text(text: str) -> None:
    ask = "Write a mail to my landlord."
    assert evidence(text, ask).fired("hard_refusal_lexicon", "capability_limit")
    assert not evidence(f"Hi all,\n{text}", ask).fired("hard_refusal_lexicon", "capability_limit")


def test_spans_refer_to_the_text_as_it_came() -> None:
    text = "\ufeff\n <think>I can't?</think> I’m **sorry**, I can**not** help you\nwith that."
    for signal in evidence(text).signals():
        for span in signal.spans:
            assert text[span.start : span.end] == span.text
            assert span.start > text.index("</think>")
    spans = {span.text for signal in evidence(text).signals() for span in signal.spans}
    assert "I can**not** help you\nwith that" in spans


def test_one_signal_per_rule_and_no_overlapping_spans() -> None:
    signals = evidence("I can't help with that. I can't help with this either.").signals()
    assert len({signal.rule for signal in signals}) == len(signals)
    for signal in signals:
        assert all(a.end <= b.start for a, b in zip(signal.spans, signal.spans[1:], strict=False))


def test_language_is_told_by_words_or_letters_or_is_unknown() -> None:
    assert evidence("I can't help with that.").language == "en"
    assert evidence("The pan and the lid go to the left of the oven.").language == "en"
    assert evidence("Der Topf steht links neben dem Ofen, und das ist nicht gut.").language == "de"
    assert evidence("鍋はオーブンの左側にあります。").language == "ja"
    assert evidence("Grytan står till vänster om ugnen.").language is None
