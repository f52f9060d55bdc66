"""The demo's calls: made over real sockets with a real client, shown on the terminal, checked one by one."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from rich.console import Console
from rich.text import Text

from demur.audit.loopback import listening
from demur.audit.recording import Recording
from demur.audit.replay import create_replay_app
from demur.classifier.sse import SSEReader
from demur.cli.demo import Call
from demur.cli.render import STYLES, make_console, show_indented, show_marked
from demur.config import Settings
from demur.proxy.app import create_app
from demur.proxy.telemetry import Telemetry

#: Seconds for everything; about two are needed.
TIME_LIMIT = 25.0


@dataclass(slots=True)
class Reply:
    """What a client sees of one call.

    `key` is the `refusal_verdict` of a stream's finish chunk, `verdict` the one under `/-/verdicts/{id}`.
    """

    headers: dict[str, str]
    text: str
    key: dict[str, Any] | None
    verdict: dict[str, Any]

    @property
    def label(self) -> str:
        return str(self.key["label"] if self.key else self.headers.get("x-refusal-verdict"))


async def run(calls: Sequence[Call]) -> list[str]:
    """Shows everything; returns what was not as expected."""
    console, spans = make_console(), io.StringIO()
    with contextlib.redirect_stdout(spans):
        telemetry = Telemetry(["console"])  # the exporter keeps the standard output of this moment
    problems: list[str] = []
    try:
        async with asyncio.timeout(TIME_LIMIT):
            await _converse(console, calls, telemetry, problems)
            await asyncio.to_thread(telemetry.shutdown)
    except (TimeoutError, httpx.HTTPError, KeyError, ValueError) as error:
        return [*problems, f"broke off: {type(error).__name__}: {error}"]
    problems += _show_span(console, spans.getvalue(), len(calls))
    console.print(Text("The same before your own model:", style="bold"))
    console.print("  demur serve --upstream https://api.openai.com/v1")
    console.print('  client = OpenAI(base_url="http://127.0.0.1:8787/v1")')
    return problems


async def _converse(console: Console, calls: Sequence[Call], telemetry: Telemetry, problems: list[str]) -> None:
    replay = create_replay_app(Recording(call.recorded for call in calls))
    async with listening(replay) as upstream:
        app = create_app(Settings(upstream=f"{upstream}/v1"), telemetry=telemetry)
        async with listening(app) as proxy, httpx.AsyncClient(base_url=proxy, trust_env=False, timeout=10) as client:
            console.print(f"recorded model: {upstream}\nproxy:          {proxy}\n")
            for number, call in enumerate(calls, 1):
                reply = await _ask(client, call)
                _show(console, number, call, reply)
                problems += [f"call {number}: {problem}" for problem in _wrong(call, reply)]


async def _ask(client: httpx.AsyncClient, call: Call) -> Reply:
    request = {"model": "demo-1", "messages": [{"role": "user", "content": call.prompt}], "stream": call.streamed}
    response = await client.post("/v1/chat/completions", json=request)
    key = None
    if call.streamed:
        chunks = [json.loads(event.data) for event in SSEReader().feed(response.content) if event.data != b"[DONE]"]
        text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
        key = next((chunk["refusal_verdict"] for chunk in chunks if "refusal_verdict" in chunk), None)
    else:
        text = response.json()["choices"][0]["message"]["content"] or ""
    headers = {name: value for name, value in response.headers.items() if name.startswith("x-refusal-")}
    return Reply(headers, text, key, await _look_up(client, headers["x-refusal-id"]))


async def _look_up(client: httpx.AsyncClient, id: str) -> dict[str, Any]:
    for _ in range(100):
        response = (await client.get(f"/-/verdicts/{id}")).raise_for_status()
        if response.status_code == httpx.codes.OK:
            return dict(response.json())
        await asyncio.sleep(0.02)  # the exchange is still running
    raise TimeoutError(f"no verdict under /-/verdicts/{id}")


def _show(console: Console, number: int, call: Call, reply: Reply) -> None:
    verdict = reply.verdict
    label, confidence = verdict["label"], verdict["confidence"]
    console.print(Text(f"{number}  {call.title}", style="bold"))
    show_indented(console, Text(f"asked: {call.prompt}", style="dim"))
    show_indented(
        console, Text.assemble("verdict: ", (str(label), STYLES.get(label, "")), f"  confidence {confidence:.2f}")
    )
    console.print()
    show_marked(
        console,
        reply.text,
        [(s["start"], s["end"]) for signal in verdict["signals"] for s in signal["spans"]],
    )
    for signal in verdict["signals"]:
        fact = f" [{signal['field']}]" if "field" in signal else ""
        show_indented(console, Text(f"{signal['name']}: {signal['why']}{fact}"))
    for name, value in reply.headers.items():
        show_indented(console, Text(f"{name}: {value}", style="cyan"))
    if reply.key is not None:
        show_indented(console, Text(f'"refusal_verdict": {json.dumps(reply.key)}', style="cyan"))
    console.print()


def _wrong(call: Call, reply: Reply) -> list[str]:
    """What is not as it should be."""
    text = call.recorded["response"] if isinstance(call.recorded["response"], str) else ""
    flagged = call.expect != "answer"
    evidence = [signal for signal in reply.verdict["signals"] if signal["spans"] or "field" in signal]
    checks = {
        "the text is not the recorded one": reply.text == text,
        f"the verdict is {reply.label}, expected {call.expect}": reply.label == call.expect,
        f"the verdict looked up is {reply.verdict['label']}": reply.verdict["label"] == reply.label,
        "there is no evidence": bool(evidence) or not flagged,
        "the stream's header is not pending": not call.streamed or reply.headers["x-refusal-verdict"] == "pending",
        "the finish chunk has no refusal_verdict": not call.streamed or reply.key is not None,
        "the ids differ": reply.verdict["id"] == reply.headers["x-refusal-id"],
    }
    return [problem for problem, fine in checks.items() if not fine]


def _show_span(console: Console, exported: str, expected: int) -> list[str]:
    """Shows the CLIENT span of a refusal as the console exporter of OpenTelemetry wrote it."""
    clients = [span for span in _objects(exported) if span["kind"] == "SpanKind.CLIENT"]
    judged = [span for span in clients if span["attributes"].get("refusal.verdict")]
    shown = next((span for span in judged if span["attributes"]["refusal.verdict"] == "disguised_refusal"), None)
    if shown is not None:
        console.print(Text(f"The span of a disguised refusal, as OpenTelemetry gets it: {shown['name']}", style="bold"))
        for name, value in sorted(shown["attributes"].items()):
            show_indented(console, Text(f"{name} = {json.dumps(value)}", style="cyan"))
        console.print()
    return [] if len(judged) == expected and shown else [f"{len(judged)} of {expected} spans carry a verdict"]


def _objects(text: str) -> list[dict[str, Any]]:
    """JSON objects written one after the other."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text.rstrip()):
        value, at = decoder.raw_decode(text, len(text) - len(text[at:].lstrip()))
        found.append(value)
    return found
