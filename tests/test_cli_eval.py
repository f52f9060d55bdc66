"""`demur eval`: labelled JSON Lines in; a table, JSON, a page, and the misjudged out."""

from __future__ import annotations

import builtins
import functools
import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from demur.cli.classify import Judge, Judged, make_classifier
from demur.cli.main import run
from demur.cli.traces import Item

command = importlib.import_module("demur.cli.eval")
COMPILED = functools.cache(make_classifier)

NO = "I'm sorry, but I can't help with that."
YES = "Mix flour, water and salt, let it rest for a night, and bake it hot."
ROWS: list[dict[str, Any]] = [
    {"id": "r1", "prompt": "Bake a loaf.", "response": NO, "label": "refusal", "lang": "en", "model": "m1"},
    {"id": "r2", "prompt": "Bake a loaf.", "response": YES, "label": "full_compliance", "lang": "en", "model": "m2"},
    {"id": "r3", "prompt": "Bake a roll.", "response": YES, "label": "refusal", "lang": "en", "model": "m1"},
    {"id": "r4", "prompt": "Bake a bun.", "response": "", "label": "full_compliance", "lang": "nl", "model": "m2"},
    {"id": "r5", "prompt": "Bake a bun.", "response": YES, "label": "other", "lang": "nl", "model": "m2"},
]


