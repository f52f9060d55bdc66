"""What is in deploy/ is real: it is loaded, and checked, by the programs that it is for."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from demur.config import Settings, describe, describe_route, load, sections

DEPLOY = Path(__file__).parent.parent / "deploy"
EXAMPLE = DEPLOY / "demur.toml"
UNIT = DEPLOY / "demur.service"


def test_the_example_configuration_changes_nothing() -> None:
    loaded = load(EXAMPLE, {})
    assert loaded.settings == Settings()
    assert set(loaded.origins.values()) == {"default"}


def test_the_example_configuration_shows_every_setting_with_its_default(tmp_path: Path) -> None:
    file = tmp_path / "demur.toml"
    file.write_text(
        re.sub(r"^# (?=\w+ = )", "", EXAMPLE.read_text(encoding="utf-8"), flags=re.MULTILINE), encoding="utf-8"
    )
    loaded = load(file, {})
    assert loaded.settings == Settings()
    assert [name for name, origin in loaded.origins.items() if origin == "default"] == ["route"]


def test_the_example_configuration_shows_a_route_with_every_key(tmp_path: Path) -> None:
    file = tmp_path / "demur.toml"
    text = EXAMPLE.read_text(encoding="utf-8")
    file.write_text(re.sub(r"^#(?=\[\[|\w)", "", text, flags=re.MULTILINE), encoding="utf-8")
    [route] = load(file, {}).settings.route
    assert route.model_fields_set == set(describe_route())
    for key in describe_route().values():
        assert f"\n## {key.description}\n#{key.name} = " in text


def test_the_example_configuration_has_defaults_and_sections_as_the_help_shows_them(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    shown = dict(re.findall(r'^# (\w+) = "?(.*?)"?$', text, re.MULTILINE))
    assert shown == {name: setting.written(setting.default) for name, setting in describe().items()} | {
        "lexicons": "[]"  # a list without files has no word of its own
    }
    titles = re.findall(r"^# --- ([^\n(]*?)(?: on verdicts.*| to other.*)?$", text, re.MULTILINE)
    assert titles[:-1] == list(sections())
    assert [setting.name for found in sections().values() for setting in found] == list(shown)


@pytest.mark.parametrize("name", describe())
def test_the_example_configuration_says_what_a_setting_does(name: str) -> None:
    setting = describe()[name]
    text = EXAMPLE.read_text(encoding="utf-8")
    assert f"\n## {setting.description}\n## {setting.accepts}\n# {name} = " in text


def test_systemd_accepts_the_unit_and_finds_it_hardened(tmp_path: Path, require_tool: Callable[[str], str]) -> None:
    analyze = require_tool("systemd-analyze")
    unit = tmp_path / UNIT.name
    # It checks that the program exists, so any stands in for the installed command.
    unit.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/demur/bin/demur", sys.executable), encoding="utf-8")
    for check in (["verify"], ["security", "--offline=true", "--no-pager", "--threshold=20"]):
        done = subprocess.run([analyze, *check, str(unit)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == ""


def test_the_command_of_the_unit_is_one_of_ours(tmp_path: Path) -> None:
    [start] = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    program, *arguments = shlex.split(start)
    assert program == "/opt/demur/bin/demur"
    assert arguments == ["serve", "--config", "/etc/demur/demur.toml"]
    run = [sys.executable, "-c", "from demur.cli.main import main; main()"]
    subprocess.run([*run, "config", "check", "--config", str(EXAMPLE)], check=True, capture_output=True)
    shown = subprocess.run([*run, "serve", "--help"], check=True, capture_output=True, text=True)
    assert "--config" in shown.stdout


def test_open_exchanges_get_their_time_before_systemd_kills() -> None:
    [seconds] = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    assert int(seconds) > Settings().drain_seconds
