from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from exchanges import exchange
from verdict_records import ANSWER, BLOCKED, EMPTY, refused

from demur.audit.verdicts import NAME_LIMIT, Response, Reviews, VerdictError, read_record, review_id
from demur.classifier import classify
from demur.classifier.verdict import FEATURES, Review, Verdict
from demur.proxy.verdict_log import record

REFUSAL = Verdict("hard_refusal", "complete", 0.97, features=dict.fromkeys(FEATURES, False), model="gpt-x")


def one(obj: object) -> Response:
    (response,) = read_record(obj, "v.jsonl:1").responses
    return response


def test_a_line_of_the_verdict_log() -> None:
    read = read_record(record(exchange(id="a", started_ns=1_764_000_000_123_000_000, verdict=REFUSAL)), "v.jsonl:1")
    assert (read.id, read.reviewed, read.missing) == ("a", False, None)
    (response,) = read.responses
    assert (response.label, response.status, response.blocked) == ("hard_refusal", "complete", False)
    assert (response.model, response.release, response.tag) == ("gpt-x", "gpt-x-2026", "team-a")
    assert response.time == datetime(2025, 11, 24, 16, 0, 0, 123000, UTC)


def test_a_line_about_a_path_that_is_not_judged_has_no_response() -> None:
    read = read_record(record(exchange(verdict=None, trace=None, api=None)), "v.jsonl:1")
    assert (read.responses, read.missing) == ((), "no verdict")


def test_the_proxys_second_line_is_a_review() -> None:
    first = exchange(id="a", verdict=REFUSAL)
    second = exchange(id="a", verdict=replace(REFUSAL, label="shaped", review=Review("m", "coded", "shaped")))
    assert [review_id(record(it)) for it in (first, second)] == [None, "a"]
    read = read_record(record(second), "v.jsonl:2")
    assert read.reviewed
    assert read.responses[0].label == "shaped"


def test_a_verdict_of_the_library_alone_or_with_columns_beside() -> None:
    verdict = classify({"prompt": "Bake a loaf.", "response": "I'm sorry, but I can't help with that.", "model": "m1"})
    assert one(verdict.to_dict()).label == "hard_refusal"
    assert one(verdict.to_dict()).model == "m1"
    beside = {"category": "baking", "language": "nl", "time": "2026-03-01T00:30:00+01:00", "model": "m2", "tag": 7}
    response = one(verdict.to_dict() | beside)
    assert (response.category, response.language, response.model, response.tag) == ("baking", "nl", "m2", "7")
    assert response.time == datetime(2026, 2, 28, 23, 30, tzinfo=UTC)


def test_a_result_of_a_probe_run() -> None:
    verdict = refused("apology", why="policy", how="implicit", label="disguised_refusal") | {"model": "m1"}
    result = {"probe_id": "p1", "prompt": "Bake.", "category": "baking", "error": None, "verdict": verdict}
    assert one(result) == Response(
        label="disguised_refusal",
        status="complete",
        rationale="policy",
        strategy="implicit",
        features=frozenset({"apology"}),
        model="m1",
        release="m1",
        category="baking",
    )
    assert read_record({**result, "error": "timeout", "verdict": None}, "r.json[0]").missing == "error"


def test_each_choice_is_a_response() -> None:
    choices = (Verdict("answer", "complete", index=0), Verdict("shaped", "complete", index=1, language="ko"))
    whole = replace(choices[1], choices=choices, model="m").to_dict()
    read = read_record({"verdict": whole, "tag": "t"}, "v.jsonl:1")
    assert [(r.label, r.model, r.tag) for r in read.responses] == [("answer", "m", "t"), ("shaped", "m", "t")]
    assert read.responses[1].language == "ko"


def test_a_block_is_told_from_a_refusal_in_words() -> None:
    assert one(BLOCKED).blocked
    assert not one(refused()).blocked


@pytest.mark.parametrize(
    ("given", "known"),
    [
        (None, None),
        ("", None),
        ("  ", None),
        (4, "4"),
        ("日本 語", "日本 語"),
        ("a\nb\tc", "a b c"),
        ("x" * 999, "x" * NAME_LIMIT),
        ("half \ud83d", "half \ufffd"),
    ],
)
def test_names(given: object, known: str | None) -> None:
    assert one({**ANSWER, "model": given}).model == known


def test_an_odd_id_never_matters() -> None:
    odd: list[object] = [None, [], True, 5, 5.0, 5.5, "5.0", 1e300, float("inf"), "a"]
    known = [None, None, None, "5", "5", "5.5", "5.0", str(int(1e300)), "inf", "a"]
    assert [read_record({**ANSWER, "id": id}, "v:1").id for id in odd] == known


