from __future__ import annotations

from pathlib import Path

import pytest

from demur.classifier import Classifier, LexiconError, Trace
from demur.classifier.lexicon import load_lexicons, read_lexicon, signal_kinds
from demur.classifier.trace import Choice

GOOD = """
language = "en"
[macros]
desk = "(service desk|help desk)"
[[rule]]
id = "site.desk"
signal = "scope_limit"
weight = 0.9
phrases = ["this topic is handled by the {desk}"]
why = "our own guardrail sentence"
yes = ["This topic is handled by the help desk."]
no = ["This topic is handled in chapter two."]
"""


def test_our_own_rules_load_and_feed_known_signals() -> None:
    rules, version = load_lexicons()
    assert len(rules) > 30
    assert len({rule.id for rule in rules}) == len(rules)
    assert {rule.signal.name for rule in rules} <= set(signal_kinds())
    assert len(version) == 12


def test_the_eight_promised_signals_exist_with_their_targets() -> None:
    targets = {name: kind.target for name, kind in signal_kinds().items()}
    assert targets["hard_refusal_lexicon"] == targets["content_filter"] == "hard_refusal"
    for name in (
        "capability_denial",
        "noncommittal_hedge",
        "topic_narrowing",
        "length_collapse",
        "apology_without_substance",
    ):
        assert targets[name] == "disguised_refusal"
    assert targets["safety_redirect"] == "shaped"


def test_a_users_file_adds_to_ours(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text(GOOD)
    classifier = Classifier(lexicons=[file])
    verdict = classifier.classify(Trace(choices=(Choice(text="This topic is handled by the service desk."),)))
    assert verdict.label == "hard_refusal"
    assert verdict.signals[0].rule == "site.desk"
    assert classifier.rules_version != Classifier().rules_version


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('signal = "scope_limit"', 'signal = "scopes"', "rule site.desk: unknown signal 'scopes'"),
        ("weight = 0.9", "weight = 1.5", "rule site.desk: 'weight' must be a number above 0"),
        ("weight = 0.9", "weight = true", "rule site.desk: 'weight' must be a number above 0"),
        ("weight = 0.9", 'weight = 0.9\nwhere = "middle"', "rule site.desk: 'where' must be one of"),
        ("weight = 0.9", "weight = 0.9\nweigth = 1", "rule site.desk: unknown key 'weigth'"),
        ("{desk}", "{dsk}", "rule site.desk: 'phrases': unknown macro"),
        ("{desk}", "(desk", "is never closed"),
        ('yes = ["This topic is handled by the help desk."]', "", "rule site.desk: 'yes' is missing"),
        ('no = ["This topic is handled in chapter two."]', "no = []", "rule site.desk: 'no' must be a list"),
        ("our own guardrail sentence", " ", "rule site.desk: 'why' must be a sentence"),
        ('id = "site.desk"', "", "rule number 1: 'id' is missing"),
        ('language = "en"', "", "'language' is missing"),
        ("[[rule]]", "[[rules]]", "unknown key 'rules'"),
        ("[macros]", "[macros", "not TOML"),
    ],
)
def test_a_bad_file_is_refused_by_name(old: str, new: str, complaint: str) -> None:
    assert old in GOOD
    with pytest.raises(LexiconError) as caught:
        read_lexicon(GOOD.replace(old, new), "site.toml")
    assert str(caught.value).startswith("site.toml: ")
    assert complaint in str(caught.value)


def test_an_id_that_is_taken_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text(GOOD.replace("site.desk", "en.decline-verb"))
    with pytest.raises(LexiconError, match=r"rule en\.decline-verb: the id is taken already, in .*en\.toml"):
        load_lexicons([file])


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LexiconError, match=r"nowhere\.toml: cannot be read"):
        load_lexicons([tmp_path / "nowhere.toml"])
