"""The client token: who is admitted, that it goes no further, and that no proxy with keys starts in public without."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fake_upstream import Proxy, Upstream, ask, call, completion, proxy, request, upstream, whole

from demur.cli.main import run as demur
from demur.proxy.credentials import ClientToken
from demur.proxy.errors import OwnError

TOKEN = "t0ken/of=all"
OWN = "sk-of-the-client"


def guarded(test: Callable[[Proxy, Upstream], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        async with upstream(whole(completion("Fine."))) as up, proxy(up.url, client_token=TOKEN, **settings) as px:
            await test(px, up)

    asyncio.run(main())


@pytest.mark.parametrize(
    "shown",
    [
        f"Authorization: Bearer {TOKEN}",
        f"authorization: bearer  {TOKEN} ",
        f"x-api-key: {TOKEN}",
        f"api-key: {TOKEN}",
        f"x-goog-api-key: {TOKEN}",
        f"x-refusal-token: {TOKEN}",
    ],
)
def test_who_shows_the_token_is_admitted_and_it_goes_no_further(shown: str) -> None:
    async def test(px: Proxy, up: Upstream) -> None:
        answer = await call(px, ask("x", shown, "Other: 1"))
        assert (answer.status, answer.get("x-refusal-verdict")) == (200, "answer")
        [got] = up.requests
        assert TOKEN not in got.raw_head.decode()
        assert got.all("other") == ["1"]
        assert [name for name in ("authorization", "x-api-key", "api-key", "x-goog-api-key") if got.all(name)] == []

    guarded(test)


def test_a_key_in_the_query_may_be_the_token_too() -> None:
    async def test(px: Proxy, up: Upstream) -> None:
        path = "/v1beta/models/g:generateContent"
        assert (await call(px, request("POST", f"{path}?key=t0ken%2Fof%3Dall&alt=sse", b"{}"))).status == 200
        assert up.requests[0].target == f"/v1{path}?alt=sse"
        assert (await call(px, request("POST", f"{path}?key=t0ken%2Fof%3Dal&alt=sse", b"{}"))).status == 401
        assert (await call(px, request("POST", f"{path}?other=t0ken%2Fof%3Dall", b"{}"))).status == 401

    guarded(test)


def test_the_clients_own_key_passes_beside_the_token() -> None:
    async def test(px: Proxy, up: Upstream) -> None:
        lines = (f"Authorization: Bearer {OWN}", f"x-refusal-token: {TOKEN}", f"Authorization: Bearer {TOKEN}")
        await call(px, ask("x", *lines, path=f"/v1/chat/completions?key={OWN}&key=t0ken/of=all"))
        [got] = up.requests
        assert got.all("authorization") == [f"Bearer {OWN}"]
        assert got.target == f"/v1/chat/completions?key={OWN}"
        assert TOKEN not in got.raw_head.decode()

    guarded(test)


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (f"Authorization: Bearer {OWN}",),
        (f"Authorization: {TOKEN}",),
        (f"Authorization: Basic {TOKEN}",),
        (f"Authorization: Bearer {TOKEN}x",),
        (f"Authorization: Bearer {TOKEN[:-1]}",),
        ("Authorization: Bearer",),
        (f"x-other: {TOKEN}",),
        ("x-refusal-token:",),
        ("x-refusal-token: é",),
    ],
)
def test_nobody_else_is(lines: tuple[str, ...]) -> None:
    async def test(px: Proxy, up: Upstream) -> None:
        for sent in (ask("x", *lines), request("GET", "/v1/models", None, *lines)):
            answer = await call(px, sent)
            assert answer.status == 401
            assert answer.json()["error"] == {
                "message": "demur: this proxy asks for its client token (client_token): as the client's key, or as "
                "x-refusal-token beside it",
                "type": "invalid_request_error",
                "param": None,
                "code": "invalid_client_token",
            }
            assert answer.all("www-authenticate") == ["Bearer"]
            assert [name for name, _ in answer.headers if name.startswith("x-refusal-")] == []
        assert up.requests == []
        assert [exchange.end for exchange in px.ended] == ["unauthorized"] * 2
        assert [exchange.verdict for exchange in px.ended] == [None] * 2

    guarded(test)


def test_a_body_is_not_waited_for() -> None:
    async def test(px: Proxy, up: Upstream) -> None:
        sent = request("POST", "/v1/chat/completions", None, "Content-Length: 1000000")
        assert (await call(px, sent + b"{")).status == 401

    guarded(test)


def test_health_is_open_and_verdicts_are_not() -> None:
    async def test(px: Proxy, up: Upstream) -> None:
        id = (await call(px, ask("x", f"x-api-key: {TOKEN}"))).get("x-refusal-id")
        for path in ("/-/healthy", "/-/ready"):
            assert (await call(px, request("GET", path))).status == 200
        answer = await call(px, request("GET", f"/-/verdicts/{id}"))
        assert (answer.status, answer.json()["error"]["code"]) == (401, "invalid_client_token")
        assert answer.all("www-authenticate") == ["Bearer"]
        answer = await call(px, request("GET", f"/-/verdicts/{id}", None, f"Authorization: Bearer {TOKEN}"))
        assert (answer.status, answer.json()["id"]) == (200, id)

    guarded(test)


def test_strangers_push_no_verdict_out() -> None:
    async def test(px: Proxy, up: Upstream) -> None:
        id = (await call(px, ask("x", f"x-api-key: {TOKEN}"))).get("x-refusal-id")
        for _ in range(3):
            assert (await call(px, ask("x"))).status == 401
        answer = await call(px, request("GET", f"/-/verdicts/{id}", None, f"x-refusal-token: {TOKEN}"))
        assert answer.status == 200

    guarded(test, verdict_keep=2)


def test_a_preflight_passes_without_it() -> None:
    async def test(px: Proxy, up: Upstream) -> None:
        lines = ("Origin: https://page.example", "Access-Control-Request-Method: POST")
        assert (await call(px, request("OPTIONS", "/v1/chat/completions", None, *lines))).status == 200
        assert (await call(px, request("GET", "/v1/models", None, *lines))).status == 401
        assert (await call(px, request("OPTIONS", "/v1/models", None, *lines[:1]))).status == 401

    guarded(test)


@pytest.mark.parametrize("named", ["origin", "Access-Control-Request-Method", "ORIGIN, access-control-request-method"])
def test_who_is_admitted_without_it_gets_no_key(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Connection` takes headers off a request on its way up: it is the same preflight all the same."""
    monkeypatch.setenv("ROUTE_KEY", "sk-of-the-route")
    lines = ("Origin: https://page.example", "Access-Control-Request-Method: POST", f"Connection: {named}")

    async def main() -> None:
        async with upstream(whole(b"{}")) as other:
            route = {"paths": "/b", "upstream": other.url, "key_env": "ROUTE_KEY", "add_headers": {"X-Team": "ours"}}
            async with proxy("http://127.0.0.1:1", client_token=TOKEN, route=[route]) as px:
                assert (await call(px, request("OPTIONS", "/b/x", None, *lines))).status == 200
                assert (await call(px, request("GET", "/b/x", None, *lines))).status == 401
        [got] = other.requests
        assert b"sk-of-the-route" not in got.raw_head
        assert (got.all("authorization"), got.all("x-team")) == ([], [])

    asyncio.run(main())


