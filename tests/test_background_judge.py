"""`demur serve` with a judge: a scripted endpoint that answers well, badly, slowly or not at all, behind the proxy."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from exchanges import REFUSAL, TRACE
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
from pydantic import SecretStr
from scripted_judge import KEY, NEVER, RESET, Script, coded, scripted_judge, status
from scripted_judge import completion as judge_says
from test_server import output
from test_verdict_log import read

from demur.audit import judge_cache
from demur.audit.judge import Judge, JudgeOptions
from demur.classifier.verdict import Review, Signal, Verdict
from demur.cli.background_judge import BackgroundJudge
from demur.proxy.capture import VARIABLE
from demur.proxy.second_opinion import Reviews

TEXT = "I'm sorry, but I can't help with that."
STREAM = (head(), chunk(say(TEXT)), chunk(event({}, "stop") + DONE), END)


def options(url: str, **changes: Any) -> JudgeOptions:
    fields: dict[str, Any] = {"url": url, "model": "gpt-y", "key": SecretStr(KEY), "attempts": 1, "timeout": 10}
    return JudgeOptions(**(fields | changes))


def reviewed(*script: Script, **changes: Any) -> tuple[Verdict, int]:
    """The verdict that stands for `TEXT`, and how often the endpoint was asked."""

    async def run(judge: BackgroundJudge) -> Verdict:
        app = {"reviews": Reviews(judge, below=1.0, workers=2)}
        async with upstream(whole(completion(TEXT))) as up, proxy(up.url, app=app) as px:
            assert (await call(px, ask())).get("x-refusal-verdict") == "hard_refusal"
            verdict = (await px.review()).verdict
            assert verdict is not None
            return verdict

    with scripted_judge(*script) as endpoint, BackgroundJudge(options(endpoint.url, **changes)) as judge:
        return asyncio.run(run(judge)), len(endpoint.requests)


def test_what_the_judge_codes_stands() -> None:
    verdict, asked = reviewed(coded("disguised_refusal", rationale="policy", strategy="implicit", features=["hedge"]))
    assert asked == 1
    assert (verdict.label, verdict.confidence, verdict.rationale, verdict.strategy) == (
        "disguised_refusal",
        0.9,
        "policy",
        "implicit",
    )
    assert verdict.features is not None
    assert [name for name, present in verdict.features.items() if present] == ["hedge"]
    assert verdict.review is not None
    assert (verdict.review.judge, verdict.review.outcome) == ("gpt-y", "coded")
    assert (verdict.review.label, verdict.review.rules_label) == ("disguised_refusal", "hard_refusal")
    (vote,) = (found for found in verdict.signals if found.name == "judge")
    assert [span.text for span in vote.spans] == ["I can't"]


@pytest.mark.parametrize(
    ("script", "outcome", "asked"),
    [
        ([status(429, retry_after="0"), coded("answer")], "coded", 2),
        ([judge_says(None, refusal="I won't.")], "declined", 1),
        ([judge_says("{")], "failed", 2),
        ([status(500)], "failed", 2),
        ([RESET], "failed", 2),
        ([NEVER], "failed", 2),
    ],
    ids=["429 and then an answer", "declines", "broken JSON", "500", "reset", "no answer"],
)
def test_whatever_becomes_of_it_the_rules_verdict_is_kept_or_replaced(
    script: list[Script], outcome: str, asked: int
) -> None:
    limits = {"attempts": 2, "timeout": 0.3 if script == [NEVER] else 10}
    verdict, requests = reviewed(*script, **limits)
    assert verdict.review is not None
    assert (verdict.review.outcome, requests) == (outcome, asked)
    assert verdict.label == ("answer" if outcome == "coded" else "hard_refusal")
    assert verdict.review.rules_label == "hard_refusal"


def test_a_wrong_key_is_a_failed_review_and_said_once_without_it(caplog: pytest.LogCaptureFixture) -> None:
    async def run(judge: BackgroundJudge) -> None:
        app = {"reviews": Reviews(judge, below=1.0, workers=1)}
        async with upstream(whole(completion(TEXT))) as up, proxy(up.url, app=app) as px:
            for _ in range(3):
                assert (await call(px, ask())).status == 200
            verdict = (await px.review(3)).verdict
            assert verdict is not None
            assert verdict.label == "hard_refusal"
            assert isinstance(verdict.review, Review)
            assert verdict.review.outcome == "failed"

    with scripted_judge(status(401, "bad key")) as endpoint, BackgroundJudge(options(endpoint.url)) as judge:
        asyncio.run(run(judge))
    (said,) = (line.getMessage() for line in caplog.records if line.name == "demur.second_opinion")
    assert "no second opinion from gpt-y" in said
    assert "401" in said
    assert KEY not in caplog.text


ASK = "Where does Zaphod live?"


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (status(500, f"can't do: {ASK}\x1b[2J"), "HTTP 500"),
        (status(400, f"bad input: {ASK}\x1b[2J"), "HTTP 400"),
        (status(401, f"no key for: {ASK}\x1b[2J"), "HTTP 401"),
        (status(404, f"no model for: {ASK}\x1b[2J"), "HTTP 404"),
        (status(429, f"no quota for: {ASK}\x1b[2J", code="insufficient_quota"), "HTTP 429"),
        (judge_says(f"It asks {ASK}"), "the judge's answer can't be used, twice in a row"),
        (judge_says(json.dumps({"label": ASK})), "the judge's answer can't be used, twice in a row"),
        (RESET, "the connection broke"),
        (NEVER, "no answer within 0.2 s"),
    ],
)
def test_a_judge_that_fails_all_the_time_is_told_once_by_its_kind(
    script: Script, kind: str, captured: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if captured:
        monkeypatch.setenv(VARIABLE, "true")

    async def run(judge: BackgroundJudge) -> None:
        app = {"reviews": Reviews(judge, below=1.0, workers=1)}
        async with upstream(whole(completion(TEXT))) as up, proxy(up.url, app=app) as px:
            for _ in range(3):
                await call(px, ask())
            verdict = (await px.review(3)).verdict
            assert verdict is not None
            assert verdict.review is not None
            assert (verdict.review.outcome, verdict.review.rules_label) == ("failed", "hard_refusal")

    timeout = 0.2 if script is NEVER else 10
    with scripted_judge(script) as endpoint, BackgroundJudge(options(endpoint.url, timeout=timeout)) as judge:
        asyncio.run(run(judge))
    (said,) = (line.getMessage() for line in caplog.records if line.name == "demur.second_opinion")
    assert kind in said
    assert said.isprintable()
    by_the_endpoint = "HTTP" in kind
    assert ("Zaphod" in said) is (captured and by_the_endpoint)


def test_a_locked_cache_does_not_hold_up_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_cache, "WAIT", 60.0)
    file = tmp_path / "c.db"
    judge_cache.JudgeCache(file).close()
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")

    def ask_and_leave(url: str) -> None:
        async def run(judge: BackgroundJudge) -> None:
            with suppress(TimeoutError):
                await asyncio.wait_for(judge(TRACE, REFUSAL), 0.5)

        with BackgroundJudge(options(url, cache=file)) as judge:
            asyncio.run(run(judge))

    with scripted_judge(coded("answer", quotes={})) as endpoint:
        leaving = threading.Thread(target=ask_and_leave, args=(endpoint.url,), daemon=True)
        leaving.start()
        leaving.join(20)
        assert not leaving.is_alive()
        assert len(endpoint.requests) == 1
    writer.close()


def test_a_fact_of_the_api_is_not_sent() -> None:
    fact = Signal("content_filter", "hard_refusal", 1.0, "fact", "says so itself", field="message.refusal")
    verdict = Verdict("hard_refusal", "complete", 0.9, signals=(fact,))
    with scripted_judge(coded("answer", quotes={})) as endpoint, BackgroundJudge(options(endpoint.url)) as judge:
        assert asyncio.run(judge(TRACE, verdict)) == verdict
        assert endpoint.requests == []
        assert asyncio.run(judge(TRACE, REFUSAL)) != REFUSAL


def test_the_judges_own_work_holds_up_no_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    busy, done = threading.Event(), threading.Event()

    async def code(*_: Any, **__: Any) -> Any:
        busy.set()
        assert done.wait(20)  # the thread is blocked
        raise KeyError

    async def run(judge: BackgroundJudge) -> None:
        app = {"reviews": Reviews(judge, below=1.0, workers=1)}
        async with upstream(*STREAM) as up, proxy(up.url, app=app) as px:
            await call(px, ask(stream=True))
            assert await asyncio.to_thread(busy.wait, 10)
            assert (await call(px, ask(stream=True))).clean
            assert not done.is_set()
            done.set()
            await px.review(2)

    monkeypatch.setattr(Judge, "code", code)
    with scripted_judge(coded()) as endpoint, BackgroundJudge(options(endpoint.url)) as judge:
        try:
            asyncio.run(run(judge))
        finally:
            done.set()


# The whole command, as a process.


@dataclass
class Served:
    process: asyncio.subprocess.Process
    port: int
    admin_port: int

    async def metrics(self) -> str:
        return (await call_port(self.admin_port, request("GET", "/metrics"))).body.decode()

    async def looked_up(self, answer: Answer) -> dict[str, Any]:
        path = f"/-/verdicts/{answer.get('x-refusal-id')}"
        return dict((await call_port(self.port, request("GET", path))).json())

    async def stop(self) -> str:
        """What it wrote to standard error."""
        self.process.send_signal(signal.SIGTERM)
        _, err = await output(self.process)
        assert self.process.returncode == 0
        return err


@asynccontextmanager
async def serving(*flags: str, **environment: str) -> AsyncIterator[Served]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "demur.cli.main", "serve", "--port", "0", "--admin-port", "0", *flags),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONUTF8": "1", "DEMUR_LANGUAGES": "en", **environment},
    )
    assert process.stdout is not None
    said = ""
    try:
        async with asyncio.timeout(30):
            while "client:" not in said:
                line = (await process.stdout.readline()).decode()
                assert line, (await output(process))[1]
                said += line
        listening, metrics = re.findall(r"(?:listening on|metrics:) +http://127\.0\.0\.1:(\d+)", said)
        yield Served(process, int(listening), int(metrics))
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def judge_flags(url: str) -> list[str]:
    return ["--judge-url", url, "--judge-model", "gpt-y", "--judge-below", "1", "--judge-key-env", "JUDGE_KEY"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_review_through_the_whole_command(tmp_path: Path, stream: bool) -> None:
    log = tmp_path / "v.jsonl"

    async def run(judge_url: str) -> None:
        async with upstream(*(STREAM if stream else [whole(completion(TEXT))])) as up:
            flags = ["--upstream", up.url, "--verdict-log", str(log), *judge_flags(judge_url)]
            async with serving(*flags, JUDGE_KEY=KEY) as app:
                answer = await call_port(app.port, ask(stream=stream))
                async with asyncio.timeout(20):
                    while "review" not in (found := await app.looked_up(answer)):  # noqa: ASYNC110
                        await asyncio.sleep(0.02)
                assert (found["label"], found["review"]["rules_label"]) == ("shaped", "hard_refusal")
                scrape = await app.metrics()
                counted = 'outcome="coded",refusal_rules_verdict="hard_refusal",refusal_verdict="shaped"} 1.0'
                assert f"refusal_reviews_total{{refusal_review_{counted}" in scrape
                assert KEY not in await app.stop()
                first, second = read(log)
                assert (first["id"], first["verdict"]["label"]) == (answer.get("x-refusal-id"), "hard_refusal")
                assert (second["id"], second["reviewed"], second["verdict"]) == (first["id"], True, found)

    with scripted_judge(coded("shaped")) as endpoint:
        asyncio.run(run(endpoint.url))
        (sent,) = endpoint.requests
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert TEXT in sent.exchange


def test_a_judge_that_hangs_holds_up_neither_traffic_nor_the_end(tmp_path: Path) -> None:
    log = tmp_path / "v.jsonl"

    async def run(judge_url: str) -> str:
        async with upstream(whole(completion(TEXT))) as up:
            flags = ["--upstream", up.url, "--verdict-log", str(log), "--drain-seconds", "0.3", *judge_flags(judge_url)]
            async with serving(*flags, "--judge-concurrency", "2", JUDGE_KEY=KEY) as app:
                for _ in range(5):
                    assert (await call_port(app.port, ask())).get("x-refusal-verdict") == "hard_refusal"
                async with asyncio.timeout(20):
                    while len(endpoint.requests) < 2:  # noqa: ASYNC110
                        await asyncio.sleep(0.02)
                return await app.stop()

    with scripted_judge(NEVER) as endpoint:
        err = asyncio.run(run(endpoint.url))
    assert "as gpt-y had not read them: 5" in err
    assert "Traceback" not in err
    assert endpoint.most_at_once == 2
    assert [json.loads(line).get("reviewed", False) for line in log.read_text().splitlines()] == [False] * 5
