"""What the proxy exports of an exchange, as a collector gets it: real spans over OTLP, not our own record of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from fake_upstream import Answer, Script
from otlp_sink import OtlpSink, SunkSpan
from wire.notation import play

from demur.proxy.observe import Exchange
from demur.proxy.telemetry import Telemetry


class Pair(NamedTuple):
    """The two spans of one exchange."""

    client: SunkSpan
    server: SunkSpan

    def both(self, name: str) -> Any:
        """The value of an attribute that stands on both, None where neither has it."""
        value = self.client.attributes.get(name)
        assert value == self.server.attributes.get(name)
        return value


class Exported:
    """`telemetry` is for the proxy; what it exports comes to `sink`."""

    def __init__(self, telemetry: Telemetry, sink: OtlpSink) -> None:
        self.telemetry = telemetry
        self.sink = sink
        self._flushed = False

    def pair(self, id: str) -> Pair:
        """The spans of the exchange `id`, each ended once: the SERVER span and its CLIENT child, and no third."""
        if not self._flushed:
            self.telemetry.shutdown()
            self._flushed = True
        spans = [span for span in self.sink.spans() if span.attributes.get("refusal.id") == id]
        assert sorted(span.kind for span in spans) == ["CLIENT", "SERVER"]
        client, server = sorted(spans, key=lambda span: span.kind)
        assert (client.parent, client.trace_id) == (server.span_id, server.trace_id)
        return Pair(client, server)


@contextmanager
def exported() -> Iterator[Exported]:
    """Telemetry for a proxy in this process, and the collector that it exports spans and events to."""
    with OtlpSink() as sink, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint)
        telemetry = Telemetry(["otlp"], events=["otlp"])
        try:
            yield Exported(telemetry, sink)
        finally:
            telemetry.shutdown()


def play_exported(
    scripts: Sequence[Script], sent: bytes | None = None, **settings: Any
) -> list[tuple[Answer, Exchange, Pair]]:
    """As `play`, with the spans of each exchange; there are no others."""
    with exported() as out:
        played = play(scripts, sent, app={"telemetry": out.telemetry}, **settings)
        found = [(answer, exchange, out.pair(exchange.id)) for answer, exchange in played]
        assert len(out.sink.spans()) == 2 * len(played)
        return found
