"""What the README and the contributors' guide show is what the program does: examples run, output is today's."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from exchanges import REFUSAL, exchange
from processes import started
from prometheus_client import CollectorRegistry

from demur.classifier import Classifier, normalize
from demur.classifier.lexicon import signal_kinds
from demur.cli.main import run
from demur.config import Settings, load
from demur.proxy.metrics import Metrics

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
DEMUR = str(Path(sys.executable).with_name("demur"))


def blocks(language: str, text: str = README) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [body for name, body in found if name == language]


@contextmanager
def running(*args: str, says: str) -> Iterator[str]:
    """A demur process; yields what `says` captures of its output."""
    with started([DEMUR, *args]) as process:
        assert process.stdout is not None
        found = next((match for line in process.stdout if (match := re.search(says, line))), None)
        assert found is not None, f"demur {args[0]} did not start"
        yield found[1]


def test_the_command_prints_what_is_shown(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (shown,) = blocks("console")
    command, _, output = shown.partition("\n")
    monkeypatch.setenv("COLUMNS", "120")
    done = subprocess.run(
        ["sh", "-c", command.removeprefix("$ ").replace("| demur", f"| '{DEMUR}'")], capture_output=True, text=True
    )
    assert done.stdout.strip().splitlines() == output.strip().splitlines()
    assert done.returncode == 2


def test_the_library_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = (block for block in blocks("python") if "from demur.classifier" in block)
    exec(compile(example, "README", "exec"), {})
    assert capsys.readouterr().out.startswith("disguised_refusal ")


def test_the_openai_examples_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody")
    traces = tmp_path / "traces.jsonl"
    traces.write_text('{"prompt": "Name three fruits.", "response": "I\'m sorry, but I can\'t help with that."}\n')
    first, second, *_ = (block for block in blocks("python") if "client" in block)
    with (
        running("replay", str(traces), "--port", "0", says=r"(http://127\.0\.0\.1:\d+)") as upstream,
        running(
            "serve", "--upstream", f"{upstream}/v1", "--port", "0", "--admin-port", "0", says=r'base_url="([^"]+)'
        ) as url,
    ):
        names: dict[str, object] = {}
        for example in (first, second):
            exec(compile(example.replace("http://127.0.0.1:8787/v1", url), "README", "exec"), names)
        names["client"].close()  # type: ignore[attr-defined]
    header, chunk = capsys.readouterr().out.splitlines()
    assert header.startswith("hard_refusal 0.")
    assert chunk.startswith("hard_refusal 0.")


def test_the_demo_excerpt_is_what_the_demo_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (shown,) = (block for block in blocks("") if "x-refusal-verdict:" in block)
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["demo"]) == 0
    printed = without_ids(capsys.readouterr().out)
    for part in without_ids(shown).split("\n\n\n"):
        assert part.strip() in printed


def test_the_rule_in_the_docs_is_a_good_one(tmp_path: Path) -> None:
    rule, setting, _ = blocks("toml", (ROOT / "docs/rules.md").read_text("utf-8"))
    file = tmp_path / "acme.toml"
    file.write_text(rule, "utf-8")
    trace = normalize(
        {"prompt": "How long do I have to bring shoes back?", "response": "Our helpdesk can take that from here."}
    )
    verdict = Classifier(lexicons=[file]).classify(trace)
    assert "acme.guardrail" in [signal.rule for signal in verdict.signals]
    assert verdict.label == "hard_refusal"
    assert Classifier().classify(trace).label == "answer"
    (tmp_path / "demur.toml").write_text(setting, "utf-8")
    assert load(file=tmp_path / "demur.toml").settings.lexicons == (file,)


def test_the_act_in_the_docs_is_a_good_one(tmp_path: Path) -> None:
    *_, act = blocks("toml", (ROOT / "docs/rules.md").read_text("utf-8"))
    file = tmp_path / "acme.toml"
    file.write_text(act, "utf-8")
    trace = normalize({"response": "I'm afraid I can't sell you that: our statutes do not allow it."})
    verdict = Classifier(lexicons=[file]).classify(trace)
    assert verdict.rationale == "policy"
    assert [code.rule for code in verdict.codes if code.layer == "rationale"] == ["acme.statutes"]


def test_the_library_example_of_the_layers_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks("python", (ROOT / "docs/layers.md").read_text("utf-8"))
    exec(compile(example, "layers.md", "exec"), {})
    assert "feature apology en.act.regret ['sorry']" in capsys.readouterr().out


EXAMPLES = [
    shown
    for name in ("verdicts.md", "layers.md")
    for shown in blocks("console", (ROOT / "docs" / name).read_text("utf-8"))
]


@pytest.mark.parametrize("shown", EXAMPLES)
def test_an_example_of_the_docs_is_what_the_command_prints(shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command, _, output = shown.partition("\n")
    monkeypatch.setenv("COLUMNS", "120")
    command = command.removeprefix("$ ").replace("| demur", f"| '{DEMUR}'")
    printed = iter(subprocess.run(["sh", "-c", command], capture_output=True, text=True).stdout.splitlines())
    lines = [line.rstrip() for line in output.rstrip().splitlines() if line.strip() != "…"]
    assert lines
    for line in lines:  # in this order, with others between
        assert any(other.rstrip() == line for other in printed), line


def test_the_docs_show_every_label_and_every_signal_for_own_rules() -> None:
    verdicts, rules = ((ROOT / "docs" / name).read_text("utf-8") for name in ("verdicts.md", "rules.md"))
    for label in ("answer", "shaped", "hard_refusal", "disguised_refusal"):
        assert f"stdin  {label}  " in verdicts
    named = set(re.findall(r"`([a-z]+_[a-z_]+|pivot|delivery|admonition|clarification)`", rules)) & set(signal_kinds())
    assert len(named) >= 14


def test_what_it_names_exists() -> None:
    settings = set(Settings.model_fields)
    flags = {flag.replace("-", "_") for flag in re.findall(r"demur serve[^\n]* --([a-z-]+)", README)}
    assert flags
    assert flags <= settings
    for name in re.findall(r"\]\(([A-Za-z./_]+)\)", README):
        assert (ROOT / name).exists(), name


def test_the_query_of_the_refusal_rate_finds_the_verdicts_of_the_metrics() -> None:
    (query,) = blocks("promql")
    registry = CollectorRegistry()
    metrics = Metrics(registry=registry)
    for label in ("answer", "shaped", "hard_refusal", "hard_refusal", "disguised_refusal", None):
        metrics.ended(exchange(verdict=replace(REFUSAL, label=label)))
    samples = [sample for family in registry.collect() for sample in family.samples]
    counts = []
    for name, label, operator, value in re.findall(r'rate\((\w+)\{(\w+)(=~|!=)"([^"]*)"\}', query):
        found = [sample for sample in samples if sample.name == name]
        assert all(by in sample.labels for by in re.findall(r"by \((\w+)\)", query) for sample in found)
        chosen = [s for s in found if bool(re.fullmatch(value, s.labels[label])) == (operator == "=~")]
        counts.append(sum(sample.value for sample in chosen))
    assert counts == [3, 5]


def without_ids(text: str) -> str:
    """Ids and versions differ from run to run, or with every rule."""
    text = re.sub(r"[0-9a-f]{32}", "ID", text)
    return re.sub(r"demur-rules/[0-9a-f]+", "demur-rules/VERSION", text)
