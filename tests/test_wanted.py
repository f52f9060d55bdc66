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
    [("Is it hers?", True), ("Say no.", True), ("Write it down.", False), ("Could you list them?", False)],
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
