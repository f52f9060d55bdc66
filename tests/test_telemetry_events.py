from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from exchanges import REFUSAL, exchange, unjudged
from otlp_sink import OtlpSink, SunkEvent
from test_telemetry import start

from demur.classifier.verdict import Review, Signal, Span, Verdict
from demur.proxy.observe import Exchange
from demur.proxy.telemetry import Telemetry

REASON = "The zebra is named and nothing else."
REVIEWED = replace(
    REFUSAL,
    label="disguised_refusal",
    confidence=0.9,
    signals=(
        *REFUSAL.signals,
        Signal("judge", "disguised_refusal", 0.9, "judge", REASON, (Span(14, 32, "the zebra"),)),
    ),
    review=Review("gpt-y", "coded", "disguised_refusal", REASON, "hard_refusal", 0.6),
)


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpSink]:
    with OtlpSink() as sink:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint)
        yield sink


@pytest.fixture
def only_events(sink: OtlpSink, monkeypatch: pytest.MonkeyPatch) -> OtlpSink:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    return sink


def turned_on() -> Telemetry:
    telemetry = Telemetry.from_env()
    assert telemetry is not None
    return telemetry


def told(sink: OtlpSink, it: Exchange, review: Verdict | None = None) -> list[SunkEvent]:
    """The events of one exchange, as the collector got them."""
    telemetry = turned_on()
    spans = start(telemetry)
    spans.end(it)
    if review is not None:
        spans.reviewed(replace(it, verdict=review))
    telemetry.shutdown()
    return sink.events()


def test_a_verdict_is_an_event_of_its_client_span(sink: OtlpSink) -> None:
    it = exchange(started_ns=time.time_ns() - 2_000_000_000)
    (event,) = told(sink, it)
    (client,) = (span for span in sink.spans() if span.kind == "CLIENT")
    assert event.name == "gen_ai.evaluation.result"
    assert (event.trace_id, event.span_id) == (client.trace_id, client.span_id)
    assert event.raw.time_unix_nano == client.raw.end_time_unix_nano
    assert event.attributes == {
        "gen_ai.evaluation.name": "refusal",
        "gen_ai.evaluation.score.label": "hard_refusal",
        "gen_ai.evaluation.score.value": 0.97,
        "gen_ai.evaluation.explanation": "en.refuse.wont, en.apology.sorry, en.refuse.share",
        "gen_ai.response.id": "resp-1",
        "refusal.id": "id-1",
    }
    assert type(event.attributes["gen_ai.evaluation.score.value"]) is float
    assert (event.resource["service.name"], event.schema_url) == (
        "demur",
        "https://opentelemetry.io/schemas/1.41.1",
    )


def test_a_reviewed_verdict_is_a_second_event_under_the_same_id_and_span(sink: OtlpSink) -> None:
    first, second = told(sink, exchange(started_ns=time.time_ns() - 2_000_000_000), REVIEWED)
    assert (second.name, second.trace_id, second.span_id) == (first.name, first.trace_id, first.span_id)
    assert second.raw.time_unix_nano > first.raw.time_unix_nano
    assert not [name for name in first.attributes if name.startswith("refusal.review")]
    expected = {
        "refusal.id": "id-1",
        "refusal.review.judge": "gpt-y",
        "refusal.review.outcome": "coded",
        "refusal.review.rules_verdict": "hard_refusal",
        "refusal.review.rules_score": 0.6,
        "gen_ai.evaluation.name": "refusal",
        "gen_ai.evaluation.score.label": "disguised_refusal",
        "gen_ai.evaluation.score.value": 0.9,
        "gen_ai.response.id": "resp-1",
        "refusal.verdict": "disguised_refusal",
        "refusal.rationale": "policy",
        "refusal.strategy": "explicit",
        "refusal.features": ["apology", "negative_stance"],
    }
    assert {name: second.attributes.get(name) for name in expected} == expected
    assert len(sink.spans()) == 2  # ended once, and left as they are


def test_a_review_that_did_not_code_says_so(only_events: OtlpSink) -> None:
    review = replace(REFUSAL, review=Review("gpt-y", "declined"))
    _, second = told(only_events, exchange(), review)
    assert second.attributes["refusal.review.outcome"] == "declined"
    assert second.attributes["gen_ai.evaluation.score.label"] == "hard_refusal"
    assert not {"refusal.review.rules_verdict", "refusal.review.rules_score"} & second.attributes.keys()


@pytest.mark.parametrize("capture", ["NO_CONTENT", "EVENT_ONLY", "SPAN_AND_EVENT"])
def test_no_text_of_answer_or_review_is_in_an_event(
    only_events: OtlpSink, monkeypatch: pytest.MonkeyPatch, capture: str
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", capture)
    assert len(told(only_events, exchange(), REVIEWED)) == 2
    assert b"zebra" not in b"".join(only_events.payloads)


@pytest.mark.parametrize("it", [unjudged(), exchange(verdict=Verdict(None, "tool_call", id="id-1"))])
def test_without_a_label_there_is_no_event(only_events: OtlpSink, it: Exchange) -> None:
    assert told(only_events, it) == []


def test_events_can_go_without_spans_and_spans_without_events(sink: OtlpSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    (event,) = told(sink, exchange())
    assert (sink.spans(), event.trace_id != "0" * 32) == ([], True)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")
    assert len(told(sink, exchange(), REVIEWED)) == 1
    assert len(sink.spans()) == 2


def test_what_is_not_sampled_has_no_event(only_events: OtlpSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    assert told(only_events, exchange(), REVIEWED) == []
    assert only_events.requests == 0


def test_the_console_prints_events(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "console")
    telemetry = turned_on()
    start(telemetry).end(exchange())
    telemetry.shutdown()
    printed = json.loads(capsys.readouterr().out)
    assert printed["event_name"] == "gen_ai.evaluation.result"
    assert printed["attributes"]["refusal.id"] == "id-1"


def test_a_failing_collector_costs_events_which_are_counted(only_events: OtlpSink) -> None:
    only_events.status = 500
    telemetry = turned_on()
    for _ in range(3):
        start(telemetry).end(exchange())
    telemetry.shutdown()
    assert (telemetry.dropped_events(), telemetry.dropped()) == (3, 0)


def test_a_stuck_collector_delays_nothing_and_the_oldest_events_go(
    only_events: OtlpSink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_BLRP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "2")
    only_events.stuck.set()
    telemetry = turned_on()
    for _ in range(2):
        start(telemetry).end(exchange())
    only_events.wait(lambda: only_events.requests == 1)
    for _ in range(7):
        start(telemetry).end(exchange())
    assert telemetry.dropped_events() == 3
    began = time.monotonic()
    telemetry.shutdown(timeout=0.2)
    assert time.monotonic() - began < 2
    assert telemetry.dropped_events() == 9
    assert "6 events were not exported within 0.2 s at shutdown" in caplog.text
    only_events.stuck.clear()


def test_a_review_does_not_keep_what_the_spans_said(only_events: OtlpSink) -> None:
    telemetry = turned_on()
    spans = start(telemetry)
    spans.end(exchange())
    kept = [getattr(span, "attributes", None) for span in vars(spans).values()]
    telemetry.shutdown()
    assert not any(kept)
