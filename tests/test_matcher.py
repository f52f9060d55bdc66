from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.classifier.fold import plain
from demur.classifier.lexicon import Rule, read_lexicon
from demur.classifier.matcher import HEAD, OFTEN, Matcher


def rule(*phrases: str, unless: str = "", where: str = "anywhere") -> Rule:
    lexicon = read_lexicon(
        f"""
        language = "en"
        [[rule]]
        id = "t.rule"
        signal = "admonition"
        weight = 0.5
        where = "{where}"
        phrases = {list(phrases)!r}
        {f'unless = ["{unless}"]' if unless else ""}
        why = "test"
        yes = ["x"]
        no = ["y"]
        """,
        "t.toml",
    )
    (made,) = lexicon.rules
    return made


def found(text: str, *phrases: str, cuts: tuple[int, ...] = ()) -> list[str]:
    scan = Matcher([rule(*phrases)]).scan()
    places = [0, *sorted(cuts), len(text)]
    for start, end in pairwise(places):
        scan.run(text[start:end])
    cleaned = plain(text)
    return [cleaned[start:end] for _, start, end in scan.hits()]


def test_words_begin_and_end_where_the_phrase_does() -> None:
    assert found("I can help. Scan helpers can helpless.", "can help") == ["can help"]
    assert found("I can't.", "i can") == []
    assert found("the word 'can' here", "word 'can'") == ["word 'can'"]


def test_an_open_end_takes_the_beginning_of_a_word() -> None:
    assert found("It refused, refuses, and unrefusable.", "refus~") == ["refus", "refus"]


@pytest.mark.parametrize("text", ["我不能帮忙。", "できません", "도와드릴 수 없습니다"])
def test_scripts_without_spaces_have_no_word_edges(text: str) -> None:
    assert found(f"啊{text}啊", text) == [text]


@pytest.mark.parametrize(
    ("text", "hit"),
    [
        ("I cannot that", True),
        ("I cannot really do that", True),
        ("I cannot really ever do that", False),
        ("I cannot. Do that", False),
        ("I cannot do thatch", False),
    ],
)
def test_a_gap_is_bounded_by_words_and_by_the_sentence(text: str, hit: bool) -> None:
    assert bool(found(text, "i cannot <0-2> that")) is hit


def test_phrases_cross_line_breaks_and_emphasis() -> None:
    assert found("I can**not**\nhelp", "i cannot help") == ["i cannot help"]


@given(st.lists(st.integers(0, 60), max_size=12))
def test_any_cut_gives_the_same_hits(cuts: list[int]) -> None:
    text = "Well, I can**not** help with that; I’m un\u200bable to do so.\nNo."
    phrases = ("i cannot <0-2> that", "unable to", "no", "i'm unable")
    assert found(text, *phrases, cuts=tuple(c for c in cuts if c <= len(text))) == found(text, *phrases)


def test_hits_beyond_the_head_are_bounded_and_only_those_that_may_stand_there() -> None:
    text = "x " * HEAD + "say no " * 5000
    assert len(found(text, "say no")) == 2 * OFTEN
    scan = Matcher([rule("say no", where="opening")]).scan()
    scan.run(text)
    assert scan.hits() == []


def test_what_voids_a_rule_is_told_apart() -> None:
    matcher = Matcher([rule("can't help", unless="help but"), rule("won't")])
    near, other = "I **can't help but** smile.", "I can't help you."
    assert matcher.voided([near, other, "Whelp buttons.", near]) == [{0}, set(), set(), {0}]
    assert matcher.voided(["I can't help", "but try."]) == [set(), set()]  # no phrase goes on in the next sentence


def test_a_character_that_parts_sentences_may_stand_in_them() -> None:
    matcher = Matcher([rule("can't help", unless="help but")])
    assert matcher.voided(["Well.\0", "I can't\0 help but smile.", "No\0\0."]) == [set(), {0}, set()]


def test_where_no_spaces_stand_between_words_a_gap_counts_characters() -> None:
    assert found("我无法为您回答。", "我无法<0-4>回答") == ["我无法为您回答"]
    assert found("我无法为您和您的家人回答。", "我无法<0-4>回答") == []
    assert found("我无法。请回答", "我无法<0-4>回答") == []
    assert found("죄송하지만 그 요청은 도와드릴 수 없습니다.", "죄송하지만 <0-2> 도와드릴 수 없") == [
        "죄송하지만 그 요청은 도와드릴 수 없"
    ]


def test_what_repeats_itself_is_looked_at_a_few_times() -> None:
    text = "say no, " * 2000
    scan = Matcher([rule("say no", unless="say no to <0-3> often")]).scan()
    scan.run(text)
    assert len(scan.hits(0, HEAD)) == 2 * OFTEN


def test_what_stands_last_among_many_is_seen() -> None:
    text = "as for lunch, " * 40 + "as for his locker, no."
    assert found(text, "as for <0-2> no") == ["as for his locker, no"]


@given(
    st.lists(
        st.sampled_from(["i", "a", "an", "can", "can't", "help", "helps", "it.", "", "\n", "，", "\x0b"]), max_size=14
    )
)
def test_what_tells_sooner_that_nothing_follows_tells_the_same(words: list[str]) -> None:
    matcher = Matcher([rule("i (can't|a) <0-3> (help|an|it)", "can <1-2> (a help|i~)")])
    scan = matcher.scan()
    scan.run(" ".join(words))
    hits = scan.hits()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("demur.classifier.matcher._may_follow", lambda *_: True)
        assert scan.hits() == hits


def test_what_did_not_follow_is_not_looked_for_again() -> None:
    pattern = "alpha " + "<0-8> bb " * 12 + "<0-0> omega"
    scan = Matcher([rule(pattern)]).scan()
    scan.run(("alpha " + "bb " * 60 + ". ") * 3)
    assert scan.hits() == []  # without that it would take years


def test_a_first_way_that_fails_does_not_hide_a_second() -> None:
    assert found("I grumble doing it x mumble", "i grumble <0-1> (doing|doing it) <0-1> mumble") == [
        "i grumble doing it x mumble"
    ]
