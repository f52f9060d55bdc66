"""What docs/streams.md shows is what happens."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from conversations import PAIRS, chat, sse
from conversations import chunk as part
from fake_upstream import END, Step, chunk, head, proxy, upstream
from test_readme import blocks

from demur.classifier import classify
from demur.config import Settings
from demur.proxy.finish import MAY_FINISH, summary

TEXT = (Path(__file__).resolve().parent.parent / "docs" / "streams.md").read_text("utf-8")
LOOK_UP, EARLY = blocks("python", TEXT)
NO = "I'm sorry, but I can't help with that request. It is against our policy, as I said before."


def streamed(body: bytes, kind: str = "text/event-stream") -> list[Step]:
    return [head(kind), chunk(body), END]


CHAT = streamed(sse(part({"content": NO}), part({}, "stop"), done=True))
OLLAMA = streamed(
    json.dumps({"model": "m", "message": {"role": "assistant", "content": NO}, "done": False}).encode()
    + b"\n"
    + json.dumps({"model": "m", "message": {"role": "assistant", "content": ""}, "done": True}).encode()
    + b"\n",
    "application/x-ndjson",
)


@pytest.mark.parametrize(
    ("example", "script", "settings", "printed"),
    [
        (LOOK_UP, OLLAMA, {}, "200 hard_refusal\n"),
        (EARLY, [*CHAT[:1], chunk(sse(part({"content": NO}))), 5.0], {"hold_chars": 60}, "early early\n"),
        (EARLY, CHAT, {}, ""),
    ],
    ids=["look-up", "early", "not held"],
)
def test_the_recipes(
    example: str,
    script: list[Step],
    settings: dict[str, Any],
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    close = "" if example is LOOK_UP else "\nclient.close()"

    async def run() -> None:
        async with upstream(*script) as up, proxy(up.url, **settings) as px:
            code = example.replace("http://127.0.0.1:8787", f"http://127.0.0.1:{px.port}") + close
            await asyncio.to_thread(exec, compile(code, "streams.md", "exec"), {})
            await px.end()

    asyncio.run(run())
    assert capsys.readouterr().out == printed


def test_the_key_is_as_shown() -> None:
    (shown,) = blocks("json", TEXT)
    key = summary(classify(chat(NO)), "x")
    assert list(json.loads(shown)) == list(key)


def test_what_it_names_exists() -> None:
    named = "hold_chars", "hold_ms", "buffer", "inspect_bytes", "total_timeout", "stream_verdict", "verdict_ttl"
    for name in named:
        assert f"`{name}" in TEXT
        assert name in Settings.model_fields
    for flag in re.findall(r"demur serve([^\n]*)", TEXT):
        for name in re.findall(r"--([a-z-]+)", flag):
            assert name.replace("-", "_") in Settings.model_fields
    assert len(MAY_FINISH) == 6  # the table of finish chunks has them all
    assert {name.partition(",")[0] for name in PAIRS} >= {"chat", "legacy", "responses", "anthropic", "gemini"}
