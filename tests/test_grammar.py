from __future__ import annotations

import pytest

from demur.classifier.grammar import MAX_EXPANSIONS, GrammarError, expand


def test_alternatives_optionals_and_macros_become_phrases() -> None:
    pattern = expand("I [really] {cannot} (help|assist)", {"cannot": "(can't|cannot)"})
    assert set(pattern.anchors) == {
        f"i {r}{c} {v}" for r in ("", "really ") for c in ("can't", "cannot") for v in ("help", "assist")
    }
    assert pattern.steps == ()


def test_a_gap_becomes_a_step_after_the_anchor() -> None:
    pattern = expand("I cannot <0-3> (that|this one)")
    assert pattern.anchors == ("i cannot",)
    (step,) = pattern.steps
    assert (step.least, step.most, step.texts) == (0, 3, ("that", "this one"))


def test_a_tilde_leaves_the_last_word_open() -> None:
    pattern = expand("refus~ <0-1> requests~")
    assert pattern.anchors == ("refus",)
    assert pattern.open_ended == {"refus"}
    assert pattern.steps[0].open_ended == {"requests"}


def test_an_absent_optional_leaves_no_double_space() -> None:
    assert set(expand("well [then], no").anchors) == {"well then, no", "well, no"}


def test_macros_may_use_macros() -> None:
    assert expand("{a} x", {"a": "(p|{b})", "b": "q"}).anchors == ("p x", "q x")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("(help|assist", "'(' at character 0 of '(help|assist' is never closed"),
        ("help)", "')' at character 4"),
        ("hel+p", "'+' at character 3"),
        ("help <0-99> me", "a gap is <least-most>"),
        ("help <0-9> me", "a gap is <least-most>"),
        ("help <3-1> me", "a gap is <least-most>"),
        ("help <12> me", "a gap is <least-most>"),
        ("help <1-> me", "a gap is <least-most>"),
        (f"help <0-{'9' * 5000}> me", "a gap is <least-most>"),
        ("(" * 3000 + "help" + ")" * 3000, "stand too deep within each other"),
        ("help <0-2", "a gap is <least-most>"),
        ("{nothing} here", "unknown macro at character 0"),
        ("[help]", "has a part that can be empty"),
        ("he~lp me", "'~' stands only at the end"),
        ("(i|we) <0-2> refuse", "begins with 'i': too common"),
        (" ".join(["(ab|cd|ef|gh)"] * 8), f"more than {MAX_EXPANSIONS} phrases"),
    ],
)
def test_a_bad_pattern_is_refused_with_the_place(source: str, complaint: str) -> None:
    with pytest.raises(GrammarError) as caught:
        expand(source)
    assert complaint in str(caught.value)


def test_a_macro_inside_itself_is_refused() -> None:
    with pytest.raises(GrammarError, match="contains itself"):
        expand("{a}", {"a": "x {a}"})


def test_macros_that_double_at_every_level_are_refused() -> None:
    macros = {"m0": "really "} | {f"m{n}": f"{{m{n - 1}}}{{m{n - 1}}}" for n in range(1, 40)}
    with pytest.raises(GrammarError, match=r"macro 'm9' stands for a phrase of more than 2000 characters"):
        expand("{m39}", macros)


def test_macros_within_macros_without_end_are_refused() -> None:
    macros = {"m0": "really"} | {f"m{n}": f"{{m{n - 1}}}" for n in range(1, 3000)}
    with pytest.raises(GrammarError, match="too deep within each other"):
        expand("{m2999}", macros)
