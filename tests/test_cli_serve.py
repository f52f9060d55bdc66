"""`demur serve` hands every flag on, and says where verdicts go. The proxy itself is tested elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from demur.cli.main import run
from demur.config import Settings, describe
from demur.proxy import server
from demur.proxy.second_opinion import Reviews


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings that the proxy was started with; it returns 0 at once."""
    seen: list[Settings] = []

    def serve(settings: Settings, ready: server.Ready, *, reviews: Reviews | None = None) -> int:
        assert (reviews is None) == (settings.judge_url is None)
        seen.append(settings)
        ready("http://[::1]:9000", "http://127.0.0.1:9001")
        return 0

    monkeypatch.setattr(server, "serve", serve)
    return seen


def certificates(folder: Path) -> list[str]:
    """An authority, a certificate and its key."""
    ca = trustme.CA()
    issued = ca.issue_cert("client@team.test")
    files = [folder / name for name in ("ca.pem", "cert.pem", "key.pem")]
    for blob, path in zip((ca.cert_pem, issued.cert_chain_pems[0], issued.private_key_pem), files, strict=True):
        blob.write_to_path(path)
    return [str(path) for path in files]


def test_every_setting_has_a_flag_that_arrives(
    served: list[Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", "of-nobody")
    file = tmp_path / "some.file"
    file.touch()
    special = {
        "stream_verdict": "off",
        "log_level": "debug",
        "log_format": "json",
        "buffer": "true",
        "upstream": "http://one.example/v1",
    }
    special |= {"host": "localhost", "admin_host": "localhost", "lexicons": str(file)}
    special |= dict(zip(("ca_file", "client_cert", "client_key"), certificates(tmp_path), strict=True))
    special |= {"verdict_log": str(file), "min_confidence": "0.25", "languages": "en,de"}
    special |= {"judge_url": "http://127.0.0.1:9/v1", "judge_key_env": "A_KEY", "judge_below": "0.25"}
    special["judge_cache"] = str(tmp_path / "codings")
    args = [part for name, setting in describe().items() for part in (setting.flag, special.get(name, "77"))]
    args[args.index("--admin-port") + 1] = "78"
    assert run(["serve", *args]) == 0
    (settings,) = served
    defaults = Settings()
    unchanged = [name for name in Settings.model_fields if getattr(settings, name) == getattr(defaults, name)]
    assert unchanged == ["route"]


def test_lexicons_may_be_repeated(served: list[Settings], tmp_path: Path) -> None:
    files = [tmp_path / "a.toml", tmp_path / "b.toml"]
    for file in files:
        file.touch()
    assert run(["serve", "--lexicon", str(files[0]), "--lexicon", str(files[1])]) == 0
    assert served[0].lexicons == tuple(files)


def test_it_says_where_verdicts_go_and_the_base_url(
    served: list[Settings], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["serve", "--host", "::1", "--port", "9000", "--verdict-log", str(tmp_path / "v.jsonl")])
    out = capsys.readouterr().out
    assert out.startswith("demur listening on http://[::1]:9000 → https://api.openai.com/v1\n")
    assert 'base_url="http://[::1]:9000/v1"' in out
    assert "http://127.0.0.1:9001/metrics" in out
    for place in ("x-refusal-*", "finish chunk", "/-/verdicts/ID", "v.jsonl"):
        assert place in out
    run(["serve", "--stream-verdict", "off"])
    assert "finish chunk" not in capsys.readouterr().out


def test_it_says_to_whom_texts_go_and_below_what(served: list[Settings], capsys: pytest.CaptureFixture[str]) -> None:
    run(["serve"])
    assert "judge" not in capsys.readouterr().out
    judge = ["--judge-url", "http://u:secret@127.0.0.1:9/v1", "--judge-model", "gpt-y", "--judge-below", "0.6"]
    assert run(["serve", *judge]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("judge:"))
    assert "gpt-y at http://" in line
    assert "secret" not in line
    assert line.endswith("gets the texts of verdicts below 0.6")


def test_a_judge_that_can_not_be_used_is_an_error_before_anything_listens(
    served: list[Settings], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = ["--judge-url", "http://127.0.0.1:9/v1", "--judge-model", "gpt-y"]
    assert run(["serve", *judge, "--judge-key-env", "NO_SUCH_KEY"]) == 1
    assert "NO_SUCH_KEY" in capsys.readouterr().err
    (tmp_path / "no.cache").write_text("not a database, and long enough to be seen as none" * 100)
    assert run(["serve", *judge, "--judge-cache", str(tmp_path / "no.cache")]) == 1
    assert "no.cache" in capsys.readouterr().err
    assert served == []


def test_without_a_judge_its_code_is_not_loaded() -> None:
    code = """
import sys
from demur.cli.main import run
from demur.proxy import server
server.serve = lambda settings, ready: 0
assert run(["serve"]) == 0
print([name for name in sys.modules if name.startswith(("demur.audit", "demur.cli.background"))])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_wrong_flag_is_an_error_that_names_it(served: list[Settings], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--idle-timeout", "soon"]) == 1
    assert "--idle-timeout" in capsys.readouterr().err
    assert served == []


def test_the_exit_code_is_that_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "serve", lambda settings, ready: 1)
    assert run(["serve"]) == 1
