"""Reviews by a second opinion, behind the real proxy: what the client sees never changes, what observers hear does."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from exchanges import REFUSAL, REPLY, TRACE, exchange, unjudged
from fake_upstream import (
    DONE,
    END,
    Answer,
    ask,
    call,
    call_port,
    chunk,
    completion,
    event,
    head,
    proxy,
    request,
    say,
    upstream,
    whole,
)
from otlp_sink import OtlpSink
from test_metrics import samples
from test_server import output
from test_verdict_log import read

from demur.classifier.trace import Choice, ToolCall, Trace
from demur.classifier.verdict import Review, Verdict
from demur.proxy import second_opinion
from demur.proxy.metrics import Metrics
from demur.proxy.observe import Exchange
from demur.proxy.second_opinion import Reviews, SecondOpinionError
from demur.proxy.telemetry import Telemetry
from demur.proxy.verdict_log import VerdictLog

TEXT = "I'm sorry, but I can't help with that."
STREAM = (head(), chunk(say(TEXT)), chunk(event({}, "stop") + DONE), END)


class Opinion:
    """Says of everything that it was answered; `asked` are the traces, `most` how many it read at once.

    It waits for `answer` if there is one, and raises `error` if there is one.
    """

    name = "gpt-y"

    def __init__(self, *, error: Exception | None = None, hangs: bool = False) -> None:
        self.asked: list[Trace] = []
        self.reading = 0
        self.most = 0
        self.answer = asyncio.Event()
        self._error = error
        if not hangs:
            self.answer.set()

    async def __call__(self, trace: Trace, verdict: Verdict) -> Verdict:
        self.asked.append(trace)
        self.reading += 1
        self.most = max(self.most, self.reading)
        try:
            await self.answer.wait()
        finally:
            self.reading -= 1
        if self._error is not None:
            raise self._error
        review = Review(self.name, "coded", "answer", "It is all there.", verdict.label, verdict.confidence)
        return replace(verdict, label="answer", confidence=0.8, review=review)


def reviews(opinion: Opinion, *, below: float = 1.0, workers: int = 2) -> Reviews:
    return Reviews(opinion, below=below, workers=workers)


async def wait_for(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def without_id(answer: Answer) -> tuple[int, list[tuple[str, str]], bytes, bool]:
    """All that a client gets, but for the id, which differs from call to call."""
    head = [(name, "ID" if name == "x-refusal-id" else value) for name, value in answer.headers]
    return answer.status, head, re.sub(rb'"id":"[0-9a-f]{32}"', b"", answer.body), answer.clean


# What the client sees.


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("how", ["hangs", "fails", "answers"])
def test_the_response_is_the_same_whatever_the_second_opinion_does(stream: bool, how: str) -> None:
    async def run() -> None:
        opinion = Opinion(hangs=how == "hangs", error=RuntimeError("no") if how == "fails" else None)
        steps = STREAM if stream else (whole(completion(TEXT)),)
        async with upstream(*steps) as up:
            async with proxy(up.url) as px:
                expected = without_id(await call(px, ask(stream=stream)))
            async with proxy(up.url, app={"reviews": reviews(opinion)}) as px:
                for _ in range(5):
                    assert without_id(await call(px, ask(stream=stream))) == expected
                await wait_for(lambda: len(opinion.asked) >= 2)

    asyncio.run(run())


def test_nobody_is_asked_before_the_response_has_ended() -> None:
    async def run() -> None:
        opinion = Opinion()
        finished = (chunk(event({}, "stop") + DONE), 0.3, END)  # the client has the verdict before the last byte
        async with (
            upstream(head(), chunk(say(TEXT)), *finished) as up,
            proxy(up.url, app={"reviews": reviews(opinion)}) as px,
        ):
            answer = asyncio.ensure_future(call(px, ask(stream=True)))
            while not px.ended:
                assert opinion.asked == []
                await asyncio.sleep(0.01)
            assert px.ended[0].end == "complete"
            assert (await px.review()).id == (await answer).get("x-refusal-id")
            assert (await answer).clean

    asyncio.run(run())


# What observers hear.


def test_a_reviewed_verdict_goes_everywhere_under_the_same_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> tuple[Answer, dict[str, Any], Metrics]:
        opinion = Opinion(hangs=True)
        asked = reviews(opinion)
        metrics = Metrics(dropped_reviews=lambda: asked.dropped)
        log, telemetry = VerdictLog(path), Telemetry.from_env()
        options = {"reviews": asked, "sinks": [metrics, log], "telemetry": telemetry}
        async with upstream(whole(completion(TEXT))) as up, proxy(up.url, app=options) as px:
            answer = await call(px, ask())
            at = request("GET", f"/-/verdicts/{answer.get('x-refusal-id')}")
            await px.end()
            assert "review" not in (await call(px, at)).json()
            opinion.answer.set()
            await px.review()
            found = (await call(px, at)).json()
        log.close()
        assert telemetry is not None
        telemetry.shutdown()
        return answer, found, metrics

    path = tmp_path / "v.jsonl"
    with OtlpSink() as sink:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint)
        answer, found, metrics = asyncio.run(run())
        id = answer.get("x-refusal-id")
        events = sink.events()
        spans = [span for span in sink.spans() if span.kind == "CLIENT"]
    assert answer.get("x-refusal-verdict") == "hard_refusal"

    review = {"judge": "gpt-y", "outcome": "coded", "label": "answer", "rules_label": "hard_refusal"}
    assert (found["id"], found["label"], found["confidence"]) == (id, "answer", 0.8)
    assert {name: found["review"].get(name) for name in review} == review
    assert "reason" not in found["review"]  # it may quote the answer

    first, second = read(path)
    assert (first["id"], first["verdict"]["label"], "reviewed" in first) == (id, "hard_refusal", False)
    assert (second["id"], second["verdict"]["label"], second["reviewed"]) == (id, "answer", True)
    assert second["verdict"] == found
    differing = {name for name in second if first.get(name) != second[name]}
    assert differing == {"reviewed", "verdict"}  # it can take the first one's place

    assert [(e.attributes["refusal.id"], e.attributes["gen_ai.evaluation.score.label"]) for e in events] == [
        (id, "hard_refusal"),
        (id, "answer"),
    ]
    assert {(e.trace_id, e.span_id) for e in events} == {(span.trace_id, span.span_id) for span in spans}
    assert events[1].attributes["refusal.review.rules_verdict"] == "hard_refusal"

    labels = {"refusal_review_outcome": "coded", "refusal_rules_verdict": "hard_refusal", "refusal_verdict": "answer"}
    assert samples(metrics, "refusal_reviews_total") == {tuple(sorted(labels.items())): 1.0}
    assert samples(metrics, "refusal_reviews_dropped_total") == {(): 0.0}
    ((counted, times),) = samples(metrics, "refusal_verdicts_total").items()
    assert (dict(counted)["refusal_verdict"], times) == ("hard_refusal", 1.0)  # once, as it was sent


@pytest.mark.parametrize(
    ("error", "reason", "traceback"),
    [(SecondOpinionError("the key is refused"), "the key is refused", False), (KeyError("zebra"), "KeyError", True)],
)
def test_a_fault_is_a_failed_review_and_said_once(
    caplog: pytest.LogCaptureFixture, error: Exception, reason: str, traceback: bool
) -> None:
    async def run() -> None:
        metrics = Metrics()
        options = {"reviews": reviews(Opinion(error=error)), "sinks": [metrics]}
        async with upstream(whole(completion(TEXT))) as up, proxy(up.url, app=options) as px:
            for _ in range(3):
                assert (await call(px, ask())).status == 200
            verdict = (await px.review(3)).verdict
        assert verdict is not None
        assert verdict.label == "hard_refusal"
        assert verdict.review is not None
        assert (verdict.review.outcome, verdict.review.reason, verdict.review.label) == ("failed", reason, None)
        assert (verdict.review.rules_label, verdict.review.rules_confidence) == ("hard_refusal", verdict.confidence)
        ((labels, count),) = samples(metrics, "refusal_reviews_total").items()
        assert (dict(labels)["refusal_review_outcome"], count) == ("failed", 3.0)

    asyncio.run(run())
    (said,) = (line for line in caplog.records if line.name == "demur.second_opinion")
    assert said.getMessage() == (
        f"no second opinion from gpt-y: {reason}; traffic is not affected (said once a minute at most)"
    )
    assert (said.exc_info is not None) is traceback


def test_by_default_nobody_is_asked() -> None:
    async def run() -> None:
        async with upstream(whole(completion(TEXT))) as up, proxy(up.url) as px:
            await call(px, ask())
            await px.end()
            assert px.app.reviews is None

    asyncio.run(run())


# What is asked, and how much of it.


@pytest.mark.parametrize(
    ("it", "taken"),
    [
        (exchange(), True),
        (exchange(verdict=replace(REFUSAL, confidence=0.98)), False),  # at the limit is sure enough
        (exchange(verdict=replace(REFUSAL, blocked_by="content_filter")), False),
        (exchange(verdict=Verdict(None, "tool_call")), False),
        (exchange(verdict=Verdict("answer", "complete", 0.6)), True),
        (exchange(verdict=Verdict("answer", "incomplete", 0.6), end="client_disconnect"), True),
        (exchange(trace=None), False),
        (exchange(trace=replace(TRACE, choices=())), False),
        (exchange(trace=replace(TRACE, choices=(Choice(text=""), Choice(index=1)))), False),
        (exchange(trace=replace(TRACE, choices=(Choice(tool_calls=(ToolCall("reply", '{"text": "No."}'),)),))), True),
        (unjudged(), False),
    ],
)
def test_which_verdicts_are_taken(it: Exchange, taken: bool) -> None:
    async def run() -> None:
        opinion, told = Opinion(), list[Verdict]()
        asked = reviews(opinion, below=0.98)
        asked.offer(it, told.append)
        await asked.settled()
        assert opinion.asked == ([it.trace] if taken else [])
        assert len(told) == len(opinion.asked)
        assert asked.dropped == 0

    asyncio.run(run())


def test_below_one_means_all() -> None:
    async def run() -> None:
        opinion, told = Opinion(), list[Verdict]()
        asked = reviews(opinion, below=1.0)
        asked.offer(exchange(verdict=replace(REFUSAL, confidence=1.0)), told.append)
        await asked.settled()
        assert len(told) == 1

    asyncio.run(run())


def test_so_many_are_read_at_once_and_none_is_lost() -> None:
    async def run() -> None:
        opinion, told = Opinion(hangs=True), list[Verdict]()
        asked = reviews(opinion, workers=3)
        for _ in range(10):
            asked.offer(exchange(), told.append)
        await wait_for(lambda: opinion.reading == 3)
        opinion.answer.set()
        await asked.settled()
        assert (opinion.most, len(opinion.asked), len(told), asked.dropped) == (3, 10, 10, 0)
        asked.offer(exchange(), told.append)  # the workers are gone; one comes back
        await asked.settled()
        assert len(told) == 11

    asyncio.run(run())


def test_one_that_comes_just_as_the_last_worker_ends_is_read_too() -> None:
    async def run() -> None:
        opinion, told = Opinion(), list[Verdict]()
        asked = reviews(opinion, workers=1)
        loop = asyncio.get_running_loop()

        def tell(verdict: Verdict) -> None:
            told.append(verdict)
            loop.call_soon(asked.offer, exchange(), told.append)

        asked.offer(exchange(), tell)
        await wait_for(lambda: len(told) == 2)

    asyncio.run(run())


def test_a_full_queue_drops_the_newest_and_counts_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(second_opinion, "QUEUE_LIMIT", 2)

    async def run() -> None:
        opinion = Opinion(hangs=True)
        asked = reviews(opinion, workers=1)
        metrics = Metrics(dropped_reviews=lambda: asked.dropped)
        options = {"reviews": asked, "sinks": [metrics]}
        async with upstream(whole(completion(TEXT))) as up, proxy(up.url, app=options) as px:
            await call(px, ask())
            await wait_for(lambda: opinion.reading == 1)
            for _ in range(5):
                assert (await call(px, ask())).status == 200
            await px.end(6)
            assert samples(metrics, "refusal_reviews_dropped_total") == {(): 3.0}
            opinion.answer.set()
            await px.review(3)
            await asked.settled()
            assert len(opinion.asked) == 3
        assert asked.dropped == 3

    asyncio.run(run())
    assert caplog.text.count("gpt-y does not keep up") == 1


def test_the_texts_that_wait_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(TRACE.ask.prompt) + len(TRACE.ask.system) + len(REPLY)
    monkeypatch.setattr(second_opinion, "CHARACTERS_LIMIT", 2 * size)

    async def run() -> None:
        opinion, told = Opinion(hangs=True), list[Verdict]()
        asked = reviews(opinion, workers=1)
        for _ in range(3):
            asked.offer(exchange(), told.append)
        assert asked.dropped == 1
        opinion.answer.set()
        await asked.settled()
        asked.offer(exchange(), told.append)  # what was read takes no room
        await asked.settled()
        assert (len(told), asked.dropped) == (3, 1)
        arguments = json.dumps({"text": "x" * 2 * size})
        asked.offer(exchange(trace=Trace(choices=(Choice(tool_calls=(ToolCall("reply", arguments),)),))), told.append)
        assert asked.dropped == 2

    asyncio.run(run())


# The end.


def test_what_is_open_at_the_end_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        opinion, told = Opinion(hangs=True), list[Verdict]()
        asked = reviews(opinion, workers=2)
        for _ in range(5):
            asked.offer(exchange(), told.append)
        await wait_for(lambda: opinion.reading == 2)
        await asked.aclose()
        assert (asked.dropped, opinion.reading, told) == (5, 0, [])
        asked.offer(exchange(), told.append)
        await asked.settled()
        assert (asked.dropped, len(opinion.asked)) == (6, 2)

    asyncio.run(run())
    with caplog.at_level(logging.WARNING):
        assert "verdicts left as they are, as gpt-y had not read them: 5" in caplog.text


SERVE = """
import asyncio, json, sys
from dataclasses import replace
from demur.classifier.verdict import Review
from demur.config import Settings
from demur.proxy.second_opinion import Reviews
from demur.proxy.server import serve

