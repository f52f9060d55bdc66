"""Routes on the wire: which upstream gets a request, byte for byte what, and with whose credentials."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from fake_upstream import Proxy, Upstream, ask, call, completion, proxy, request, upstream, whole

from demur.classifier.apis import model_of_path
from demur.classifier.request import MAX_BYTES, MAX_LOOSE
from demur.config import ConfigError, Settings, check_start, describe_route, load
from demur.proxy.routes import Router

KEY = "sk-of-the-route"
OWN = "sk-of-the-client"
CREDENTIALS = ["Authorization: Bearer " + OWN, "api-key: " + OWN, "x-api-key: " + OWN, "x-goog-api-key: " + OWN]
KEYS = ("authorization", "api-key", "x-api-key", "x-goog-api-key", "cookie", "x-amz-security-token")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUTE_KEY", KEY)


def routed(
    test: Callable[[Proxy, Upstream, Upstream], Awaitable[None]], *routes: dict[str, Any], **settings: Any
) -> None:
    """Runs `test` with a proxy, the upstream of the settings, and that of all `routes`."""

    async def main() -> None:
        answer = whole(completion("Fine."))
        async with upstream(answer) as up, upstream(answer) as other:
            tables = [{"upstream": other.url, **route} for route in routes]
            async with proxy(up.url, route=tables, **settings) as px:
                await test(px, up, other)

    asyncio.run(main())


def router(*routes: dict[str, Any]) -> Router:
    settings = {"upstream": "http://default/v1", "route": routes}
    return Router(Settings.model_validate(settings), {"K": "k"})


def went(routes: Router, path: bytes, model: str | None = None) -> str:
    destination = routes.choose(path, model)
    return destination.host + destination.target(path, b"").decode()


A = {"upstream": "http://a/v1"}
B = {"upstream": "http://b"}


@pytest.mark.parametrize(
    ("globs", "model", "taken"),
    [
        (["gpt-*"], "gpt-4o", True),
        (["gpt-*"], "GPT-4o", False),
        (["gpt-*"], "my-gpt-4o", False),
        (["gpt-4"], "gpt-4o", False),
        (["o[134]*", "gpt-*"], "o3-mini", True),
        (["o[134]*", "gpt-*"], "o2", False),
        (["o[!134]*"], "o2", True),
        (["gpt-?"], "gpt-4", True),
        (["*/llama*"], "meta/llama-3\n", True),
        (["*"], None, False),
        (["*"], "", True),
        (["gpt.4"], "gpt-4", False),
    ],
)
def test_models_match_by_globs(globs: list[str], model: str | None, taken: bool) -> None:
    assert went(router({"models": globs, **A}), b"/v1/x", model).startswith("a/" if taken else "default/")


@pytest.mark.parametrize(
    ("path", "target"),
    [
        (b"/anthropic/v1/messages", "a/v1/messages"),
        (b"/anthropic/messages", "a/v1/messages"),
        (b"//anthropic//messages", "a/v1/messages"),
        (b"/anthropic", "a/v1"),
        (b"/anthropic/", "a/v1/"),
        (b"/anthropic-x/v1/messages", "default/v1/anthropic-x/v1/messages"),
        (b"/Anthropic/v1/messages", "default/v1/Anthropic/v1/messages"),
        (b"/v1/anthropic/x", "default/v1/anthropic/x"),
        (b"/%61nthropic/x", "default/v1/%61nthropic/x"),
        (b"/anthropic/a%2Fb/../c", "a/v1/a%2Fb/../c"),
        (b"/anthropic/deep/x", "a/v1/x"),
        (b"/anthropic/deeper/x", "a/v1/deeper/x"),
    ],
)
def test_paths_match_by_prefixes_which_are_taken_off(path: bytes, target: str) -> None:
    assert went(router({"paths": ["/anthropic", "/anthropic/deep"], **A}), path) == target


def test_a_prefix_may_stay() -> None:
    kept = router({"paths": ["/v1/messages"], "strip_prefix": False, **A})
    assert went(kept, b"/v1/messages/count_tokens") == "a/v1/messages/count_tokens"
    assert went(kept, b"/v1/messages") == "a/v1/messages"
    taken = router({"paths": ["/v1/messages"], "strip_prefix": True, "upstream": "http://a/other"})
    assert went(taken, b"/v1/messages/x") == "a/other/x"
    assert went(router({"paths": "/", **A}), b"/v1/x") == "a/v1/x"


def test_the_first_match_wins() -> None:
    routes = router(
        {"models": "m", "paths": "/x", "upstream": "http://both"},
        {"models": "m*", "upstream": "http://model"},
        {"paths": "/x", "upstream": "http://path"},
        {"models": "*", "paths": "/x", "upstream": "http://never"},
    )
    assert went(routes, b"/x/y", "m") == "both/y"
    assert went(routes, b"/x/y", "m2") == "model/x/y"
    assert went(routes, b"/x/y", "n") == "path/y"
    assert went(routes, b"/x/y") == "path/y"
    assert went(routes, b"/y", "m") == "model/y"
    assert went(routes, b"/y") == "default/v1/y"


def test_a_model_is_only_asked_for_where_it_decides() -> None:
    routes = router({"paths": "/p", **A}, {"models": "m", "paths": "/q", **A})
    assert [routes.asks_for_model(path) for path in (b"/p/x", b"/q/x", b"/x")] == [False, True, False]
    assert router({"paths": "/p", **A}, {"models": "m", **A}).asks_for_model(b"/x")
    assert not router({"paths": "/", **A}, {"models": "m", **A}).asks_for_model(b"/x")
    assert not router().asks_for_model(b"/x")


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v1beta/models/gemini-2.0-flash:generateContent", "gemini-2.0-flash"),
        ("/v1beta/models/gemini-2.0-flash:streamGenerateContent?alt=sse", "gemini-2.0-flash"),
        ("/v1beta/models/e:batchEmbedContents", "e"),
        ("/v1beta/models/m:countTokens", "m"),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@2024:streamRawPredict", "claude-x@2024"),
        ("/model/anthropic.claude-x-v1%3A0/converse", "anthropic.claude-x-v1:0"),
        ("/model/a.b-v1:0/invoke", "a.b-v1:0"),
        ("/openai/deployments/my-gpt/chat/completions?api-version=1", "my-gpt"),
        ("/v1/models/ft:gpt-4o-mini:acme::7p4l", "ft:gpt-4o-mini:acme::7p4l"),
        ("/v1/models/meta%2Fllama", "meta/llama"),
        ("/v1/models", None),
        ("/v1/models/", None),
        ("/v1/chat/completions", None),
    ],
)
def test_the_model_of_a_path(path: str, model: str | None) -> None:
    assert model_of_path(path) == model


class Tracer:
    """Keeps what spans are told when they begin."""

    def __init__(self) -> None:
        self.begun: list[dict[str, Any]] = []

    def start(self, **facts: Any) -> None:
        self.begun.append(facts)


def test_spans_begin_with_the_upstream_that_is_used_and_the_model_of_the_path() -> None:
    tracer = Tracer()

    async def test(px: Proxy, up: Upstream, other: Upstream) -> None:
        body = b'{"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}'
        await call(px, request("POST", "/v1beta/models/gemini-x:generateContent", body))
        await call(px, ask(model="gpt-x"))
        assert [facts["upstream_port"] for facts in tracer.begun] == [other.port, up.port]
        assert [facts["ask"].model for facts in tracer.begun] == ["gemini-x", "gpt-x"]
        assert [facts["provider"] for facts in tracer.begun] == ["gcp.gemini", "openai"]
        assert [exchange.ask.model for exchange in px.ended] == ["gemini-x", "gpt-x"]

    routed(test, {"models": ["gemini-*"]}, app={"telemetry": tracer})


def test_a_request_goes_where_its_model_leads_and_the_record_knows() -> None:
    async def test(px: Proxy, up: Upstream, other: Upstream) -> None:
        sent = ask("hello", *CREDENTIALS, model="claude-x")
        answer = await call(px, sent)
        assert answer.get("x-refusal-verdict") == "answer"
        [got] = other.requests
        assert got.body == sent.partition(b"\r\n\r\n")[2]
        assert got.target == "/v1/chat/completions"
        assert got.all("host") == [f"127.0.0.1:{other.port}"]
        assert [got.all(name)[0] for name in KEYS[:4]] == ["Bearer " + OWN, OWN, OWN, OWN]  # no key is added: they pass
        assert (await px.end()).upstream_port == other.port
        await call(px, ask(model="gpt-x"))
        assert (await px.end(2)).upstream_port == up.port
        assert (len(up.requests), len(other.requests)) == (1, 1)

    routed(test, {"models": ["claude-*"]})


@pytest.mark.parametrize(("header", "value"), [("authorization", "Bearer " + KEY), ("x-api-key", KEY), ("x-mine", KEY)])
def test_an_added_key_replaces_all_that_the_client_has(header: str, value: str) -> None:
    async def test(px: Proxy, up: Upstream, other: Upstream) -> None:
        query = f"?a=%7E&key={OWN}&b&%6Bey={OWN}&api-version=1&access_token={OWN}"
        lines = [*CREDENTIALS, "Cookie: " + OWN, "x-amz-security-token: " + OWN, "AUTHORIZATION: Basic " + OWN]
        await call(px, ask("x", *lines, "x-mine: a", "Other: 1", path="/v1/chat/completions" + query, model="m"))
        [got] = other.requests
        assert OWN not in got.raw_head.decode()
        assert [name for name in KEYS if got.all(name)] == [name for name in KEYS if name == header]
        assert got.all(header) == [value]
        assert got.target == "/v1/chat/completions?a=%7E&b&api-version=1"
        assert got.all("other") == ["1"]
        # Elsewhere the client's own go on, and the key of the route does not.
        await call(px, ask("x", *lines, path="/v1/chat/completions" + query, model="n"))
        [got] = up.requests
        assert got.raw_head.decode().count(OWN) == len(lines) + 3
        assert KEY not in got.raw_head.decode()

    routed(test, {"models": "m", "key_env": "ROUTE_KEY", "key_header": header})


def test_headers_are_set_and_removed() -> None:
    async def test(px: Proxy, up: Upstream, other: Upstream) -> None:
        lines = ("OpenAI-Organization: mine", "X-Set: mine", "X-Set: twice", "traceparent: 00-x", "X-Else: é")
        await call(px, ask("x", *lines, *CREDENTIALS[:1], model="m"))
        [got] = other.requests
        assert got.all("x-set") == ["ours"]
        assert (got.all("openai-organization"), got.all("traceparent")) == ([], [])
        assert (got.all("x-else"), got.all("authorization")) == (["é".encode().decode("latin-1")], ["Bearer " + OWN])

    table = {"add_headers": {"X-Set": "ours"}, "remove_headers": ["OpenAI-Organization", "Traceparent"]}
    routed(test, {"models": "m", **table})


def test_a_key_in_an_added_header_counts_as_a_key() -> None:
    async def test(px: Proxy, up: Upstream, other: Upstream) -> None:
        await call(px, ask("x", *CREDENTIALS, model="m"))
        [got] = other.requests
        assert OWN not in got.raw_head.decode()
        assert got.all("ocp-apim-subscription-key") == ["s"]

    routed(test, {"models": "m", "add_headers": {"ocp-apim-subscription-key": "s"}})


EMBEDDINGS = b' {"input": "x", "n": {}, "\\u006dodel":"e-1", "x": 1e3, "x": 2}\n'


@pytest.mark.parametrize(
    ("path", "kind", "body", "taken"),
    [
        ("/v1/embeddings", "application/json", EMBEDDINGS, True),
        ("/v1/embeddings", "application/json; charset=utf-8", EMBEDDINGS, True),
        ("/v1/embeddings", "application/x-www-form-urlencoded", EMBEDDINGS, True),
        ("/v1/embeddings", "application/octet-stream", EMBEDDINGS, False),
        ("/v1/embeddings", "application/json", b'{"model": "other"}', False),
        ("/v1/embeddings", "application/json", b'["model", "e-1"]', False),
        ("/v1/embeddings", "application/json", b'{"model": "e-1"', False),
        ("/v1/embeddings", "application/json", b"", False),
        ("/v1/files", "multipart/form-data; boundary=x", b'--x\r\n\r\n{"model": "e-1"}\r\n--x--', False),
        ("/v1/models/e-1", "application/json", b"{}", True),
        ("/v1beta/models/e-1:embedContent", "application/json", b'{"model": "models/other"}', True),
    ],
)
def test_the_model_of_a_body_that_is_not_judged(path: str, kind: str, body: bytes, taken: bool) -> None:
    async def test(px: Proxy, up: Upstream, other: Upstream) -> None:
        lines = ("Content-Type: " + kind,)
        await call(px, request("POST", path, body, *lines))
        chunked = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n" if body else b"0\r\n\r\n"
        await call(px, request("POST", path, None, *lines, "Transfer-Encoding: chunked") + chunked)
        got = (other if taken else up).requests
        assert [r.body for r in got] == [body, body]
        assert got[0].all("content-length") == [str(len(body))]
        assert [exchange.api for exchange in px.ended] == [None, None]

    routed(test, {"models": ["e-*"]})


def test_a_large_body_that_is_read_for_its_model_has_the_same_limit() -> None:
    async def test(px: Proxy, up: Upstream, other: Upstream) -> None:
        body = json.dumps({"input": "x" * 5000, "model": "e-1"}).encode()
        lines = ("Content-Type: application/json", "Transfer-Encoding: chunked")
        sent = request("POST", "/v1/embeddings", None, *lines) + f"{len(body):x}\r\n".encode() + body + b"\r\n"
        answer = await call(px, sent)
        assert (answer.status, answer.json()["error"]["code"]) == (413, "request_too_large")
        assert not up.requests
        assert not other.requests

    routed(test, {"models": "e-*"}, max_request_bytes=4096)


def test_get_requests_and_others_go_by_path() -> None:
    async def test(px: Proxy, up: Upstream, other: Upstream) -> None:
        for method in ("GET", "DELETE"):
            await call(px, request(method, "/azure/v1/files/f?x=1"))
        assert [(r.method, r.target, r.body) for r in other.requests] == [
            ("GET", "/v1/files/f?x=1", b""),
            ("DELETE", "/v1/files/f?x=1", b""),
        ]
        assert [r.all("transfer-encoding") for r in other.requests] == [[], []]

    routed(test, {"models": "m", "upstream": "http://127.0.0.1:1"}, {"paths": "/azure"})


def test_a_preflight_gets_no_key() -> None:
    async def test(px: Proxy, up: Upstream, other: Upstream) -> None:
        lines = ("Origin: https://page.example", "Access-Control-Request-Method: POST")
        await call(px, request("OPTIONS", "/a/v1/chat/completions", None, *lines))
        await call(px, request("OPTIONS", "/a/v1/chat/completions", None, "Origin: https://page.example"))
        assert [r.all("authorization") for r in other.requests] == [[], ["Bearer " + KEY]]

    routed(test, {"paths": "/a", "key_env": "ROUTE_KEY"})


def test_trace_shows_nobody_a_key() -> None:
    async def test(px: Proxy, up: Upstream, other: Upstream) -> None:
        answer = await call(px, request("TRACE", "/a/v1/x"))
        assert (answer.status, answer.json()["error"]["code"]) == (405, "trace_not_allowed")
        assert "TRACE" not in (answer.get("allow") or "TRACE")
        assert other.requests == []
        for path in ("/b/v1/x", "/v1/x"):  # nothing is shown there but what the client sent
            assert (await call(px, request("TRACE", path))).status == 200

    routed(test, {"paths": "/a", "key_env": "ROUTE_KEY"}, {"paths": "/b"})


def test_a_key_that_is_not_there_stops_the_start() -> None:
    settings = {"route": [{"models": "m", "upstream": "http://a"}, {"models": "n", "key_env": "NO_KEY", **A}]}
    with pytest.raises(ConfigError, match="route 2: key_env: the variable NO_KEY is not set"):
        Router(Settings.model_validate(settings), os.environ)


def test_w62_no_key_is_told_anywhere(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    """Whatever becomes of a request, neither the key of the route nor the client's is in any output."""
    from demur.proxy.metrics import Metrics
    from demur.proxy.telemetry import Telemetry
    from demur.proxy.verdict_log import VerdictLog

    caplog.set_level(logging.DEBUG)
    telemetry = Telemetry(["console"], events=["console"])
    metrics, log = Metrics(), VerdictLog(tmp_path / "verdicts.jsonl")
    answers: list[bytes] = []

    async def main() -> None:
        failing = whole(b'{"error": {"message": "bad"}}', status="400 Bad Request")
        async with upstream(failing, then=[(b"nonsense\r\n\r\n",), (5.0,)]) as other:
            keyed = {"key_env": "ROUTE_KEY", "add_headers": {"x-more": KEY}}
            routes = [
                {"models": "m", "upstream": other.url, **keyed},
                {"models": "closed", "upstream": "http://127.0.0.1:1", **keyed},
                {"models": "tls", "upstream": f"https://127.0.0.1:{other.port}", **keyed},
                {"models": "name", "upstream": "http://nowhere.invalid", **keyed},
            ]
            options = {"telemetry": telemetry, "sinks": [metrics, log]}
            settings = {
                "route": routes,
                "first_byte_timeout": 0.2,
                "connect_timeout": 0.5,
                "client_token": "t0ken-of-all",
            }
            async with proxy(other.url, app=options, **settings) as px:
                for model in ("m", "m", "m", "closed", "tls", "name"):
                    lines = ("x-refusal-token: t0ken-of-all", *CREDENTIALS)
                    answer = await call(px, ask("x", *lines, path=f"/v1/chat/completions?key={OWN}", model=model))
                    answers.append(repr(answer).encode())
                answers.append(repr(await call(px, ask("x", *CREDENTIALS, "x-refusal-token: t0ken-of-al"))).encode())
                assert [e.end for e in px.ended] == [
                    "complete",
                    "upstream_error",
                    "first_byte_timeout",
                    "upstream_error",
                    "connect_timeout",
                    "upstream_error",
                    "unauthorized",
                ]
                relay = px.app.relay
                chosen = [relay._router.choose(b"/", model) for model in ("m", "closed")]
                answers.append(repr((chosen, relay._settings, vars(relay))).encode())

    asyncio.run(main())
    telemetry.shutdown()
    log.close()
    outputs = [*answers, caplog.text.encode(), capsys.readouterr().out.encode(), metrics.render()[0]]
    outputs.append((tmp_path / "verdicts.jsonl").read_bytes())
    assert all(len(output) > 200 for output in outputs)
    for secret in (KEY, OWN, "t0ken-of-all"):
        assert [output for output in outputs if secret.encode() in output] == []


