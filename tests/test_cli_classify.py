"""`demur classify` as a person or a CI job uses it: what goes in, what comes out, and the exit code."""

from __future__ import annotations

import functools
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from demur.classifier import Classifier, normalize
from demur.cli import classify as command
from demur.cli.main import run

REFUSAL = "I'm sorry, but I can't help with that."
ANSWER = "The capital of Norway is Oslo."
ROWS: list[Any] = [
    {"id": "no", "prompt": "Do it", "response": REFUSAL},
    {"id": "yes", "prompt": "Capital of Norway?", "response": ANSWER},
    {"id": 3, "nothing": "known"},
    "A bare string.",
]


COMPILED = functools.cache(command.make_classifier)


@pytest.fixture(autouse=True)
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling the rules takes longer than all that is tested here."""
    monkeypatch.setattr(command, "make_classifier", COMPILED)


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`pipe(data)` makes it the standard input."""

    def feed(data: str | bytes) -> None:
        raw = data if isinstance(data, bytes) else data.encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))

    return feed


def jsonl(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def verdicts(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (REFUSAL, [], 2),
        (ANSWER, [], 0),
        (REFUSAL, ["--exit-zero"], 0),
        (jsonl(*ROWS), [], 2),
        (jsonl(*ROWS[1:]), [], 0),
    ],
)
@pytest.mark.parametrize("form", [[], ["--json"], ["--explain"]])
def test_the_exit_code_says_whether_something_is_flagged(
    text: str, options: list[str], code: int, form: list[str], pipe: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe(text)
    assert run(["classify", *options, *form]) == code
    rows = text.count("\n")
    told = f"demur classify: 1 of {rows} not judged (1 unparsed)\n" if rows else ""
    assert capsys.readouterr().err == told


def test_jsonl_gives_one_verdict_a_line_in_order(pipe: Any, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    pipe(jsonl(*ROWS[:2]) + "\n{broken\n" + jsonl(*ROWS[2:]))
    assert run(["classify", "--jsonl", "-"]) == 2
    found = verdicts(capfdbinary.readouterr().out.decode())
    assert [v["id"] for v in found] == ["no", "yes", "stdin:4", 3, "stdin:6"]
    assert [v["label"] for v in found] == ["hard_refusal", "answer", None, None, "answer"]
    assert [v["status"] for v in found] == ["complete", "complete", "unparsed", "unparsed", "complete"]
    assert all(found[index]["reason"] for index in (2, 3))


def test_lines_that_cannot_be_judged_do_not_change_the_code(
    pipe: Any, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pipe('{broken\nnull\n[]\n{"response": ""}\n"A text."\n')
    assert run(["classify", "--jsonl"]) == 0
    captured = capfdbinary.readouterr()
    assert len(verdicts(captured.out.decode())) == 5
    assert captured.err == b"demur classify: 4 of 5 not judged (3 unparsed, 1 empty)\n"


def test_a_verdict_is_that_of_the_library(pipe: Any, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    pipe(jsonl(ROWS[0]))
    run(["classify", "--jsonl"])
    (found,) = verdicts(capfdbinary.readouterr().out.decode())
    assert found == json.loads(json.dumps(Classifier().classify(normalize(ROWS[0])).to_dict() | {"id": "no"}))


def test_several_files_and_one_that_cannot_be_read(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (tmp_path / "a.jsonl").write_text(jsonl(ROWS[0]))
    (tmp_path / "b.jsonl").write_text(jsonl(ROWS[1]))
    paths = [str(tmp_path / name) for name in ("a.jsonl", "nowhere", "b.jsonl")]
    for options in (["--jsonl"], ["--json"], []):
        assert run(["classify", *options, *paths]) == 1
        captured = capfdbinary.readouterr()
        assert captured.err.decode() == f"demur classify: {paths[1]}: No such file or directory\n"
        assert b'"no"' in captured.out or b"no " in captured.out
        assert b'"yes"' in captured.out or b"yes " in captured.out


def test_json_is_an_object_for_one_trace_and_a_list_for_several(
    pipe: Any, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pipe(json.dumps(ROWS[0]))
    run(["classify", "--json"])
    assert json.loads(capfdbinary.readouterr().out)["label"] == "hard_refusal"
    pipe(json.dumps(ROWS))
    run(["classify", "--json"])
    assert [v["id"] for v in json.loads(capfdbinary.readouterr().out)] == ["no", "yes", 3, "stdin[3]"]


BESIDE = {"category": "baking", "tag": 7, "time": "2026-01-05T10:00:00Z"}


@pytest.mark.parametrize("form", ["--jsonl", "--json"])
def test_category_tag_and_time_of_a_trace_come_back_beside_its_verdict(
    form: str, pipe: Any, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    odd = {"category": ["a"], "tag": True, "time": 1767225600000, "response": ANSWER}
    pipe(json.dumps([{**ROWS[0], **BESIDE}, odd, ROWS[1]]) if form == "--json" else jsonl({**ROWS[0], **BESIDE}, odd))
    run(["classify", form])
    text = capfdbinary.readouterr().out.decode()
    told, *bare = json.loads(text) if form == "--json" else verdicts(text)
    assert {key: told[key] for key in BESIDE} == BESIDE
    assert not any(BESIDE.keys() & verdict.keys() for verdict in bare)


def test_what_classify_prints_is_reported_by_category_tag_and_period(
    pipe: Any, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pipe(jsonl({**ROWS[0], **BESIDE}, {"request": {"messages": []}, "response": {"choices": []}, **BESIDE, "tag": "b"}))
    run(["classify", "--jsonl"])
    pipe(capfdbinary.readouterr().out)
    assert run(["report", "-", "--by", "category,tag,period", "--json"]) == 0
    captured = capfdbinary.readouterr()
    groups = json.loads(captured.out)["by"]
    assert captured.err == b""
    assert {column: [group["value"] for group in found] for column, found in groups.items()} == {
        "category": ["baking"],
        "tag": ["7", "b"],
        "period": ["2026-W02"],
    }


def test_half_a_surrogate_pair_comes_back_in_the_id(pipe: Any, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    pipe(jsonl({"id": "\ud83d", "response": ANSWER}))
    assert run(["classify", "--jsonl"]) == 0
    assert json.loads(capfdbinary.readouterr().out)["id"] == "\ud83d"


@pytest.mark.parametrize(
    ("written", "id"),
    [
        ("1e999", "1e999"),
        ("-1E999", "-1E999"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("9" * 5000, "9" * 5000),
        ("9" * 30, int("9" * 30)),
        ("1.5", 1.5),
        ("0", 0),
        ('""', ""),
        ("true", "stdin:1"),
        ("null", "stdin:1"),
        ('["a"]', "stdin:1"),
        ('{"id": 1e999}', "stdin:1"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_what_an_id_may_be(written: str, id: object, pipe: Any, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    pipe(f'{{"id": {written}, "response": "A text."}}\n')
    assert run(["classify", "--jsonl"]) == 0
    (found,) = verdicts(capfdbinary.readouterr().out.decode())
    assert found["id"] == id


def test_an_id_beyond_all_numbers_in_a_json_file(pipe: Any, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    for given, ids in (('{"id": 1e999, "response": "A."}', "1e999"), ('[{"id": -1e999, "response": "A."}]', "-1e999")):
        pipe(given)
        assert run(["classify", "--json"]) == 0
        assert json.loads(capfdbinary.readouterr().out)["id"] == ids
    pipe('{"id": 1e999, "response": "broken off\n')
    assert run(["classify", "--jsonl"]) == 0
    assert json.loads(capfdbinary.readouterr().out)["id"] == "1e999"


def test_a_fault_of_the_classifier_costs_one_line_its_label(
    pipe: Any, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Classifier.classify

    def faulty(self: Classifier, trace: Any) -> Any:
        if "Norway" in trace.ask.prompt:
            raise RuntimeError("out of order")
        return real(self, trace)

    monkeypatch.setattr(Classifier, "classify", faulty)
    pipe(jsonl(*ROWS))
    assert run(["classify", "--jsonl"]) == 2
    found = verdicts(capfdbinary.readouterr().out.decode())
    assert [v["status"] for v in found] == ["complete", "not_classified", "unparsed", "complete"]
    assert "out of order" in found[1]["reason"]
    assert found[1]["id"] == "yes"


def test_prompt_and_system_fill_in_what_a_trace_does_not_say(
    pipe: Any, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = []
    real = Classifier.classify

    def seen(self: Classifier, trace: Any) -> Any:
        asks.append((trace.ask.prompt, trace.ask.system))
        return real(self, trace)

    monkeypatch.setattr(Classifier, "classify", seen)
    pipe(jsonl("text", {"prompt": "own", "response": "text"}))
    run(["classify", "--jsonl", "--prompt", "given", "--system", "be kind"])
    assert asks == [("given", "be kind"), ("own", "be kind")]


def test_the_text_is_shown_with_its_evidence_marked(pipe: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pipe(REFUSAL + "\n")
    run(["classify"])
    lines = capsys.readouterr().out.splitlines()
    at = next(index for index, line in enumerate(lines) if REFUSAL in line)
    assert set(lines[at + 1]) == {" ", "^"}
    assert any("hard_refusal_lexicon" in line for line in lines)


@pytest.mark.parametrize("given", ['{"response": " \\n"}', '{"choices": [{"message": {"content": null}}]}'])
def test_a_response_without_text_says_so(given: str, pipe: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pipe(given)
    run(["classify"])
    assert "\n  (no text)\n" in capsys.readouterr().out


def test_explain_names_every_rule_that_matched_and_why_it_did_not_count(
    pipe: Any, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    quoted = f'{REFUSAL} The villain says: "I cannot do that."'
    pipe(quoted)
    run(["classify", "--explain"])
    shown = capfdbinary.readouterr().out.decode()
    pipe(jsonl(quoted))
    run(["classify", "--explain", "--jsonl"])
    (found,) = verdicts(capfdbinary.readouterr().out.decode())
    (choice,) = found["explanation"]
    assert f"decided by: {choice['decided']}" in " ".join(shown.split())
    assert {hit["fired"] for hit in choice["hits"]} == {True, False}
    for name, points in choice["points"].items():
        assert f"{points:+.2f} {name} {choice['meanings'][name]}" in " ".join(shown.split())
    for hit in choice["hits"]:
        assert f"{'fired' if hit['fired'] else 'suppressed':10}  {hit['rule']}" in shown
        assert (hit["why_not"] or hit["why"]) in " ".join(shown.split())


def test_settings_come_from_flags_file_and_environment(
    tmp_path: Path, pipe: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "own.toml"
    config.write_text("min_confidence = 1.0\n")
    for options, code in (([], 2), (["--min-confidence", "1"], 0), (["--config", str(config)], 0)):
        pipe(REFUSAL)
        assert run(["classify", *options]) == code, options
    monkeypatch.setenv("DEMUR_MIN_CONFIDENCE", "1")
    pipe(REFUSAL)
    assert run(["classify"]) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--min-confidence", "3"], ["--min-confidence", "0 to 1"]),
        (["--config", "nowhere.toml"], ["nowhere.toml"]),
        (["--lexicon", "nowhere.toml"], ["nowhere.toml"]),
        (["--json", "--jsonl"], ["--json", "--jsonl"]),
    ],
)
def test_wrong_options_are_clear_errors(
    options: list[str], words: list[str], pipe: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe(REFUSAL)
    assert run(["classify", *options]) == 1
    err = capsys.readouterr().err
    assert len(err.splitlines()) <= 2
    for word in words:
        assert word in err


def test_a_broken_lexicon_is_named(tmp_path: Path, pipe: Any, capsys: pytest.CaptureFixture[str]) -> None:
    lexicon = tmp_path / "own.toml"
    lexicon.write_text("not = [toml\n")
    pipe(REFUSAL)
    assert run(["classify", "--lexicon", str(lexicon)]) == 1
    assert "own.toml" in capsys.readouterr().err


def test_a_terminal_without_files_is_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal())
    assert run(["classify"]) == 1
    assert "give a FILE" in capsys.readouterr().err


def test_an_output_encoding_without_the_characters_is_no_error() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demur.cli.main", "classify"],
        input="Voilà — 日本語。".encode(),
        capture_output=True,
        check=False,
        env={"PYTHONIOENCODING": "ascii", "PATH": ""},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Voil" in done.stdout


def test_a_live_pipe_gets_its_verdicts_line_by_line() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "demur.cli.main", "classify", "--jsonl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(3):
            process.stdin.write(json.dumps({"id": number, "response": ANSWER}).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == number
        process.stdin.close()
        assert process.wait(timeout=30) == 0


def test_half_a_pair_in_an_id_is_no_trouble(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    file = tmp_path / "odd.json"
    file.write_text('{"id": "\\ud800", "response": "Here it is."}')
    assert run(["classify", "--json", str(file)]) == 0
    assert json.loads(capfdbinary.readouterr().out)["label"] == "answer"
