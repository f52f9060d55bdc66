"""`demur eval --judge`: rows are coded by a judge on loopback, kept as they come, and read again without one."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from processes import started
from scripted_judge import KEY, Reply, Request, coded, completion, scripted_judge, status
from sklearn.metrics import accuracy_score, cohen_kappa_score

from demur.audit.codebook import prompt_version
from demur.audit.judge_file import JudgeFile
from demur.classifier.judge import default_classifier
from demur.cli import judge_progress
from demur.cli.main import run

command = importlib.import_module("demur.cli.eval")
#: The command as a terminal runs it: whoever runs the tests (nohup, a background job) may have SIGINT ignored.
HEEDS_CTRL_C = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from demur.cli.main import main; main()"
)

NO = "I'm sorry, but I can't help with that."
YES = "Mix flour, water and salt, let it rest for a night, and bake it hot."
LABELLED = {"rationale": "ethics", "strategy": "explicit", "features": {"apology": 1, "hedge": 0}}
ROWS: list[dict[str, Any]] = [
    {"id": "r1", "prompt": "Bake a loaf.", "response": NO, "label": "refusal", **LABELLED},
    {"id": "r2", "prompt": "Bake a loaf.", "response": YES, "label": "full_compliance"},
    {"id": "r3", "prompt": "Bake a roll.", "response": f"{NO} It can't be right.", "label": "refusal", **LABELLED},
    {"id": "r4", "prompt": "Bake a bun.", "response": "", "label": "refusal"},
    {"id": "r5", "prompt": "Bake a bun.", "response": f"{YES} I can't say more.", "label": "partial"},
    {"id": "r6", "prompt": "Bake a loaf.", "response": NO, "label": "refusal", **LABELLED},
]


def says(request: Request) -> Reply:
    """A judge that reads the words: it finds every refusal bare, and the other two right."""
    if "say more" in request.exchange:
        return coded("shaped")
    if "sorry" in request.exchange:
        return coded("hard_refusal", features=["apology"] if "right" in request.exchange else [])
    return coded("answer", quotes={})


@pytest.fixture(autouse=True)
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "make_classifier", lambda settings: default_classifier())


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    return write(tmp_path / "bakery.jsonl", ROWS)


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def asking(url: str, file: Path | str, *more: str, model: str = "m1") -> list[str]:
    return ["--judge", "--judge-file", str(file), "--judge-url", url, "--judge-model", model, *more]


def figures(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert run(["eval", *args, "--json"]) == 0
    out: dict[str, Any] = json.loads(capsys.readouterr().out)
    return out


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_every_row_is_coded_and_counted(corpus: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "codings.jsonl"
    with scripted_judge(says) as judge:
        [report] = figures(capsys, corpus, *asking(judge.url, file))["judges"]
        assert len(judge.requests) == 4
    assert [line["id"] for line in sorted(lines(file), key=lambda line: line["id"])] == ["r1", "r2", "r3", "r5"]
    assert report["judge"] == "m1"
    assert report["rows"] == 6
    assert {what: n for what, n in report["outcomes"].items() if n} == {"coded": 5, "nothing_to_send": 1}
    assert report["usage"] == {"input_tokens": 400, "output_tokens": 40, "requests": 4, "cached": 0}
    labels = ["refusal", "answer", "refusal", "shaped", "refusal"]
    by_judge = ["refusal", "answer", "refusal", "shaped", "refusal"]
    action = report["labels_and_judge"]["action"]
    assert action["accuracy"]["value"] == pytest.approx(accuracy_score(labels, by_judge))
    assert action["kappa"]["value"] == pytest.approx(cohen_kappa_score(labels, by_judge))
    refused = report["labels_and_judge"]["refused"]
    assert refused["rationale"]["confusion"]["ethics"]["bare"] == 3
    assert refused["features"]["apology"]["accuracy"] | {"low": 0, "high": 0} == {
        "value": pytest.approx(1 / 3),
        "hits": 1,
        "of": 3,
        "low": 0,
        "high": 0,
    }
    assert report["judge_and_rules"]["action"]["rows"] == 5


def test_a_second_run_asks_nothing_and_says_the_same(
    corpus: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "codings.jsonl"
    with scripted_judge(says) as judge:
        first = figures(capsys, corpus, *asking(judge.url, file))
        before = file.read_bytes()
        assert figures(capsys, corpus, *asking(judge.url, file)) == first
        assert len(judge.requests) == 4
    assert file.read_bytes() == before
    assert figures(capsys, corpus, "--judge-file", str(file)) == first


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_cut_off_goes_on_and_repeats_nothing(
    end: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count, at_once = 24, 2
    rows = [{"prompt": "Bake.", "response": f"{NO} Not {n}.", "label": "refusal"} for n in range(count)]
    corpus, file = write(tmp_path / "many.jsonl", rows), tmp_path / "codings.jsonl"
    patient = coded()
    slow = Reply(patient.status, patient.body, patient.headers, wait=0.05)
    with scripted_judge(slow) as judge:
        args = asking(judge.url, file, "--judge-concurrency", str(at_once))
        with started([sys.executable, "-c", HEEDS_CTRL_C, "eval", corpus, *args]) as process:
            deadline = time.monotonic() + 60
            while not file.exists() or file.read_bytes().count(b"\n") < 5:
                assert time.monotonic() < deadline
                assert process.poll() is None
                time.sleep(0.01)
            process.send_signal(end)
            assert process.wait(60) == (130 if end is signal.SIGINT else -end)
        kept = lines(file)
        assert 5 <= len(kept) < count
        with file.open("ab") as torn:
            torn.write(b'{"id": "x", "ha')
        [report] = figures(capsys, corpus, *args)["judges"]
        asked = Counter(request.exchange for request in judge.requests)
    assert report["outcomes"]["coded"] == count
    assert lines(file)[: len(kept)] == kept
    assert len(lines(file)) == len({line["hash"] for line in lines(file)}) == count
    assert len(asked) == count
    # What was under way when it was killed is asked again; nothing that is in the file is.
    assert len(judge.requests) <= count + at_once
    settled = {row["response"] for row in rows if any(line["id"].endswith(f":{rows.index(row) + 1}") for line in kept)}
    assert len(settled) == len(kept)
    for exchange, times in asked.items():
        if any(text in exchange.splitlines() for text in settled):
            assert times == 1


def test_what_the_judge_would_not_or_could_not_code_is_counted_apart(
    corpus: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def some(request: Request) -> Reply:
        if "right" in request.exchange:
            return completion("I won't do that.", refusal="I won't do that.")
        return completion("{") if "say more" in request.exchange else says(request)

    file = tmp_path / "codings.jsonl"
    with scripted_judge(some) as judge:
        [report] = figures(capsys, corpus, *asking(judge.url, file))["judges"]
    assert {what: n for what, n in report["outcomes"].items() if n} == {
        "coded": 3,
        "declined": 1,
        "failed": 1,
        "nothing_to_send": 1,
    }
    assert report["labels_and_judge"]["action"]["rows"] == 3
    with scripted_judge(says) as judge:
        [report] = figures(capsys, corpus, *asking(judge.url, file))["judges"]
        assert len(judge.requests) == 1  # what failed
    assert report["outcomes"]["coded"] == 4
    assert report["outcomes"]["declined"] == 1


def test_what_is_over_the_budget_is_told_and_still_to_do(
    corpus: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "codings.jsonl"
    with scripted_judge(says) as judge:
        [report] = figures(capsys, corpus, *asking(judge.url, file, "--judge-max-tokens", "10"))["judges"]
        assert judge.requests == []
    assert report["outcomes"]["over_budget"] == 5
    assert file.read_bytes() == b""


def test_who_was_not_asked_is_not_counted_as_asked(
    corpus: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first text takes two answers without use, and with them the budget."""
    with scripted_judge(completion("{", usage=(9_000, 10))) as judge:
        more = ["--judge-max-tokens", "18500", "--judge-concurrency", "1"]
        assert run(["eval", corpus, *asking(judge.url, tmp_path / "c.jsonl", *more)]) == 0
        assert len(judge.requests) == 2
    [said] = capsys.readouterr().err.splitlines()
    assert said == (
        "demur eval: judge m1: asked about 1 of 4 texts (3 over budget, 1 failed); 2 requests, 18,020 tokens"
    )


