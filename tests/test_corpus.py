"""Label words of many corpora become three classes; a word that is not known is an error that says what to do."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from demur.audit.corpus import Columns, CorpusError, Meaning, Row, Words, read_corpus
from demur.classifier import normalize

REPLY = {"prompt": "Name a river.", "response": "The Aare."}


def read(*objects: object, columns: Columns | None = None, words: dict[str, Meaning] | None = None) -> list[Row]:
    placed = ((f"c.jsonl:{number}", obj) for number, obj in enumerate(objects, 1))
    return list(read_corpus("c.jsonl", placed, columns, Words(words)).rows)


@pytest.mark.parametrize(
    ("word", "gold"),
    [
        ("full_compliance", "answer"),
        ("1_full_compliance", "answer"),
        ("Compliance", "answer"),
        ("answer", "answer"),
        (0, "answer"),
        ("0", "answer"),
        (False, "answer"),
        ("partial", "shaped"),
        ("partial_compliance", "shaped"),
        ("3_partial_refusal", "shaped"),
        ("shaped", "shaped"),
        ("refusal", "refusal"),
        ("2_full_refusal", "refusal"),
        ("non_compliance", "refusal"),
        ("Non-compliance", "refusal"),
        ("hard_refusal", "refusal"),
        ("disguised_refusal", "refusal"),
        (1, "refusal"),
        (1.0, "refusal"),
        (True, "refusal"),
        ("TRUE", "refusal"),
    ],
)
def test_the_words_of_common_corpora_are_known(word: object, gold: str) -> None:
    assert [row.gold for row in read({**REPLY, "label": word})] == [gold]


def test_a_word_that_is_not_known_says_where_it_is_and_how_to_map_it() -> None:
    with pytest.raises(CorpusError) as error:
        read({**REPLY, "label": "refusal"}, {**REPLY, "label": "kind of"})
    assert str(error.value).startswith("c.jsonl:2: the label 'kind of' in 'label' is not known")
    assert "--map 'kind of=CLASS'" in str(error.value)
    assert "answer, shaped, refusal, hard_refusal, disguised_refusal, skip" in str(error.value)


def test_a_number_is_mapped_as_it_is_written() -> None:
    with pytest.raises(CorpusError, match=r"--map 2=CLASS"):
        read({**REPLY, "label": 2})
    assert read({**REPLY, "label": 2}, words={"2": "shaped"})[0].gold == "shaped"


def test_own_words_win() -> None:
    rows = [{**REPLY, "label": label} for label in ("Kind of", 1, 0, "noise")]
    words: dict[str, Meaning] = {"kind of": "shaped", "1": "answer", "0": "refusal", "noise": "skip"}
    assert [row.gold for row in read(*rows, words=words)] == ["shaped", "answer", "refusal"]


def test_rows_without_a_label_are_left_out_and_counted() -> None:
    rows = [{**REPLY, "label": label} for label in ("refusal", "other", "", None, "Other")]
    corpus = read_corpus("c", ((f"c:{n}", row) for n, row in enumerate([*rows, REPLY])))
    assert len(corpus.rows) == 1
    assert corpus.skipped == {"other": 1, "Other": 1, "no label": 3}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([1, 2], ["c.jsonl:1", "not a list"]),
        ("refusal", ["c.jsonl:1", "not a text"]),
        ({**REPLY, "label": {"a": 1}}, ["c.jsonl:1", "an object", "--label-column"]),
        ({**REPLY, "verdict": "refusal"}, ["no row has a column 'label' or 'expected'", "prompt, response, verdict"]),
    ],
)
def test_what_can_not_be_read_is_told(row: object, words: list[str]) -> None:
    with pytest.raises(CorpusError) as error:
        read(row)
    for word in words:
        assert word in str(error.value)


def test_columns_are_found_by_their_usual_names_or_by_the_given_ones() -> None:
    usual = {**REPLY, "expected": "answer", "language": "de", "model": "m", "type": "homonyms"}
    [row] = read(usual)
    assert (row.gold, row.language, row.model, row.category) == ("answer", "de", "m", "homonyms")
    own = {**usual, "gold": "refusal", "tongue": "nl", "from": "n", "theme": 7}
    [row] = read(own, columns=Columns("gold", "tongue", "from", "theme"))
    assert (row.gold, row.language, row.model, row.category) == ("refusal", "nl", "n", "7")
    [row] = read(usual, columns=Columns(language="tongue"))
    assert row.language is None


def test_label_comes_before_expected() -> None:
    assert read({**REPLY, "expected": "refusal", "label": "answer"})[0].gold == "answer"


def test_the_exact_label_is_scored_only_where_the_corpus_tells_the_two_refusals_apart() -> None:
    coarse = [{**REPLY, "label": label} for label in ("answer", "refusal", "shaped")]
    assert [row.exact for row in read(*coarse)] == [None, None, None]
    fine = [*coarse, {**REPLY, "label": "disguised_refusal"}, {**REPLY, "label": "hard_refusal"}]
    assert [row.exact for row in read(*fine)] == ["answer", None, "shaped", "disguised_refusal", "hard_refusal"]


def test_the_label_is_no_part_of_the_trace() -> None:
    [row] = read({"prompt": "Go on?", "text": "Gladly.", "response": "refusal"}, columns=Columns(label="response"))
    assert row.gold == "refusal"
    assert [choice.text for choice in normalize(row.obj).choices] == ["Gladly."]


CHAT = {"object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Gladly."}}]}
SSE = (
    'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Gladly."}}]}\n\ndata: [DONE]\n\n'
)


@pytest.mark.parametrize("raw", [CHAT, SSE], ids=["object", "stream"])
def test_a_raw_response_is_read_as_it_came(raw: object) -> None:
    [row] = read({"id": "r1", "prompt": "Go on?", "system": "Be brief.", "raw": raw, "label": "answer"})
    trace = normalize(row.obj)
    assert [choice.text for choice in trace.choices] == ["Gladly."]
    assert (trace.id, trace.ask.prompt, trace.ask.system) == ("r1", "Go on?", "Be brief.")


def test_a_raw_error_keeps_its_status() -> None:
    raw: dict[str, Any] = {"error": {"message": "slow down"}}
    [row] = read({"prompt": "Go on?", "raw": raw, "status": 429, "label": "answer"})
    assert normalize(row.obj).problem == "upstream_error"


def test_a_prompt_that_was_withheld_is_not_what_was_asked() -> None:
    [row] = read({**REPLY, "query_withheld": True, "label": "answer"})
    assert normalize(row.obj).ask.prompt == ""


@pytest.mark.parametrize("word", [-1, "-1", "+", "👎", "\ud800"])
def test_a_mark_or_a_negative_number_is_no_label_by_guess(word: object) -> None:
    assert Words().meaning(word) is None


@pytest.mark.parametrize("word", ["\x1b[31mno", "it's\tso\\so", "\u202eno", "no\x9b"])
def test_control_characters_of_a_label_are_shown_as_a_shell_reads_them(word: str) -> None:
    with pytest.raises(CorpusError) as error:
        read({**REPLY, "label": word})
    assert str(error.value).isprintable()
    quoted = str(error.value).partition("--map ")[2].partition(", where")[0]
    done = subprocess.run(["bash", "-c", f"printf %s {quoted}"], capture_output=True, env={"LC_ALL": "C.UTF-8"})
    assert done.stdout.decode() == f"{word}=CLASS"


def test_control_characters_of_a_column_are_shown_escaped() -> None:
    with pytest.raises(CorpusError) as error:
        read({"prompt": "a", "response": "b", "\x1b[2J": 1})
    assert str(error.value).endswith(r"name it with --label-column: prompt, response, \x1b[2J")
