from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator

import pytest
from exchanges import TRACE, exchange
from otlp_sink import OtlpSink

from demur.proxy.telemetry import Telemetry


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpSink]:
    with OtlpSink() as sink:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint)
        monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")  # events have tests of their own
        yield sink


def turned_on() -> Telemetry:
    telemetry = Telemetry.from_env()
    assert telemetry is not None
    return telemetry


def requests(telemetry: Telemetry, count: int) -> float:
    """Runs `count` requests through; returns the seconds of the slowest."""
    slowest = 0.0
    for _ in range(count):
        it = exchange()
        began = time.perf_counter()
        spans = telemetry.start(
            headers=[],
            method="POST",
            path="/v1/chat/completions",
            api="openai.chat",
            provider="openai",
            ask=TRACE.ask,
            body=b"{}",
            upstream_host="api.example.test",
            upstream_port=443,
        )
        assert spans is not None
        spans.end(it)
        slowest = max(slowest, time.perf_counter() - began)
    return slowest


def test_the_standard_variables_are_honoured(sink: OtlpSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "my-proxy")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=ignored")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=abc")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    telemetry = turned_on()
    requests(telemetry, 1)
    telemetry.shutdown()
    assert (sink.paths, sink.headers[0]["x-api-key"]) == (["/v1/traces"], "abc")
    assert sink.headers[0]["content-encoding"] == "gzip"
    resource = sink.spans()[0].resource
    assert (resource["service.name"], resource["deployment.environment.name"]) == ("my-proxy", "test")
    assert resource["service.version"]


def test_the_service_is_demur_unless_named(sink: OtlpSink) -> None:
    telemetry = turned_on()
    requests(telemetry, 1)
    telemetry.shutdown()
    assert sink.spans()[0].resource["service.name"] == "demur"


def test_the_sampler_is_honoured(sink: OtlpSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    telemetry = turned_on()
    requests(telemetry, 3)
    telemetry.shutdown()
    assert sink.requests == 0
    assert telemetry.dropped() == 0


def test_batches_leave_on_schedule_without_shutdown(sink: OtlpSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    telemetry = turned_on()
    requests(telemetry, 1)
    sink.wait(lambda: len(sink.spans()) == 2)
    telemetry.shutdown()


def test_the_console_prints_spans_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    telemetry = turned_on()
    requests(telemetry, 1)
    telemetry.shutdown()
    decoder, printed, spans = json.JSONDecoder(), capsys.readouterr().out.strip(), []
    while printed:
        span, end = decoder.raw_decode(printed)
        spans.append(span)
        printed = printed[end:].strip()
    assert [s["name"] for s in spans] == ["chat gpt-x", "POST /v1/chat/completions"]
    assert spans[0]["attributes"]["refusal.verdict"] == "hard_refusal"


def test_a_collector_that_fails_costs_spans_and_nothing_else(sink: OtlpSink, caplog: pytest.LogCaptureFixture) -> None:
    sink.status = 500
    telemetry = turned_on()
    with caplog.at_level(logging.CRITICAL):
        requests(telemetry, 5)
        telemetry.shutdown()
    assert telemetry.dropped() == 10
    assert sink.spans() == []


def test_a_collector_that_is_down_costs_spans_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    with OtlpSink() as gone:
        endpoint = gone.endpoint
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")
    telemetry = turned_on()
    requests(telemetry, 5)
    began = time.monotonic()
    telemetry.shutdown(timeout=0.3)
    assert time.monotonic() - began < 3
    assert telemetry.dropped() == 10


def test_a_slow_collector_delays_no_request_and_the_oldest_spans_go(
    sink: OtlpSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "20")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
    sink.stuck.set()
    telemetry = turned_on()
    requests(telemetry, 5)
    sink.wait(lambda: sink.requests == 1)
    assert requests(telemetry, 40) < 2  # the collector answers never
    assert telemetry.dropped() == 60  # 80 more spans, of which the queue holds 20
    sink.stuck.clear()
    telemetry.shutdown()
    assert len(sink.spans()) == 30
    assert telemetry.dropped() == 60


def test_shutdown_is_bounded_and_says_what_it_lost(
    sink: OtlpSink, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
    sink.stuck.set()
    telemetry = turned_on()
    requests(telemetry, 5)
    sink.wait(lambda: sink.requests == 1)
    requests(telemetry, 3)
    began = time.monotonic()
    telemetry.shutdown(timeout=0.2)
    assert time.monotonic() - began < 2
    assert telemetry.dropped() == 16
    assert "16 spans were not exported within 0.2 s at shutdown" in caplog.text
    sink.stuck.clear()
    sink.wait(lambda: not any(t.name == "telemetry-shutdown" for t in threading.enumerate()))
