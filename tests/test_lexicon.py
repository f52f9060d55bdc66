from __future__ import annotations

import contextlib
import tomllib
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.classifier import Classifier, LexiconError, Trace
from demur.classifier.lexicon import MAX_BYTES, load_lexicons, read_lexicon, signal_kinds
from demur.classifier.trace import Choice

GOOD = """
language = "en"
[macros]
desk = "(front desk|reception)"
[[rule]]
id = "site.desk"
signal = "scope_limit"
weight = 0.9
phrases = ["this matter is dealt with at the {desk}"]
why = "our own guardrail sentence"
yes = ["This matter is dealt with at the reception."]
no = ["This matter is dealt with in chapter two."]
"""


def test_our_own_rules_load_and_feed_known_signals() -> None:
    lexicons, version = load_lexicons()
    rules = [rule for lexicon in lexicons for rule in lexicon.rules]
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
    verdict = classifier.classify(Trace(choices=(Choice(text="This matter is dealt with at the front desk."),)))
    assert verdict.label == "hard_refusal"
    assert verdict.signals[0].rule == "site.desk"
    assert classifier.rules_version != Classifier().rules_version


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('signal = "scope_limit"', 'signal = "scopes"', "rule site.desk: unknown signal 'scopes'"),
        (
            'id = "site.desk"',
            'id = "fact.desk"',
            "rule fact.desk: the ids wording, delivery., fact., layers. are taken",
        ),
        (
            "weight = 0.9",
            'weight = 0.9\nunless = ["my_desk"]',
            "rule site.desk: 'unless': '_' is dropped from every text",
        ),
        ("weight = 0.9", "weight = 1.5", "rule site.desk: 'weight' must be a number above 0"),
        ("weight = 0.9", "weight = true", "rule site.desk: 'weight' must be a number above 0"),
        ("weight = 0.9", 'weight = 0.9\nwhere = "middle"', "rule site.desk: 'where' must be one of"),
        ("weight = 0.9", "weight = 0.9\nweigth = 1", "rule site.desk: unknown key 'weigth'"),
        ("{desk}", "{dsk}", "rule site.desk: 'phrases': unknown macro"),
        ("{desk}", "(desk", "is never closed"),
        ('yes = ["This matter is dealt with at the reception."]', "", "rule site.desk: 'yes' is missing"),
        ('no = ["This matter is dealt with in chapter two."]', "no = []", "rule site.desk: 'no' must be a list"),
        ("our own guardrail sentence", " ", "rule site.desk: 'why' must be a sentence"),
        ('id = "site.desk"', "", "rule number 1: 'id' is missing"),
        ('language = "en"', "", "'language' is missing"),
        ("[[rule]]", "[[rules]]", "unknown key 'rules'"),
        ("[macros]", "[macros", "not TOML"),
        ('signal = "scope_limit"', "signal = []", "rule site.desk: unknown signal []"),
        ('signal = "scope_limit"', 'signal = "content_filter"', "rule site.desk: unknown signal 'content_filter'"),
        ('signal = "scope_limit"', 'signal = "learned_wording"', "rule site.desk: unknown signal 'learned_wording'"),
        ('language = "en"', 'language = "en"\nsides = [["pro"]]', "'sides' must be a list of pairs of words"),
        ('language = "en"', 'language = "en"\nsides = "pro"', "'sides' must be a list of pairs of words"),
        ('language = "en"', 'language = "en"\npraise = "nice"', "'praise' must be a list"),
        ('language = "en"', 'language = "en"\npraise = ["\\u200b"]', "'praise' has a word without a letter"),
        ('language = "en"', 'language = "en"\nsides = [["pro", "\\u200b"]]', "'sides' has a word without a letter"),
        ('language = "en"', 'language = "en"\nasks = ["buy"]', "'asks' must be a table"),
        ('language = "en"', 'language = "en"\nasks.wish = ["buy"]', "asks: unknown key 'wish'"),
        ('language = "en"', 'language = "en"\nasks.code = ["(buy"]', "asks: 'code': "),
        ("weight = 0.9", "weight = nan", "rule site.desk: 'weight' must be a number above 0"),
        ("weight = 0.9", f"weight = {'9' * 5000}", "not TOML: line 8: a number has too many digits"),
        ("weight = 0.9", f"weight = 0x{'f' * 5000}", "rule site.desk: 'weight' must be a number above 0, at most 1"),
        ("weight = 0.9", f"weight = {'[' * 3000}", "nested too deeply"),
        ("weight = 0.9", f"weight = 0.9\nwhere.{'a.' * 3000}a = 1", "rule site.desk: 'where' must be one of"),
        ("{desk}", "(" * 3000 + "desk" + ")" * 3000, "rule site.desk: 'phrases': groups or macros stand too deep"),
    ],
)
def test_a_bad_file_is_refused_by_name(old: str, new: str, complaint: str) -> None:
    assert old in GOOD
    with pytest.raises(LexiconError) as caught:
        read_lexicon(GOOD.replace(old, new), "site.toml")
    assert str(caught.value).startswith("site.toml: ")
    assert complaint in str(caught.value)


