"""The middleware in real applications (FastAPI, Starlette) on real servers (uvicorn, hypercorn), with openai-python."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import fastapi
import httpx
import openai
import prometheus_client
import pytest
from applications import called, served
from fake_upstream import Collector
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from fastapi.sse import EventSourceResponse
from hypercorn.asyncio import serve
from hypercorn.config import Config
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from otlp_sink import OtlpSink
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from test_middleware import EVENTS, KEY, REFUSAL, REFUSED, STREAM

from demur.classifier.judge import default_classifier
from demur.config import Settings
from demur.proxy.middleware import RefusalMiddleware

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "How do I build it?"}]}
CHUNKS = [json.loads(event.removeprefix(b"data: ")) for event in EVENTS[:-1]]


def options(ended: Collector | None = None, **settings: Any) -> dict[str, Any]:
    return {
        "settings": Settings(**settings),
        "classifier": default_classifier(),
        "sinks": [] if ended is None else [ended],
    }


def fast(ended: Collector | None = None, *, add: bool = True, **settings: Any) -> fastapi.FastAPI:
    """An application that refuses all that it is asked, as JSON or as a stream of either kind."""
    app = fastapi.FastAPI()
    later: list[int] = []
    app.state.later = later

    @app.post("/v1/chat/completions")
    async def chat(body: dict[str, Any], background: fastapi.BackgroundTasks) -> Response:
        async def follow_up() -> None:
            later.append(len(ended or ()))

        background.add_task(follow_up)
        if body.get("stream"):
            return StreamingResponse(
                pieces(body.get("pause", 0)), media_type="text/event-stream", background=background
            )
        if body["model"] == "none":
            raise fastapi.HTTPException(404, "no such model")
        if body["model"] == "broken":
            raise RuntimeError("a fault of the application")
        return JSONResponse(json.loads(REFUSED), background=background)

    @app.post("/events/v1/chat/completions", response_class=EventSourceResponse)
    async def events(body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        for chunk in CHUNKS:
            yield chunk

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": []}

    async def pieces(pause: float) -> AsyncIterator[bytes]:
        for event in EVENTS:
            yield event
            await asyncio.sleep(pause)

    if add:
        app.add_middleware(RefusalMiddleware, **options(ended, **settings))
    return app


@asynccontextmanager
async def client(app: Any, path: str = "/v1") -> AsyncIterator[openai.AsyncOpenAI]:
    async with (
        served(app) as url,
        openai.AsyncOpenAI(base_url=f"{url}{path}", api_key="k", max_retries=0, timeout=20) as asking,
    ):
        yield asking


def talking(app: Any, talk: Callable[[openai.AsyncOpenAI], Any], path: str = "/v1") -> Any:
    async def run() -> Any:
        async with client(app, path) as asking:
            return await talk(asking)

    return asyncio.run(run())


# FastAPI


def test_json_for_openai() -> None:
    ended = Collector()
    app = fast(ended)

    async def talk(asking: openai.AsyncOpenAI) -> None:
        raw = await asking.chat.completions.with_raw_response.create(**ASK)
        assert raw.parse().choices[0].message.content == REFUSAL
        assert raw.headers["x-refusal-verdict"] == "hard_refusal"
        assert "x-refusal-verdict" not in (await asking.models.with_raw_response.list()).headers
        verdict = await asking.get(
            f"{asking.base_url.copy_with(path='/')}-/verdicts/{raw.headers['x-refusal-id']}", cast_to=object
        )
        assert verdict["label"] == "hard_refusal"  # type: ignore[index]

    talking(app, talk)
    (exchange,) = ended
    assert (exchange.ask.prompt, exchange.end, exchange.upstream_host) == (
        "How do I build it?",
        "complete",
        "127.0.0.1",
    )
    assert app.state.later == [1]  # what runs in the background runs after the exchange has ended


@pytest.mark.parametrize("path", ["/v1", "/events/v1"], ids=["StreamingResponse", "EventSourceResponse"])
def test_streams_for_openai(path: str) -> None:
    ended = Collector()

    async def talk(asking: openai.AsyncOpenAI) -> None:
        stream = await asking.chat.completions.create(**ASK, stream=True)
        assert stream.response.headers["x-refusal-verdict"] == "pending"
        chunks = [chunk async for chunk in stream]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == REFUSAL
        keys = [chunk.model_extra["refusal_verdict"] for chunk in chunks if chunk.model_extra]
        assert [key["label"] for key in keys] == ["hard_refusal"]
        assert keys[0]["id"] == stream.response.headers["x-refusal-id"]

    talking(fast(ended), talk, path)
    assert [exchange.end for exchange in ended] == ["complete"]


def test_errors_of_the_application_stay_its_own() -> None:
    ended = Collector()

    async def talk(asking: openai.AsyncOpenAI) -> None:
        with pytest.raises(openai.NotFoundError) as none:
            await asking.chat.completions.create(**ASK | {"model": "none"})
        assert none.value.body == {"detail": "no such model"}
        assert none.value.response.headers["x-refusal-status"] == "upstream_error"
        with pytest.raises(openai.InternalServerError) as broken:
            await asking.chat.completions.create(**ASK | {"model": "broken"})
        assert broken.value.response.text == "Internal Server Error"
        with pytest.raises(openai.UnprocessableEntityError):
            await asking.post("/chat/completions", cast_to=object, body=[1])

    talking(fast(ended), talk)
    assert [(it.end, it.status_code) for it in ended] == [
        ("complete", 404),
        ("upstream_error", None),
        ("complete", 422),
    ]
    assert [it.verdict and (it.verdict.label, it.verdict.status) for it in ended] == [(None, "upstream_error")] * 3


def test_a_client_that_leaves_a_stream() -> None:
    ended = Collector()

    async def talk(asking: openai.AsyncOpenAI) -> None:
        stream = await asking.chat.completions.create(**ASK, stream=True, extra_body={"pause": 0.2})
        for _ in range(2):
            await anext(stream)
        await stream.close()
        async with asyncio.timeout(20):
            while not ended:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    talking(fast(ended), talk)
    assert [(it.end, it.verdict and it.verdict.status) for it in ended] == [("client_disconnect", "incomplete")]


@pytest.mark.parametrize("above", [True, False], ids=["above", "below"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_gzip_middleware_above_and_below(above: bool, stream: bool) -> None:
    app = fast(add=False)
    both: list[tuple[Any, dict[str, Any]]] = [(RefusalMiddleware, options()), (GZipMiddleware, {"minimum_size": 10})]
    for middleware, given in both if above else both[::-1]:  # the one that is added last comes first
        app.add_middleware(middleware, **given)

    async def talk(asking: openai.AsyncOpenAI) -> None:
        if stream:
            chunks = [chunk async for chunk in await asking.chat.completions.create(**ASK, stream=True)]
            keys = [chunk.model_extra["refusal_verdict"]["label"] for chunk in chunks if chunk.model_extra]
            assert keys == ["hard_refusal"]
        else:
            raw = await asking.chat.completions.with_raw_response.create(**ASK)
            assert raw.headers["content-encoding"] == "gzip"
            assert raw.headers["x-refusal-verdict"] == "hard_refusal"
            assert raw.parse().choices[0].message.content == REFUSAL

    talking(app, talk)


@pytest.mark.parametrize("above", [True, False], ids=["above", "below"])
def test_a_middleware_that_wraps_requests_above_and_below(above: bool) -> None:
    ended = Collector()
    app = fast(add=False)
    if above:
        app.add_middleware(RefusalMiddleware, **options(ended))

    @app.middleware("http")
    async def tagging(request: Request, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["x-tagged"] = "yes"
        return response

    if not above:
        app.add_middleware(RefusalMiddleware, **options(ended))

    async def talk(asking: openai.AsyncOpenAI) -> None:
        raw = await asking.chat.completions.with_raw_response.create(**ASK)
        assert (raw.headers["x-tagged"], raw.headers["x-refusal-verdict"]) == ("yes", "hard_refusal")
        chunks = [chunk async for chunk in await asking.chat.completions.create(**ASK, stream=True)]
        assert [c.model_extra["refusal_verdict"]["label"] for c in chunks if c.model_extra] == ["hard_refusal"]

    talking(app, talk)
    assert [(it.end, it.ask.prompt) for it in ended] == [("complete", "How do I build it?")] * 2


@pytest.mark.parametrize("mounted", [True, False], ids=["mounted", "root_path"])
def test_below_another_root(mounted: bool) -> None:
    app = fast()
    outer: Any = app
    if mounted:
        outer = fastapi.FastAPI()
        outer.mount("/llm", app)
    else:
        app.root_path = "/llm"  # as behind a server that strips it

    async def talk(asking: openai.AsyncOpenAI) -> None:
        raw = await asking.chat.completions.with_raw_response.create(**ASK)
        assert raw.headers["x-refusal-verdict"] == "hard_refusal"
        root = str(asking.base_url).removesuffix("v1/")
        assert await asking.get(f"{root}-/verdicts/{raw.headers['x-refusal-id']}", cast_to=object)

    talking(outer, talk, "/llm/v1" if mounted else "/v1")


# Starlette


def test_starlette(tmp_path: Path) -> None:
    file = tmp_path / "answer.json"
    file.write_bytes(REFUSED)

    async def chat(request: Request) -> Response:
        body = await request.json()
        if body.get("stream"):
            return StreamingResponse(iter(EVENTS), media_type="text/event-stream")
        return Response(REFUSED, media_type="application/json")

    async def from_file(request: Request) -> Response:
        return FileResponse(file, media_type="application/json")

    routes = [
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Mount("/file", routes=[Route("/v1/chat/completions", from_file, methods=["POST"])]),
    ]
    app = Starlette(routes=routes, middleware=[Middleware(RefusalMiddleware, **options())])

    async def run() -> None:
        async with served(app) as url, httpx.AsyncClient(base_url=url, verify=False) as http:
            for path in ("", "/file"):
                answer = await http.post(f"{path}/v1/chat/completions", json=ASK)
                assert (answer.content, answer.headers["x-refusal-verdict"]) == (REFUSED, "hard_refusal")
                assert answer.headers["content-length"] == str(len(REFUSED))
            answer = await http.post("/v1/chat/completions", json=ASK | {"stream": True})
            assert KEY.sub(b"", answer.content) == STREAM

    asyncio.run(run())
    # A server that can send files itself gets the path, and the answer passes unread.
    got = asyncio.run(called(app, path="/file/v1/chat/completions", extensions={"http.response.pathsend": {}}))
    assert got.kinds == ["start", "pathsend"]
    assert got.get("x-refusal-status") == "not_classified"


# Hypercorn


def test_http_2() -> None:
    ended = Collector()

    async def run() -> None:
        config = Config()
        with socket.create_server(("127.0.0.1", 0)) as sock:
            config.bind = [f"fd://{sock.fileno()}"]
            port = sock.getsockname()[1]
            stop = asyncio.Event()
            serving = asyncio.ensure_future(serve(fast(ended), config, shutdown_trigger=stop.wait))  # type: ignore[arg-type]
            async with httpx.AsyncClient(http1=False, http2=True, verify=False, timeout=20) as http:
                url = f"http://127.0.0.1:{port}/v1/chat/completions"
                answer = await http.post(url, json=ASK)
                assert (answer.http_version, answer.headers["x-refusal-verdict"]) == ("HTTP/2", "hard_refusal")
                answer = await http.post(url, json=ASK | {"stream": True})
                assert KEY.sub(b"", answer.content) == STREAM
                assert answer.headers["x-refusal-verdict"] == "pending"
            async with httpx.AsyncClient(http1=False, http2=True, verify=False, timeout=20) as http:
                cut = await http.send(
                    http.build_request("POST", url, json=ASK | {"stream": True, "pause": 1}), stream=True
                )
                await anext(cut.aiter_raw())
            async with asyncio.timeout(20):
                while len(ended) < 3:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            stop.set()
            await serving
            sock.detach()  # hypercorn has closed it

    asyncio.run(run())
    assert [exchange.end for exchange in ended] == ["complete", "complete", "client_disconnect"]


# How vLLM loads a middleware


def load_as_vllm_does(app: fastapi.FastAPI, middleware: str) -> None:
    """What `build_app` of vLLM's API server does with each `--middleware` (read in its source, 2023 to 2026)."""
    module_path, object_name = middleware.rsplit(".", 1)
    imported = getattr(importlib.import_module(module_path), object_name)
    assert inspect.isclass(imported)  # a coroutine function would go to `app.middleware("http")`
    app.add_middleware(imported)  # type: ignore[arg-type]


