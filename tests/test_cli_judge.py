"""`demur classify --judge` against a scripted endpoint: who is asked, what is shown, what it took, and how it ends."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripted_judge import (
    KEY,
    Endpoint,
    Reply,
    Request,
    coded,
    coding,
    completion,
    scripted_judge,
    status,
)

from demur.classifier import default_classifier
from demur.cli import classify as command
from demur.cli.main import run
from demur.config import Settings, load

NO = "I can't help with that."
NAMED = ["--judge", "--judge-url", "http://127.0.0.1:1/v1", "--judge-model", "m"]


@pytest.fixture(autouse=True)
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling the rules takes longer than all that is tested here."""
    monkeypatch.setattr(command, "make_classifier", lambda settings: default_classifier())


def options(endpoint: Endpoint, *more: str) -> list[str]:
    """With these all are asked about."""
    return ["classify", "--judge", "--judge-url", endpoint.url, "--judge-model", "judge-1", "--judge-below", "1", *more]


@pytest.fixture
def traces(tmp_path: Path) -> str:
    """Three rows: two are refusals, one has no label."""
    file = tmp_path / "traces.jsonl"
    rows = [{"id": "no", "prompt": "Do it", "response": NO}, {"id": "odd"}, {"id": "nor", "response": "I can't do it."}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def by_text(request: Request) -> Reply:
    return coded("answer", quotes={}) if NO in request.exchange else coded("disguised_refusal", features=["apology"])


def test_what_the_judge_says_stands_and_the_order_stays(traces: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with scripted_judge(by_text) as endpoint:
        assert run(options(endpoint, "--jsonl", traces)) == 2
    captured = capfdbinary.readouterr()
    first, odd, last = (json.loads(line) for line in captured.out.splitlines())
    assert (first["id"], first["label"], first["features"]) == ("no", "answer", None)
    assert (odd["id"], odd["label"], "review" in odd) == ("odd", None, False)
    assert (last["id"], last["label"], last["features"]["apology"]) == ("nor", "disguised_refusal", True)
    assert first["review"]["rules_label"] == "hard_refusal"
    assert first["review"]["rules_confidence"] > 0.5
    assert (first["review"]["judge"], first["review"]["outcome"]) == ("judge-1", "coded")
    asked, unjudged = captured.err.decode().splitlines()
    assert asked.startswith("demur classify: asked judge-1 about 2 of 3: 2 changed, 0 confirmed, 0 declined, 0 failed;")
    assert asked.endswith("; 2 requests, 220 tokens")
    assert unjudged == "demur classify: 1 of 3 not judged (1 unparsed)"


def test_only_what_is_less_sure_is_asked_about(traces: str, capsys: pytest.CaptureFixture[str]) -> None:
    with scripted_judge(coded()) as endpoint:
        assert run([*options(endpoint, "--json", "--judge-below", "0.01", traces)]) == 2
    assert endpoint.requests == []
    assert "asked judge-1 about 0 of 3" in capsys.readouterr().err


def test_the_exit_code_is_that_of_the_verdicts_that_stand(traces: str) -> None:
    with scripted_judge(coded("answer", quotes={})) as endpoint:
        assert run(options(endpoint, traces)) == 0


def test_what_it_said_and_what_it_cost_is_shown(
    traces: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    refusal = completion("I'm sorry, but I can't assist with that request.")
    half = coded("shaped", reason="Half of it came.", quotes={"label": ["I can't do"]})
    with scripted_judge(refusal, half) as endpoint:
        prices = ["--judge-input-price", "10", "--judge-output-price", "100", "--judge-concurrency", "1"]
        assert run(options(endpoint, traces, "--explain", *prices)) == 2
    captured = capsys.readouterr()
    shown = " ".join(captured.out.split())
    said = "judge judge-1: declined, the rules' verdict stays: I'm sorry, but I can't assist with that request."
    assert said in shown
    assert "judge judge-1: shaped, the rules said hard_refusal 0." in shown
    assert "judge judge 0.90 Half of it came." in shown
    head, *rows = [line.split() for line in captured.out.partition("\nid ")[2].splitlines()]
    assert head == ["label", "conf", "status", "judge", "how", "signals"]
    declined, _, changed, *_ = rows
    assert declined[:2] + declined[4:5] == ["no", "hard_refusal", "declined"]
    assert changed[:2] + changed[4:5] == ["nor", "shaped", "not"]
    assert "1 changed, 0 confirmed, 1 declined, 0 failed; 2 requests, 220 tokens, cost 0.0040" in captured.err


def test_without_a_review_there_is_no_column_for_it(traces: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(["classify", traces])
    assert "conf  status    how" in capsys.readouterr().out


def test_a_judge_that_fails_leaves_the_verdicts_of_the_rules(
    traces: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    run(["classify", "--jsonl", traces])
    before = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    with scripted_judge(status(400, "context length exceeded")) as endpoint:
        assert run(options(endpoint, "--jsonl", traces)) == 2
    captured = capfdbinary.readouterr()
    after = [json.loads(line) for line in captured.out.splitlines()]
    reviews = [verdict.pop("review", None) for verdict in after]
    assert after == before
    assert [review and review["outcome"] for review in reviews] == ["failed", None, "failed"]
    assert "context length exceeded" in reviews[0]["reason"]
    assert b"0 changed, 0 confirmed, 0 declined, 2 failed" in captured.err


def test_the_budget_and_the_cache_of_the_settings_are_kept(
    traces: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted_judge(completion(json.dumps(coding()), usage=(8000, 10))) as endpoint:
        more = ["--judge-cache", str(tmp_path / "c.db"), "--judge-max-tokens", "10000", "--json", traces]
        run(options(endpoint, *more))
        assert "1 confirmed, 0 declined, 0 failed, 1 over budget; 1 request, 8,010 tokens" in capsys.readouterr().err
        run(options(endpoint, *more))
        assert "2 confirmed, 0 declined, 0 failed; 1 request and 1 cached, 8,010 tokens" in capsys.readouterr().err
    assert len(endpoint.requests) == 2


def test_who_was_not_asked_is_not_counted_as_asked(traces: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The first text takes two answers without use, and with them the budget."""
    with scripted_judge(completion("{", usage=(9_000, 10))) as endpoint:
        more = ["--judge-max-tokens", "18500", "--judge-concurrency", "1", "--json", traces]
        run(options(endpoint, *more))
    told = "asked judge-1 about 1 of 3: 0 changed, 0 confirmed, 0 declined, 1 failed, 1 over budget; 2 requests,"
    assert told in capsys.readouterr().err


def test_the_key_comes_from_the_named_variable_and_is_shown_nowhere(
    traces: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", f" {KEY}\n")
    with scripted_judge(coded(), status(401, f"Incorrect API key provided: {KEY}")) as endpoint:
        more = ["--judge-concurrency", "1", "--judge-key-env", "A_KEY"]
        assert run(options(endpoint, *more, "--jsonl", traces)) == 1
    assert endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"
    captured = capsys.readouterr()
    assert captured.err.startswith(f"demur: the judge at {endpoint.url}: HTTP 401: Incorrect API key provided: ****")
    assert "(the key is from A_KEY)" in captured.err
    assert KEY not in captured.err + captured.out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--judge"], "--judge needs a model to ask"),
        (["--judge", "--judge-model", "m"], "a judge needs judge_url and judge_model, and judge_url is not set"),
        (NAMED[1:], "--judge-url has no effect without --judge"),
        ([*NAMED, "--judge-key-env", "NO_KEY"], "judge_key_env: the variable NO_KEY is not set, or empty"),
        ([*NAMED, "--judge-key-env", "A_KEY"], "judge_key_env: what the variable A_KEY holds is not a key"),
        ([*NAMED, "--judge-key-env", KEY], "--judge-key-env: the value is not the name of an environment variable"),
        (
            [*NAMED, "--judge-below", "1", "--judge-cache", "no/folder/c.db"],
            "no/folder/c.db: can't be used as a cache of codings",
        ),
    ],
)
def test_what_cannot_be_asked_is_a_clear_error(
    given: list[str], words: str, traces: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", f"two {KEY}")
    assert run(["classify", traces, *given]) == 1
    captured = capsys.readouterr()
    assert words in captured.err
    assert KEY not in captured.err + captured.out


def test_the_settings_of_the_docs_are_settings(tmp_path: Path) -> None:
    text = (Path(__file__).parent.parent / "docs" / "judge.md").read_text("utf-8")
    [example] = re.findall(r"^```toml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (tmp_path / "demur.toml").write_text(example, "utf-8")
    settings = load(tmp_path / "demur.toml", {}).settings
    assert (settings.judge_key_env, settings.judge_max_tokens) == ("OPENAI_API_KEY", 2_000_000)
    for name in set(re.findall(r"`(judge_\w+)`", text)):
        assert name in Settings.model_fields


def test_a_live_pipe_gets_its_reviewed_verdicts_line_by_line() -> None:
    with (
        scripted_judge(by_text) as endpoint,
        subprocess.Popen(
            [sys.executable, "-m", "demur.cli.main", *options(endpoint, "--jsonl")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(2):
            process.stdin.write(json.dumps({"id": number, "response": NO}).encode() + b"\n")
            process.stdin.flush()
            verdict = json.loads(process.stdout.readline())
            assert (verdict["id"], verdict["label"]) == (number, "answer")
        process.stdin.close()
        assert process.wait(timeout=60) == 0
