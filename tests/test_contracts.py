"""The import contracts in pyproject.toml hold, and each of them fails when it is broken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
ROOMS = ("audit", "classifier", "cli", "config", "proxy")


def lint_imports(tree: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    """Checks the contracts on the rooms below `tree`/demur."""
    arguments = ["--no-cache", *(f"--contract={contract}" for contract in contracts)]
    return subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()", *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the rooms, and of the contracts, that a test may spoil."""
    for room in ROOMS:
        shutil.copytree(ROOT / room, tmp_path / "demur" / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contracts_hold(tree: Path) -> None:
    checked = lint_imports(tree)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "0 broken" in checked.stdout


@pytest.mark.parametrize(
    ("contract", "module", "line"),
    [
        ("rooms", "config/settings", "import demur.classifier"),
        ("rooms", "classifier/trace", "from demur.config import Settings"),
        ("rooms", "proxy/__init__", "import demur.audit"),
        ("rooms", "proxy/__init__", "def f():\n    from demur.cli import main"),
        ("rooms", "audit/__init__", "import demur.proxy"),
        ("offline", "classifier/trace", "import httpx"),
        ("offline", "classifier/verdict", "from opentelemetry import trace"),
        ("offline", "classifier/verdict", "def f():\n    from rich.text import Text"),
        ("offline", "classifier/trace", "import socket"),
        ("offline", "classifier/trace", "def f():\n    import numpy"),
        ("offline", "classifier/trace", "from sklearn.metrics import f1_score"),
        ("sse-alone", "classifier/sse", "from demur.classifier import Verdict"),
        ("sse-alone", "classifier/sse", "from demur.classifier.trace import Ask"),
        ("sse-alone", "classifier/sse", "import msgspec"),
        ("telemetry", "proxy/__init__", "from opentelemetry.sdk.trace import TracerProvider"),
        ("telemetry", "cli/main", "import opentelemetry"),
    ],
)
def test_a_broken_contract_is_found(tree: Path, contract: str, module: str, line: str) -> None:
    file = tree / "demur" / f"{module}.py"
    file.write_text(f"{file.read_text(encoding='utf-8')}\n\n{line}\n", encoding="utf-8")
    checked = lint_imports(tree, contract)
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert "1 broken" in checked.stdout


def test_every_room_is_under_contract_and_under_the_type_checker() -> None:
    rooms = [f"demur.{room}" for room in ROOMS]
    assert CONFIG["importlinter"]["root_packages"] == rooms
    assert CONFIG["setuptools"]["packages"] == rooms
    links = ROOT / "tests" / "typecheck" / "demur"
    assert {link.name: (links / link).resolve() for link in links.iterdir()} == {room: ROOT / room for room in ROOMS}
