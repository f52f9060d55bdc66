"""The house rules that no linter knows."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import demur.classifier
from demur.config import Settings

ROOT = Path(__file__).parent.parent
ROOMS = ("audit", "classifier", "cli", "config", "proxy")

INNER_TEST = """
import os, socket
import pytest

def test_skips(require_tool): require_tool("no-such-program")
def test_shared(shared_corpus): shared_corpus("no-such-corpus.jsonl")
def test_environment(): assert not {n for n in os.environ if n.startswith(("DEMUR_", "OTEL_"))} and not os.listdir()
def test_network():
    with pytest.raises(OSError): socket.create_connection(("192.0.2.1", 80), timeout=1)
def test_names():
    with pytest.raises(OSError): socket.getaddrinfo("host.example", 80)
"""


def product_files() -> list[Path]:
    return [file for room in ROOMS for file in sorted((ROOT / room).glob("*.py"))]


def test_the_intended_copy_is_under_test() -> None:
    loaded = Path(demur.classifier.__file__)
    if os.environ.get("EXPECT_WHEEL"):  # set by .ci/run
        assert "site-packages" in loaded.parts
        assert loaded.is_relative_to(sys.prefix)
    else:
        assert loaded.parent.resolve() == ROOT / "classifier"


def test_no_file_is_longer_than_500_lines() -> None:
    files = product_files() + sorted((ROOT / "tests").rglob("*.py"))
    long = {
        str(file.relative_to(ROOT)): n
        for file in files
        if (n := len(file.read_text(encoding="utf-8").splitlines())) > 500
    }
    assert long == {}


def test_every_setting_is_read() -> None:
    """A setting that nobody reads is a promise that nobody keeps."""
    source = "\n".join(file.read_text(encoding="utf-8") for file in product_files() if file.parent.name != "config")
    assert [name for name in Settings.model_fields if not re.search(rf"settings\.{name}\b", source)] == []


@pytest.mark.parametrize("file", ["constraints.txt", "tests/clients/constraints.txt", "tests/clients/model_server.txt"])
def test_the_constraints_pin_and_hash_everything_and_name_no_host(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    assert "://" not in text
    assert "--index" not in text
    entries = re.split(r"\n(?=\S)", text.strip())
    assert [
        e for e in entries if not re.match(r"[\w.-]+==[\w.!+]+( ; [^\\]+)? \\\n {4}--hash=sha256:[0-9a-f]{64}", e)
    ] == []


def test_the_node_lock_hashes_everything_and_names_no_host() -> None:
    packages = json.loads((ROOT / "tests/clients/package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert packages
    assert [name for name, package in packages.items() if "resolved" in package] == []
    assert [name for name, package in packages.items() if name and "integrity" not in package] == []


@pytest.fixture
def inner(tmp_path: Path) -> Path:
    """A test folder of its own with our conftest."""
    (tmp_path / "conftest.py").write_text(
        (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    (tmp_path / "test_inner.py").write_text(INNER_TEST, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(("ci", "outcome"), [("true", "failed"), ("", "skipped")])
def test_on_ci_a_missing_tool_fails_the_test(inner: Path, ci: str, outcome: str) -> None:
    out = run_pytest(inner, {"CI": ci}, "-k", "skips")
    assert f"1 {outcome}" in out
    assert "no-such-program is not installed" in out


def test_a_missing_shared_corpus_skips_by_name_on_ci_too(inner: Path) -> None:
    out = run_pytest(inner, {"CI": "true"}, "-k", "shared")
    assert "../shared/corpora/no-such-corpus.jsonl is absent" in out
    assert "1 skipped" in out


def test_the_environment_of_a_test_is_clean(inner: Path) -> None:
    assert "1 passed" in run_pytest(inner, {"DEMUR_PORT": "1", "OTEL_SDK_DISABLED": "true"}, "-k", "environment")


@pytest.mark.parametrize(("test", "place"), [("network", "192.0.2.1:80"), ("names", "host.example")])
def test_a_reach_beyond_loopback_fails_even_when_swallowed(inner: Path, test: str, place: str) -> None:
    out = run_pytest(inner, {}, "-k", f"test_{test}")
    assert f"the test reached for {place}" in out
    assert "1 error" in out


def run_pytest(folder: Path, env: dict[str, str], *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", str(folder), "--rootdir", str(folder), *args],
        cwd=folder,
        env={"PATH": "", **env},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_the_loop_may_reach_loopback() -> None:
    async def talk() -> bytes:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"hello")
            writer.close()

        async with await asyncio.start_server(answer, "localhost", 0, family=socket.AF_INET) as server:
            port = server.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            data = await reader.read()
            writer.close()
            await writer.wait_closed()
            return data

    assert asyncio.run(talk()) == b"hello"