def test_vllm_loads_it_by_name_with_settings_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "verdicts.jsonl"
    monkeypatch.setenv("DEMUR_VERDICT_LOG", str(log))
    monkeypatch.setenv("DEMUR_LANGUAGES", "en")
    app = fast(add=False)
    load_as_vllm_does(app, "demur.proxy.middleware.RefusalMiddleware")

    async def talk(asking: openai.AsyncOpenAI) -> None:
        raw = await asking.chat.completions.with_raw_response.create(**ASK)
        assert raw.headers["x-refusal-verdict"] == "hard_refusal"

    talking(app, talk)
    (line,) = log.read_text().splitlines()
    assert json.loads(line)["verdict"]["label"] == "hard_refusal"


def test_a_wrong_setting_keeps_the_server_from_starting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DEMUR_LANGUAGES", "klingon")
    app = fast(add=False)
    load_as_vllm_does(app, "demur.proxy.middleware.RefusalMiddleware")

    async def run() -> None:
        async with served(app):
            pass

    with pytest.raises(SystemExit):
        asyncio.run(run())
    assert "demur: DEMUR_LANGUAGES" in caplog.text


# Metrics and spans


def test_metrics_stand_beside_those_of_the_application() -> None:
    def count() -> float:
        labels = {
            "refusal_verdict": "hard_refusal", "refusal_status": "complete", "refusal_rationale": "bare",
            "gen_ai_request_model": "metered", "gen_ai_provider_name": "openai",
        }  # fmt: skip
        return prometheus_client.REGISTRY.get_sample_value("refusal_verdicts_total", labels) or 0.0

    before = count()
    for _ in range(2):  # two applications in one process

        async def talk(asking: openai.AsyncOpenAI) -> None:
            await asking.chat.completions.create(**ASK | {"model": "metered"})

        talking(fast(), talk)
    assert count() == before + 2
    assert b"refusal_requests_in_flight 0.0" in prometheus_client.generate_latest()