def test_refusals_only(corpus: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "codings.jsonl"
    with scripted_judge(says) as judge:
        [report] = figures(capsys, corpus, *asking(judge.url, file, "--judge-refusals-only"))["judges"]
        assert len(judge.requests) == 2
    assert {what: n for what, n in report["outcomes"].items() if n} == {
        "coded": 3,
        "not_asked": 2,
        "nothing_to_send": 1,
    }


@pytest.fixture
def two_files(corpus: str, tmp_path: Path) -> list[str]:
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    with scripted_judge(says) as judge:
        assert run(["eval", corpus, *asking(judge.url, files[0])]) == 0
    with scripted_judge(coded("hard_refusal", rationale="ethics", quotes={"label": ["can't", "Mix"]})) as judge:
        assert run(["eval", corpus, *asking(judge.url, files[1], model="m2")]) == 0
    return [arg for file in files for arg in ("--judge-file", str(file))]


def test_two_judges_from_files_alone(corpus: str, two_files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    out = figures(capsys, corpus, *two_files)
    assert [report["judge"] for report in out["judges"]] == ["m1", "m2"]
    [two] = out["between_judges"]
    assert (two["first"], two["second"]) == ("m1", "m2")
    assert two["action"]["accuracy"]["hits"] == 3
    assert two["action"]["rows"] == 5
    assert two["refused"]["rationale"]["confusion"]["bare"]["ethics"] == 3


def test_two_judges_on_the_terminal_and_on_a_page(
    corpus: str, two_files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    page = tmp_path / "r.html"
    assert run(["eval", corpus, *two_files, "--output", str(page)]) == 0
    out = capsys.readouterr().out
    text = " ".join(out.split())
    assert "judge m1 (prompt " in text
    assert "5 of 6 rows coded; 1 with nothing to send 4 requests, 400 tokens sent, 40 received" in text
    assert "rows, accuracy, kappa labels, rules labels, judge judge, rules" in text
    assert "judges m1 (first) and m2 (second): 5 rows that both coded" in text
    assert "rationale, 3 refusals by the first first \\ second bare ethics bare 0 3" in text
    assert max(map(len, out.splitlines())) <= 80
    html = page.read_text(encoding="utf-8")
    for words in ("What the judge m1 says", "What the judge m2 says", "Two judges", "refusals by the first"):
        assert words in html


def test_files_of_one_judge_are_told_apart(
    corpus: str, two_files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = tmp_path / "again.jsonl"
    again.write_bytes(Path(two_files[1]).read_bytes())
    capsys.readouterr()
    out = figures(capsys, corpus, *two_files[:2], "--judge-file", str(again))
    assert [report["judge"] for report in out["judges"]] == [f"m1 in {two_files[1]}", f"m1 in {again}"]
    assert out["between_judges"][0]["action"]["kappa"]["value"] == 1


def test_a_wrong_key_ends_it_and_what_was_coded_is_kept(
    corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BAKERY_KEY", KEY)
    file = tmp_path / "codings.jsonl"
    with scripted_judge(coded(), status(401)) as judge:
        args = asking(judge.url, file, "--judge-key-env", "BAKERY_KEY", "--judge-concurrency", "1")
        assert run(["eval", corpus, *args]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "BAKERY_KEY" in captured.err
    assert KEY not in captured.err
    assert f"what was coded so far (1) is in {file}; the same command goes on from there" in captured.err
    assert len(lines(file)) == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--lexicon", "l"], "l can't be --judge-file and --lexicon at once"),
        (["--config", "l"], "l can't be --judge-file and the settings file at once"),
        (["--judge-cache", "l"], "l can't be --judge-file and --judge-cache at once"),
        (["--judge-cache", "c", "--judge-file", "c-shm"], "c-shm can't be --judge-file and a file beside"),
        (["--judge-cache", "link"], "l can't be --judge-file and --judge-cache at once"),
        (["--judge-cache", "m", "--lexicon", "m"], "m can't be --judge-cache and --lexicon at once"),
        (["--judge-cache", "r.json", "--output", "r.json"], "r.json can't be --judge-cache and --output at once"),
        (["--judge-cache", "e", "--errors-file", "e"], "e can't be --judge-cache and --errors-file at once"),
    ],
)
def test_a_file_of_the_judge_is_no_other_file_of_the_command(
    args: list[str],
    words: str,
    corpus: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in "lm":
        Path(name).write_text("# nothing is set")
    Path("link").symlink_to("l")
    with scripted_judge(says) as judge:
        assert run(["eval", corpus, *asking(judge.url, "l", *args)]) == 1
        assert judge.requests == []
    assert words in capsys.readouterr().err
    assert Path("l").read_text() == "# nothing is set"


def test_the_corpus_is_no_cache(corpus: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path(corpus).read_bytes()
    with scripted_judge(says) as judge:
        assert run(["eval", corpus, *asking(judge.url, f"{corpus}.codings", "--judge-cache", corpus)]) == 1
        assert run(["classify", corpus, *asking(judge.url, "")[3:], "--judge", "--judge-cache", corpus]) == 1
    assert capsys.readouterr().err.count("can't be --judge-cache and the input at once") == 2
    assert Path(corpus).read_bytes() == before


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--judge"], "--judge needs --judge-file FILE"),
        (["--judge", "--judge-file", "c.jsonl"], "--judge needs a judge: --judge-url and --judge-model"),
        (["--judge", "--judge-file", "no/c.jsonl"], "there is no such folder"),
        (["--judge-refusals-only"], "--judge-refusals-only says what --judge asks about"),
        (["--judge-file", "c.jsonl"], "c.jsonl: No such file"),
        (["--judge-file", "c.jsonl", "--judge-file", "./c.jsonl"], "'--judge-file': one of them was given twice"),
        (["--judge-file", "c.jsonl", "--errors-file", "c.jsonl"], "two of the files to write are one"),
        (["--judge", "--judge-file", "c.jsonl", "--judge-url", "http://127.0.0.1:9"], "judge_model"),
    ],
)
def test_wrong_usage_is_told_before_the_work(
    args: list[str], words: str, corpus: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["eval", corpus, *args]) == 1
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""


def test_files_that_can_not_be_meant(corpus: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty, other, mine = tmp_path / "empty.jsonl", tmp_path / "other.jsonl", tmp_path / "mine.jsonl"
    empty.write_text("")
    elsewhere = write(tmp_path / "elsewhere.jsonl", [{"prompt": "Fry.", "response": YES, "label": "answer"}])
    with scripted_judge(says) as judge:
        assert run(["eval", elsewhere, *asking(judge.url, other)]) == 0
        assert run(["eval", corpus, *asking(judge.url, mine)]) == 0
        asked = len(judge.requests)
        for args, words in (
            (["--judge-file", str(empty)], "empty.jsonl: holds no coding"),
            (["--judge-file", str(other)], "other.jsonl: codes none of these rows"),
            (["--judge-file", corpus], "bakery.jsonl is a corpus"),
            (asking(judge.url, corpus), "bakery.jsonl is a corpus"),
            (asking(judge.url, mine, model="m2"), "mine.jsonl: by m1 (prompt "),
        ):
            capsys.readouterr()
            assert run(["eval", corpus, *args]) == 1
            assert words in capsys.readouterr().err
        assert len(judge.requests) == asked


def test_the_commands_of_the_docs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parent.parent / "docs" / "judge.md").read_text("utf-8")
    commands = [shlex.split(line, comments=True)[1:] for line in re.findall(r"^(demur eval .*)$", text, re.MULTILINE)]
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "labelled.jsonl", ROWS)
    row = json.loads(re.findall(r'^ *(\{"prompt": .*\})$', text, re.MULTILINE)[0])
    write(tmp_path / "row.jsonl", [row])
    with scripted_judge(says) as judge:
        (tmp_path / "demur.toml").write_text(f'judge_url = "{judge.url}"\njudge_model = "m1"\n')
        assert len(commands) == 4
        for command in [*commands, ["eval", "row.jsonl"]]:
            assert run(command) == 0


def test_what_is_no_file_of_codings_is_told_and_left(
    corpus: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe, note = tmp_path / "pipe", tmp_path / "note.txt"
    os.mkfifo(pipe)
    note.write_text("Buy flour")
    with scripted_judge(says) as judge:
        for file, words in (
            (pipe, "pipe: is no regular file"),
            (Path("/dev/full"), "/dev/full: is no regular file"),
            (note, "note.txt:1: not a judge's coding: it can't be read as JSON"),
        ):
            for args in (asking(judge.url, file), ["--judge-file", str(file)]):
                assert run(["eval", corpus, *args]) == 1
                assert words in capsys.readouterr().err
        assert judge.requests == []
    assert note.read_text() == "Buy flour"


def test_two_runs_on_one_file_are_not_paid_for_twice(
    corpus: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.jsonl"
    with scripted_judge(says) as judge, JudgeFile(file, "m1", prompt_version()):
        assert run(["eval", corpus, *asking(judge.url, file)]) == 1
        assert judge.requests == []
    assert "c.jsonl: another run is writing to it" in capsys.readouterr().err


def test_how_it_goes_is_told_in_lines(
    corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(judge_progress, "EACH", 2)
    with scripted_judge(says) as judge:
        prices = ["--judge-input-price", "2", "--judge-output-price", "10"]
        assert run(["eval", corpus, *asking(judge.url, tmp_path / "c.jsonl", *prices)]) == 0
        err = capsys.readouterr().err.splitlines()
        assert len(err) == 3
        assert err[0].startswith("demur eval: judge: 2 of 4 texts, ")
        assert err[2] == "demur eval: judge m1: asked about 4 of 4 texts (4 coded); 4 requests, 440 tokens, cost 0.0012"
        assert run(["eval", corpus, *asking(judge.url, tmp_path / "c.jsonl")]) == 0
    nothing = "demur eval: judge m1: asked about 0 of 0 texts; 0 requests, 0 tokens; 4 were settled before\n"
    assert capsys.readouterr().err == nothing


def test_a_bar_is_shown_on_a_terminal(
    corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with scripted_judge(says) as judge:
        assert run(["eval", corpus, *asking(judge.url, tmp_path / "c.jsonl", "--json")]) == 0
    captured = capsys.readouterr()
    assert "4/4" in captured.err
    assert "440 tokens" in captured.err
    json.loads(captured.out)


def test_files_are_read_without_what_asks(corpus: str, two_files: list[str]) -> None:
    code = (
        "import sys; from demur.cli.main import run; code = run(['eval', *sys.argv[1:]]);"
        "sys.exit(code or any(name in sys.modules for name in ('httpx', 'demur.audit.judge')))"
    )
    done = subprocess.run([sys.executable, "-c", code, corpus, *two_files], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
