from __future__ import annotations

from dataclasses import replace

import pytest
from exchanges import REFUSAL, TRACE, exchange, unjudged
from prometheus_client.parser import text_string_to_metric_families

from demur.classifier.trace import Ask
from demur.classifier.verdict import Review, Verdict
from demur.proxy.metrics import MODEL_LIMIT, OPERATION_BUCKETS, Metrics


def samples(metrics: Metrics, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """Labels (sorted) → value, for every sample called `name`."""
    text = metrics.render()[0].decode()
    found = [s for f in text_string_to_metric_families(text) for s in f.samples if s.name == name]
    return {tuple(sorted(s.labels.items())): s.value for s in found}


def test_a_verdict_is_counted_under_its_labels() -> None:
    metrics = Metrics()
    metrics.ended(exchange())
    metrics.ended(exchange())
    labels = {
        "refusal_verdict": "hard_refusal",
        "refusal_status": "complete",
        "refusal_rationale": "policy",
        "gen_ai_request_model": "gpt-x",
        "gen_ai_provider_name": "openai",
    }
    assert samples(metrics, "refusal_verdicts_total") == {tuple(sorted(labels.items())): 2.0}
    assert samples(metrics, "refusal_classifier_duration_seconds_count") == {(): 2.0}


def test_a_response_without_a_label_is_counted_by_its_status() -> None:
    metrics = Metrics()
    metrics.ended(exchange(verdict=Verdict(label=None, status="tool_call")))
    ((labels, value),) = samples(metrics, "refusal_verdicts_total").items()
    assert (dict(labels)["refusal_verdict"], dict(labels)["refusal_status"], value) == ("", "tool_call", 1.0)


def test_operation_duration_has_the_buckets_of_the_conventions() -> None:
    assert OPERATION_BUCKETS[0] == 0.01
    assert OPERATION_BUCKETS[-1] == 81.92
    metrics = Metrics()
    metrics.ended(exchange())
    ((labels, total),) = samples(metrics, "gen_ai_client_operation_duration_seconds_sum").items()
    assert total == pytest.approx(1.5)
    assert dict(labels) == {
        "gen_ai_operation_name": "chat",
        "gen_ai_provider_name": "openai",
        "gen_ai_request_model": "gpt-x",
        "error_type": "",
    }


def test_the_lag_of_the_loop_is_sampled() -> None:
    metrics = Metrics()
    for seconds in (0.0, 0.004, 0.3):
        metrics.lagged(seconds)
    counts = samples(metrics, "refusal_event_loop_lag_seconds_bucket")
    assert [counts[("le", bound),] for bound in ("0.001", "0.005", "0.2", "0.5", "+Inf")] == [1, 2, 2, 3, 3]


def test_ends_and_upstream_errors_are_told_apart() -> None:
    metrics = Metrics()
    metrics.ended(exchange())
    metrics.ended(exchange(status_code=429, verdict=None))
    metrics.ended(exchange(end="idle_timeout"))
    metrics.ended(exchange(end="client_disconnect"))
    metrics.ended(exchange(end="rejected", status_code=413))
    assert samples(metrics, "refusal_upstream_errors_total") == {
        (("error_type", "429"), ("server_address", "api.example.test")): 1.0,
        (("error_type", "idle_timeout"), ("server_address", "api.example.test")): 1.0,
    }
    assert samples(metrics, "refusal_requests_total") == {
        (("end", "complete"),): 2.0,
        (("end", "idle_timeout"),): 1.0,
        (("end", "client_disconnect"),): 1.0,
        (("end", "rejected"),): 1.0,
    }


def test_unjudged_paths_are_requests_but_neither_verdicts_nor_operations() -> None:
    metrics = Metrics()
    metrics.ended(unjudged())
    assert samples(metrics, "refusal_requests_total") == {(("end", "complete"),): 1.0}
    assert samples(metrics, "refusal_verdicts_total") == {}
    assert samples(metrics, "gen_ai_client_operation_duration_seconds_count") == {}


def test_model_names_are_capped() -> None:
    metrics = Metrics()
    for n in range(MODEL_LIMIT + 20):
        metrics.ended(exchange(ask=Ask(model=f"m{n}")))
    counts = {dict(k)["gen_ai_request_model"]: v for k, v in samples(metrics, "refusal_verdicts_total").items()}
    assert len(counts) == MODEL_LIMIT + 1
    assert counts["other"] == 20.0


def test_tags_are_capped_by_the_setting() -> None:
    metrics = Metrics(tag_limit=2)
    for tag in ("a", "b", "c", "d", None):
        metrics.ended(exchange(tag=tag))
    counts = {dict(k)["refusal_tag"]: v for k, v in samples(metrics, "refusal_tagged_verdicts_total").items()}
    assert counts == {"a": 1.0, "b": 1.0, "other": 2.0}


def test_in_flight_and_losses_are_read_at_the_scrape() -> None:
    lost = [0]
    metrics = Metrics(dropped_spans=lambda: 7, dropped_events=lambda: 2, lost_records=lambda: lost[0])
    metrics.in_flight.set_function(lambda: 3)
    lost[0] = 5
    assert samples(metrics, "refusal_requests_in_flight") == {(): 3.0}
    assert samples(metrics, "refusal_export_dropped_spans_total") == {(): 7.0}
    assert samples(metrics, "refusal_export_dropped_events_total") == {(): 2.0}
    assert samples(metrics, "refusal_verdict_log_lost_records_total") == {(): 5.0}


def test_a_review_is_counted_by_itself_and_never_as_another_verdict() -> None:
    def others(metrics: Metrics) -> list[str]:
        return [line for line in metrics.render()[0].decode().splitlines() if "refusal_reviews" not in line]

    metrics = Metrics(dropped_reviews=lambda: 4)
    metrics.ended(exchange())
    before = others(metrics)
    changed = Review("gpt-y", "coded", "answer", rules_label="hard_refusal", rules_confidence=0.6)
    kept = Review("gpt-y", "over_budget", rules_label="hard_refusal", rules_confidence=0.97)
    metrics.reviewed(exchange(verdict=replace(REFUSAL, label="answer", review=changed)))
    metrics.reviewed(exchange(verdict=replace(REFUSAL, review=kept)))
    found = {
        tuple(dict(labels)[name] for name in ("refusal_review_outcome", "refusal_rules_verdict", "refusal_verdict")): n
        for labels, n in samples(metrics, "refusal_reviews_total").items()
    }
    assert found == {("coded", "hard_refusal", "answer"): 1.0, ("over_budget", "hard_refusal", "hard_refusal"): 1.0}
    assert samples(metrics, "refusal_reviews_dropped_total") == {(): 4.0}
    assert others(metrics) == before


def test_a_loss_that_cannot_happen_is_not_shown() -> None:
    assert b"dropped" not in Metrics().render()[0]


def test_no_text_and_no_unencodable_name_reaches_the_scrape() -> None:
    metrics = Metrics()
    metrics.ended(exchange(ask=replace(TRACE.ask, model="odd\ud800model"), tag="odd\ud801tag"))
    scrape = metrics.render()[0].decode()
    assert "zebra" not in scrape
    assert "odd?model" in scrape
    assert REFUSAL.signals[0].rule not in scrape


def test_two_metrics_do_not_share_a_registry() -> None:
    one, two = Metrics(), Metrics()
    one.ended(exchange())
    assert samples(two, "refusal_verdicts_total") == {}


def test_openmetrics_is_spoken_when_asked_for() -> None:
    body, content_type = Metrics().render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
