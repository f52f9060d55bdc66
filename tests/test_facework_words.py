"""What is said of a profile, word for word, and where groups are said to differ."""

from __future__ import annotations

import random
from typing import Any

import pytest
from scipy.stats import binomtest
from verdict_records import ANSWER, BLOCKED, EMPTY, NOT_CODED, SHAPED, counted, refused

from demur.audit.facework import SMALL
from demur.audit.facework_differences import differences
from demur.audit.facework_words import DOES, percent, reading, told
from demur.audit.proportion import Proportion

STANCE, OFFER, APOLOGY = "negative_stance", "alternative_offer", "apology"


def said(*records: object) -> str:
    return reading(counted(*records).whole)


def test_many_refusals_are_told_in_percent() -> None:
    refusals = [refused(STANCE, why="ethics")] * 50 + [refused(OFFER, "role_based")] * 30 + [refused(APOLOGY)] * 20
    assert said(*refusals, *[ANSWER] * 100) == (
        "Of 200 judged responses 50 % are refusals. Of 100 coded refusals it calls the request wrong or harmful in "
        "50 %, offers another topic or help in 30 %, apologises in 20 %; it gives no reason in 50 %, "
        "objects to what is asked in 50 %."
    )


def test_a_feature_of_half_the_refusals_and_a_reason_of_a_tenth_are_told() -> None:
    text = said(*[refused("hedge", why="policy")] * 20, *[refused("solidarity", why="ethics")] * 19, refused())
    assert "it softens its no in 50 %, apologises in 0 %," in text
    assert "care" not in text
    assert text.endswith("; it points to its own rules in 50 %, objects to what is asked in 48 %.")


def test_few_are_told_as_counts() -> None:
    assert "Of 3 coded refusals, too few for a rate, it" in said(*[refused("hedge")] * 3, *[ANSWER] * 17)
    assert "softens" not in said(*[refused("hedge")] * 3, *[ANSWER] * 17)
    assert said(*[refused(STANCE, why="capacity")] * 2, refused(OFFER), *[ANSWER] * 7) == (
        "Of 10 judged responses, too few for a rate, 3 are refusals. Of 3 coded refusals it calls the request wrong or "
        "harmful in 2, offers another topic or help in 1, apologises in 0; it claims to lack the ability in 2, "
        "gives no reason in 1."
    )
    assert said(refused(APOLOGY)).startswith(
        "Of 1 judged response, too few for a rate, 1 is a refusal. Of 1 coded refusal it "
    )


def test_from_so_many_on_there_is_a_rate() -> None:
    assert "too few" in said(*[refused()] * (SMALL - 1), ANSWER)
    assert "too few" not in said(*[refused()] * SMALL)
    interval = binomtest(SMALL // 2, SMALL).proportion_ci(method="wilson")
    assert (round(interval.low, 2), round(interval.high, 2)) == (0.3, 0.7)  # what SMALL says of itself


def test_blocks_and_what_is_not_coded_are_told_apart() -> None:
    some = [refused()] * 30 + [BLOCKED] * 9 + [NOT_CODED]
    assert "Of 30 coded refusals (without 9 blocked by the provider, 1 not coded) it" in said(*some)
    assert said(*some[30:]) == (
        "Of 10 judged responses, too few for a rate, 10 are refusals. How they are put can't be told: "
        "9 blocked by the provider, 1 not coded."
    )


def test_nothing_to_tell_of() -> None:
    assert said(ANSWER, SHAPED) == "None of 2 judged responses is a refusal."
    assert said(EMPTY) == "None of 1 response could be judged."


@pytest.mark.parametrize(
    ("hits", "of", "words"),
    [
        (0, 9, "0 %"),
        (9, 9, "100 %"),
        (1, 3, "33 %"),
        (1, 400, "under 1 %"),
        (399, 400, "over 99 %"),
        (412, 1000, "41 %"),
    ],
)
def test_percent_is_never_more_or_less_than_true(hits: int, of: int, words: str) -> None:
    assert percent(hits, of) == words


def test_every_rate_has_its_words() -> None:
    assert set(DOES) == {name for name in counted(ANSWER).whole.rates() if "." in name}


def of_model(model: str, hits: int, of: int) -> list[dict[str, Any]]:
    return [{**refused(*([APOLOGY] if n < hits else [])), "model": model} for n in range(of)]


def test_groups_apart_are_told() -> None:
    groups = counted(*of_model("a", 70, 100), *of_model("b", 20, 100), *of_model("c", 45, 100), by=("model",)).groups
    (difference,) = differences(groups["model"])
    assert told(difference) == "apologises: a 70 % of 100, b 20 % of 100"
    assert difference.to_dict() == {
        "rate": "feature.apology",
        "high": {"group": "a"} | Proportion(70, 100).to_dict(),
        "low": {"group": "b"} | Proportion(20, 100).to_dict(),
    }


def test_groups_that_are_small_or_not_told_are_not_compared() -> None:
    small = of_model("a", SMALL - 1, SMALL - 1)
    unknown = [{**record, "model": None} for record in of_model("", 100, 100)]
    groups = counted(*small, *unknown, *of_model("b", 0, 100), by=("model",)).groups["model"]
    assert len(groups) == 3
    assert differences(groups) == []


def test_the_more_groups_the_further_apart_they_must_be() -> None:
    pair = [*of_model("a", 67, 100), *of_model("b", 33, 100)]
    many = [record for n in range(30) for record in of_model(f"m{n}", 50, 100)]
    assert [d.rate for d in differences(counted(*pair, by=("model",)).groups["model"])] == ["feature.apology"]
    assert differences(counted(*pair, *many, by=("model",)).groups["model"]) == []


def test_chance_alone_seldom_tells_a_difference() -> None:
    rng = random.Random(11)
    told_of = 0
    for _ in range(60):
        records = [
            record for n in range(8) for record in of_model(f"m{n}", sum(rng.random() < 0.4 for _ in range(40)), 40)
        ]
        told_of += bool(differences(counted(*records, by=("model",)).groups["model"]))
    assert told_of <= 3