def test_the_token_is_not_needed_where_none_is_set_and_its_header_is_ours_all_the_same() -> None:
    async def main() -> None:
        async with upstream(whole(completion("Fine."))) as up, proxy(up.url) as px:
            lines = (f"Authorization: Bearer {TOKEN}", f"x-refusal-token: {TOKEN}")
            assert (await call(px, ask("x", *lines))).status == 200
            [got] = up.requests
            assert (got.all("authorization"), got.all("x-refusal-token")) == ([f"Bearer {TOKEN}"], [])

    asyncio.run(main())


def test_the_token_gets_the_routes_key_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUTE_KEY", "sk-of-the-route")

    async def main() -> None:
        async with upstream(whole(completion("Fine."))) as other:
            route = {"models": "m", "upstream": other.url, "key_env": "ROUTE_KEY"}
            async with proxy("http://127.0.0.1:1", client_token=TOKEN, route=[route]) as px:
                assert (await call(px, ask("x", f"Authorization: Bearer {TOKEN}"))).status == 200
                assert (await call(px, ask("x", f"x-refusal-token: {TOKEN}", "x-api-key: own"))).status == 200
                assert (await call(px, ask("x", "Authorization: Bearer sk-of-the-route"))).status == 401
        assert [got.all("authorization") for got in other.requests] == [["Bearer sk-of-the-route"]] * 2
        assert [got.all("x-api-key") for got in other.requests] == [[], []]

    asyncio.run(main())


def test_tokens_are_compared_as_bytes() -> None:
    with pytest.raises(OwnError):
        ClientToken("a").admit([(b"x-api-key", b"\xff")], b"key=%ff")
    assert ClientToken("a").admit([(b"x-api-key", b"a")], b"b=%ff") == ([], b"b=%ff")


# A proxy that adds keys, in public.

SERVE = """
import json, socket, sys
found = socket.getaddrinfo
names = {"in-public": "0.0.0.0", "at-home": "127.0.0.1"}
socket.getaddrinfo = lambda host, *args, **more: found(names.get(host, host), *args, **more)
from demur.config import Settings
from demur.proxy.server import serve
sys.exit(serve(Settings(**json.loads(sys.argv[1])), lambda *urls: sys.exit(7)))
"""


@pytest.mark.parametrize(
    ("host", "token", "code"),
    [
        ("in-public", None, 1),
        ("0.0.0.0", None, 1),
        ("::", None, 1),
        ("in-public", "t", 7),
        ("at-home", None, 7),
        ("localhost", None, 7),
        ("127.0.0.1", None, 7),
    ],
)
def test_the_server_looks_at_the_addresses_that_it_got(host: str, token: str | None, code: int) -> None:
    if host == "::" and not socket.has_ipv6:
        pytest.skip("no IPv6 on this machine")
    route = {"models": "m", "upstream": "http://127.0.0.1:1", "add_headers": {"authorization": "Bearer k3y"}}
    settings = {"host": host, "port": 0, "admin_port": 0, "client_token": token, "route": [route], "languages": ["en"]}

    async def main() -> tuple[int | None, bytes]:
        command = [sys.executable, "-c", SERVE, json.dumps(settings)]
        process = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-1)
        _, err = await asyncio.wait_for(process.communicate(), 60)
        return process.returncode, err

    returned, err = asyncio.run(main())
    assert returned == code, err
    if code == 1:
        assert err.decode().startswith(
            f"demur: route 1 adds a key, and host is {host}, which can be reached from beyond"
        )
        assert b"Set client_token, or a host such as 127.0.0.1" in err
    assert b"k3y" not in err


def test_the_command_names_file_and_settings(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "demur.toml"
    file.write_text('host = "0.0.0.0"\n[[route]]\nmodels = "m"\nupstream = "http://127.0.0.1:1"\nkey_env = "K"\n')
    assert demur(["serve", "--config", str(file)]) == 1
    err = capsys.readouterr().err
    assert f"{file}:5: route 1: key_env: the variable K is not set" in err
    assert f"{file}:1: route 1 ({file}:2) adds a key, and host is 0.0.0.0" in err
