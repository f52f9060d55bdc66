"""Counters in Prometheus format, for `/metrics` on the admin port. All instruments, labels and buckets stand here.

Names follow OpenTelemetry's translation: `refusal_verdicts_total` is the metric `refusal.verdicts`. Labels are bounded:
what clients choose (model, tag) is capped, the rest comes from closed lists. An empty label value means "not known".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from demur.proxy.labels import LabelCap, error_type, operation_of
from demur.proxy.observe import TURNED_AWAY, Exchange

#: Distinct names of models, and of upstreams, kept as labels. A model name comes from the client.
MODEL_LIMIT = 100
#: Buckets of gen_ai.client.operation.duration in the GenAI semantic conventions: 0.01·2ⁿ seconds, up to 81.92.
OPERATION_BUCKETS = tuple(0.01 * 2**n for n in range(14))
#: Seconds. The goal for a verdict is 200 µs at 2 kB, 1 ms at 16 kB.
CLASSIFIER_BUCKETS = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)
#: Seconds by which the event loop runs late. An event of a stream waits as long at worst; 20 ms should be rare.
LAG_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
#: Ends that are not the upstream's doing.
_NOT_UPSTREAM = TURNED_AWAY | {"client_disconnect", "internal_error"}


class Metrics:
    """A sink, with its own `registry` if it gets none. `tag_limit` caps the distinct `x-refusal-tag` values that are
    kept as labels.

    Counts kept elsewhere are read at scrape time: `dropped_spans` and `dropped_events` (lost by the exporters),
    `lost_records` (by the verdict log), `dropped_reviews` (verdicts that a second opinion never read). Whoever knows
    the running requests says so once: `metrics.in_flight.set_function(…)`.
    """

    def __init__(
        self,
        *,
        tag_limit: int = 100,
        dropped_spans: Callable[[], int] | None = None,
        dropped_events: Callable[[], int] | None = None,
        lost_records: Callable[[], int] | None = None,
        dropped_reviews: Callable[[], int] | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._registry = registry or CollectorRegistry(auto_describe=True)
        self._model = LabelCap(MODEL_LIMIT)
        self._tag = LabelCap(tag_limit)
        self._upstream = LabelCap(MODEL_LIMIT)
        # The one place where instruments are made; the order is that of the scrape.
        self._verdicts = Counter(
            "refusal_verdicts",
            "Judged responses by verdict, status and rationale.",
            ("refusal_verdict", "refusal_status", "refusal_rationale", "gen_ai_request_model", "gen_ai_provider_name"),
            registry=self._registry,
        )
        self._tagged = Counter(
            "refusal_tagged_verdicts",
            "Judged responses by verdict and x-refusal-tag.",
            ("refusal_verdict", "refusal_tag"),
            registry=self._registry,
        )
        self._reviews = Counter(
            "refusal_reviews",
            "Second opinions by outcome, by the verdict of the rules and by the one that stands.",
            ("refusal_review_outcome", "refusal_rules_verdict", "refusal_verdict"),
            registry=self._registry,
        )
        self._classifier = Histogram(
            "refusal_classifier_duration_seconds",
            "Time spent on one verdict, over all pieces of its text.",
            buckets=CLASSIFIER_BUCKETS,
            registry=self._registry,
        )
        self._operations = Histogram(
            "gen_ai_client_operation_duration_seconds",
            "Time from the request to the last byte of its answer, on judged paths.",
            ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "error_type"),
            buckets=OPERATION_BUCKETS,
            registry=self._registry,
        )
        self._requests = Counter("refusal_requests", "Requests by how they ended.", ("end",), registry=self._registry)
        self._errors = Counter(
            "refusal_upstream_errors",
            "Failed upstream calls by error status or kind of failure, and by upstream.",
            ("error_type", "server_address"),
            registry=self._registry,
        )
        self.in_flight = Gauge("refusal_requests_in_flight", "Requests not yet ended.", registry=self._registry)
        self._lag = Histogram(
            "refusal_event_loop_lag_seconds",
            "How late the event loop gets to what is due, by samples; requests wait as long.",
            buckets=LAG_BUCKETS,
            registry=self._registry,
        )
        losses = (
            (
                "refusal_export_dropped_spans",
                "Spans lost because the collector did not keep up or failed.",
                dropped_spans,
            ),
            (
                "refusal_export_dropped_events",
                "Log events lost because the collector did not keep up or failed.",
                dropped_events,
            ),
            ("refusal_verdict_log_lost_records", "Verdict log records that could not be written.", lost_records),
            ("refusal_reviews_dropped", "Verdicts for which a second opinion had no time.", dropped_reviews),
        )
        self._registry.register(_Losses([(name, text, read) for name, text, read in losses if read is not None]))

    def ended(self, exchange: Exchange) -> None:
        self._requests.labels(exchange.end).inc()
        error = error_type(exchange)
        if error is not None and error not in _NOT_UPSTREAM:
            self._errors.labels(error, self._upstream(exchange.upstream_host)).inc()
        if exchange.api is None:
            return
        model, provider = self._model(exchange.ask.model), exchange.provider or ""
        duration = exchange.ended - exchange.started
        self._operations.labels(operation_of(exchange.api), provider, model, error or "").observe(duration)
        if (verdict := exchange.verdict) is None:
            return
        label = verdict.label or ""
        self._verdicts.labels(label, verdict.status, verdict.rationale or "", model, provider).inc()
        if exchange.tag:
            self._tagged.labels(label, self._tag(exchange.tag)).inc()
        self._classifier.observe(exchange.classify_seconds)

    def reviewed(self, exchange: Exchange) -> None:
        if (verdict := exchange.verdict) is not None and (review := verdict.review) is not None:
            self._reviews.labels(review.outcome, review.rules_label or "", verdict.label or "").inc()

    def lagged(self, seconds: float) -> None:
        """One sample of the event loop's lag."""
        self._lag.observe(seconds)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The scrape and its content type, in the dialect that the `Accept` header asks for."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class _Losses(Collector):
    """Counters that others keep."""

    def __init__(self, losses: list[tuple[str, str, Callable[[], int]]]) -> None:
        self._losses = losses

    def collect(self) -> Iterator[CounterMetricFamily]:
        for name, text, read in self._losses:
            yield CounterMetricFamily(name, text, value=read())
