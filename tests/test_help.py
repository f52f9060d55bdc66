"""Every command's help fits 80 columns, teaches by example, and names all its options and exit codes."""

from __future__ import annotations

import re

import click
import pytest

from demur.cli.main import COMMANDS, group, run
from demur.config import describe, sections


def commands() -> list[list[str]]:
    found: list[list[str]] = [[]]
    for name in COMMANDS:
        found.append([name])
        command = group.get_command(click.Context(group), name)
        found += [[name, sub] for sub in command.commands] if isinstance(command, click.Group) else []
    return found


def command_of(path: list[str]) -> click.Command:
    command: click.Command = group
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    return command


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_help_fits_the_screen_and_names_everything(path: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*path, "--help"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert max(map(len, captured.out.splitlines())) <= 80
    for parameter in command_of(path).params:
        if isinstance(parameter, click.Option):
            for name in parameter.opts:
                assert name in captured.out
            assert parameter.help
    assert "Exit codes:" in captured.out or "Commands:" in captured.out


@pytest.mark.parametrize("path", [path for path in commands() if len(path) < 2], ids=" ".join)
def test_examples_use_only_what_exists(path: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run([*path, "--help"])
    examples = re.findall(r"demur (\w+)(.*)", capsys.readouterr().out.partition("Options:")[0])
    assert path == ["demo"] or examples
    for name, rest in examples:
        if name not in COMMANDS:
            continue
        words = re.split("[|>`]", rest)[0].split()
        subcommand = [word for word in words[:1] if word in ("show", "check")]
        known = {opt for parameter in command_of([name, *subcommand]).params for opt in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known | {"--help"}, rest


def test_every_setting_is_a_flag_of_serve_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    run(["serve", "--help"])
    out = " ".join(capsys.readouterr().out.split())
    for setting in describe().values():
        assert setting.flag in out
        assert setting.description[1:40] in out
        assert f"[default: {setting.written(setting.default)}]" in out
    assert out.count("[default: ") == len(describe()) + 1


def test_the_flags_of_serve_stand_in_sections(capsys: pytest.CaptureFixture[str]) -> None:
    run(["serve", "--help"])
    out = capsys.readouterr().out
    titles = re.findall(r"^([A-Z].*):$", out, re.MULTILINE)
    assert titles == ["Options", *sections()]
    for title, settings in sections().items():
        part = out.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert re.findall(r"^  (--[a-z-]+)", part, re.MULTILINE) == [setting.flag for setting in settings]
    assert "300, 5m, 500ms" in " ".join(out.split())
