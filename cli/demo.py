"""`demur demo`: a replayed model, the proxy before it and a few calls, in one process on loopback. It checks itself."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import click

from demur.cli.main import needs_proxy


@dataclass(frozen=True, slots=True)
class Call:
    """One line of `demo.jsonl`: what is asked, what the model says, and the label that must come out."""

    title: str
    prompt: str
    expect: str
    streamed: bool
    recorded: dict[str, Any]


@click.command(short_help="Watch it work on loopback.")
def command() -> int:
    """Watch it work: a recorded model, the proxy before it and six calls, all on this machine, in a few seconds.

    Shows for each call what was asked, the verdict, the evidence in the text and the raw x-refusal-* headers; then a
    span as OpenTelemetry gets it, and the base_url line for your own client. Free ports are used and given back. Your
    settings and variables are left out.

    \b
    Exit codes:
      0  every verdict, header and text was as expected
      1  something was not; it says what
    """
    with needs_proxy("demo"):
        from demur.cli.demo_run import run
    _leave_out_the_environment()
    problems = asyncio.run(run(load_calls()))
    for problem in problems:
        click.echo(f"demur demo: {problem}", err=True)
    return 1 if problems else 0


def load_calls() -> list[Call]:
    lines = files("demur.cli").joinpath("demo.jsonl").read_text(encoding="utf-8").splitlines()
    return [_call(json.loads(line)) for line in lines]


def _call(recorded: dict[str, Any]) -> Call:
    prompt = recorded.get("prompt") or recorded["request"]["messages"][-1]["content"]
    return Call(recorded["title"], prompt, recorded["expect"], recorded.get("streamed", False), recorded)


def _leave_out_the_environment() -> None:
    """A demo looks the same everywhere: no exporter, sampler or HTTP proxy of the user's takes part."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        del os.environ[name]
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
