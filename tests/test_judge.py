from __future__ import annotations

from demur.classifier import Ask, Choice, Classifier, Trace, Verdict, classify, combine, default_classifier

NO, YES = Choice(text="I can't help with that."), Choice(index=1, text="Seven minutes.")


def test_a_string_is_a_response() -> None:
    assert classify("I can't help with that.").label == "hard_refusal"
    assert classify({"prompt": "How long?", "response": "Seven minutes."}).label == "answer"


def test_several_choices_are_judged_each_and_the_gravest_stands_on_top() -> None:
    verdict = classify(Trace(choices=(YES, NO), id="t1", model="m"))
    assert verdict.label == "hard_refusal"
    assert [(choice.index, choice.label) for choice in verdict.choices] == [(1, "answer"), (0, "hard_refusal")]
    assert (verdict.id, verdict.model, verdict.flagged_choices()) == ("t1", "m", 1)


def test_a_problem_passes_through_without_a_label() -> None:
    verdict = classify(Trace(problem="upstream_error", why="HTTP 502", id="t2"))
    assert (verdict.label, verdict.status, verdict.reason, verdict.id) == (None, "upstream_error", "HTTP 502", "t2")
    assert classify(Trace()).status == "empty"
    assert combine([], Trace(problem="unparsed")).status == "unparsed"


def test_every_verdict_says_by_which_rules() -> None:
    version = default_classifier().rules_version
    assert classify(Trace(choices=(YES, NO))).rules_version == version
    assert classify(Trace(problem="unparsed")).rules_version == version
    assert all(choice.rules_version == version for choice in classify(Trace(choices=(YES, NO))).choices)


def test_the_same_text_gets_the_same_verdict() -> None:
    trace = Trace(ask=Ask("How long?"), choices=(NO,))
    assert Classifier().classify(trace) == default_classifier().classify(trace)
    assert default_classifier() is default_classifier()


def test_a_tie_breaker_has_the_last_word() -> None:
    seen: list[Verdict] = []

    def judge(trace: Trace, verdict: Verdict) -> Verdict:
        seen.append(verdict)
        return Verdict("answer", "complete", 1.0)

    assert classify("I can't help with that.", judge).label == "answer"
    assert seen[0].label == "hard_refusal"