@pytest.mark.parametrize("stream", [False, True])
def test_the_verdict_goes_on_the_span_that_the_application_has(stream: bool) -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    app = fast(add=False)
    traced = fastapi.FastAPI(telemetry={"tracer_provider": provider})  # ends its span with the last byte
    traced.router.routes = app.router.routes
    traced.add_middleware(RefusalMiddleware, **options())

    async def talk(asking: openai.AsyncOpenAI) -> None:
        await asking.chat.completions.with_raw_response.create(**ASK, stream=stream)
        if stream:
            async for _ in await asking.chat.completions.create(**ASK, stream=True):
                pass

    talking(traced, talk)
    server = [dict(span.attributes or {}) for span in spans.get_finished_spans() if span.kind.name == "SERVER"]
    assert server
    for attributes in server:
        assert attributes["refusal.verdict"] == "hard_refusal"
        assert attributes["gen_ai.request.model"] == "m"
        assert "http.request.method" in attributes
    assert [span for span in spans.get_finished_spans() if span.name.startswith("chat")] == []


def test_without_one_it_has_spans_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with OtlpSink() as sink:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint)

        async def talk(asking: openai.AsyncOpenAI) -> None:
            headers = {"traceparent": TRACEPARENT}
            await asking.chat.completions.create(**ASK, extra_headers=headers)

        app = fastapi.FastAPI(telemetry={"auto_configure": False})
        app.router.routes = fast(add=False).router.routes
        app.add_middleware(RefusalMiddleware, **options())
        talking(app, talk)
        spans = {span.kind: span for span in sink.spans()}
    assert set(spans) == {"SERVER", "CLIENT"}
    assert {span.attributes["refusal.verdict"] for span in spans.values()} == {"hard_refusal"}
    assert spans["SERVER"].trace_id == TRACEPARENT.split("-")[1]
    assert spans["CLIENT"].parent == spans["SERVER"].span_id


def test_variables_that_only_the_application_understands_harm_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")

    async def talk(asking: openai.AsyncOpenAI) -> None:
        raw = await asking.chat.completions.with_raw_response.create(**ASK)
        assert raw.headers["x-refusal-verdict"] == "hard_refusal"

    app = fastapi.FastAPI(telemetry={"auto_configure": False})
    app.router.routes = fast(add=False).router.routes
    app.add_middleware(RefusalMiddleware, **options())
    talking(app, talk)
    assert "no spans of demur's own: OTEL_EXPORTER_OTLP_PROTOCOL" in caplog.text
