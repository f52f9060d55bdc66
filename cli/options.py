"""One flag for every setting, made from the settings themselves: a new setting is a new flag with its help."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from demur.config import ConfigError, Loaded, Setting, check_start, describe, load

Command = TypeVar("Command", bound=Callable[..., Any])


def settings_flags(names: Sequence[str] | None = None) -> Callable[[Command], Command]:
    """Adds `--config` and the flags of the named settings (default: all); values arrive under the settings' names."""

    def add(command: Command) -> Command:
        known = describe()
        for name in reversed(list(known) if names is None else names):
            command = _flag(known[name])(command)
        return config_flag(command)

    return add


def config_flag(command: Command) -> Command:
    """Adds `--config FILE`."""
    return click.option(
        "--config", metavar="FILE", type=click.Path(path_type=Path), help="Settings file.  [default: ./demur.toml]"
    )(command)


def load_settings(config: Path | None, flags: dict[str, object]) -> Loaded:
    """The effective settings; what is wrong with them becomes the command's error."""
    try:
        return load(file=config, flags=flags)
    except ConfigError as error:
        raise click.ClickException("\n".join(error.problems)) from error


def check_before_start(loaded: Loaded) -> None:
    """That the proxy may start with these settings in this environment; else the command's error."""
    try:
        check_start(loaded, os.environ)
    except ConfigError as error:
        raise click.ClickException("\n".join(error.problems)) from None


def _flag(setting: Setting) -> Callable[[Command], Command]:
    # Values stay text: `config` reads and checks them as it does those of the file and the environment.
    flags, many = [setting.flag], isinstance(setting.default, tuple)
    if many:
        flags.append(setting.flag.removesuffix("s"))  # --lexicon A --lexicon B
    help_text = setting.description[:1].upper() + setting.description[1:]
    return click.option(
        *flags,
        setting.name,
        multiple=many,
        metavar="|".join(setting.words) or setting.unit.upper() or (setting.name[:-1].upper() if many else "VALUE"),
        help=f"{help_text}{'; may be repeated' if many else ''}.  [default: {_default(setting)}]",
    )


def _default(setting: Setting) -> str:
    if setting.default is None or setting.default == ():
        return "none"
    if isinstance(setting.default, bool):
        return str(setting.default).lower()  # as it is written
    return f"{setting.default:g}" if isinstance(setting.default, float) else str(setting.default)
