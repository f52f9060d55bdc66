"""What only a real process shows: keys in none of its outputs, spans at a collector, memory, a stop in peace."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_upstream import (
    DONE,
    END,
    FIN,
    RST,
    Answer,
    Script,
    ask,
    call_port,
    chunk,
    completion,
    event,
    head,
    request,
    say,
    upstream,
    whole,
)
from otlp_sink import OtlpSink, SunkSpan
from wire.serving import Serving, serving

STOP = event({}, "stop")
FINE = whole(completion("Fine."))
SECRET = "sk-very-secret"
REFUSAL = "I'm sorry, but I can't help with that."
STREAM: Script = [head(), chunk(say(REFUSAL)), chunk(STOP + DONE), END]
KEYS = (f"Authorization: Bearer {SECRET}", f"X-Api-Key: {SECRET}", f"api-key: {SECRET}", f"Cookie: s={SECRET}")


def exporting(sink: OtlpSink, **more: str) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint, "OTEL_METRICS_EXPORTER": "none", **more}


async def many(app: Serving, requests: Sequence[bytes]) -> list[Answer]:
    return list(await asyncio.gather(*(call_port(app.port, sent) for sent in requests)))


def test_w62_no_output_holds_a_key(tmp_path: Path) -> None:
    """Keys in headers and in the query, upstreams that fail in all ways, everything logged that can be."""
    log = tmp_path / "verdicts.jsonl"
    scripts: list[Script] = [
        (FINE,),
        STREAM,
        (whole(b'{"error":{"message":"no such key"}}', status="400 Bad Request"),),
        (whole(b'{"error":{"message":"who are you"}}', status="401 Unauthorized"),),
        (60.0,),  # first_byte_timeout
        (head(), chunk(say("Well")), 60.0),  # idle_timeout
        (RST,),
        (FIN,),
        (head(), chunk(say("Well")), 0.05, RST),
        (b"nonsense\r\n\r\n",),
        (head("application/json", length=99), b"{", FIN),
    ]

    async def run() -> bytes:
        outputs: list[bytes] = []
        with OtlpSink() as sink:
            limits = {"first_byte_timeout": 0.5, "idle_timeout": 0.5, "log_level": "debug", "verdict_log": str(log)}
            async with upstream(*scripts[0], then=scripts[1:]) as up, serving(up.url, exporting(sink), **limits) as app:
                for query in (f"?key={SECRET}", f"?api-version=1&api_key={SECRET}"):
                    for path in ("/v1/chat/completions", "/v1beta/models/m:streamGenerateContent", "/v1/files"):
                        sent = [
                            ask("How?", *KEYS, f"X-Script: {number}", path=path + query, stream=number % 2 == 1)
                            for number in range(len(scripts))
                        ]
                        answers = await many(app, sent)
                        outputs += [repr(answer).encode() for answer in answers]
                    for odd in (
                        request(
                            "GET", f"/v1/realtime{query}", None, *KEYS, "Upgrade: websocket", "Connection: Upgrade"
                        ),
                        request("GET", f"/-/no{query}", None, *KEYS),
                        request("POST", f"/v1/files{query}", b"x", *KEYS, "Transfer-Encoding: gzip"),
                    ):
                        outputs.append(repr(await call_port(app.port, odd)).encode())
                outputs.append((await call_port(app.admin_port, request("GET", "/metrics"))).body)
                outputs += [part.encode() for part in await app.stop()]
            outputs += sink.payloads
            assert len(sink.spans()) >= 2 * 60
        return b"\n".join([*outputs, log.read_bytes()])

    everything = asyncio.run(run())
    assert b"first_byte_timeout" in everything
    assert b"idle_timeout" in everything
    assert b"upstream_error" in everything
    assert SECRET.encode() not in everything


TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_w86_one_pair_of_spans_each_with_its_parent() -> None:
    scripts: list[Script] = [(FINE,), STREAM, (RST,), (whole(b"[]"),)]
    context = (f"traceparent: 00-{TRACE}-{PARENT}-01", "tracestate: vendor=1")

    async def run() -> tuple[list[SunkSpan], list[Any]]:
        with OtlpSink() as sink:
            async with upstream(*scripts[0], then=scripts[1:]) as up, serving(up.url, exporting(sink)) as app:
                for lines in (context, (), ("traceparent: nonsense", "tracestate: vendor=1")):
                    for number in range(4):
                        path = "/v1/embeddings" if number == 3 else "/v1/chat/completions"
                        sent = ask("How?", *lines, f"X-Script: {number}", path=path, stream=number == 1)
                        await call_port(app.port, sent)
                for path in ("/-/healthy", "/-/ready", "/-/verdicts/x"):
                    await call_port(app.port, request("GET", path))
                await app.stop()
            return sink.spans(), up.requests

    spans, requests = asyncio.run(run())
    assert len(spans) == 2 * len(requests) == 24
    by_id = {span.span_id: span for span in spans}
    for number, got in enumerate(requests):
        (parent,) = got.all("traceparent")
        _, trace, span_id, flags = parent.split("-")
        client = by_id[span_id]  # what went up continues the CLIENT span
        server = by_id[client.parent]
        assert (client.kind, server.kind, client.trace_id, server.trace_id) == ("CLIENT", "SERVER", trace, trace)
        if number < 4:
            assert (trace, server.parent, flags) == (TRACE, PARENT, "01")
            assert got.all("tracestate") == ["vendor=1"]
        else:
            assert (trace == TRACE, server.parent) == (False, "")
            assert got.all("tracestate") == []
        assert client.is_error == (number % 4 == 2)
        expected = (None, "answer", "hard_refusal", None, None)[0 if number % 4 == 3 else number % 4 + 1]
        assert client.attributes.get("refusal.verdict") == server.attributes.get("refusal.verdict") == expected


@pytest.mark.parametrize("trouble", ["down", "slow", "500"])
def test_w78_a_collector_in_trouble_harms_nobody(trouble: str) -> None:
    async def run() -> None:
        with OtlpSink() as sink:
            sink.status = 500 if trouble == "500" else 200
            if trouble == "slow":
                sink.stuck.set()
            nowhere = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"} if trouble == "down" else {}
            small = {"OTEL_BSP_MAX_QUEUE_SIZE": "32", "OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_BSP_EXPORT_TIMEOUT": "500"}
            variables = exporting(sink, **small) | nowhere
            async with upstream(FINE) as up, serving(up.url, variables) as app:
                begun = time.perf_counter()
                for _ in range(10):
                    answers = await many(app, [ask()] * 20)
                    assert [answer.get("x-refusal-verdict") for answer in answers] == ["answer"] * 20
                assert time.perf_counter() - begun < 20  # none of them waited for a collector of 30 s
                async with asyncio.timeout(30):  # 400 spans, room for 32: what is lost is counted
                    while not await dropped(app):  # noqa: ASYNC110
                        await asyncio.sleep(0.1)
                assert (await app.stop())[0] == ""
                assert app.returncode == 0

    asyncio.run(run())


async def dropped(app: Serving) -> float:
    metrics = (await call_port(app.admin_port, request("GET", "/metrics"))).body.decode()
    (line,) = (line for line in metrics.splitlines() if line.startswith("refusal_export_dropped_spans_total "))
    return float(line.split()[1])


def test_w54_three_large_requests_at_once_take_a_bounded_factor() -> None:
    """Images as text: of 20 MB there are our copy and the one on its way, never one more as str or as objects."""
    image = "data:image/png;base64," + "iVBORw0K" * (20 * 1024 * 1024 // 8)
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": image}}]}
    body = json.dumps({"model": "m", "messages": [message]}).encode()
    sent = request("POST", "/v1/chat/completions", body, "Content-Type: application/json")

    async def run() -> None:
        async with upstream(0.5, FINE) as up, serving(up.url) as app:
            await many(app, [ask()] * 8)
            app.reset_peak()
            before = app.peak()
            answers = await many(app, [sent] * 3)
            assert [answer.get("x-refusal-verdict") for answer in answers] == ["answer"] * 3
            assert all(len(got.body) == len(body) for got in up.requests[8:])
            assert app.peak() - before < 2.7 * 3 * len(body)

    asyncio.run(run())


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_w76_open_streams_end_in_peace_and_spans_are_flushed(stop: signal.Signals) -> None:
    """Scaled: streams of two seconds for those of thirty."""
    slow: Script = [head(), *[s for _ in range(8) for s in (chunk(say("t")), 0.25)], chunk(STOP + DONE), END]

    async def run() -> None:
        with OtlpSink() as sink:
            async with upstream(*slow) as up, serving(up.url, exporting(sink)) as app:
                streams = [asyncio.ensure_future(call_port(app.port, ask(stream=True))) for _ in range(5)]
                async with asyncio.timeout(10):
                    while len(up.requests) < 5:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                app.signal(stop)
                await asyncio.sleep(0.3)
                ready = await call_port(app.port, request("GET", "/-/ready"))
                assert (ready.status, ready.json()["ready"]) == (503, False)
                refused = await call_port(app.port, ask())
                assert (refused.status, refused.json()["error"]["code"]) == (503, "shutting_down")
                for answer in await asyncio.gather(*streams):
                    assert answer.clean
                    assert answer.body.endswith(DONE)
                await app.ended()
                assert app.returncode == 0
            kinds = [span.kind for span in sink.spans()]
            assert (kinds.count("CLIENT"), kinds.count("SERVER")) == (5, 5)

    asyncio.run(run())
