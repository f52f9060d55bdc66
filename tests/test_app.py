from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from exchanges import REFUSAL, REPLY
from fake_upstream import END, ask, call, chunk, head, proxy, request, say, upstream, whole

from demur.classifier.verdict import Review
from demur.config import Settings
from demur.proxy.app import create_app
from demur.proxy.store import VerdictStore


def test_w77_our_own_endpoints_never_ask_the_upstream() -> None:
    async def run() -> None:
        async with upstream(whole(b"{}")) as up, proxy(up.url) as px:
            for _ in range(20):
                for path, expected in (("/-/healthy", {"status": "ok"}), ("/-/ready", {"ready": True})):
                    answer = await call(px, request("GET", path))
                    assert (answer.status, answer.json()) == (200, expected)
                    assert len(answer.all("date")) == 1
            head_only = await call(px, request("HEAD", "/-/healthy"))
            assert head_only.status == 200
            assert (up.requests, px.ended) == ([], [])

    asyncio.run(run())


def test_unknown_paths_under_ours_are_not_forwarded() -> None:
    async def run() -> None:
        async with upstream(whole(b"{}")) as up, proxy(up.url) as px:
            for path in ("/-/nothing", "/-/verdicts/unknown", "/-/", "/-/verdicts/", "/-", "/-?q=1"):
                answer = await call(px, request("GET", path))
                assert (answer.status, answer.json()["error"]["code"]) == (404, "not_found")
                assert answer.json()["error"]["message"].startswith("demur: ")
            wrong = await call(px, request("POST", "/-/ready", b""))
            assert (wrong.status, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
            assert up.requests == []
            await call(px, request("GET", "/-x"))
            await call(px, request("GET", "//-/ready"))
            assert [got.target for got in up.requests] == ["/v1/-x", "/v1/-/ready"]

    asyncio.run(run())


def test_draining_turns_readiness_and_new_requests_away() -> None:
    async def run() -> None:
        async with upstream(head(), chunk(say("a")), 0.5, chunk(say("b")), END) as up, proxy(up.url) as px:
            open_stream = asyncio.ensure_future(call(px, ask(stream=True)))
            while not up.requests:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            px.app.relay.draining = True
            ready = await call(px, request("GET", "/-/ready"))
            assert (ready.status, ready.json()["ready"]) == (503, False)
            assert (await call(px, request("GET", "/-/healthy"))).status == 200
            refused = await call(px, ask())
            assert (refused.status, refused.json()["error"]["code"]) == (503, "shutting_down")
            assert refused.get("connection") == "close"
            assert refused.clean
            assert (await open_stream).clean
            assert len(up.requests) == 1

    asyncio.run(run())


def test_the_text_of_evidence_is_shown_only_when_content_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:

    async def look_up(store: VerdictStore) -> dict[str, Any]:
        async with proxy("http://127.0.0.1:9", app={"store": store}) as px:
            return dict((await call(px, request("GET", "/-/verdicts/id-1"))).json())

    store = VerdictStore(ttl=60, keep=1)
    store.put("id-1", replace(REFUSAL, review=Review("gpt-y", "coded", "hard_refusal", REPLY)))
    hidden = asyncio.run(look_up(store))
    spans = [span for found in (*hidden["signals"], *hidden["codes"]) for span in found["spans"]]
    assert len(spans) == 4
    assert all(span.keys() == {"start", "end"} for span in spans)
    assert (hidden["codes"][0]["code"], hidden["review"]["outcome"]) == ("policy", "coded")
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    shown = asyncio.run(look_up(store))
    assert [found["spans"][0]["text"] for found in shown["codes"]] == ["the zebra password"]
    assert shown["signals"][0]["spans"][0]["text"] == "I won't share"
    assert shown["review"]["reason"] == REPLY


def test_the_lifespan_closes_the_upstream_connections() -> None:
    async def run() -> None:
        sent: list[str] = []
        events = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

        async def receive() -> dict[str, str]:
            return events.pop(0)

        async def send(message: dict[str, str]) -> None:
            sent.append(message["type"])

        await create_app(Settings(upstream="http://127.0.0.1:9"))({"type": "lifespan"}, receive, send)
        assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]

    asyncio.run(run())