def test_the_recipes_of_the_docs_are_valid(tmp_path: Path) -> None:
    text = (Path(__file__).parent.parent / "docs" / "routes.md").read_text(encoding="utf-8")
    recipes = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    env = dict.fromkeys(re.findall(r'key_env = "(\w+)"', text), "k")
    assert len(recipes) == 3
    for recipe in recipes:
        file = tmp_path / "demur.toml"
        file.write_text(recipe, encoding="utf-8")
        loaded = load(file, {"DEMUR_CLIENT_TOKEN": "t"})
        check_start(loaded, env)
        routes = Router(loaded.settings, env)
        assert went(routes, b"/v1/chat/completions", "claude-x") == "api.anthropic.com/v1/chat/completions"
        if "azure" in recipe:
            path = b"/azure/openai/deployments/d/chat/completions"
            assert went(routes, path, "d") == "my-resource.openai.azure.com/openai/deployments/d/chat/completions"
            assert went(routes, b"/anthropic/v1/messages", "claude-x") == "api.anthropic.com/v1/messages"
    assert {f"`{name}`" for name in describe_route()} <= set(re.findall(r"`\w+`", text))


UNUSUAL = {
    "a lone surrogate": rb'{"model":"claude-x","input":"cut \ud83d"%b}',
    "NaN": rb'{"model":"claude-x","temperature":NaN%b}',
    "a byte order mark": b'\xef\xbb\xbf{"model":"claude-x"%b}',
    "modelId beside it": rb'{"model":"claude-x","modelId":{}%b}',
    "n": rb'{"model":"claude-x","n":{}%b}',
    "bad UTF-8": b'{"input":"\xff","model":"claude-x"%b}',
    "depth": b'{"x":' + b"[" * 5000 + b"]" * 5000 + b',"model":"claude-x"%b}',
    "an escaped key": rb'{"input":"\ud83d","mod\u0065l":"claude-x"%b}',
    "the last of two": rb'{"model":"gpt-x","input":"\ud83d","model":"claude-x"%b}',
    "a model that is not at the top": rb'{"model":"claude-x","m":[{"model":"gpt-x"},"\ud83d","\"model\":1"]%b}',
}


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/chat/completions"])
@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_json_goes_where_its_model_says(name: str, path: str, large: bool) -> None:
    body = UNUSUAL[name] % (b',"more":"%b"' % (b"a" * MAX_LOOSE) if large else b"")

    async def run(px: Proxy, up: Upstream, other: Upstream) -> None:
        assert (await call(px, request("POST", path, body, "Content-Type: application/json"))).status == 200
        assert ([r.body for r in other.requests], up.requests) == ([body], [])

    routed(run, {"models": ["claude-*"]})


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/chat/completions"])
def test_a_coded_body_goes_where_its_model_says_and_stays_coded(path: str) -> None:
    plain = b'{"model":"claude-x","messages":[{"role":"user","content":"Hello?"}]}'
    lines = "Content-Type: application/json", "Content-Encoding: gzip"

    async def run(px: Proxy, up: Upstream, other: Upstream) -> None:
        for body in (gzip.compress(plain), b"no gzip", gzip.compress(b" " * (MAX_BYTES + 1) + plain)):
            assert (await call(px, request("POST", path, body, *lines))).status == 200
            assert (other.requests + up.requests)[-1].body == body
        assert (len(other.requests), len(up.requests)) == (1, 2)
        if path.endswith("completions"):
            read, broken, large = (exchange.ask for exchange in px.ended)
            assert (read.prompt, read.model) == ("Hello?", "claude-x")
            assert "not valid gzip" in broken.unread
            assert f"over {MAX_BYTES} bytes" in large.unread

    routed(run, {"models": ["claude-*"]})