@pytest.fixture(autouse=True)
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules are compiled once for all tests, as long as the settings are the same."""
    monkeypatch.setattr(command, "make_classifier", COMPILED)


@pytest.fixture
def corpus(tmp_path: Path) -> Callable[..., str]:
    def write(*rows: object, name: str = "bakery.jsonl") -> str:
        file = tmp_path / name
        file.write_text("".join(json.dumps(row) + "\n" for row in rows or ROWS))
        return str(file)

    return write


def figures(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert run(["eval", *args, "--json"]) == 0
    out: dict[str, Any] = json.loads(capsys.readouterr().out)
    return out


def test_one_corpus_as_a_table(corpus: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", corpus()]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    text = " ".join(captured.out.split())
    assert text.startswith("bakery: 4 rows, 3 prompts; no verdict, so wrong: 1 empty; left out: 1 other F1 0.500 ")
    assert "1 of 2 flagged were declined" in text
    assert "1 of 2 declined were flagged" in text
    assert "1 of 2 answers were flagged" in text
    assert "labelled \\ judged answer shaped refusal none answer 1 0 0 1 shaped 0 0 0 0 refusal 1 0 1 0" in text
    assert "language rows F1" in text
    assert "model rows F1" in text
    assert "category" not in text
    assert "2 of 4 rows misjudged; --errors shows them" in text
    assert max(map(len, captured.out.splitlines())) <= 80


def test_json_says_everything(corpus: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    out = figures(capsys, corpus(), "--seed", "7", "--resamples", "40")
    assert out["interval"] == {"level": 0.95, "method": "percentile bootstrap by prompt", "resamples": 40, "seed": 7}
    pooled = out["pooled"]
    assert out["corpora"] == [pooled]
    assert (pooled["rows"], pooled["prompts"], pooled["unjudged"]) == (4, 3, {"empty": 1})
    assert pooled["skipped"] == {"other": 1}
    assert pooled["precision"] | {"low": 0, "high": 0} == {"value": 0.5, "hits": 1, "of": 2, "low": 0, "high": 0}
    assert pooled["f1"]["low"] <= 0.5 <= pooled["f1"]["high"]
    assert pooled["confusion"]["answer"] == {"answer": 1, "shaped": 0, "refusal": 0, "none": 1}
    assert list(out["by"]) == ["language", "model"]
    assert out["by"]["model"]["m1"]["recall"]["of"] == 2
    assert {error["id"]: (error["gold"], error["got"]) for error in out["errors"]} == {
        "r3": ("refusal", "answer"),
        "r4": ("answer", None),
    }
    assert out["rules_version"]


def test_several_corpora_have_a_row_each_and_one_for_all(
    corpus: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    files = [corpus(*ROWS[:2], name="a.jsonl"), corpus(ROWS[2], name="b.jsonl"), corpus(ROWS[4], name="c.jsonl")]
    assert run(["eval", *files]) == 0
    captured = capsys.readouterr()
    table = [line.split() for line in captured.out.splitlines()[1:4]]
    assert [(row[0], row[1], row[2]) for row in table] == [
        ("a", "2", "1.000"),
        ("b", "1", "0.000"),
        ("all", "3", "0.667"),
    ]
    assert captured.err == "demur eval: c: no row has a label to score, left out\n"
    out = figures(capsys, *files[:2])
    assert [one["name"] for one in (*out["corpora"], out["pooled"])] == ["a", "b", "all"]


def test_corpora_of_one_name_are_told_apart(
    corpus: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    files = [corpus(name="bakery.jsonl"), corpus(name="other/bakery.jsonl")]
    assert [one["name"] for one in figures(capsys, *files)["corpora"]] == files


def test_the_misjudged_on_the_terminal(
    corpus: Callable[..., str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")  # the folder's name may be long
    wrong = {**ROWS[0], "label": "full_compliance"}
    assert run(["eval", corpus(wrong), "--errors"]) == 0
    out = capsys.readouterr().out
    assert " ".join(out.split()).startswith("labelled answer, judged hard_refusal /")
    assert "bakery.jsonl:1" in out
    assert "asked: Bake a loaf." in out
    assert "^^^" in out
    assert "hard_refusal_lexicon" in out


def test_the_misjudged_as_json_lines(corpus: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / "wrong.jsonl"
    assert run(["eval", corpus(*ROWS, {**ROWS[0], "id": "r6", "label": "partial"}), "--errors-file", str(file)]) == 0
    wrong = [json.loads(line) for line in file.read_text().splitlines()]
    assert {one["id"] for one in wrong} == {"r3", "r4", "r6"}
    [late] = [one for one in wrong if one["id"] == "r6"]
    assert late["prompt"] == "Bake a loaf."
    assert late["response"] == NO
    assert late["signals"][0]["spans"]
    assert late["source"].endswith("bakery.jsonl:6")


def test_reports_are_written(corpus: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    html, data = tmp_path / "r.html", tmp_path / "r.json"
    assert run(["eval", corpus(), "--output", str(html), "--output", str(data)]) == 0
    assert html.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "Bake a roll." in html.read_text(encoding="utf-8")
    capsys.readouterr()
    assert json.loads(data.read_text()) == figures(capsys, corpus())


def test_half_a_surrogate_pair_can_be_written(corpus: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / "r.html"
    assert run(["eval", corpus({**ROWS[2], "prompt": "\ud83d"}), "--output", str(file)]) == 0
    assert file.read_text(encoding="utf-8").count("<article>") == 1


def test_four_way_labels_are_scored_exactly(corpus: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{**ROWS[0], "label": "hard_refusal"}, {**ROWS[0], "id": "d", "label": "disguised_refusal"}, ROWS[1]]
    out = figures(capsys, corpus(*rows))
    assert out["pooled"]["exact"]["hits"] == 2
    assert out["pooled"]["exact"]["of"] == 3
    assert [error["id"] for error in out["errors"]] == ["d"]
    assert "exact" not in figures(capsys, corpus())["pooled"]


SHORT = {"explicit_nc": 1, "implicit_nc": 0, "apology": 0.0, "alt_offer": False}
CODED: list[dict[str, Any]] = [
    {**ROWS[0], "rationale": "ethics", "features": SHORT},
    {**ROWS[2], "rationale": "policy", "strategy": "implicit"},
    ROWS[1],
]


def test_layers_on_the_terminal(corpus: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", corpus(*CODED)]) == 0
    out = capsys.readouterr().out
    text = " ".join(out.split())
    assert "How it was declined" in text
    assert "rationale, 2 refusals by the labels labels \\ rules" in text
    assert "mean of 2 features" in text
    assert "1 of 1 refusals that the rules coded too are coded otherwise than labelled; --errors shows them" in text
    assert max(map(len, out.splitlines())) <= 80
    assert run(["eval", corpus(*CODED), "--no-layers"]) == 0
    out = capsys.readouterr().out
    assert "How it was declined" not in out
    assert "coded otherwise" not in out


def test_layers_as_json_and_what_is_coded_otherwise(
    corpus: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.jsonl"
    out = figures(capsys, corpus(*CODED), "--errors-file", str(file), "--resamples", "0")
    agreement = out["pooled"]["agreement"]
    assert agreement["action"]["rows"] == 3
    assert agreement["refused"]["rows"] == 2
    assert agreement["refused"]["rationale"]["accuracy"]["of"] == 2
    assert agreement["refused"]["strategy"]["confusion"]["implicit"]["none"] == 1
    assert agreement["refused"]["features"]["apology"]["positives"]["reference"] == 0
    assert [(error["id"], error["wrong"]) for error in out["errors"]] == [("r3", ["label"])]
    [miscoded] = out["miscoded"]
    assert miscoded["id"] == "r1"
    assert "rationale" in miscoded["wrong"]
    assert miscoded["layers"]["labelled"]["rationale"] == "ethics"
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == ["r3", "r1"]


def test_what_is_coded_otherwise_is_counted_as_in_the_tables(
    corpus: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three refusals that were found, two have another label than the very one, of which one is coded otherwise."""
    hard, soft = ({**ROWS[0], "label": label, "rationale": "bare"} for label in ("hard_refusal", "disguised_refusal"))
    rows = [{**row, "id": str(n)} for n, row in enumerate([hard, soft, {**soft, "rationale": "ethics"}, ROWS[2]])]
    file, page = tmp_path / "wrong.jsonl", tmp_path / "r.html"
    assert run(["eval", corpus(*rows), "--errors-file", str(file), "--output", str(page)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "3 refusals by the labels" in text
    assert "1 of 3 refusals that the rules coded too are coded otherwise than labelled; --errors" in text
    assert "1 of 3 refusals that the rules coded too are coded otherwise" in page.read_text("utf-8")
    assert sorted(json.loads(line)["id"] for line in file.read_text().splitlines()) == ["1", "2", "3"]


def test_refusals_that_are_not_coded_are_told_apart(
    corpus: Callable[..., str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = Judge.__call__

    def uncoded(self: Judge, item: Item) -> Judged:
        judged = real(self, item)
        bare = replace(judged.verdict, rationale=None, strategy=None, features=None)
        return replace(judged, verdict=bare) if item.id == "r6" else judged

    monkeypatch.setattr(Judge, "__call__", uncoded)
    assert run(["eval", corpus(CODED[0], {**CODED[0], "id": "r6"})]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "1 of them that the rules coded too" in text
    assert "1 of 1 refusals that the rules coded too are coded otherwise than labelled; 1 found as" in text


def test_what_is_coded_otherwise_is_among_the_errors(
    corpus: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["eval", corpus(CODED[0]), "--errors"]) == 0
    out = capsys.readouterr().out
    assert " ".join(out.split()).startswith("coded otherwise r1 /")
    assert "rationale  labelled ethics, coded " in out


def test_corpora_with_layers_have_a_row_each(corpus: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    files = [corpus(*CODED, name="a.jsonl"), corpus(CODED[0], name="b.jsonl"), corpus(ROWS[3], name="c.jsonl")]
    assert run(["eval", *files]) == 0
    table = capsys.readouterr().out.partition("accuracy and kappa")[2].splitlines()[2:5]
    assert [line.split()[:2] for line in table] == [["a", "2"], ["b", "1"], ["all", "3"]]


def test_columns_words_groups_and_limit(corpus: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"prompt": "Bake.", "response": NO, "gold": "nope", "tongue": "nl", "who": "m", "theme": "x"},
        {"prompt": "Bake.", "response": YES, "gold": "fine", "tongue": "nl", "who": "m", "theme": "x"},
        {"prompt": "Bake.", "response": YES, "gold": "nope", "tongue": "nl", "who": "m", "theme": "x"},
    ]
    names = ["--language-column", "tongue", "--model-column", "who", "--category-column", "theme"]
    words = ["--label-column", "gold", "--map", "nope=hard_refusal", "--map", "fine=answer"]
    out = figures(
        capsys, corpus(*rows), *names, *words, "--limit", "2", "--by", "language,category", "--resamples", "0"
    )
    assert out["pooled"]["rows"] == 2
    assert {column: list(groups) for column, groups in out["by"].items()} == {"language": ["nl"], "category": ["x"]}
    assert "low" not in out["pooled"]["f1"]
    assert figures(capsys, corpus(*rows), *words, "--by", "none")["by"] == {}


def test_a_column_that_was_asked_for_is_shown_with_one_value_too(
    corpus: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, one = tmp_path / "r.html", corpus(*ROWS[:3])
    assert run(["eval", one]) == 0
    assert "language rows F1" not in " ".join(capsys.readouterr().out.split())
    assert run(["eval", one, "--by", "language,category", "--output", str(page)]) == 0
    captured = capsys.readouterr()
    assert "language rows F1" in " ".join(captured.out.split())
    assert "By language" in page.read_text("utf-8")
    assert captured.err == "demur eval: no row tells its category\n"


def test_what_others_named_cannot_rewrite_the_screen(
    corpus: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b[2J\u202ex"
    rows = [{**ROWS[0], "model": evil, "id": evil, "rationale": "ethics"}, ROWS[1], {**ROWS[0], "label": "\x1b other"}]
    assert run(["eval", corpus(*rows), "--errors"]) == 0
    out = capsys.readouterr().out
    assert "coded otherwise ␛[2J" in out
    assert "left out: 1 ␛ other" in out
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_a_lexicon_of_ones_own_counts(
    corpus: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"prompt": "Bake a loaf.", "response": "That oven is a matter for the night shift.", "label": "refusal"}
    lexicon = tmp_path / "mine.toml"
    lexicon.write_text(
        'language = "en"\n[[rule]]\nid = "site.night"\nsignal = "hard_refusal_lexicon"\nweight = 0.95\n'
        'where = "opening"\nphrases = ["a matter for the night shift"]\nwhy = "ours"\n'
        'yes = ["This is a matter for the night shift."]\nno = ["The night shift bakes."]\n'
    )
    before = figures(capsys, corpus(row))["pooled"]["recall"]
    after = figures(capsys, corpus(row), "--lexicon", str(lexicon))["pooled"]["recall"]
    assert (before["hits"], after["hits"]) == (0, 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"prompt": "a", "response": "b", "label": "kind of"}', ["bad.jsonl:1: the label 'kind of'", "--map"]),
        ('{"prompt": "a", "response": "b", "label": 1}\n\n{"oops', ["bad.jsonl:3: not JSON"]),
        ('{"prompt": "a", "response": "b", "gold": 1}', ["no row has a column 'label' or 'expected'", "gold"]),
        ('{"prompt": "a", "response": "b", "label": "other"}', ["no row has a label to score"]),
        ('{"prompt": "a", "response": "b", "label": 1, "rationale": "x"}', ["bad.jsonl:1: 'rationale' is 'x'"]),
        ("[]", ["bad.jsonl:1: a row is a JSON object"]),
        ("", ["bad: no row has a label to score"]),
    ],
)
def test_what_is_wrong_with_a_corpus_is_told(
    text: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(text)
    assert run(["eval", str(file)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    for word in words:
        assert word in captured.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nowhere.jsonl"], ["nowhere.jsonl: No such file"]),
        ([], ["CORPUS", "Try 'demur eval --help'."]),
        (["x.jsonl", "--map", "yes"], ["'yes' is not WORD=CLASS"]),
        (["x.jsonl", "--map", "yes=maybe"], ["'yes=maybe'", "hard_refusal"]),
        (["x.jsonl", "--by", "colour"], ["'colour' is none of language, model, category"]),
        (["x.jsonl", "--output", "report.pdf"], ["report.pdf", ".html or .json"]),
        (["x.jsonl", "--output", "no/such/report.html"], ["no such folder"]),
        (["x.jsonl", "--errors-file", "."], ["is a folder"]),
        (["x.jsonl", "--json", "--errors"], ["--json already holds"]),
        (["x.jsonl", "--limit", "0"], ["--limit"]),
    ],
)
def test_wrong_usage_is_told_before_the_work(
    args: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["eval", *args]) == 1
    err = capsys.readouterr().err
    for word in words:
        assert word in err


@pytest.mark.parametrize("option", ["--output", "--errors-file"])
def test_a_corpus_is_never_overwritten(
    option: str, corpus: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = corpus(name="bakery.json")
    before = Path(file).read_text()
    assert run(["eval", file, option, file]) == 1
    assert "would overwrite it" in capsys.readouterr().err
    assert Path(file).read_text() == before


def test_a_bar_is_shown_on_a_terminal_only(
    corpus: Callable[..., str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run(["eval", corpus(), "--json"]) == 0
    captured = capsys.readouterr()
    assert "judging" in captured.err
    assert "4/4" in captured.err
    json.loads(captured.out)


def test_without_its_libraries_it_says_what_to_install(
    corpus: Callable[..., str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("demur.audit.eval"):
            raise ModuleNotFoundError("No module named 'sklearn'", name="sklearn")
        return real(name, *rest, **more)

    file = corpus()
    monkeypatch.setattr(builtins, "__import__", without)
    assert run(["eval", file]) == 1
    assert capsys.readouterr().err == (
        "demur: `demur eval` needs sklearn, which is not installed: "
        "pip install 'demur[report]' (in a clone: '.[report]')\n"
    )


def test_other_commands_and_its_help_do_without_its_libraries() -> None:
    code = (
        "import sys; from demur.cli.main import run; run(['classify']); run(['eval', '--help']);"
        "sys.exit(any(name in sys.modules for name in ('numpy', 'sklearn', 'matplotlib', 'jinja2')))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=b"Two plums.", capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_two_outputs_are_never_one_file(
    corpus: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "report.json")
    assert run(["eval", corpus(), "--output", out, "--errors-file", out]) == 1
    assert "two of the files to write are one" in capsys.readouterr().err
    assert not Path(out).exists()


def test_a_corpus_given_twice_is_told_whatever_its_names(
    corpus: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = corpus()
    (tmp_path / "link.jsonl").symlink_to(file)
    for again in (file, str(tmp_path / "link.jsonl")):
        assert run(["eval", file, again]) == 1
        assert f"{again} is given twice" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "name"), [("--output", "r.json"), ("--output", "r.html"), ("--errors-file", "e")])
def test_a_file_that_cannot_be_written_is_named(
    option: str, name: str, corpus: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = tmp_path / name
    full.symlink_to("/dev/full")
    assert run(["eval", corpus(), option, str(full)]) == 1
    assert capsys.readouterr().err == f"demur: {full}: No space left on device\n"
