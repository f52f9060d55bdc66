from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from exchanges import PROMPT, REFUSAL, REPLY, TRACE, exchange, unjudged
from otlp_sink import OtlpSink, SunkSpan

from demur.classifier.trace import Ask
from demur.proxy.observe import Exchange, Spans, Tracer
from demur.proxy.telemetry import Telemetry, TelemetryError

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
KEY = b"sk-very-secret"


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpSink]:
    with OtlpSink() as sink:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint)
        yield sink


def start(telemetry: Tracer, *headers: tuple[bytes, bytes], body: bytes = b"", **changes: Any) -> Spans:
    fields: dict[str, Any] = {
        "headers": [(b"authorization", b"Bearer " + KEY), *headers],
        "method": "POST",
        "path": "/v1/chat/completions",
        "api": "openai.chat",
        "provider": "openai",
        "ask": TRACE.ask,
        "body": body,
        "upstream_host": "api.example.test",
        "upstream_port": 443,
    }
    spans = telemetry.start(**(fields | changes))
    assert spans is not None
    return spans


def told(sink: OtlpSink, it: Exchange, *headers: tuple[bytes, bytes], **changes: Any) -> tuple[SunkSpan, SunkSpan]:
    """The SERVER and the CLIENT span of one exchange, as the collector got them."""
    with telemetry() as on:
        start(on, *headers, **changes).end(it)
    spans = {span.kind: span for span in sink.spans()}
    assert len(sink.spans()) == 2
    return spans["SERVER"], spans["CLIENT"]


@contextmanager
def telemetry() -> Iterator[Telemetry]:
    on = Telemetry.from_env()
    assert on is not None
    try:
        yield on
    finally:
        on.shutdown()