@pytest.mark.parametrize(
    ("time", "known"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        (1_769_860_800, datetime(2026, 1, 31, 12, tzinfo=UTC)),
        (None, None),
    ],
)
def test_times(time: object, known: datetime | None) -> None:
    assert one({**ANSWER, "time": time}).time == known


WRONG: list[tuple[object, str]] = [
    ([], "v.jsonl:3: a verdict is a JSON object, this is none"),
    ("no", "v.jsonl:3: a verdict is a JSON object, this is none"),
    ({"label": "answer"}, "v.jsonl:3: no verdict: it has neither `verdict` nor `label` and `status`"),
    ({"prompt": "a", "response": "b", "label": "refusal"}, "was not judged yet; `demur classify --jsonl`"),
    ({"verdict": 7}, "v.jsonl:3: verdict: "),
    ({"verdict": {"label": "answer"}}, "v.jsonl:3: verdict: Object missing required field `status`"),
    ({**ANSWER, "label": "maybe"}, "v.jsonl:3: label: Invalid enum value 'maybe'"),
    ({"verdict": {**ANSWER, "rationale": "whim"}}, "v.jsonl:3: verdict.rationale: Invalid enum value 'whim'"),
    ({**ANSWER, "model": ["m"]}, "v.jsonl:3: model: "),
    ({**ANSWER, "time": "yesterday"}, "v.jsonl:3: time: 'yesterday' is no time"),
    ({**ANSWER, "time": 1e300}, "v.jsonl:3: time: '1e+300' is no time"),
    ({**ANSWER, "schema_version": 2}, "v.jsonl:3: schema_version: 2, this demur reads up to 1"),
    ({**ANSWER, "features": {"apology": True}}, "v.jsonl:3: features.hedge: true or false is needed"),
    ({"verdict": refused() | {"features": refused()["features"] | {"role_based": 1}}}, "verdict.features.role_based: "),
    ({**ANSWER, "choices": [EMPTY, {**ANSWER, "features": {}}]}, "v.jsonl:3: choices[1].features.apology: "),
]


@pytest.mark.parametrize(("obj", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_is_wrong_is_told_with_place_and_key(obj: object, message: str) -> None:
    with pytest.raises(VerdictError) as error:
        read_record(obj, "v.jsonl:3")
    assert message in str(error.value)


def counted(*lines: dict[str, Any], before: int | None = None) -> list[object]:
    """The labels that count, in order; the reviews known before are those of the first `before` lines."""
    records = [read_record({"verdict": ANSWER} | line, "v:1") for line in lines]
    ids = [id for line in lines[:before] if (id := review_id({"verdict": ANSWER} | line)) is not None]
    reviews = Reviews(ids)
    return [line["n"] for line, record in zip(lines, records, strict=True) if not reviews.replace(record)]


def test_a_review_counts_in_place_of_what_it_reviews_wherever_it_stands() -> None:
    first, review, other = {"n": 1, "id": "a"}, {"n": 2, "id": "a", "reviewed": True}, {"n": 3, "id": "b"}
    assert counted(first, other, review) == [3, 2]
    assert counted(review, first) == [2]


def test_the_last_of_two_reviews_counts() -> None:
    assert counted({"n": 1, "id": "a"}, *({"n": n, "id": "a", "reviewed": True} for n in (2, 3))) == [3]


def test_without_a_review_equal_ids_count_each() -> None:
    assert counted({"n": 1, "id": "a"}, {"n": 2, "id": "a"}, {"n": 3}) == [1, 2, 3]


def test_a_review_of_no_id_counts_by_itself() -> None:
    assert counted({"n": 1}, {"n": 2, "reviewed": True}) == [1, 2]


@pytest.mark.parametrize("bad", [{"label": "maybe"}, {"verdict": {**ANSWER, "status": "odd"}}, {"time": "then"}])
def test_a_review_that_cannot_be_read_is_none(bad: dict[str, Any]) -> None:
    review: dict[str, Any] = {**ANSWER, "id": "a", "reviewed": True}
    assert review_id(review) == "a"
    assert review_id(review | bad) is None


def test_a_review_without_a_verdict_replaces_nothing() -> None:
    first, review = {"n": 1, "id": "a"}, {"n": 2, "id": "a", "reviewed": True, "verdict": None}
    assert counted(first, review) == [1, 2]
    assert counted(first, review, {"n": 3, "id": "a", "reviewed": True}) == [3]


def test_a_review_that_came_in_meanwhile_is_left_out() -> None:
    assert counted({"n": 1, "id": "a"}, {"n": 2, "id": "a", "reviewed": True}, before=1) == [1]
