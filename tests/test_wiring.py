"""Settings reach what they are for, and the parts are joined: without the line that does it, a test here fails."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_upstream import (
    DONE,
    END,
    RST,
    Step,
    ask,
    call,
    call_port,
    chunk,
    completion,
    connection,
    event,
    head,
    proxy,
    request,
    say,
    upstream,
    whole,
)
from otlp_sink import OtlpSink
from test_server import serving

from demur.classifier.verdict import Verdict
from demur.config import Settings
from demur.proxy.metrics import Metrics
from demur.proxy.observe import Exchange
from demur.proxy.server import _assemble

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
REFUSAL = "I'm sorry, but I can't help with that."
SITE = "Questions of this kind belong at the front desk."
RULE = f"""
language = "en"
[[rule]]
id = "site.desk"
signal = "scope_limit"
weight = 0.9
phrases = ["questions of this kind belong at the front desk"]
why = "a fixed sentence"
yes = ["{SITE}"]
no = ["The front desk is open."]
"""
STREAM: Sequence[Step] = [head(), chunk(say("Fine. " * 20)), chunk(event({}, "stop") + DONE), END]


@asynccontextmanager
async def assembled(url: str, **settings: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Metrics]]:
    """The application as `demur serve` puts it together, without its sockets."""
    with ExitStack() as closing:
        app, metrics = _assemble(Settings(upstream=url, **{"languages": ("en",), **settings}), closing)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://proxy") as client:
            try:
                yield client, metrics
            finally:
                await app._transport.aclose()


def judged(answer: bytes | Sequence[Step], **settings: Any) -> Verdict:
    """The verdict on `answer`, a text's completion or the steps of a stream, under `settings`."""

    settings = {"languages": ("en",), **settings}

    async def run() -> Verdict:
        steps = [whole(answer)] if isinstance(answer, bytes) else answer
        async with upstream(*steps) as up, proxy(up.url, app={"classifier": None}, **settings) as px:
            await call(px, ask(stream=not isinstance(answer, bytes)))
            verdict = (await px.end()).verdict
            assert verdict is not None
            return verdict

    return asyncio.run(run())


def test_min_confidence() -> None:
    assert judged(completion(REFUSAL)).label == "hard_refusal"
    assert judged(completion(REFUSAL), min_confidence=1.0).label == "answer"


def test_lexicons(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text(RULE)
    assert judged(completion(SITE)).label == "answer"
    assert "site.desk" in [found.rule for found in judged(completion(SITE), lexicons=[file]).signals]


def test_inspect_bytes_of_a_stream() -> None:
    assert judged(STREAM).inspected == 1
    assert judged(STREAM, inspect_bytes=30).inspected == pytest.approx(30 / 120)


@pytest.mark.parametrize(
    ("settings", "found"),
    [({}, [200, 200]), ({"verdict_keep": 1}, [404, 200]), ({"verdict_ttl": 0.001}, [404, 404])],
    ids=["defaults", "verdict_keep", "verdict_ttl"],
)
def test_the_store_of_verdicts(settings: dict[str, Any], found: list[int]) -> None:
    async def run() -> None:
        async with upstream(whole(completion("Fine."))) as up, proxy(up.url, **settings) as px:
            ids = [(await call(px, ask())).get("x-refusal-id") for _ in found]
            await px.end(len(found))
            await asyncio.sleep(0.01)
            assert [(await call(px, request("GET", f"/-/verdicts/{id}"))).status for id in ids] == found

    asyncio.run(run())


def test_time_limits_of_the_way_up() -> None:
    seen: list[httpx.Request] = []

    def answer(sent: httpx.Request) -> httpx.Response:
        seen.append(sent)
        return httpx.Response(200, json={})

    async def run() -> None:
        limits = {"connect_timeout": 3.0, "first_byte_timeout": 7.0}
        async with proxy("http://127.0.0.1:9", app={"transport": httpx.MockTransport(answer)}, **limits) as px:
            await call(px, ask())

    asyncio.run(run())
    assert seen[0].extensions["timeout"] == {"connect": 3.0, "read": 7.0}


def test_tag_limit_and_the_requests_in_flight() -> None:
    async def run() -> str:
        async with upstream(0.3, whole(completion("Fine."))) as up, assembled(up.url, tag_limit=1) as (client, metrics):
            waiting = asyncio.ensure_future(client.post("/v1/chat/completions", json={"messages": []}))
            while not up.requests:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert b"refusal_requests_in_flight 1.0" in metrics.render()[0]
            await waiting
            for tag in ("first", "second"):
                await client.post("/v1/chat/completions", json={"messages": []}, headers={"x-refusal-tag": tag})
            return metrics.render()[0].decode()

    scrape = asyncio.run(run())
    assert 'refusal_tag="first"' in scrape
    assert 'refusal_tag="second"' not in scrape
    assert "refusal_requests_in_flight 0.0" in scrape


def test_our_traceparent_replaces_the_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[str]:
        async with upstream(whole(completion("Fine."))) as up, assembled(up.url) as (client, _):
            sent = {"traceparent": TRACEPARENT, "tracestate": "a=1"}
            await client.post("/v1/chat/completions", json={"messages": []}, headers=sent)
            assert up.requests[0].all("tracestate") == ["a=1"]
            return up.requests[0].all("traceparent")

    assert asyncio.run(run()) == [TRACEPARENT]
    with OtlpSink() as sink:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint)
        (ours,) = asyncio.run(run())
        (span,) = [span for span in sink.spans() if span.kind == "CLIENT"]
    assert ours.split("-")[1:3] == [span.trace_id, span.span_id]
    assert span.trace_id == TRACEPARENT.split("-")[1]


