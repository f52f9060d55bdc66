"""One flag for every setting, made from the settings themselves: a new setting is a new flag with its help."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from demur.cli.judge_places import keep_apart
from demur.config import ConfigError, Loaded, Setting, Settings, check_start, describe, load, sections

#: What stands for a value that is written with a unit.
_UNITS = {"seconds": "TIME", "bytes": "SIZE"}

Command = TypeVar("Command", bound=Callable[..., Any])


class Sectioned(click.Command):
    """A command whose help lists the flags of settings section by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = {p.name: record for p in self.get_params(ctx) if (record := p.get_help_record(ctx))}
        parts = {title: [records.pop(setting.name) for setting in found] for title, found in sections().items()}
        for title, rows in {"Options": list(records.values()), **parts}.items():
            with formatter.section(title):
                formatter.write_dl(rows)


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
    """That the proxy may start with these settings in this environment; else the command's error.

    What only running it shows, such as a port that is taken, is not tried.
    """
    problems: list[str] = []
    try:
        check_start(loaded, os.environ)
    except ConfigError as error:
        problems += error.problems
    problems += _of_certificates(loaded)
    problems += _of_outbound_proxies(loaded.settings)
    if problems:
        raise click.ClickException("\n".join(problems))
    if loaded.settings.judge_url:
        keep_apart(loaded.settings)


def _of_certificates(loaded: Loaded) -> Iterator[str]:
    from demur.proxy.tls import CertificateError, client_context

    settings = loaded.settings
    try:
        client_context(settings.ca_file, settings.client_cert, settings.client_key)
    except CertificateError as error:
        yield f"{loaded.place(error.setting)}: {error.problem}"


def _of_outbound_proxies(settings: Settings) -> Iterator[str]:
    try:
        from demur.proxy.outbound import OutboundError, outbound_proxy
        from demur.proxy.urls import Base
    except ModuleNotFoundError:  # without demur[proxy] nothing starts anyway, and `serve` says so
        return
    for url in dict.fromkeys([settings.upstream, *(route.upstream for route in settings.route)]):
        try:
            outbound_proxy(Base.parse(url))
        except OutboundError as error:
            yield str(error)


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
        metavar="|".join(setting.words) or _UNITS.get(setting.unit) or (setting.name[:-1].upper() if many else "VALUE"),
        help=f"{help_text}{'; may be repeated' if many else ''}.  [default: {setting.written(setting.default)}]",
    )
