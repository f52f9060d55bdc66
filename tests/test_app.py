from __future__ import annotations

import asyncio

import pytest
from fake_upstream import END, ask, call, chunk, completion, head, proxy, request, say, upstream, whole

from demur.config import Settings
from demur.proxy.app import create_app


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

    async def spans() -> list[dict[str, object]]:
        async with upstream(whole(completion("I'm sorry, but I can't help with that."))) as up, proxy(up.url) as px:
            answer = await call(px, ask())
            verdict = (await call(px, request("GET", f"/-/verdicts/{answer.get('x-refusal-id')}"))).json()
            return [span for signal in verdict["signals"] for span in signal["spans"]]

    hidden = asyncio.run(spans())
    assert hidden
    assert all(span.keys() == {"start", "end"} for span in hidden)
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    assert all("text" in span for span in asyncio.run(spans()))


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
