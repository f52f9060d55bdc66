"""Finds the subcommand, and turns every ending of a run into one exit code and at most two lines on stderr.

0 fine; 1 wrong usage, bad input or a failed run; 2 something is flagged (CI gates); 130 interrupted by Ctrl-C;
141 the reader of our output went away (as `head` does). A traceback means a bug in demur, never bad input.
"""

from __future__ import annotations

import difflib
import importlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NoReturn

import click

#: One sentence each. It stands here so that `demur --help` imports no subcommand.
COMMANDS = {
    "classify": "Judge saved responses: files, JSON Lines or standard input.",
    "serve": "Run the proxy: point base_url at it and every response carries a verdict.",
    "eval": "Measure against labelled data: F1, false alarms, kappa, calibration.",
    "report": "Tell how refusals are put: reason, strategy, features, by model, period and more.",
    "replay": "Run an OpenAI-compatible upstream that answers from recorded traces.",
    "demo": "Watch it work: a proxied model on loopback, headers, verdicts and a span.",
    "config": "Show or check the effective settings.",
}

INTERRUPTED = 130
READER_GONE = 141


class _Lazy(click.Group):
    """A group that imports a subcommand when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            near = difflib.get_close_matches(cmd_name, COMMANDS, n=1)
            ctx.fail(f"No such command '{cmd_name}'." + (f" Did you mean '{near[0]}'?" if near else ""))
        command: click.Command = importlib.import_module(f"demur.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Lazy, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="demur", message="demur %(version)s")
@click.pass_context
def group(ctx: click.Context) -> None:
    """Tells you when a language model said no, and how.

    Every response is one of answer, hard_refusal, disguised_refusal or shaped, with the exact words that gave it
    away. The judging is offline: nothing leaves this machine, unless you ask a judge (classify --judge).

    \b
    Try these:
      demur demo
      echo "I'm sorry, but I can't help with that." | demur classify
      demur classify --jsonl traces.jsonl > verdicts.jsonl
      demur serve --upstream https://api.openai.com/v1

    \b
    Exit codes:
      0  fine
      1  wrong usage, bad input or a failed run
      2  classify: something is flagged (--exit-zero switches it off)
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run(args: Sequence[str]) -> int:
    """Runs one command line, prints its errors, and returns the exit code."""
    try:
        with group.make_context("demur", list(args)) as ctx:
            code = group.invoke(ctx)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "demur"
        return _fail(f"{path}: {error.format_message()}\nTry '{path} --help'.")
    except click.ClickException as error:
        return _fail(f"demur: {error.format_message()}")
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return READER_GONE
    except OSError as error:  # a full disk, a file taken away between two reads
        return _fail(f"demur: {error.filename or 'input or output'}: {error.strerror or error}")


def _fail(message: str) -> int:
    click.echo(message, err=True)
    return 1


@contextmanager
def needs_extra(extra: str, command: str) -> Iterator[None]:
    """Around imports of what demur[extra] brings: says what to install when it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "demur":
            raise
        raise click.ClickException(
            f"`demur {command}` needs {error.name}, which is not installed: "
            f"pip install 'demur[{extra}]' (in a clone: '.[{extra}]')"
        ) from error


def needs_proxy(command: str) -> AbstractContextManager[None]:
    """Around imports of the proxy's libraries."""
    return needs_extra("proxy", command)


def main() -> NoReturn:
    """The `demur` console script."""
    code = run(sys.argv[1:]) if _standard_streams() else _fail("demur: standard output is closed (>/dev/null drops it)")
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        # Python flushes once more on its way out; give it somewhere to write.
        code = code or READER_GONE
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _standard_streams() -> bool:
    """Makes every standard stream usable, whatever we were started with. Whether there is an output at all."""
    writable = sys.stdout is not None
    # A closed one stays None in Python, and the next file opened would take its number.
    nothing = Path(os.devnull)
    sys.stdin = sys.stdin or nothing.open(encoding="utf-8")
    sys.stdout = sys.stdout or nothing.open("w", encoding="utf-8")
    sys.stderr = sys.stderr or nothing.open("w", encoding="utf-8")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name may hold bytes that are no text
    return writable


if __name__ == "__main__":
    main()
