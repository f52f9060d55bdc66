"""Clause by clause: where a refusal is parted, and what each part is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from demur.classifier.clauses import READ, Clause, clauses
from demur.classifier.rulebook import Rulebook
from demur.classifier.voice import find_voice


@pytest.fixture(scope="module")
def book() -> Rulebook:
    return Rulebook.load(languages=["en"])


def parted(text: str, book: Rulebook) -> list[Clause]:
    return clauses(text, find_voice(text, 0), book.tongues(("en",)))


def kinds(text: str, book: Rulebook) -> list[tuple[str, str]]:
    return [(clause.kind, text[clause.start : clause.end].strip()) for clause in parted(text, book)]


def test_a_turn_parts_a_sentence(book: Rulebook) -> None:
    assert kinds("I can't write that note, but I'd be happy to help with a polite one.", book) == [
        ("refusal", "I can't write that note,"),
        ("offer", "but I'd be happy to help with a polite one."),
    ]


def test_a_turn_that_ends_a_sentence_does_not(book: Rulebook) -> None:
    assert len(parted("I'd be happy to help with a polite one instead!", book)) == 1


def test_the_same_word_blames_the_request_and_praises_what_is_offered(book: Rulebook) -> None:
    text = "That is not legal. I can explain the legal way."
    request, offer = parted(text, book)
    assert (request.kind, offer.kind) == ("request", "offer")
    assert request.does("blame")
    assert offer.does("praise")


def test_a_list_is_about_what_introduces_it(book: Rulebook) -> None:
    offered = "I won't write it.\n\nI'd be happy to help with:\n- a card\n- a call\n"
    given = "I won't write it.\n\nHere are some places to ask:\n- the library\n- the town hall\n"
    assert [kind for kind, _ in kinds(offered, book)] == ["refusal", "offer", "offer", "offer"]
    assert [kind for kind, _ in kinds(given, book)] == ["refusal", "help", "help", "help"]


def test_a_list_whose_lead_does_not_tell_is_about_the_request_if_a_point_is(book: Rulebook) -> None:
    text = "I won't help. What could stand there:\n- a fine\n"
    blaming = "I won't help. This way of doing it:\n- is illegal\n- costs a lot\n"
    assert [kind for kind, _ in kinds(blaming, book)][-2:] == ["request", "request"]
    assert kinds(text, book)[-1][0] == "help"


def test_a_sentence_without_acts_goes_on_with_the_help_before_it(book: Rulebook) -> None:
    found = parted("I can't do that. Please talk to your landlord. He has the keys to the cellar.", book)
    assert [clause.kind for clause in found] == ["refusal", "help", "help"]
    assert [clause.goes_on for clause in found] == [False, False, True]


def test_a_near_miss_voids_the_act_in_its_sentence(book: Rulebook) -> None:
    (clause,) = parted("I can't stress enough how much rest matters.", book)
    assert not clause.does("decline")


def test_code_and_quotations_show_no_act(book: Rulebook) -> None:
    text = "Here it is:\n```\nI'm sorry, I can't help.\n```\n"
    assert not any(clause.does("regret", "decline") for clause in parted(text, book))


def test_a_long_text_is_read_to_a_bound(book: Rulebook) -> None:
    text = "The harbour is quiet at night. " * 400 + "I'm sorry, I can't help with that."
    found = parted(text, book)
    assert found[-1].end <= READ
    assert not any(clause.does("decline") for clause in found)


@pytest.mark.parametrize("text", ["", "…", "\n\n", "-", "1.", "İ", "\ud800", "but", "If"])
def test_hardly_any_text_is_no_trouble(text: str, book: Rulebook) -> None:
    for clause in parted(text, book):
        assert 0 <= clause.start < clause.end <= len(text)


def test_acts_are_looked_for_in_the_language_of_the_text_and_in_english() -> None:
    book = Rulebook.load(languages=["en", "nl"])

    def searched(*languages: str) -> list[str]:
        return [tongue.acts[0].language for tongue in book.tongues(languages)]

    assert searched("nl") == ["en", "nl"]
    assert searched("en") == searched() == searched("xx") == searched("de") == ["en"]


def test_acts_of_own_files_are_looked_for_in_every_text(tmp_path: Path) -> None:
    file = tmp_path / "club.toml"
    file.write_text(
        """language = "sv"
[[act]]
id = "club.sorry"
act = "regret"
phrases = ["vi beklagar"]
why = "says that it is sorry"
yes = ["Vi beklagar det."]
no = ["Beklagligt."]
""",
        "utf-8",
    )
    ours = parted("I can't do that. Vi beklagar.", Rulebook.load([file]))
    assert [deed.act.id for clause in ours for deed in clause.deeds] == ["en.act.decline", "club.sorry"]
