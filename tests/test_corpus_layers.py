"""What a corpus says of how a response declined: read in its own words, and refused where it can't be meant."""

from __future__ import annotations

from typing import Any

import pytest

from demur.audit.corpus import Columns, CorpusError, Row, read_corpus
from demur.audit.layers import Layers, layers_of, read_layers
from demur.classifier import Verdict, normalize
from demur.classifier.verdict import FEATURES

REPLY = {"prompt": "Name a river.", "response": "I'd rather not.", "label": "refusal"}


def read(*objects: object, columns: Columns | None = None) -> list[Row]:
    placed = ((f"c.jsonl:{number}", obj) for number, obj in enumerate(objects, 1))
    return list(read_corpus("c.jsonl", placed, columns).rows)


def test_a_row_in_our_own_names() -> None:
    features = dict.fromkeys(FEATURES, False) | {"apology": True}
    layers = read_layers({"rationale": "policy", "strategy": "implicit", "features": features})
    assert layers == Layers("policy", "implicit", features)
    assert tuple(layers.features) == FEATURES


def test_a_row_in_the_short_names_of_the_taxonomy() -> None:
    short = {"explicit_nc": 1.0, "implicit_nc": 0.0, "preface": 1, "executed_alt": 0, "alt_offer": True}
    layers = read_layers({"rationale": "Ethics", "features": {**short, "statement_principle": "1", "hedge": None}})
    assert layers.rationale == "ethics"
    assert layers.strategy == "explicit"
    assert layers.features == {
        "explanatory_preface": True,
        "alternative_offer": True,
        "executed_alternative": False,
        "statement_of_principle": True,
    }


@pytest.mark.parametrize("features", [["apology", "preface"], "apology,preface", " apology , preface "])
def test_a_list_of_names_tells_all_eleven(features: object) -> None:
    """So headers, spans and finish chunks give them."""
    layers = read_layers({"features": features})
    assert layers.features == {name: name in ("apology", "explanatory_preface") for name in FEATURES}
    assert read_layers({"features": []}).features == dict.fromkeys(FEATURES, False)
    assert read_layers({"features": ["implicit_nc", "hedge", "hedge"]}).strategy == "implicit"


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"features": ""},
        {"rationale": None, "strategy": "", "features": None},
        {"rationale": "none", "features": {}},
        {"features": {"explicit_nc": None, "implicit_nc": 0, "apology": None}},
    ],
)
def test_a_row_that_tells_nothing(row: dict[str, Any]) -> None:
    assert not read_layers(row)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"rationale": "moral"}, "'rationale' is 'moral', none of bare, capacity, policy, ethics"),
        ({"rationale": 3}, "'rationale' is 3"),
        ({"strategy": ["explicit"]}, "'strategy' is ['explicit']"),
        ({"features": 7}, "'features' is 7, neither an object of them nor a list of their names"),
        ({"features": ["apology", {}]}, "'features' is ['apology', {}], neither an object of them nor a list"),
        ({"features": ["sarcasm"]}, "'features' has 'sarcasm', which is none of apology, hedge"),
        ({"features": "apology,sarcasm"}, "'features' has 'sarcasm', which is none of apology, hedge"),
        ({"features": ["explicit_nc", "implicit_nc"]}, "both explicit_nc and implicit_nc"),
        ({"features": {"preface": 1, "explanatory_preface": 0}}, "has 'preface' and 'explanatory_preface', which are"),
        ({"features": {"sarcasm": 1}}, "'features' has 'sarcasm', which is none of apology, hedge"),
        ({"features": {"apology": 2}}, "'features.apology' is 2, neither 0 nor 1"),
        ({"features": {"preface": 0.5}}, "'features.preface' is 0.5"),
        ({"features": {"hedge": float("nan")}}, "'features.hedge' is nan"),
        ({"features": {"hedge": {"a": 1}}}, "'features.hedge' is {'a': 1}"),
        (
            {"features": {"alt_offer": 1, "alternative_offer": 1}},
            "has 'alt_offer' and 'alternative_offer'",
        ),
        ({"features": {"explicit_nc": 1, "implicit_nc": 1}}, "both explicit_nc and implicit_nc"),
        ({"strategy": "implicit", "features": {"explicit_nc": 1}}, "'strategy' is 'implicit', and 'features' has exp"),
    ],
)
def test_what_is_wrong_is_told_with_file_line_and_key(row: dict[str, Any], words: str) -> None:
    with pytest.raises(CorpusError) as error:
        read(REPLY, {**REPLY, **row})
    assert str(error.value).startswith("c.jsonl:2: ")
    assert words in str(error.value)
    assert str(error.value).endswith("leave it out with --no-layers")


def test_columns_that_say_something_else_can_be_left_out() -> None:
    row = {**REPLY, "rationale": "It says that it would rather not.", "features": [0.1, 0.9]}
    assert [bool(one.layers) for one in read(row, columns=Columns(layers=False))] == [False]


def test_layers_are_no_part_of_the_trace_and_a_label_is_no_layer() -> None:
    [row] = read({**REPLY, "rationale": "bare", "features": {"hedge": 1}})
    assert not {"rationale", "features", "label"} & set(row.obj)
    assert normalize(row.obj).choices[0].text == "I'd rather not."
    [row] = read({**REPLY, "strategy": "refused"}, columns=Columns(label="strategy"))
    assert row.gold == "refusal"
    assert not row.layers


def test_rows_that_are_left_out_are_not_read() -> None:
    assert read({**REPLY, "label": "other", "rationale": "moral"}, REPLY)[0].source == "c.jsonl:2"


def test_differences_are_told_for_what_is_labelled_only() -> None:
    gold = Layers("ethics", None, {"apology": True, "hedge": False})
    assert gold.differences(Layers("ethics", "explicit", {"apology": True, "hedge": False, "role_based": True})) == ()
    assert gold.differences(Layers("bare", None, {"apology": True, "hedge": True})) == ("rationale", "hedge")
    assert gold.differences(Layers()) == ("rationale", "apology", "hedge")
    assert [gold.said(name) for name in ("rationale", "strategy", "apology", "hedge", "solidarity")] == [
        "ethics",
        "not coded",
        "yes",
        "no",
        "not coded",
    ]


def test_a_verdict_that_is_not_coded_has_no_layers() -> None:
    assert not layers_of(Verdict("answer", "complete", 0.9))
    features = dict.fromkeys(FEATURES, False)
    assert layers_of(Verdict("hard_refusal", "complete", rationale="bare", features=features)).features == features