class Tracer:
    """Counts the spans it gives out and how often each is ended."""

    def __init__(self) -> None:
        self.begun = 0
        self.ends: list[str] = []

    def start(self, **_: Any) -> Tracer:
        self.begun += 1
        return self

    def headers(self) -> list[tuple[bytes, bytes]]:
        return []

    def end(self, it: Exchange) -> None:
        self.ends.append(it.end)
        raise RuntimeError("said in the log, and not tried again")

    def reviewed(self, it: Exchange) -> None:
        raise AssertionError("nobody was asked for a second opinion")


@pytest.mark.parametrize(
    ("steps", "stream", "end"),
    [
        ([whole(completion("Fine."))], False, "complete"),
        (STREAM, True, "complete"),
        ([RST], False, "upstream_error"),
        ([head(), chunk(say("Fi")), RST], True, "upstream_error"),
        ([head(), chunk(say("Fi")), 60.0], True, "idle_timeout"),
    ],
    ids=["json", "stream", "no answer", "cut stream", "silent stream"],
)
def test_spans_are_ended_once(steps: Sequence[Step], stream: bool, end: str) -> None:
    async def run() -> None:
        tracer = Tracer()
        async with upstream(*steps) as up, proxy(up.url, app={"telemetry": tracer}, idle_timeout=0.3) as px:
            await call(px, ask(stream=stream))
            await px.end()
        assert (tracer.begun, tracer.ends) == (1, [end])

    asyncio.run(run())


def test_spans_are_ended_once_when_the_client_leaves() -> None:
    async def run() -> None:
        tracer = Tracer()
        async with upstream(head(), chunk(say("Fi")), 60.0) as up, proxy(up.url, app={"telemetry": tracer}) as px:
            async with connection(px) as (reader, writer):
                writer.write(ask(stream=True))
                await reader.readuntil(b"data: ")
            await px.end()
        assert (tracer.begun, tracer.ends) == (1, ["client_disconnect"])

    asyncio.run(run())


def log_of(*scripts: Sequence[Step], sent: Sequence[bytes] = (), **settings: Any) -> str:
    """What a server writes to its log while it answers `sent` and stops."""

    async def run() -> str:
        first, *then = scripts or ([whole(b"{}")],)
        async with upstream(*first, then=then) as up, serving(up.url, **settings) as app:
            for one in sent:
                await app.call(one)
            app.process.send_signal(signal.SIGTERM)
            _, err = await asyncio.wait_for(app.process.communicate(), 30)
            return err.decode()

    return asyncio.run(run())


def test_log_level_and_log_format() -> None:
    assert log_of(log_level="error") == ""
    (line,) = log_of(log_format="json").splitlines()
    assert json.loads(line)["message"].startswith("stopping: ")


def test_no_text_and_no_key_is_in_the_log_at_any_level() -> None:
    secret = "zebra"
    key = f"Authorization: Bearer {secret}"
    fine = completion(f"A {secret} has stripes.")
    log = log_of(
        [whole(fine)],
        [head(), chunk(say(f"The {secret}")), chunk(event({}, "stop") + DONE), END],
        [head(), chunk(say(f"The {secret}")), RST],
        [whole(b"{" + fine)],
        [RST],
        sent=[
            ask(f"What is a {secret}?", key),
            ask(f"What is a {secret}?", key, stream=True),
            ask(f"What is a {secret}?", key, stream=True),
            request("POST", f"/v1/chat/completions?key={secret}", b'{"messages": "' + secret.encode(), key),
            ask(f"What is a {secret}?", key),
            request("POST", "/v1/chat/completions", b"x", "Transfer-Encoding: gzip", key),
        ],
        log_level="debug",
    )
    assert "upstream_error" in log
    assert secret not in log


def test_admin_token() -> None:
    async def run() -> list[int]:
        async with upstream(whole(b"{}")) as up, serving(up.url, admin_token="s3cret") as app:
            keys: list[list[str]] = [[], ["Authorization: Bearer s3cret"]]
            return [(await call_port(app.admin_port, request("GET", "/metrics", None, *key))).status for key in keys]

    assert asyncio.run(run()) == [401, 200]
