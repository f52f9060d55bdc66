"""What docs/middleware.md shows is what happens."""

from __future__ import annotations

import asyncio
import json
import sys
import types
from pathlib import Path

import fastapi
import pytest
from applications import called
from conversations import message
from fake_upstream import upstream, whole
from test_client_transport import STREAMED
from test_middleware import REFUSED
from test_readme import blocks

from demur.config import Settings

TEXT = (Path(__file__).resolve().parent.parent / "docs" / "middleware.md").read_text("utf-8")
FASTAPI, LITELLM, OPENAI, ANTHROPIC = blocks("python", TEXT)
REPLY = json.dumps(message({"type": "text", "text": "I can't help with that."})).encode()
NAMED = ("stream_verdict", "verdict_log", "max_request_bytes", "inspect_bytes", "hold_chars", "hold_ms", "buffer")


def with_chat(app: fastapi.FastAPI) -> fastapi.FastAPI:
    @app.post("/v1/chat/completions")
    async def chat() -> fastapi.Response:
        return fastapi.Response(REFUSED, media_type="application/json")

    return app


@pytest.mark.parametrize("example", [FASTAPI, LITELLM], ids=["fastapi", "litellm"])
def test_the_applications(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = types.ModuleType("litellm.proxy.proxy_server")
    stand_in.app = fastapi.FastAPI()  # type: ignore[attr-defined]
    for name in ("litellm", "litellm.proxy", "litellm.proxy.proxy_server"):
        monkeypatch.setitem(sys.modules, name, stand_in)
    names: dict[str, fastapi.FastAPI] = {}
    exec(compile(example, "middleware.md", "exec"), names)
    got = asyncio.run(called(with_chat(names["app"])))
    assert (got.body, got.get("x-refusal-verdict")) == (REFUSED, "hard_refusal")


def test_the_name_that_vllm_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = (line for line in TEXT.splitlines() if "vllm serve" in line)
    module, _, name = line.rpartition(" ")[2].rpartition(".")
    assert isinstance(getattr(__import__(module, fromlist=[name]), name), type)


def test_openai(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def run() -> None:
        async with upstream(whole(REFUSED), then=[STREAMED]) as up:
            monkeypatch.setenv("OPENAI_BASE_URL", up.url)
            monkeypatch.setenv("OPENAI_API_KEY", "k")
            await asyncio.to_thread(exec, compile(f"{OPENAI}\nclient.close()", "middleware.md", "exec"), {})

    asyncio.run(run())
    first, evidence, streamed = capsys.readouterr().out.splitlines()
    assert first == "hard_refusal I'm sorry, but I can't help with that."
    assert evidence.startswith("0.99")
    assert "en.cannot-do" in evidence
    assert streamed == "I'm sorry, but I can't help with that. hard_refusal"


def test_anthropic(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def run() -> None:
        async with upstream(whole(REPLY)) as up:
            monkeypatch.setenv("ANTHROPIC_BASE_URL", up.url.removesuffix("/v1"))
            monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
            await asyncio.to_thread(exec, compile(ANTHROPIC, "middleware.md", "exec"), {})

    asyncio.run(run())
    assert capsys.readouterr().out == "hard_refusal complete Name three fruits. complete\n"


def test_every_setting_that_it_names_exists() -> None:
    for name in NAMED:
        assert name in TEXT
        assert name in Settings.model_fields
