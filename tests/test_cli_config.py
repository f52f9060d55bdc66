"""`demur config` shows every setting with its origin, hides secrets, and says what is wrong and where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from demur.cli.main import run
from demur.config import Settings
from demur.proxy import server

JUDGE = 'judge_url = "http://127.0.0.1:9/v1"\njudge_model = "m"\n'


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    file = tmp_path / "own.toml"
    file.write_text('admin_token = "s3cret"\nport = 9001\nupstream = "https://user:pa55@api.example/v1"\n')
    return file


def test_show_lists_every_setting_with_value_and_origin(
    own_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEMUR_LOG_LEVEL", "debug")
    assert run(["config", "show", "--config", str(own_file)]) == 0
    out = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()[1:]}
    assert set(rows) == set(Settings.model_fields)
    assert rows["port"] == ["9001", f"{own_file}:2"]
    assert rows["log_level"] == ["debug", "DEMUR_LOG_LEVEL"]
    assert rows["host"] == ["127.0.0.1", "default"]
    assert out.splitlines()[0] == f"file: {own_file}; variables: DEMUR_LOG_LEVEL"


def test_secrets_are_masked(own_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ([], ["--json"]):
        assert run(["config", "show", "--config", str(own_file), *options]) == 0
        out = capsys.readouterr().out
        assert "s3cret" not in out
        assert "pa55" not in out
        assert "****" in out


def test_json_has_value_and_origin(own_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["config", "show", "--config", str(own_file), "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert set(shown) == set(Settings.model_fields)
    assert shown["port"] == {"value": 9001, "origin": f"{own_file}:2"}


def test_check_says_ok_and_what_it_looked_at(own_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "check", "--config", str(own_file)]) == 0
    assert capsys.readouterr().out.startswith(f"ok: file: {own_file}")
    assert run(["config", "check"]) == 0
    assert "no demur.toml here" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["show", "check"])
def test_what_is_wrong_is_named(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.toml"
    file.write_text("port = 1\nporrt = 2\n")
    assert run(["config", command, "--config", str(file)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "bad.toml:2" in captured.err
    assert "porrt" in captured.err
    assert "port" in captured.err


def test_without_a_subcommand_it_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config"]) == 0
    assert "show" in capsys.readouterr().out


def test_check_reads_own_lexicons_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.toml").write_text('language = "en"\n[[rule]]\nid = "a"\n')
    (tmp_path / "demur.toml").write_text('lexicons = ["bad.toml"]\n')
    assert run(["config", "check", "--config", str(tmp_path / "demur.toml")]) == 1
    assert "bad.toml: rule a: 'signal' is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "variable", "problem"),
    [
        ('ca_file = "text.pem"', None, "demur.toml:2: ca_file: {}/text.pem can't be used: "),
        ('client_cert = "text.pem"', None, "demur.toml:2: client_cert: {}/text.pem can't be used: "),
        ('client_cert = "text.pem"\nclient_key = "text.pem"', None, "demur.toml:2: client_cert: {}/text.pem with cl"),
        ('verdict_log = "none/v.jsonl"', None, "demur.toml:2: verdict_log: there is no folder {}/none for v.jsonl"),
        ('verdict_log = "."', None, "demur.toml:2: verdict_log: {} is a folder"),
        ('verdict_log = "link"', None, "demur.toml:2: verdict_log: there is no folder {}/gone for v.jsonl"),
        ('verdict_log = "loop"', None, "demur.toml:2: verdict_log: {}/loop can't be written to: Too many levels"),
        ('verdict_log = "text.pem/v"', None, "demur.toml:2: verdict_log: there is no folder {}/text.pem for v"),
        (f'verdict_log = "{"v" * 300}"', None, "demur.toml:2: verdict_log: {}/vvv"),
        (
            'host = "999.1.1.1"',
            None,
            "demur.toml:2: host: '999.1.1.1' is not an IP address or a host name to listen on",
        ),
        ('admin_host = "1.2.3.4.5"', None, "demur.toml:2: admin_host: '1.2.3.4.5' is not an IP address or a host name"),
        (JUDGE + 'judge_cache = "no/c.db"', None, "demur.toml:4: judge_cache: there is no folder {}/no for c.db"),
        ("", "DEMUR_VERDICT_LOG", "DEMUR_VERDICT_LOG: there is no folder /none for such"),
        ("", "HTTPS_PROXY", "HTTPS_PROXY can't be used for api.openai.com: it is not a URL"),
        ("", "DEMUR_JUDGE_KEY_ENV", "DEMUR_JUDGE_KEY_ENV: the variable NO_SUCH_KEY is not set, or empty"),
        (
            JUDGE + 'judge_key_env = "NO_SUCH_KEY"',
            None,
            "demur.toml:4: judge_key_env: the variable NO_SUCH_KEY is not set",
        ),
        (
            JUDGE + 'judge_key_env = "TORN_KEY"',
            None,
            "demur.toml:4: judge_key_env: what the variable TORN_KEY holds is",
        ),
        (
            JUDGE + 'judge_key_env = "WIDE_KEY"',
            None,
            "demur.toml:4: judge_key_env: what the variable WIDE_KEY holds is",
        ),
        ('[[route]]\nmodels = "a"\nupstream = "http://a"\nkey_env = "A_KEY"', None, "demur.toml:5: route 1: key_env: "),
        (
            'host = "::"\n[[route]]\nmodels = "a"\nupstream = "http://a"\nadd_headers = {api-key = "s3cret"}',
            None,
            "demur.toml:2: route 1 ({}/demur.toml:3) adds a key, and host is ::, which can be reached from beyond",
        ),
    ],
)
def test_check_refuses_what_serve_refuses_in_the_same_words(
    text: str,
    variable: str | None,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = {"DEMUR_VERDICT_LOG": "/none/such", "HTTPS_PROXY": "http://:x", "DEMUR_JUDGE_KEY_ENV": "NO_SUCH_KEY"}
    if variable:
        monkeypatch.setenv(variable, values[variable])
    if variable == "DEMUR_JUDGE_KEY_ENV":
        monkeypatch.setenv("DEMUR_JUDGE_URL", "http://127.0.0.1:9/v1")
        monkeypatch.setenv("DEMUR_JUDGE_MODEL", "m")
    monkeypatch.setenv("TORN_KEY", "s3cret\ns3cret")
    monkeypatch.setenv("WIDE_KEY", "s3crét-s3cret")
    (tmp_path / "text.pem").write_text("not a certificate")
    (tmp_path / "link").symlink_to("gone/v.jsonl")
    (tmp_path / "loop").symlink_to("loop")
    file = tmp_path / "demur.toml"
    file.write_text(f"port = 0\n{text}\n")
    monkeypatch.setattr(server, "serve", lambda *_, **__: pytest.fail("it was started"))
    said = []
    for command in (["config", "check"], ["serve"]):
        assert run([*command, "--config", str(file)]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        said.append(captured.err)
    assert said[0] == said[1]
    assert said[0].count("\n") == 1
    folder = f"{tmp_path}/" if problem.startswith("demur.toml") else ""
    assert said[0].startswith("demur: " + folder + problem.replace("{}", str(tmp_path)))
    assert "s3cr" not in said[0]


def test_check_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "demur.toml"
    file.write_text('verdict_log = "verdicts.jsonl"\n')
    assert run(["config", "check", "--config", str(file)]) == 0
    assert list(tmp_path.iterdir()) == [file]


def test_check_lets_a_verdict_log_be_a_link_to_a_file_that_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/v.jsonl")
    file = tmp_path / "demur.toml"
    file.write_text('verdict_log = "link"\n')
    assert run(["config", "check", "--config", str(file)]) == 0
    assert list((tmp_path / "there").iterdir()) == []


def test_check_keeps_the_files_of_the_judge_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "demur.toml"
    file.write_text(JUDGE + 'judge_cache = "v.jsonl"\nverdict_log = "v.jsonl"\n')
    assert run(["config", "check", "--config", str(file)]) == 1
    assert f"{tmp_path}/v.jsonl can't be --judge-cache and --verdict-log at once" in capsys.readouterr().err
