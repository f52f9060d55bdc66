"""What a request's head must say: a method, a target, a version of HTTP/1, and which host."""

from __future__ import annotations

import asyncio

import pytest
from fake_upstream import END, call, chunk, completion, connection, head, proxy, read_answer, request, upstream, whole

FINE = whole(completion("Fine."))
BAD_HOSTS = (b"a\r\nhost: a", b"a b", b"a, b", b"a/b", b"http://a", b"u@a", b"a:b", b"a:1:2", b"[::1", b"\xe9")


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"GET /v1/x\r\n\r\n", (400, "malformed_request")),
        (b"GET /v1/x HTTP/0.9\r\nHost: h\r\n\r\n", (400, "malformed_request")),
        (b"GET /v1/x HTTP/2.0\r\nHost: h\r\n\r\n", (505, "http_version_not_supported")),
        (b"GET /v1/x HTTP/3.0\r\nHost: h\r\n\r\n", (505, "http_version_not_supported")),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (505, "http_version_not_supported")),
        (b"BREW /v1/x HTTP/1.1\r\nHost: h\r\n\r\n", (501, "method_not_supported")),
        (b"get /v1/x HTTP/1.1\r\nHost: h\r\n\r\n", (501, "method_not_supported")),
        (b"X" * 65 + b" /v1/x HTTP/1.1\r\nHost: h\r\n\r\n", (501, "method_not_supported")),
        (b"X" * 3000 + b" /v1/x HTTP/1.1\r\nHost: h\r\n\r\n", (501, "method_not_supported")),
        (b"X\x7f /v1/x HTTP/1.1\r\nHost: h\r\n\r\n", (400, "malformed_request")),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 " + b"\r\n\r\n", (400, "malformed_request")),
        (b"GET /v1/x HTTP/1.1\r\n\r\n", (400, "bad_host")),
        (b"GET http://h/v1/x HTTP/1.1\r\n\r\n", (400, "bad_host")),
        (b"GET /v1/x HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", (400, "bad_host")),
        (b"GET /v1/x HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", (400, "bad_host")),
        *((b"GET /v1/x HTTP/1.1\r\nHost: " + host + b"\r\n\r\n", (400, "bad_host")) for host in BAD_HOSTS),
    ],
)
def test_heads_that_are_refused(sent: bytes, expected: tuple[int, str]) -> None:
    async def run() -> None:
        async with upstream(FINE) as up, proxy(up.url) as px, connection(px) as (reader, writer), asyncio.timeout(10):
            writer.write(sent)
            answer = await read_answer(reader)
            error = answer.json()["error"]
            assert ((answer.status, error["code"]), error["message"][:7]) == (expected, "demur: ")
            assert await reader.read() == b""
            assert up.requests == []

    asyncio.run(run())


@pytest.mark.parametrize("cut", [None, 1, 2, 4, 5])
def test_the_method_that_is_not_known_is_named_where_it_is_seen(cut: int | None) -> None:
    async def run() -> None:
        sent = b"BREW /v1/x HTTP/1.1\r\nHost: h\r\n\r\n"
        async with upstream(FINE) as up, proxy(up.url) as px, connection(px) as (reader, writer), asyncio.timeout(10):
            writer.write(request("GET", "/v1/models"))
            assert (await read_answer(reader)).status == 200
            writer.write(sent[:cut])
            if cut:
                await asyncio.sleep(0.1)
                writer.write(sent[cut:])
            answer = await read_answer(reader)
            assert (answer.status, b"method_not_supported" in answer.body) == (501, True)
            assert (b"the method BREW is" in answer.body) is (cut is None or cut == 5)
            assert (b"the method of the request is" in answer.body) is (cut in (1, 2, 4))

    asyncio.run(run())


@pytest.mark.parametrize(
    "lines",
    [
        "GET /v1/x HTTP/1.1|Host:",
        "GET /v1/x HTTP/1.1|Host: a_b.example:80",
        "GET /v1/x HTTP/1.1|Host: [::1]:8787",
        "GET /v1/x HTTP/1.0|Accept: */*",
        "GET /v1/x HTTP/1.2|Host: h",
        "GET http://h/v1/x HTTP/1.1|Host: other",
    ],
)
def test_hosts_and_versions_that_pass(lines: str) -> None:
    async def run() -> None:
        script = head("application/json") + chunk(b"{}") + END
        async with upstream(script) as up, proxy(up.url) as px, connection(px) as (reader, writer), asyncio.timeout(10):
            writer.write(lines.replace("|", "\r\n").encode() + b"\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 200")
            assert answer.endswith(b"\r\n\r\n{}" if "HTTP/1.0" in lines else b"\r\n\r\n" + chunk(b"{}") + END)
            [got] = up.requests
            assert (got.target, got.all("host")) == ("/v1/x", [f"127.0.0.1:{up.port}"])
            assert b" HTTP/1.1\r\n" in got.raw_head

    asyncio.run(run())


@pytest.mark.parametrize(
    ("target", "up_to"),
    [
        ("http://h", "/v1/"),
        ("http://h?a=1", "/v1/?a=1"),
        ("http://h/?a=%20", "/v1/?a=%20"),
        ("http://h:1/x", "/v1/x"),
    ],
)
def test_a_target_in_absolute_form_is_its_path(target: str, up_to: str) -> None:
    async def run() -> None:
        async with upstream(FINE) as up, proxy(up.url) as px:
            assert (await call(px, request("GET", target))).status == 200
            assert (await call(px, request("GET", "http://h/-/healthy"))).json() == {"status": "ok"}
            assert [got.target for got in up.requests] == [up_to]

    asyncio.run(run())


def test_blanks_at_the_end_of_a_value_are_no_part_of_it() -> None:
    async def run() -> None:
        lines = ["Host: proxy ", "X-A: a b \t", "Authorization: Bearer right ", "X-Refusal-Token: right\t "]
        sized = "\r\n".join(["POST /v1/files HTTP/1.1", *lines, "Content-Length: 3 ", "", "abc"]).encode()
        chunked = "\r\n".join(["POST /v1/files HTTP/1.1", *lines, "Transfer-Encoding: chunked ", "", ""]).encode()
        async with upstream(FINE) as up, proxy(up.url, client_token="right") as px:
            for sent in (sized, chunked + chunk(b"abc") + END):
                assert (await call(px, sent)).status == 200
            for got in up.requests:
                assert (got.body, got.all("x-a")) == (b"abc", ["a b"])

    asyncio.run(run())