@pytest.mark.parametrize(("queue", "batch"), [("10", "20"), ("1", "2")])
def test_impossible_batch_settings_are_an_error(
    sink: OtlpSink, monkeypatch: pytest.MonkeyPatch, queue: str, batch: str
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", queue)
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", batch)
    with pytest.raises(TelemetryError, match="OTEL_BSP_"):
        Telemetry.from_env()


def test_without_an_exporter_there_is_no_telemetry() -> None:
    assert Telemetry.from_env() is None


def test_a_server_span_continues_the_clients_trace_and_has_a_client_child(sink: OtlpSink) -> None:
    server, client = told(sink, exchange(), (b"traceparent", TRACEPARENT.encode()), (b"tracestate", b"vendor=1"))
    assert (server.name, client.name) == ("POST /v1/chat/completions", "chat gpt-x")
    assert server.trace_id == client.trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert server.parent == "b7ad6b7169203331"
    assert client.parent == server.span_id
    assert server.raw.trace_state == client.raw.trace_state == "vendor=1"
    assert server.schema_url == "https://opentelemetry.io/schemas/1.41.1"


def test_a_trace_begins_here_when_the_client_has_none(sink: OtlpSink) -> None:
    server, client = told(sink, exchange())
    assert server.parent == ""
    assert client.parent == server.span_id
    assert client.trace_id == server.trace_id != "0" * 32


def test_the_client_span_is_the_parent_that_the_upstream_sees(sink: OtlpSink) -> None:
    with telemetry() as on:
        spans = start(on, (b"traceparent", TRACEPARENT.encode()), (b"tracestate", b"a=1"), (b"tracestate", b"b=2"))
        sent = dict(spans.headers())
        spans.end(exchange())
    client = next(s for s in sink.spans() if s.kind == "CLIENT")
    version, trace_id, span_id, flags = sent[b"traceparent"].decode().split("-")
    assert (version, trace_id, span_id) == ("00", client.trace_id, client.span_id)
    assert int(flags, 16) & 1
    assert sent[b"tracestate"] == b"a=1,b=2"


def test_traceparent_is_created_when_absent(sink: OtlpSink) -> None:
    with telemetry() as on:
        spans = start(on)
        assert [name for name, _ in spans.headers()] == [b"traceparent"]
        spans.end(exchange())


def test_what_the_client_does_not_sample_is_passed_on_and_not_exported(sink: OtlpSink) -> None:
    with telemetry() as on:
        spans = start(on, (b"traceparent", TRACEPARENT.encode()[:-1] + b"0"))
        trace_id, _, flags = dict(spans.headers())[b"traceparent"].decode().split("-")[1:]
        spans.end(exchange())
    assert (trace_id, int(flags, 16) & 1) == ("0af7651916cd43dd8448eb211c80319c", 0)
    assert sink.spans() == []
    assert on.dropped() == 0


def test_attributes_and_their_types(sink: OtlpSink) -> None:
    body = b'{"model": "gpt-x", "temperature": 1, "top_p": 0.5, "max_tokens": 9, "seed": 4, "n": 2}'
    server, client = told(sink, exchange(), body=body)
    verdict = {
        "refusal.id": "id-1",
        "refusal.verdict": "hard_refusal",
        "refusal.is_refusal": True,
        "refusal.score": 0.97,
        "refusal.action": "non_compliance",
        "refusal.rationale": "policy",
        "refusal.strategy": "explicit",
        "refusal.features": ["apology", "negative_stance"],
        "refusal.signals": ["refusal_phrase", "apology"],
        "refusal.rules": ["en.refuse.wont", "en.apology.sorry", "en.refuse.share"],
        "refusal.status": "complete",
        "refusal.language": "en",
        "refusal.classifier.name": "demur-rules",
        "refusal.classifier.version": "2026.1",
        "refusal.tag": "team-a",
    }
    assert server.attributes == verdict | {
        "http.request.method": "POST",
        "http.route": "/v1/chat/completions",
        "http.response.status_code": 200,
        "url.path": "/v1/chat/completions",
        "url.scheme": "http",
    }
    assert client.attributes == verdict | {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.request.temperature": 1.0,
        "gen_ai.request.top_p": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.request.seed": 4,
        "gen_ai.request.choice.count": 2,
        "gen_ai.response.id": "resp-1",
        "gen_ai.response.model": "gpt-x-2026",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 3,
        "gen_ai.usage.reasoning.output_tokens": 0,
        "http.response.status_code": 200,
        "server.address": "api.example.test",
        "server.port": 443,
    }
    assert {
        k: type(v) for k, v in client.attributes.items() if k in ("refusal.score", "gen_ai.request.temperature")
    } == {
        "refusal.score": float,
        "gen_ai.request.temperature": float,
    }
    assert type(client.attributes["refusal.is_refusal"]) is bool


def test_a_refusal_is_not_an_error(sink: OtlpSink) -> None:
    server, client = told(sink, exchange(status_code=400, verdict=replace(REFUSAL, blocked_by="content_filter")))
    for span in (server, client):
        assert not span.is_error
        assert "error.type" not in span.attributes
        assert span.attributes["refusal.blocked_by"] == "content_filter"


def test_spans_start_at_the_request_and_end_with_the_last_byte(sink: OtlpSink) -> None:
    it = exchange(started_ns=time.time_ns() - 2_000_000_000)
    server, client = told(sink, it, started_ns=it.started_ns)
    assert server.raw.start_time_unix_nano == it.started_ns
    assert server.raw.end_time_unix_nano == client.raw.end_time_unix_nano
    assert server.raw.end_time_unix_nano - it.started_ns == pytest.approx(1.5e9, abs=1000)
    assert client.raw.start_time_unix_nano > it.started_ns


def test_a_stream_says_so_and_when_its_first_event_came(sink: OtlpSink) -> None:
    it = exchange(stream=True)
    it = replace(it, first_event=it.started + 0.25)
    _, client = told(sink, it, ask=replace(TRACE.ask, stream=True))
    assert client.attributes["gen_ai.request.stream"] is True
    assert client.attributes["gen_ai.response.time_to_first_chunk"] == pytest.approx(0.25)


@pytest.mark.parametrize("marker", [True, False, None])
def test_a_stream_says_whether_its_end_marker_came(sink: OtlpSink, marker: bool | None) -> None:
    _, client = told(sink, exchange(stream=True, done_marker=marker))
    assert client.attributes.get("stream.done_marker") is marker  # unknown, where it could not be read: not there


@pytest.mark.parametrize("end", ["upstream_error", "connect_timeout", "first_byte_timeout", "idle_timeout"])
def test_upstream_failures_are_errors_on_both_spans(sink: OtlpSink, end: str) -> None:
    it = exchange(end=end, status_code=502, first_byte=None, trace=None, verdict=None, error="no answer")
    server, client = told(sink, it)
    assert client.is_error
    assert client.attributes["error.type"] == end
    assert "http.response.status_code" not in client.attributes
    assert server.is_error
    assert (server.attributes["error.type"], server.attributes["http.response.status_code"]) == (end, 502)


@pytest.mark.parametrize(("status", "server_too"), [(429, False), (503, True)])
def test_error_statuses_of_the_upstream(sink: OtlpSink, status: int, server_too: bool) -> None:
    server, client = told(sink, exchange(status_code=status, verdict=None))
    assert client.is_error
    assert client.attributes["error.type"] == str(status)
    assert server.is_error == server_too
    assert ("error.type" in server.attributes) == server_too


def test_a_disconnect_is_recorded_and_is_nobodys_error(sink: OtlpSink) -> None:
    cut = replace(REFUSAL, status="incomplete", inspected=0.5)
    for span in told(sink, exchange(end="client_disconnect", verdict=cut)):
        assert span.attributes["error.type"] == "client_disconnect"
        assert (span.attributes["refusal.status"], span.attributes["refusal.inspected"]) == ("incomplete", 0.5)
        assert not span.is_error


def test_a_path_that_is_not_judged_has_http_spans(sink: OtlpSink) -> None:
    server, client = told(
        sink, unjudged(), method="GET", path="/v1/models", api=None, provider=None, ask=Ask(), body=b""
    )
    assert (server.name, client.name) == ("GET /v1/models", "GET /v1/models")
    assert (server.kind, client.kind) == ("SERVER", "CLIENT")
    assert client.attributes == {
        "http.request.method": "GET",
        "http.response.status_code": 200,
        "server.address": "api.example.test",
        "server.port": 443,
    }
    assert server.attributes["http.route"] == "/v1/models"


def test_a_strange_method_and_path_do_not_become_a_name(sink: OtlpSink) -> None:
    server, client = told(sink, unjudged(), method="BREW", path="/pot/1", api=None, provider=None, ask=Ask())
    assert (server.name, client.name) == ("_OTHER", "_OTHER")
    assert server.attributes["url.path"] == "/pot/1"


def test_no_text_and_no_key_leaves_by_default(sink: OtlpSink) -> None:
    body = json.dumps({"model": "gpt-x", "messages": [{"role": "user", "content": PROMPT}]}).encode()
    told(sink, exchange(error=f"failed with {KEY!r}"), body=body)
    payload = b"".join(sink.payloads)
    assert b"en.refuse.wont" in payload
    for secret in (b"zebra", b"won't", KEY, b"Bearer"):
        assert secret not in payload


@pytest.mark.parametrize("mode", ["SPAN_ONLY", "SPAN_AND_EVENT", "true"])
def test_content_is_on_the_client_span_when_capture_says_so(
    sink: OtlpSink, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", mode)
    server, client = told(sink, exchange())
    assert json.loads(client.attributes["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": PROMPT}]}
    ]
    assert json.loads(client.attributes["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": REPLY}], "finish_reason": "stop"}
    ]
    assert (client.attributes["input.value"], client.attributes["output.value"]) == (PROMPT, REPLY)
    assert client.attributes["refusal.evidence"] == ["I won't share", "sorry", "won't share", "the zebra password"]
    assert not any("zebra" in str(v) for v in server.attributes.values())


