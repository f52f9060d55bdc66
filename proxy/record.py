"""The facts of a running exchange, written down as they become known, and frozen into an `Exchange` at its end."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Protocol

from demur.classifier.apis import api_of_path, model_of_path, provider_of
from demur.classifier.trace import Ask
from demur.classifier.verdict import Verdict
from demur.proxy import headers
from demur.proxy.inspection import Judged, StreamInspection, unjudged
from demur.proxy.observe import End, Exchange, Spans, Tracer
from demur.proxy.store import new_id

_UPSTREAM: frozenset[End] = frozenset({"upstream_error", "connect_timeout", "first_byte_timeout", "idle_timeout"})


class Place(Protocol):
    """Where answers come from."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


class Record:
    """`api` is None unless the answer is judged: a POST to a path that we know. Times are perf_counter's.

    `preflight` is told once, from the headers as the client sent them: who was admitted as one gets no key of a route.
    `model` is what the request is for, as far as its path and what was read of its body say so.
    """

    def __init__(self, scope: dict[str, Any], place: Place) -> None:
        self.started_ns = time.time_ns()
        self.started = time.perf_counter()
        self.id = new_id()
        self.method: str = scope["method"]
        self.path: str = scope["raw_path"].decode("ascii", "replace")
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.preflight = headers.is_preflight(self.method, self.headers)
        self.api = api_of_path(self.path) if self.method == "POST" and not self._sends_parts() else None
        self.comes_from(place)
        self.model = model_of_path(self.path)
        self.tag = headers.tag(self.headers)
        self.ask = Ask()
        self.spans: Spans | None = None
        self.traced = False  # whether its spans were to begin
        self.status_code: int | None = None
        self.stream = False
        self.first_byte: float | None = None
        self.first_event: float | None = None
        self.done_marker: bool | None = None
        self.judged: Judged | None = None
        self.end: End = "complete"
        self.error: str | None = None

    def comes_from(self, place: Place) -> None:
        """The answer comes from there."""
        self.place = place
        self.provider = provider_of(self.api, place.host) if self.api else None

    def asked(self, ask: Ask) -> None:
        # Gemini, Vertex and others say in the path what the model is, and that they stream.
        self.model = self.model or ask.model
        self.ask = replace(ask, stream=ask.stream or ":stream" in self.path, model=ask.model or self.model)

    def ended(self, end: End, error: str) -> Verdict | None:
        """It did not end well, and why. On a judged path it gets a verdict all the same, without a label: but not the
        request of a stranger, since the store of verdicts has an end. Returns it; None when what it had stands.
        """
        self.end = end
        self.error = error
        failed = end in _UPSTREAM
        silent = self.judged is None or (failed and self.judged.verdict.status == "empty")
        if self.api is not None and silent and end != "unauthorized":
            return self.judge(unjudged("upstream_error" if failed else "not_classified", error, self.ask))
        return None

    def streamed(self, inspection: StreamInspection, *, cut: bool) -> Verdict:
        """No more of a stream comes; `cut`: though it had not ended. It has all the same, if its end marker came."""
        self.first_event = inspection.first_event
        self.done_marker = inspection.done
        return self.judge(inspection.finish(cut=cut and not self.done_marker))

    def judge(self, judged: Judged) -> Verdict:
        """Takes the outcome of the inspection; the verdict gets the exchange's id."""
        self.judged = replace(judged, verdict=judged.verdict.with_id(self.id))
        return self.judged.verdict

    def start_spans(self, tracer: Tracer, body: bytes) -> None:
        self.traced = True
        self.spans = tracer.start(
            headers=self.headers,
            method=self.method,
            path=self.path,
            api=self.api,
            provider=self.provider,
            ask=self.ask,
            body=body,
            upstream_host=self.place.host,
            upstream_port=self.place.port,
            started_ns=self.started_ns,
        )

    def exchange(self) -> Exchange:
        judged = self.judged
        return Exchange(
            id=self.id,
            api=self.api,
            provider=self.provider,
            method=self.method,
            path=self.path,
            ask=self.ask,
            tag=self.tag,
            stream=self.stream,
            upstream_host=self.place.host,
            upstream_port=self.place.port,
            status_code=self.status_code,
            end=self.end,
            error=self.error,
            started_ns=self.started_ns,
            started=self.started,
            first_byte=self.first_byte,
            first_event=self.first_event,
            ended=time.perf_counter(),
            done_marker=self.done_marker,
            classify_seconds=judged.seconds if judged else 0.0,
            trace=judged.trace if judged else None,
            verdict=judged.verdict if judged else None,
        )

    def _sends_parts(self) -> bool:
        """Files in a form. Any other content type says little: curl's `-d` calls JSON a form as well."""
        return (headers.get(self.headers, b"content-type") or b"").lower().startswith(b"multipart/")
