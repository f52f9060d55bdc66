"""`demur config`: what is set, and where each value comes from."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import click

from demur.cli.options import check_before_start, config_flag, load_settings
from demur.config import DEFAULT_FILE, ROUTE, Loaded, describe, shadowed


@click.group(short_help="The effective settings.", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """The effective settings: defaults, then demur.toml, then DEMUR_* variables; flags of `demur serve` win over all.

    \b
    Try these:
      demur config show
      demur config check --config staging.toml
      DEMUR_PORT=9000 demur config show --json

    `demur serve --help` tells what each setting does. OpenTelemetry is set by its own OTEL_* variables.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@command.command(short_help="Each value and its origin.")
@config_flag
@click.option("--json", "as_json", is_flag=True, help="Print JSON: {name: {value, origin}}.")
def show(config: Path | None, as_json: bool) -> None:
    """Show every setting with its value and where that comes from. Secrets are masked.

    \b
    Exit codes:
      0  shown
      1  a setting is wrong; the message names the file and line or the variable
    """
    loaded = load_settings(config, {})
    values = loaded.settings.masked()
    if as_json:
        shown = {name: {"value": value, "origin": loaded.origins[name]} for name, value in values.items()}
        click.echo(json.dumps(shown, indent=2, default=str))
        return
    click.echo(_considered(loaded, os.environ))
    written = {name: setting.written(values[name]) for name, setting in describe().items()}
    written[ROUTE] = str(len(loaded.routes) or "none")
    width, widest = max(map(len, written)), max(map(len, written.values()))
    for name, value in written.items():
        click.echo(f"{name:{width}}  {value:{min(widest, 40)}}  {loaded.origins[name]}")
    for number, (route, place) in enumerate(zip(loaded.settings.route, loaded.routes, strict=True), start=1):
        click.echo(f"route {number}  {route}  {place}")


@command.command(short_help="Check the settings.")
@config_flag
def check(config: Path | None) -> None:
    """Check all that `demur serve` asks of settings: prints ok, or what is wrong and where.

    That is each value, that keys of routes and of the judge are there, certificates, outbound proxies, the place of the
    verdict log, and own lexicons. Routes that no request can reach are named too; they are no mistake. No name is
    looked up and no port is tried: only starting shows whether a host can be listened on.

    \b
    Exit codes:
      0  ok
      1  a setting is wrong; the message names the file and line or the variable
    """
    loaded = load_settings(config, {})
    check_before_start(loaded)
    for unreachable in shadowed(loaded):
        click.echo(f"warning: {unreachable}", err=True)
    if loaded.settings.lexicons:
        from demur.cli.classify import make_classifier

        make_classifier(loaded.settings)  # says what is wrong with a lexicon
    click.echo(f"ok: {_considered(loaded, os.environ)}")


def _considered(loaded: Loaded, env: Mapping[str, str]) -> str:
    file = str(loaded.file) if loaded.file else f"no {DEFAULT_FILE} here"
    variables = sorted(name for name in env if name.startswith("DEMUR_"))
    return f"file: {file}; variables: {', '.join(variables) or 'no DEMUR_*'}"
