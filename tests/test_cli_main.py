"""Every ending of a command has its exit code; errors are a line or two on stderr; nothing is a traceback."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from demur.cli import main
from demur.cli.main import run

COMMAND = [sys.executable, "-m", "demur.cli.main"]


def test_no_arguments_show_help_that_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    out = capsys.readouterr().out
    for name in main.COMMANDS:
        assert f"  {name} " in out
    assert "Exit codes:" in out
    assert "demur classify" in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"demur {version('demur')}\n"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["clasify"], ["No such command", "Did you mean 'classify'?", "Try 'demur --help'."]),
        (["--what"], ["--what", "Try 'demur --help'."]),
        (["classify", "--jsom"], ["--jsom", "Try 'demur classify --help'."]),
        (["replay"], ["TRACES", "Try 'demur replay --help'."]),
        (["config", "show", "extra"], ["extra", "Try 'demur config show --help'."]),
    ],
)
def test_wrong_usage_is_one_line_and_where_to_look(
    args: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(args) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 2
    for word in words:
        assert word in captured.err


def test_help_and_version_import_no_subcommand() -> None:
    code = (
        "import sys; from demur.cli.main import run; run([]);"
        "print([name for name in sys.modules if name.startswith('demur.c')])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "['demur.cli', 'demur.cli.main']"


def test_classify_works_without_the_libraries_of_the_proxy() -> None:
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('httpx', 'starlette', 'uvicorn', 'aiohttp', 'opentelemetry')));"
        "from demur.cli.main import run; sys.exit(run(['classify']))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=b"Two plums.", capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("args", [["serve"], ["demo"], ["replay", "-"]])
def test_a_command_that_needs_more_says_what_to_install(
    args: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith(("demur.proxy", "demur.audit", "demur.cli.demo_run")):
            raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert run(args) == 1
    assert capsys.readouterr().err == (
        f"demur: `demur {args[0]}` needs uvicorn, which is not installed: "
        "pip install 'demur[proxy]' (in a clone: '.[proxy]')\n"
    )


def test_ctrl_c_ends_quietly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(ctx: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main.group, "invoke", interrupted)
    assert run(["classify"]) == 130
    assert capsys.readouterr().err == ""


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    feed = b'"Two plums."\n' * 20_000
    done = _through_head(feed)
    assert done == (main.READER_GONE, 1, b"")


def _through_head(feed: bytes) -> tuple[int, int, bytes]:
    """The exit code, how many lines a reader got that takes one and leaves, and stderr."""
    read, write = os.pipe()
    with subprocess.Popen(
        [*COMMAND, "classify", "--jsonl"], stdin=subprocess.PIPE, stdout=write, stderr=subprocess.PIPE
    ) as process:
        os.close(write)
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(feed[:1000])
        process.stdin.flush()
        with os.fdopen(read, "rb") as reader:
            got = reader.readline()
        try:
            process.stdin.write(feed)
            process.stdin.close()
        except BrokenPipeError:
            pass
        return process.wait(timeout=30), got.count(b"\n"), process.stderr.read()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_an_error_in_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "classify", "--jsonl"], input=b'"Two plums."\n', stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert b"No space left" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="there is no POSIX shell here")
@pytest.mark.parametrize("arguments", ["classify --jsonl", "classify --json", "classify", "config show", "--help"])
def test_a_closed_output_is_an_error_in_one_line(arguments: str) -> None:
    done = _shell(f"{arguments} >&-", b'"Two plums."\n')
    assert (done.returncode, done.stderr) == (1, b"demur: standard output is closed (>/dev/null drops it)\n")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no POSIX shell here")
def test_a_closed_input_is_an_empty_one_and_closed_errors_are_dropped() -> None:
    done = _shell("classify <&-", b"")
    assert (done.returncode, done.stderr) == (1, b"demur classify: stdin: is empty, there is nothing to judge\n")
    assert _shell("classify nowhere.json 2>&-", b"").returncode == 1


@pytest.mark.skipif(sys.platform == "win32", reason="file names are text there")
@pytest.mark.parametrize("form", ["", " --json"])
def test_a_name_that_is_no_text_can_be_shown(form: str) -> None:
    done = _shell(f"config show{form}", b"", {b"DEMUR_VERDICT_LOG": b"log-\xff", b"PYTHONIOENCODING": b"utf-8"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"log-\udcff" in done.stdout


def _shell(arguments: str, given: bytes, env: dict[bytes, bytes] | None = None) -> subprocess.CompletedProcess[bytes]:
    """The command line as a shell runs it, which can close streams."""
    command = f'"$0" -m demur.cli.main {arguments}'
    return subprocess.run(
        ["sh", "-c", command, sys.executable],
        input=given,
        capture_output=True,
        check=False,
        env={**os.environb, **env} if env else None,
    )
