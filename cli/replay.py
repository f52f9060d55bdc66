"""`demur replay`: an OpenAI-compatible upstream on a port, answering from recorded traces."""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from demur.cli.main import needs_proxy
from demur.cli.traces import InputError, read_items

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from demur.audit.recording import Recording

#: The longest wait, in milliseconds.
AN_HOUR = 3_600_000

Command = TypeVar("Command", bound=Callable[..., Any])


def _milliseconds(name: str, text: str) -> Callable[[Command], Command]:
    return click.option(
        name, default=0, show_default=True, type=click.FloatRange(0, AN_HOUR), callback=_number, metavar="MS", help=text
    )


def _number(ctx: click.Context, parameter: click.Parameter, value: float) -> float:
    if math.isnan(value):
        raise click.BadParameter("'nan' is not a number of milliseconds")
    return value


@click.command(short_help="Answer from recorded traces.")
@click.argument("traces", nargs=-1, required=True, metavar="TRACES...")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Address to listen on.")
@click.option("--port", default=8790, show_default=True, type=click.IntRange(0, 65535), help="Port; 0: a free one.")
@_milliseconds("--latency", "Wait before the first byte.")
@_milliseconds("--chunk-delay", "Wait between the chunks of a stream.")
@click.option("--cut-after", type=click.IntRange(0), metavar="N", help="Break streams off after N chunks.")
@click.option("--chunk-chars", type=click.IntRange(1), metavar="N", help="Characters a chunk; else token-like pieces.")
def command(
    traces: tuple[str, ...],
    host: str,
    port: int,
    latency: float,
    chunk_delay: float,
    cut_after: int | None,
    chunk_chars: int | None,
) -> int:
    """Run an upstream that answers from recorded TRACES: to try the proxy, alerts and clients without a model.

    A request gets the recorded answer to its last user text, of the model it names where that model has one. Several
    answers to one text come in file order, then again from the first. No match is a 404. Takes every form that
    `demur classify` takes, as long as it says what was asked: {"prompt", "response", "model"} is enough.

    \b
    Try these:
      demur replay traces.jsonl
      demur replay traces.jsonl --latency 300 --chunk-delay 20
      demur replay traces.jsonl --cut-after 5
      demur serve --upstream http://127.0.0.1:8790/v1

    Answers /v1/chat/completions as JSON and as a stream, n and stream_options.include_usage included; /v1/models;
    and /v1/completions, /v1/responses and /v1/messages where the traces hold such responses. Ctrl-C stops it.

    \b
    Exit codes:
      0    stopped by SIGTERM
      1    wrong usage, a file that can't be read, or a port that is taken
      130  stopped by Ctrl-C
    """
    with needs_proxy("replay"):
        from demur.audit.recording import Recording
        from demur.audit.replay import Pace, create_replay_app
    try:
        items = [item for path in traces for item in read_items(path)]
    except InputError as error:
        raise click.ClickException(str(error)) from error
    recording = Recording(item.obj for item in items)
    if recording.size == recording.unmatched:
        raise click.ClickException(f"{', '.join(traces)}: no trace says what was asked, so no request could match one")
    pace = Pace(latency / 1000, chunk_delay / 1000, cut_after, chunk_chars)
    asyncio.run(_serve(create_replay_app(recording, pace), host, port, _summary(recording)))
    return 0


async def _serve(app: ASGIApp, host: str, port: int, summary: str) -> None:
    from demur.audit.loopback import listening

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    try:
        async with listening(app, host, port) as address:
            click.echo(f"demur replay: {summary}\n  base_url={address}/v1")
            await stop.wait()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.ClickException(f"cannot listen on {host} port {port}: {error.strerror or error}") from error


def _summary(recording: Recording) -> str:
    text = f"traces: {recording.size - recording.unmatched}, models: {len(recording.models)}"
    return text + (f"; {recording.unmatched} unreadable or without an ask, left out" if recording.unmatched else "")
