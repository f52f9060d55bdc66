"""`demur report`: files of verdicts in; words, tables, JSON, CSV and Markdown out."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from exchanges import exchange
from verdict_records import ANSWER, BLOCKED, EMPTY, NOT_CODED, SHAPED, refused

from demur.audit.facework import KEPT
from demur.cli import report_render
from demur.cli.main import run
from demur.proxy.verdict_log import record

NO = "I'm sorry, but I can't help with that."
LOG: list[dict[str, Any]] = [
    {"id": "1", "time": "2026-01-05T10:00:00Z", "model": "m1", "tag": "a", "verdict": refused("apology")},
    {"id": "2", "time": "2026-01-06T10:00:00Z", "model": "m1", "tag": "b", "verdict": refused(why="ethics")},
    {"id": "3", "time": "2026-01-12T10:00:00Z", "model": "m2", "tag": "a", "verdict": ANSWER},
    {"id": "4", "time": "2026-01-13T10:00:00Z", "model": "m2", "tag": None, "verdict": BLOCKED},
    {"id": "5", "time": "2026-01-14T10:00:00Z", "model": None, "tag": "a", "verdict": EMPTY},
    {"id": "6", "time": "2026-01-15T10:00:00Z", "model": None, "tag": "a", "verdict": NOT_CODED},
    {"id": "7", "time": "2026-01-15T10:00:00Z", "model": None, "tag": "a", "verdict": None},
]

Write = Callable[..., str]


@pytest.fixture
def log(tmp_path: Path) -> Write:
    def write(*records: object, name: str = "v.jsonl") -> str:
        file = tmp_path / name
        file.write_text("".join(json.dumps(record) + "\n" for record in records or LOG), "utf-8")
        return str(file)

    return write


def figures(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["report", *args, "--json"]) == 0
    out: dict[str, Any] = json.loads(capsys.readouterr().out)
    return out


def lines(capsys: pytest.CaptureFixture[str], *args: str) -> list[str]:
    assert run(["report", *args]) == 0
    return capsys.readouterr().out.splitlines()


def test_the_table(log: Write, capsys: pytest.CaptureFixture[str]) -> None:
    out = lines(capsys, log())
    text = " ".join(" ".join(out).split())
    assert text.startswith(
        "6 responses, 5 judged; not judged: 1 empty; 1 record without a verdict "
        "Of 5 judged responses, too few for a rate, 4 are refusals. "
        "Of 2 coded refusals (without 1 blocked by the provider, 1 not coded) it "
    )
    assert "refusal 4/5 – 4 of 5" in text
    assert "ethics 1/2 – 1 of 2" in text
    assert "m1 2 2 2/2 1/2 1/2 0/2 0/2 0/2 1/2" in text
    assert "m2 2 0 1/2 – – – – – –" in text
    assert "2026-W02 2 2" in text
    assert "3 of 3 groups have fewer than 20 coded refusals, too few for a rate: they have counts, and no" in text
    assert "category" not in text
    assert max(map(len, out)) <= 80


def test_big_numbers_and_long_names_fit_the_screen(log: Write, capsys: pytest.CaptureFixture[str]) -> None:
    many = [{"verdict": refused("apology"), "model": model} for model in ("a" * 60, "日本" * 20) for _ in range(1200)]
    out = lines(capsys, log(*many))
    assert any(" 1,200 " in line for line in out)
    assert max(map(len, out)) <= 80
    assert not [line for line in out if "…" in line]


def test_json_by_every_column(log: Write, capsys: pytest.CaptureFixture[str]) -> None:
    out = figures(capsys, log(), "--by", "model", "--by", "tag,period", "--period", "day")
    assert list(out["by"]) == ["model", "tag", "period"]
    assert [group["value"] for group in out["by"]["period"]][:2] == ["2026-01-05", "2026-01-06"]
    assert {group["value"]: group["responses"] for group in out["by"]["tag"]} == {"a": 4, "b": 1, None: 1}
    for groups in out["by"].values():
        assert sum(group["responses"] for group in groups) == out["whole"]["responses"] == 6


def test_the_three_kinds_of_records_and_files(log: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    probes = [
        {"probe_id": "p", "prompt": "Bake.", "category": "bread", "error": None, "verdict": SHAPED},
        {"probe_id": "q", "prompt": "Bake.", "category": "bread", "error": "timeout", "verdict": None},
    ]
    (tmp_path / "run.json").write_text(json.dumps(probes, indent=1), "utf-8-sig")
    (tmp_path / "one.json").write_text(json.dumps(ANSWER, indent=1))
    bare = log(*[refused("hedge") | {"language": "ko"}] * 3, name="bare.jsonl")
    wire = log(record(exchange(verdict=None)), name="wire.jsonl")
    out = figures(capsys, bare, str(tmp_path / "run.json"), str(tmp_path / "one.json"), wire)
    assert out["records"] == 7
    assert out["left_out"] == {"error": 1, "no verdict": 1}
    assert (out["whole"]["coded"], out["whole"]["partial"], out["whole"]["answers"]) == (3, 1, 1)
    assert [group["value"] for group in out["by"]["category"]] == ["bread", None]


def test_what_classify_prints_can_be_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces = tmp_path / "traces.jsonl"
    traces.write_text(json.dumps({"prompt": "Bake a loaf.", "response": NO, "model": "m"}) + "\n")
    for flags in (["--jsonl"], ["--json"], ["--json", "--explain"]):
        assert run(["classify", *flags, str(traces)]) == 2
        verdicts = tmp_path / "verdicts.json"
        verdicts.write_text(capsys.readouterr().out)
        out = figures(capsys, str(verdicts))
        assert (out["whole"]["responses"], out["whole"]["refusals"]) == (1, 1)
        assert out["by"]["model"][0]["value"] == "m"


@pytest.mark.parametrize("document", [False, True])
def test_a_review_replaces_the_line_of_its_id(
    document: bool, log: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    review = {**LOG[1], "reviewed": True, "verdict": SHAPED}
    files = [log(*LOG[:3]), log(review, name="next.jsonl")]
    if document:
        (tmp_path / "all.json").write_text(json.dumps([*LOG[:3], review]))
        files = [str(tmp_path / "all.json")]
    out = figures(capsys, *files)
    assert (out["records"], out["reviewed"]) == (3, 1)
    assert (out["whole"]["responses"], out["whole"]["partial"], out["whole"]["coded"]) == (3, 1, 1)
    assert "1 replaced by their review" in " ".join(" ".join(lines(capsys, *reversed(files))).split())


@pytest.mark.parametrize("document", [False, True])
def test_a_bad_review_leaves_what_it_reviews(
    document: bool, log: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    review = {**LOG[1], "reviewed": True, "verdict": {**SHAPED, "label": "maybe"}}
    file = log(*LOG[:3], review)
    if document:
        file = str(tmp_path / "all.json")
        Path(file).write_text(json.dumps([*LOG[:3], review]))
    out = figures(capsys, file, "--skip-bad")
    assert (out["records"], out["reviewed"], out["whole"]["coded"]) == (3, 0, 2)


def test_a_review_of_what_is_nowhere_replaced_nothing(log: Write, capsys: pytest.CaptureFixture[str]) -> None:
    orphan = {**LOG[1], "reviewed": True}
    out = figures(capsys, log(LOG[0], orphan))
    assert (out["records"], out["reviewed"]) == (2, 0)
    assert "replaced" not in "\n".join(lines(capsys, log(LOG[0], orphan)))
    twice = figures(capsys, log(LOG[1], orphan, {**orphan, "verdict": SHAPED}))
    assert (twice["records"], twice["reviewed"], twice["whole"]["partial"]) == (1, 1, 1)


def test_an_id_is_one_number_however_it_is_written(log: Write, capsys: pytest.CaptureFixture[str]) -> None:
    out = figures(capsys, log({**LOG[0], "id": 1}, {**LOG[0], "id": 1.0, "reviewed": True, "verdict": SHAPED}))
    assert (out["records"], out["reviewed"], out["whole"]["partial"]) == (1, 1, 1)


@pytest.mark.parametrize("piped", [True, False])
def test_standard_input(piped: bool, log: Write) -> None:
    review = {**LOG[0], "reviewed": True, "verdict": SHAPED}
    data = Path(log(LOG[0], review)).read_bytes()
    code = "import sys; from demur.cli.main import run; sys.exit(run(['report', '-', '--json']))"
    with Path(log(LOG[0], review)).open("rb") as file:
        source: dict[str, Any] = {"input": data} if piped else {"stdin": file}
        done = subprocess.run([sys.executable, "-c", code], **source, capture_output=True, check=True)
    out = json.loads(done.stdout)
    assert (out["records"], out["whole"]["partial"]) == (1, 1)


def test_a_named_pipe_is_read_once(log: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", 'cat "$0" > "$1"', log(), str(pipe)]) as process:
        assert figures(capsys, str(pipe))["records"] == 7
        assert process.wait(60) == 0


def test_all_the_files_to_write(log: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(tmp_path / f"r.{suffix}") for suffix in ("json", "csv", "md")]
    assert run(["report", log(), *(word for name in names for word in ("--output", name))]) == 0
    data, table, text = (Path(name).read_text("utf-8") for name in names)
    assert json.loads(data) == figures(capsys, log())
    rows = list(csv.DictReader(io.StringIO(table)))
    assert {row["by"] for row in rows} == {"all", "model", "tag", "period"}
    (apology,) = [row for row in rows if (row["by"], row["figure"]) == ("all", "feature.apology")]
    assert (apology["hits"], apology["of"], apology["rate"]) == ("1", "2", "0.500000")
    assert text.startswith(
        "# How it said no\n\n6 responses, 5 judged; not judged: 1 empty; 1 record without a verdict.\n"
    )
    assert "\n\nOf 5 judged responses, too few for a rate, 4 are refusals." in text


BAD = {
    "{oops": "v.jsonl:2: not JSON",
    "[1]": "v.jsonl:2: a verdict is a JSON object",
    '{"prompt": "a", "response": "b"}': "v.jsonl:2: no verdict: this is a response that was not judged yet",
    '{"label": "maybe", "status": "complete"}': "v.jsonl:2: label: Invalid enum value 'maybe'",
}


@pytest.mark.parametrize(("bad", "message"), BAD.items(), ids=BAD)
def test_a_bad_line_ends_the_run_or_is_left_out(
    bad: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, good = tmp_path / "v.jsonl", json.dumps(LOG[0])
    file.write_text(f"{good}\n{bad}\n{good}\n{bad}\n")
    assert run(["report", str(file)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.endswith("\n--skip-bad leaves such lines out\n")
    assert run(["report", str(file), "--skip-bad", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["whole"]["responses"] == 2
    assert captured.err.startswith("demur report: 2 lines left out, the first is ")
    assert message in captured.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no verdict to report on\n"),
        ("\n \n", "no verdict to report on\n"),
        ('{"verdict": null}\n', "no verdict to report on (1 with no verdict)\n"),
        ('[{"verdict": null, "error": "timeout"}]', "no verdict to report on (1 with error)\n"),
        ("[]", "an empty JSON list"),
        ('{\n"label": "answer",\n', "v.jsonl: not JSON"),
        ('[{"label": "answer"}]', "v.jsonl[0]: no verdict"),
    ],
)
def test_nothing_to_report_on_is_an_error(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "v.jsonl"
    file.write_text(text)
    assert run(["report", str(file)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert "v.jsonl" in captured.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nowhere.jsonl"], ["nowhere.jsonl: No such file"]),
        (["."], [".: Is a directory"]),
        ([], ["VERDICTS", "Try 'demur report --help'."]),
        (["x.jsonl", "x.jsonl"], ["x.jsonl is given twice"]),
        (["x.jsonl", "--by", "model,colour"], ["'colour' is none of model, release, category"]),
        (["x.jsonl", "--period", "year"], ["'year' is not one of 'day', 'week', 'month'"]),
        (["x.jsonl", "--output", "r.html"], ["r.html", ".json or .csv or .md"]),
        (["x.jsonl", "--output", "no/such/r.csv"], ["no such folder"]),
        (["x.jsonl", "--output", "r.csv", "--output", "./r.csv"], ["two of the files to write are one"]),
    ],
)
def test_wrong_usage_is_told(args: list[str], words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", *args]) == 1
    err = capsys.readouterr().err
    for word in words:
        assert word in err


def test_verdicts_are_never_overwritten(log: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = log(name="v.json")
    before = Path(file).read_text()
    assert run(["report", file, "--output", file]) == 1
    assert "would overwrite it" in capsys.readouterr().err
    assert Path(file).read_text() == before


def test_a_file_given_twice_is_told_whatever_its_names(
    log: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = log()
    (tmp_path / "link.jsonl").symlink_to(file)
    for again in (file, str(tmp_path / "." / ".." / tmp_path.name / "v.jsonl"), str(tmp_path / "link.jsonl")):
        assert run(["report", file, again]) == 1
        assert f"{again} is given twice" in capsys.readouterr().err
    assert run(["report", "-", "-"]) == 1
    assert "- is given twice" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_named(log: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full = tmp_path / "r.csv"
    full.symlink_to("/dev/full")
    assert run(["report", log(), "--output", str(full)]) == 1
    assert capsys.readouterr().err == f"demur: {full}: No space left on device\n"


def test_a_column_that_was_asked_for_and_is_not_told(log: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = log({"verdict": ANSWER})
    assert run(["report", file, "--by", "category,period"]) == 0
    assert capsys.readouterr().err == (
        "demur report: no record tells its category\ndemur report: no record tells its time\n"
    )
    assert run(["report", file]) == 0
    assert capsys.readouterr().err == ""
    assert figures(capsys, log(), "--by", "none")["by"] == {}


def test_a_column_that_was_asked_for_is_shown_with_one_value_too(
    log: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file = log(*[{"verdict": refused(), "time": "2026-01-05", "model": "m"}] * 30)
    assert "2026-W02" not in "\n".join(lines(capsys, file))
    out = lines(capsys, file, "--by", "period")
    assert next(line.split()[:3] for line in out if "W02" in line) == ["2026-W02", "30", "30"]
    assert not any(line.startswith("m ") for line in out)


def test_what_others_named_cannot_rewrite_the_screen(log: Write, capsys: pytest.CaptureFixture[str]) -> None:
    out = "\n".join(lines(capsys, log(*({"verdict": refused(), "tag": tag} for tag in ("\x1b[2J\u202ex", "y")))))
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "␛[2J" in out


def test_of_many_groups_the_first_are_shown(
    log: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_render, "SHOWN", 2)
    out = "\n".join(lines(capsys, log(), "--by", "tag,period", "--period", "day"))
    assert "… and 1 more: --json or --output has all" in out
    assert "… and 4 more: --json or --output has all" in out
    assert "2026-01-15" in out
    assert "2026-01-05" not in out


def test_the_shares_of_a_group_have_their_interval_below(log: Write, capsys: pytest.CaptureFixture[str]) -> None:
    records = [{"model": model, "verdict": refused("apology")} for model in ("a", "b") for _ in range(40)]
    out = [line.split() for line in lines(capsys, log(*records, {"model": "c", "verdict": refused()}))]
    at = out.index(["a", "40", "40", "100", "%", "100", "%", *["0", "%"] * 4, "100", "%"])
    assert out[at + 1] == ["91–100", "91–100", *["0–9"] * 4, "91–100"]
    assert out[at + 4] == ["c", "1", "1", "1/1", "1/1", *["0/1"] * 5]


def test_groups_apart_are_told_below_their_table(log: Write, capsys: pytest.CaptureFixture[str]) -> None:
    records = [{"model": "curt", "verdict": refused()}, {"model": "meek", "verdict": refused("apology")}] * 40
    assert "apart: apologises: meek 100 % of 40, curt 0 % of 40" in "\n".join(lines(capsys, log(*records)))


#: Prints the most memory that a run had in use, in KiB.
MEASURED = """
import resource, sys
from demur.cli.main import run
code = run(["report", sys.argv[1], "--output", sys.argv[2]])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def test_a_long_log_takes_the_memory_of_its_groups(tmp_path: Path) -> None:
    def measured(count: int) -> tuple[dict[str, Any], int]:
        """The figures of so many lines, and the most memory in use, in KiB."""
        file, out = tmp_path / f"{count}.jsonl", tmp_path / f"{count}.json"
        verdict = json.dumps(refused("apology"))
        with file.open("w") as stream:
            for n in range(count):
                stream.write(f'{{"id": "i{n}", "model": "m{n % 3}", "tag": "t{n}", "verdict": {verdict}}}\n')
                if n % 1000 == 0:
                    stream.write(f'{{"id": "i{n}", "reviewed": true, "model": "m0", "verdict": {verdict}}}\n')
        # Through a shell: a child of ours would inherit our own peak.
        command = ["sh", "-c", '"$0" "$@"; exit $?', sys.executable, "-c", MEASURED, str(file), str(out)]
        done = subprocess.run(command, capture_output=True, check=True)
        return json.loads(out.read_text()), int(done.stderr)

    few, little = measured(2_000)
    many, much = measured(100_000)
    assert few["whole"]["coded"] == 2_000
    assert many["whole"]["coded"] == 100_000
    assert many["reviewed"] == 100
    tags = {group["name"]: group["responses"] for group in many["by"]["tag"]}
    assert len(tags) == KEPT + 1
    assert tags["(not told)"] == 100
    assert tags["(other values)"] == 100_000 - 100 - (KEPT - 1)
    assert much - little < 16_000  # of a log of 60 MB


def test_it_needs_no_extra() -> None:
    code = (
        "import sys; from demur.cli.main import run; run(['report', '--help']); import demur.cli.report_render;"
        "sys.exit(any(name in sys.modules for name in ('numpy', 'scipy', 'sklearn', 'httpx', 'aiohttp')))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_the_example_of_the_docs_is_what_it_prints(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(__file__).parent.parent / "docs" / "facework.md").read_text("utf-8")
    (shown,) = re.findall(r"^```console\n\$ demur (.*?)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    curt = [refused("negative_stance", why="ethics")] * 40 + [refused("alternative_offer", why="ethics")] * 20
    kind = [refused("apology", "alternative_offer", why="policy")] * 35 + [refused("apology")] * 10
    models = {"curt-1": [*curt, *[ANSWER] * 90], "kind-2": [*kind, *[ANSWER] * 80, BLOCKED, *[SHAPED] * 24]}
    monkeypatch.chdir(tmp_path)
    with Path("verdicts.jsonl").open("w") as stream:
        for model, verdicts in models.items():
            stream.writelines(json.dumps({"model": model, "verdict": verdict}) + "\n" for verdict in verdicts)
    assert run(shown[0].split()) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == shown[1].rstrip().splitlines()