class Opinion:
    name = "gpt-y"
    async def __call__(self, trace, verdict):
        await asyncio.sleep(float(sys.argv[2]))
        return replace(verdict, review=Review("gpt-y", "coded", verdict.label))

reviews = Reviews(Opinion(), below=1.0, workers=1)
ready = lambda *urls: print(*urls, flush=True)
sys.exit(serve(Settings(**json.loads(sys.argv[1])), ready, reviews=reviews))
"""


@pytest.mark.parametrize(
    ("takes", "drain", "told"), [(0.5, 30.0, [False, True]), (60.0, 0.3, [False])], ids=["in time", "too slow"]
)
def test_a_stop_waits_for_reviews_as_long_as_for_exchanges(
    tmp_path: Path, takes: float, drain: float, told: list[bool]
) -> None:
    path = tmp_path / "v.jsonl"

    async def run(url: str) -> str:
        settings = {"upstream": url, "port": 0, "admin_port": 0, "drain_seconds": drain, "verdict_log": str(path)}
        settings["languages"] = ["en"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SERVE, json.dumps(settings), str(takes), stdout=-1, stderr=-1, env=dict(os.environ)
        )
        assert process.stdout is not None
        async with asyncio.timeout(30):
            said = (await process.stdout.readline()).decode()
        port, admin = (int(port) for port in re.findall(r"http://\S+:(\d+)", said))
        assert (await call_port(port, ask())).status == 200
        scrape = (await call_port(admin, request("GET", "/metrics"))).body
        assert b"refusal_reviews_dropped_total 0.0" in scrape
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            _, err = await output(process)
        assert process.returncode == 0
        return err

    async def with_upstream() -> str:
        async with upstream(whole(completion(TEXT))) as up:
            return await run(up.url)

    err = asyncio.run(with_upstream())
    assert [line.get("reviewed", False) for line in read(path)] == told
    assert ("as gpt-y had not read them: 1" in err) is (told == [False])
    assert "Traceback" not in err
