"""What is read of an ask."""

from __future__ import annotations

import pytest

from demur.classifier.wanted import Wanted


@pytest.mark.parametrize(
    ("ask", "ordered"),
    [
        ("Write a mail that turns down an offer.", True),
        ("Compose two lines of a poem about rain", True),
        ("Translate into English: 'No puedo.'", True),
        ("What should I reply to her?", True),
        ("How do I write faster?", False),
        ("Tell me my neighbour's salary.", False),
    ],
)
def test_texts_that_are_ordered(ask: str, ordered: bool) -> None:
    assert Wanted(ask, "").content is ordered


@pytest.mark.parametrize(
    ("ask", "about"),
    [
        ("Are you human?", True),
        ("Do you ever dream?", True),
        ("What can you do?", True),
        ("Describe yourself.", True),
        ("Are you free?", False),
    ],
)
def test_asks_about_the_model(ask: str, about: bool) -> None:
    assert Wanted(ask, "").about_model is about


@pytest.mark.parametrize(
    ("ask", "may"),
    [
        ("Is it hers?", True),
        ("Say no.", True),
        ("Write it down.", False),
        ("Could you list them?", False),
        ("How do I open it?", False),
        ("What is the opposite of always?", True),
        ("How about tea?", True),
        ("Why not?", True),
    ],
)
def test_whether_a_no_can_answer(ask: str, may: bool) -> None:
    assert Wanted(ask, "").no_answers() is may


@pytest.mark.parametrize(
    ("ask", "source"),
    [
        ("Shorten this: 'The tram stopped because of snow.'", "the tram stopped because of snow."),
        (
            "Shorten this: the tram stopped because snow covered all the rails between the mill and the harbour",
            "the tram stopped because snow",
        ),
        ("Shorten my list.", ""),
        ("Rewrite this: the tram stopped because snow covered all the rails between the mill and the harbour", ""),
        ("Translate: 'The tram stopped because of snow.'", ""),
    ],
)
def test_the_text_to_work_on(ask: str, source: str) -> None:
    found = Wanted(ask, "").source
    assert found.startswith(source) if source else not found


@pytest.mark.parametrize(
    ("ask", "code", "letter", "several"),
    [
        ("Write a function that sorts names.", True, False, False),
        ("Give me a script in Python to move files.", True, False, False),
        ("Create a plan for a function room.", False, False, False),
        ("Write a film script.", False, False, False),
        ("Draft a letter to him and to her.", False, True, True),
    ],
)
def test_kinds_of_things(ask: str, code: bool, letter: bool, several: bool) -> None:
    wanted = Wanted(ask, "")
    assert (wanted.code(), wanted.letter(), wanted.several()) == (code, letter, several)


@pytest.mark.parametrize(
    ("ask", "judges"),
    [
        ("Is it legal to park here?", True),
        ("Should I mix the two?", True),
        ("I quit my job. Was that a bad idea?", True),
        ("I left early. Am I wrong?", True),
        ("What are the main risks of skydiving?", True),
        ("What happens if I stop paying?", True),
        ("How can I report a scam?", True),
        ("Why is lying to friends wrong?", True),
        ("How legal departments work", False),
        ("How can I steal a scam script?", False),
        ("Tell me about Kent.", False),
    ],
)
def test_asks_for_a_judgement(ask: str, judges: bool) -> None:
    assert Wanted(ask, "").judges is judges


@pytest.mark.parametrize(
    ("ask", "things"),
    [
        ("Should we meet on Monday or on Friday?", ("monday", "friday")),
        ("Which is better, Crumb or Loaf?", ("crumb", "loaf")),
        ("Is it right or wrong to choose?", None),
        ("Should I go or not?", None),
        ("Name a river.", None),
    ],
)
def test_a_choice_of_two(ask: str, things: tuple[str, str] | None) -> None:
    assert Wanted(ask, "").either() == things


@pytest.mark.parametrize(
    ("ask", "a_no"),
    [
        ("What does the scrivener say?", True),
        ("What did the robot reply when asked to open?", True),
        ("What do farmers say about the law?", False),
        ("How can I politely decline?", True),
    ],
)
def test_where_a_no_is_what_is_wanted(ask: str, a_no: bool) -> None:
    assert Wanted(ask, "").a_no is a_no


def test_the_language_that_is_asked_for() -> None:
    assert Wanted("Translate the sign into Polish.", "").into() == "polish"
    assert Wanted("Translate the sign into English.", "").into() == ""


def test_a_quotation_far_from_the_order_is_not_the_text_to_work_on() -> None:
    ask = "He said 'the tram stopped because of snow'. " + "And so on. " * 30 + "Now summarize chapter two."
    assert not Wanted(ask, "").source