@pytest.mark.parametrize("mode", ["NO_CONTENT", "EVENT_ONLY", "false"])
def test_other_capture_modes_put_no_text_on_spans(sink: OtlpSink, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", mode)
    told(sink, exchange())
    assert b"zebra" not in b"".join(sink.payloads)


def test_each_pair_ends_once_even_when_describing_it_fails(sink: OtlpSink, monkeypatch: pytest.MonkeyPatch) -> None:
    with telemetry() as on:
        spans = start(on)
        broken = exchange(verdict="not a verdict")
        with pytest.raises(AttributeError):
            spans.end(broken)
    assert sorted(s.kind for s in sink.spans()) == ["CLIENT", "SERVER"]


def test_a_span_that_cannot_start_is_no_reason_to_refuse(sink: OtlpSink, caplog: pytest.LogCaptureFixture) -> None:
    with telemetry() as on, pytest.raises(AssertionError):
        start(on, api=["not", "hashable"])
    assert "could not be started" in caplog.text


def test_odd_wire_values_do_not_spoil_the_batch(sink: OtlpSink) -> None:
    odd = replace(TRACE, model="m\ud800", response_id="r" * 10_000, usage=replace(TRACE.usage, input_tokens=10**30))
    server, client = told(
        sink, exchange(trace=odd), path="/v1/\udcff", body=b'{"seed": 123456789012345678901234567890, "temperature": 1}'
    )
    assert client.attributes["gen_ai.response.model"] == "m?"
    assert len(client.attributes["gen_ai.response.id"]) == 256
    assert "gen_ai.usage.input_tokens" not in client.attributes
    assert server.attributes["url.path"] == "/v1/?"


def test_two_telemetries_do_not_share_a_provider(sink: OtlpSink) -> None:
    with telemetry() as one, telemetry() as two:
        start(one).end(exchange())
        start(two).end(exchange())
    assert len(sink.spans()) == 4
