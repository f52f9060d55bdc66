"""`--by`: the columns for each value of which a command gives figures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import click
from click.core import ParameterSource

Command = TypeVar("Command", bound=Callable[..., Any])
Column = TypeVar("Column", bound=str)


def by_option(known: Sequence[str], default: str) -> Callable[[Command], Command]:
    """Adds `--by`, which arrives as a tuple of some of the `known` columns."""
    return click.option(
        "--by",
        multiple=True,
        default=(default,),
        show_default=True,
        callback=partial(_columns, known),
        metavar="COLUMNS",
        help=f"Figures for each value of these: {', '.join(known)}; none: for none. May be repeated.",
    )


def _columns(
    known: Sequence[str], ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]
) -> tuple[str, ...]:
    names = [name.strip() for part in given for name in part.split(",") if name.strip()]
    if unknown := [name for name in names if name not in (*known, "none")]:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(known)}, none")
    return tuple(name for name in dict.fromkeys(names) if name != "none")


def asked_for(by: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns that the command line names: none where they are those of the default."""
    given = click.get_current_context().get_parameter_source("by") is ParameterSource.COMMANDLINE
    return by if given else ()


def tell_missing(asked: Sequence[str], told: Collection[str], record: str, named: Mapping[str, str]) -> None:
    """Says on standard error which of the columns asked for no `record` tells, by what it is `named` there."""
    for column in asked:
        if column not in told:
            path = click.get_current_context().command_path
            click.echo(f"{path}: no {record} tells its {named.get(column, column)}", err=True)
