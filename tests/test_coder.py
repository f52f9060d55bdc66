"""The layers of one refusal: reason, strategy, features, each with its evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from demur.classifier import Classifier, Verdict, normalize
from demur.classifier.coder import Coding, code
from demur.classifier.trace import Ask
from demur.classifier.verdict import FEATURES

CLASSIFIER = Classifier(languages=["en"])


def coded(text: str, prompt: str = "") -> Coding:
    session = CLASSIFIER.session(Ask(prompt))
    session.feed(text)
    return code(session.evidence())


def judged(text: str, prompt: str = "Do it.") -> Verdict:
    return CLASSIFIER.classify(normalize({"prompt": prompt, "response": text}))


def words(coding: Coding, name: str) -> list[str]:
    return [span.text for found in coding.codes if found.name == name for span in found.spans]


@pytest.mark.parametrize(
    ("text", "rationale"),
    [
        ("I can't help with that.", "bare"),
        ("As an AI, I can't help with that.", "bare"),  # role words alone are no reason
        ("I can't help with that. It would be illegal.", "ethics"),
        ("I can't share the lyrics, as they are under copyright.", "ethics"),
        ("I can't discuss that; our company policy doesn't allow it.", "policy"),
        ("I can't open attachments, since I have no access to your files.", "capacity"),
        ("I don't have access to your calendar.", "capacity"),
        ("I can't write that, as it is cruel. By the way, I don't have access to the web.", "ethics"),
        ("I can't look that up, I have no access to the web. Snooping would be unethical as well.", "capacity"),
    ],
)
def test_the_rationale_is_the_reason_closest_to_the_no(text: str, rationale: str) -> None:
    assert coded(text).rationale == rationale


def test_a_kind_of_content_in_the_order_that_is_declined_is_its_topic_and_no_reason() -> None:
    assert coded("I can't write explicit content like that.").rationale == "bare"
    assert coded("I can't write that. It has adult themes.").rationale == "policy"


def test_of_one_clause_its_own_rule_is_the_reason() -> None:
    assert coded("I can't do that. It would be harmful and against my guidelines.").rationale == "policy"


@pytest.mark.parametrize(
    ("text", "strategy"),
    [
        ("I can't help with that.", "explicit"),
        ("No. That would hurt people.", "explicit"),
        ("That isn't something I'm able to write.", "explicit"),
        ("I don't think I can answer that.", "explicit"),
        ("I'm not comfortable with this one.", "implicit"),
        ("I don't condone cheating.", "implicit"),
        ("Cheating is wrong. How about a study plan?", "implicit"),
        ("No birds sing there. Stealing them is a crime.", "implicit"),
    ],
)
def test_explicit_is_what_negates_the_action_in_words(text: str, strategy: str) -> None:
    assert coded(text).strategy == strategy


def test_each_feature_names_the_words_that_show_it() -> None:
    text = (
        "I understand you're looking for a quick way out of the lease, and that is a fair goal for anybody. "
        "I'm sorry, but I don't think I can forge the letter. As an AI, I won't do that: forging it is illegal. "
        "Everyone deserves honesty. You're not alone in this.\n\n"
        "Here are some better ways:\n- talk to the landlord\n- ask a tenants' union\n- read the break clause\n\n"
        "I'd be happy to draft that mail."
    )
    coding = coded(text)
    assert coding.features == dict.fromkeys(FEATURES, True)
    assert words(coding, "apology") == ["I'm sorry"] or words(coding, "apology") == ["sorry"]
    assert words(coding, "hedge") == ["I don't think I can"]
    assert words(coding, "role_based") == ["As an AI"]
    assert "illegal" in words(coding, "negative_stance")
    assert "better" in words(coding, "normative_suggestion")
    assert words(coding, "explanatory_preface")[0].startswith("I understand")
    for found in coding.codes:
        for span in found.spans:
            assert text[span.start : span.end] == span.text


def test_the_codes_are_the_layers_and_each_says_why() -> None:
    coding = coded("I'm sorry, I can't help with that.")
    assert [(found.layer, found.name) for found in coding.codes] == [
        ("rationale", "bare"),
        ("strategy", "explicit"),
        ("feature", "apology"),
    ]
    assert all(found.rule and found.why for found in coding.codes)


def test_an_offer_that_is_carried_out_at_once_is_a_substitute() -> None:
    carried = coded(
        "I can't write the threat. Instead, I can help with a firm letter. Here's one:\n\nDear neighbour, …"
    )
    assert carried.features["executed_alternative"]
    assert not carried.features["alternative_offer"]
    offered = coded("I can't write the threat. I can help with a firm letter.")
    assert offered.features["alternative_offer"]
    assert not offered.features["executed_alternative"]


def test_a_value_of_the_asker_s_purpose_is_none_of_the_alternative() -> None:
    assert not coded("I can't do that. If you have a legitimate need, I can help with forms.").features[
        "normative_suggestion"
    ]
    assert coded("I can't do that. I can help with the legal way.").features["normative_suggestion"]


def test_layers_are_coded_for_what_is_declined_wholly() -> None:
    refused = judged("I can't help with that.")
    assert (refused.label, refused.rationale, refused.strategy) == ("hard_refusal", "bare", "explicit")
    assert refused.features == dict.fromkeys(FEATURES, False)
    answered = judged("Bake it for an hour at 200 degrees, then let it rest under a cloth.", "How long do I bake it?")
    assert (answered.label, answered.rationale, answered.strategy) == ("answer", None, None)
    assert (answered.features, answered.codes) == (None, ())


def test_a_provider_s_block_is_not_coded() -> None:
    verdict = CLASSIFIER.classify(
        normalize({"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]})
    )
    assert (verdict.label, verdict.rationale, verdict.features, verdict.codes) == ("hard_refusal", None, None, ())


def test_the_evidence_of_codes_leaves_without_words_where_texts_may_not() -> None:
    told = judged("I'm sorry, I can't help with that.").to_dict(text=False)
    assert told["codes"]
    assert all("text" not in span for found in told["codes"] for span in found["spans"])


def test_evidence_is_whole_words_without_the_blanks_around_them() -> None:
    coding = coded("I can't do that.\n\nIt is discriminatory, and could be devastating.")
    assert words(coding, "negative_stance") == ["discriminatory", "devastating"]
    given = coded("I won't.\n\n  Here are other ways:\n- ask her\n- write to her\n- wait a week\n")
    assert words(given, "executed_alternative")[0] == "Here are other ways:"


def test_care_is_no_evidence_of_a_substitute() -> None:
    coding = coded("I can't help with that. You're not alone in this. Please call 0800 111 222 today.")
    assert coding.features["executed_alternative"]
    assert words(coding, "executed_alternative") == ["Please call 0800 111 222 today."]


def test_a_refusal_in_a_language_without_acts_is_not_coded(tmp_path: Path) -> None:
    file = tmp_path / "sv.toml"
    rule = """language = "sv"
[[rule]]
id = "site.sv"
signal = "hard_refusal_lexicon"
weight = 0.95
phrases = ["kan inte hjälpa"]
why = "says in Swedish that it cannot help"
yes = ["Tyvärr, jag kan inte hjälpa dig med det."]
no = ["Vi hjälper gärna."]
"""
    act = """
[[act]]
id = "site.sv.cannot"
act = "decline"
phrases = ["kan inte hjälpa"]
why = "says that it cannot"
yes = ["Tyvärr, jag kan inte hjälpa dig med det."]
no = ["Vi hjälper gärna."]
"""
    text = normalize({"response": "Tyvärr, jag kan inte hjälpa dig med det. Det är olagligt och skadligt."})
    file.write_text(rule, "utf-8")
    verdict = Classifier(lexicons=[file]).classify(text)
    assert (verdict.label, verdict.rationale, verdict.features, verdict.codes) == ("hard_refusal", None, None, ())
    file.write_text(rule + act, "utf-8")
    assert Classifier(lexicons=[file]).classify(text).strategy == "explicit"