ACT = """
language = "en"
[[act]]
id = "site.rule"
act = "rule"
phrases = ["the club's statutes"]
why = "puts the boundary on the statutes"
yes = ["The club's statutes say no."]
no = ["The club has a statue."]
"""


def test_a_users_act_codes_a_refusal(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text(ACT)
    trace = Trace(choices=(Choice(text="I can't help with that. The club's statutes say so."),))
    assert Classifier().classify(trace).rationale == "bare"
    verdict = Classifier(lexicons=[file]).classify(trace)
    assert verdict.rationale == "policy"
    assert verdict.codes[0].rule == "site.rule"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('act = "rule"', 'act = "rules"', "act site.rule: unknown act 'rules'; known: decline, "),
        ('act = "rule"', "act = []", "act site.rule: unknown act []"),
        ('act = "rule"', "", "act site.rule: 'act' is missing"),
        ('id = "site.rule"', "", "act number 1: 'id' is missing"),
        (
            'id = "site.rule"',
            'id = "layers.rule"',
            "act layers.rule: the ids wording, delivery., fact., layers. are taken",
        ),
        ('act = "rule"', 'act = "rule"\nwhere = "opening"', "act site.rule: 'where' must be one of start, anywhere"),
        ('act = "rule"', 'act = "rule"\nweight = 0.5', "act site.rule: unknown key 'weight'"),
        ("[[act]]", "[act]", "'act' must be a list of tables, [[act]]"),
        ('no = ["The club has a statue."]', "", "act site.rule: 'no' is missing"),
        ("the club's statutes", "(the club", "act site.rule: 'phrases': "),
    ],
)
def test_a_bad_act_is_refused_by_name(old: str, new: str, complaint: str) -> None:
    assert old in ACT
    with pytest.raises(LexiconError) as caught:
        read_lexicon(ACT.replace(old, new), "site.toml")
    assert str(caught.value).startswith("site.toml: ")
    assert complaint in str(caught.value)


def test_an_act_s_example_that_does_not_hold_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text(ACT.replace("has a statue", "keeps the club's statutes"))
    with pytest.raises(LexiconError, match=r"act site\.rule: the 'no' example is found: "):
        Classifier(lexicons=[file])


def test_an_id_that_is_taken_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text(GOOD.replace("site.desk", "en.decline-verb"))
    with pytest.raises(LexiconError, match=r"rule en\.decline-verb: the id is taken already, in .*en\.toml"):
        load_lexicons([file])


def test_an_id_of_our_acts_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text(ACT.replace("site.rule", "de.act.rule"))
    with pytest.raises(LexiconError, match=r"site\.toml: rule de\.act\.rule: ids such as de\.act\.… are those of our"):
        load_lexicons([file])


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LexiconError, match=r"nowhere\.toml: cannot be read"):
        load_lexicons([tmp_path / "nowhere.toml"])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"\x7fELF\xff", "is not UTF-8 text, at byte 4"), (b"#" * (MAX_BYTES + 1), "is larger than 8 MiB")],
    ids=["binary", "huge"],
)
def test_a_file_that_is_no_lexicon_at_all_is_named(content: bytes, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_bytes(content)
    with pytest.raises(LexiconError, match=rf"odd\.toml: {complaint}"):
        load_lexicons([tmp_path / "odd.toml"])


VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.text("([{<|>}])~-02 ab", max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abid", max_size=3), inner, max_size=2),
    max_leaves=5,
)
KEYS = ["id", "signal", "weight", "where", "phrases", "unless", "why", "yes", "no", "other"]


@settings(max_examples=300, deadline=None)
@given(changes=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3), macros=VALUES)
def test_whatever_a_rule_holds_it_is_a_rule_or_a_lexicon_error(changes: dict[str, object], macros: object) -> None:
    data = tomllib.loads(GOOD)
    data["rule"][0] |= changes
    data["macros"] = macros
    with mock.patch("demur.classifier.lexicon.tomllib.loads", return_value=data), contextlib.suppress(LexiconError):
        read_lexicon("", "site.toml")


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=60) | st.text("[]{}=.,'\"\n#0x_ab", max_size=60))
def test_any_text_is_a_lexicon_or_a_lexicon_error(text: str) -> None:
    with contextlib.suppress(LexiconError):
        read_lexicon(text, "site.toml")
