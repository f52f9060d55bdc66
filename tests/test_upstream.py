"""The contract of the transport, run over ours and, where that one can, over httpx's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import httpx
import pytest
from fake_upstream import END, FIN, RST, Upstream, chunk, head, upstream, whole

from demur.proxy.upstream import MAX_HEADER_BYTES, AiohttpTransport

OURS = AiohttpTransport
BOTH = pytest.mark.parametrize("make", [AiohttpTransport, httpx.AsyncHTTPTransport])
Make = Callable[..., httpx.AsyncBaseTransport]


class Pieces(httpx.AsyncByteStream):
    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece


def request(
    url: str,
    method: str = "POST",
    target: bytes = b"/v1/x",
    headers: tuple[tuple[bytes, bytes], ...] = (),
    body: bytes | httpx.AsyncByteStream = b"",
    timeout: dict[str, float] | None = None,
) -> httpx.Request:
    stream = httpx.ByteStream(body) if isinstance(body, bytes) else body
    netloc = httpx.URL(url).netloc
    extensions = {"target": target, "timeout": timeout or {"connect": 5.0, "read": 5.0}}
    return httpx.Request(method, url, headers=[(b"host", netloc), *headers], stream=stream, extensions=extensions)


async def read(response: httpx.Response) -> list[bytes]:
    assert isinstance(response.stream, httpx.AsyncByteStream)
    try:
        return [piece async for piece in response.stream]
    finally:
        await response.stream.aclose()


def run(test: Callable[[Upstream, httpx.AsyncBaseTransport], Any], make: Make, *steps: Any, **options: Any) -> None:
    async def main() -> None:
        async with upstream(*steps, **options) as up:
            transport = make()
            try:
                async with asyncio.timeout(20):
                    await test(up, transport)
            finally:
                await transport.aclose()

    asyncio.run(main())


@BOTH
def test_the_target_goes_out_as_given(make: Make) -> None:
    async def test(up: Upstream, transport: httpx.AsyncBaseTransport) -> None:
        targets = [b"/a%7Eb/../c;d?q=%zz&x=a+b|c", b"//double", b"/v1/m:generateContent?alt=sse"]
        for target in targets:
            await read(await transport.handle_async_request(request(up.url, "GET", target)))
        assert [got.target.encode() for got in up.requests] == targets

    run(test, make, whole(b"{}"))


@BOTH
def test_headers_stay_as_they_are_both_ways(make: Make) -> None:
    async def test(up: Upstream, transport: httpx.AsyncBaseTransport) -> None:
        sent = ((b"x-a", b"1"), (b"x-a", b"2"), (b"authorization", b"Bearer k"), (b"x-utf8", "é".encode()))
        response = await transport.handle_async_request(request(up.url, "GET", headers=sent))
        await read(response)
        (got,) = up.requests
        assert sorted(got.headers) == sorted(
            [("host", f"127.0.0.1:{up.port}"), *((name.decode(), value.decode("latin-1")) for name, value in sent)]
        )
        cookies = [value for name, value in response.headers.raw if name.lower() == b"set-cookie"]
        assert cookies == [b"a=1", b"b=2"]

    run(test, make, whole(b"{}", "application/json", "Set-Cookie: a=1", "Set-Cookie: b=2"))


def test_nothing_is_added() -> None:
    async def test(up: Upstream, transport: httpx.AsyncBaseTransport) -> None:
        for method in ("GET", "POST"):
            await read(await transport.handle_async_request(request(up.url, method)))
        assert [name for name, _ in up.requests[0].headers] == ["host"]
        assert sorted(name for name, _ in up.requests[1].headers) == ["content-length", "host"]

    run(test, OURS, whole(b"{}"))


def test_no_cookie_is_kept() -> None:
    async def test(up: Upstream, transport: httpx.AsyncBaseTransport) -> None:
        for _ in range(2):
            await read(await transport.handle_async_request(request(up.url)))
        assert up.requests[1].all("cookie") == []
        assert up.connections == 1

    run(test, OURS, whole(b"{}", "text/plain", "Set-Cookie: a=1; Path=/"))


@BOTH
def test_bodies_go_up_in_one_framing(make: Make) -> None:
    big = bytes(range(256)) * 8000

    async def test(up: Upstream, transport: httpx.AsyncBaseTransport) -> None:
        length = ((b"content-length", str(len(big)).encode()),)
        await read(await transport.handle_async_request(request(up.url, headers=length, body=big)))
        declared = ((b"content-length", b"6"),)
        await read(await transport.handle_async_request(request(up.url, headers=declared, body=Pieces(b"abc", b"def"))))
        chunked = ((b"transfer-encoding", b"chunked"),)
        await read(await transport.handle_async_request(request(up.url, headers=chunked, body=Pieces(b"abc", b"def"))))
        assert [got.body for got in up.requests] == [big, b"abcdef", b"abcdef"]
        assert [got.all("content-length") for got in up.requests] == [[str(len(big))], ["6"], []]
        assert [got.all("transfer-encoding") for got in up.requests] == [[], [], ["chunked"]]

    run(test, make, whole(b"{}"))


@BOTH
def test_bodies_come_raw_and_piece_by_piece(make: Make) -> None:
    async def test(up: Upstream, transport: httpx.AsyncBaseTransport) -> None:
        response = await transport.handle_async_request(request(up.url))
        assert await read(response) == [b"one", b"two", b"\x1f\x8bnot gzip"]

    steps = head("text/event-stream", "Content-Encoding: gzip"), chunk(b"one"), 0.1, chunk(b"two"), 0.1
    run(test, make, *steps, chunk(b"\x1f\x8bnot gzip"), END)


def test_large_heads_pass() -> None:
    async def test(up: Upstream, transport: httpx.AsyncBaseTransport) -> None:
        response = await transport.handle_async_request(request(up.url))
        assert len(response.headers["x-policy"]) == 100_000
        assert len(response.headers) > 300
        await read(response)

    many = [f"x-{number}: {number}" for number in range(300)]
    assert MAX_HEADER_BYTES > 100_000
    run(test, OURS, whole(b"{}", "text/plain", "x-policy: " + "p" * 100_000, *many))


@BOTH
@pytest.mark.parametrize(
    "steps",
    [
        (head(length=500), b"x" * 200, FIN),
        (head(), chunk(b"x"), FIN),
        (head(), chunk(b"x"), 0.05, RST),
        (head(), b"nonsense\r\n"),
    ],
    ids=["short", "no-end", "reset", "framing"],
)
def test_a_broken_body_is_an_error(make: Make, steps: Any) -> None:
    async def test(up: Upstream, transport: httpx.AsyncBaseTransport) -> None:
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            await read(await transport.handle_async_request(request(up.url)))

    run(test, make, *steps)


HALF = {
    "the connection": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf",
    "a length": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
}


@pytest.mark.parametrize(
    ("framing", "end"),
    [("the connection", RST), *((framing, end) for framing in ("a length", "chunks") for end in (RST, FIN))],
)
def test_half_a_body_never_looks_whole_and_is_not_lost(framing: str, end: Any) -> None:
    async def test(up: Upstream, transport: httpx.AsyncBaseTransport) -> None:
        response = await transport.handle_async_request(request(up.url))
        await asyncio.sleep(0.2)  # a slow reader: the fault is known before anything is read
        assert isinstance(response.stream, httpx.AsyncByteStream)
        stream = response.stream.__aiter__()
        assert await anext(stream) == b"half"
        with pytest.raises(httpx.TransportError):
            await anext(stream)
        await response.stream.aclose()

    run(test, OURS, HALF[framing], 0.1, end)


@BOTH
def test_a_post_is_never_repeated(make: Make) -> None:
    async def test(up: Upstream, transport: httpx.AsyncBaseTransport) -> None:
        body = (b"content-length", b"2")
        await read(await transport.handle_async_request(request(up.url, headers=(body,), body=b"{}")))
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            await transport.handle_async_request(request(up.url, headers=(body,), body=b"{}"))
        assert (len(up.requests), up.connections) == (2, 1)

    run(test, make, whole(b"{}"), then=[(FIN,)])


@pytest.mark.parametrize(
    "stray",
    [
        whole(b"stray"),
        head(length=5),
        b"HTTP/1.1 2",
        b"\r\n",
        whole(b"", "text/plain", "Connection: close", status="408 Request Timeout"),
        FIN,
    ],
    ids=["answer", "head", "part of a head", "line end", "notice", "end"],
)
def test_a_connection_on_which_something_came_while_idle_is_not_used_again(stray: Any) -> None:
    async def test(up: Upstream, transport: httpx.AsyncBaseTransport) -> None:
        for expected in (b"one", b"two", b"two"):
            response = await transport.handle_async_request(request(up.url))
            assert (response.status_code, b"".join(await read(response))) == (200, expected)
            await asyncio.sleep(0.12)
        assert up.connections == 2

    run(test, OURS, whole(b"one"), 0.05, stray, then=[(whole(b"two"),)])


@pytest.mark.parametrize(
    ("method", "first"),
    [
        ("GET", head(length=3) + b"one" + whole(b"stray")),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n" + whole(b"stray")),
        ("GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nstray"),
        ("HEAD", whole(b"stray")),
    ],
    ids=["two answers", "two heads", "204 with a body", "HEAD with a body"],
)
@pytest.mark.parametrize("cut", [0, 20, -30, -1])
def test_what_follows_an_answer_is_not_the_next_ones(method: str, first: bytes, cut: int) -> None:
    async def test(up: Upstream, transport: httpx.AsyncBaseTransport) -> None:
        with suppress(httpx.RemoteProtocolError):  # what comes at once with the head spoils it
            await read(await transport.handle_async_request(request(up.url, method)))
        await asyncio.sleep(0.1)
        assert await read(await transport.handle_async_request(request(up.url))) == [b"two"]
        assert up.connections == 2

    run(test, OURS, first[:cut], 0.02, first[cut:], then=[(whole(b"two"),)])


def test_limits() -> None:
    async def test(up: Upstream, transport: httpx.AsyncBaseTransport) -> None:
        with pytest.raises(httpx.ReadTimeout, match="did not send an answer in time"):
            await transport.handle_async_request(request(up.url, timeout={"connect": 5.0, "read": 0.2}))
        with pytest.raises(httpx.ReadTimeout, match="did not send the next bytes in time"):
            await read(await transport.handle_async_request(request(up.url)))

    run(test, lambda: AiohttpTransport(idle_timeout=0.2), 5.0, then=[(head(), chunk(b"x"), 5.0)])


def test_connect_timeout_covers_the_tls_handshake() -> None:
    async def test(up: Upstream, transport: httpx.AsyncBaseTransport) -> None:
        silent = up.url.replace("http:", "https:")
        with pytest.raises(httpx.ConnectTimeout):
            await transport.handle_async_request(request(silent, timeout={"connect": 0.2, "read": 5.0}))

    run(test, OURS, 5.0)


@BOTH
def test_cancelling_and_closing_early_drop_the_connection(make: Make) -> None:
    async def test(up: Upstream, transport: httpx.AsyncBaseTransport) -> None:
        waiting = asyncio.ensure_future(transport.handle_async_request(request(up.url)))
        while not up.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait_for(up.left.wait(), 5)
        up.left.clear()
        response = await transport.handle_async_request(request(up.url))
        assert isinstance(response.stream, httpx.AsyncByteStream)
        await response.stream.aclose()
        await asyncio.wait_for(up.left.wait(), 5)

    run(test, make, 10.0, then=[(head(), chunk(b"x"), 10.0)])


def test_errors_hold_no_secrets() -> None:
    async def test(up: Upstream, transport: httpx.AsyncBaseTransport) -> None:
        secret = (b"authorization", b"Bearer sk-secret")
        for url in (up.url, "http://127.0.0.1:1/", "http://nowhere.invalid/", "https://127.0.0.1:1/"):
            with pytest.raises(httpx.TransportError) as caught:
                await transport.handle_async_request(request(url, target=b"/x?key=sk-secret", headers=(secret,)))
            assert "secret" not in str(caught.value)
            assert httpx.URL(url).host in str(caught.value)

    run(test, OURS, RST)


def test_the_outbound_proxy_is_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:  # W82, in part
    async def test(up: Upstream, transport: httpx.AsyncBaseTransport) -> None:
        monkeypatch.setenv("http_proxy", f"http://user:pass@127.0.0.1:{up.port}")
        monkeypatch.setenv("no_proxy", "127.0.0.1,direct.test")
        await read(await transport.handle_async_request(request("http://api.invalid/v1", target=b"/v1/x?a=1")))
        (got,) = up.requests
        assert got.target == "http://api.invalid/v1/x?a=1"
        assert got.all("proxy-authorization") == ["Basic dXNlcjpwYXNz"]
        await read(await transport.handle_async_request(request(up.url)))
        assert up.requests[1].target == "/v1/x"
        monkeypatch.setenv("https_proxy", f"127.0.0.1:{up.port}")
        with pytest.raises(httpx.ProxyError):
            await transport.handle_async_request(request("https://other.invalid/v1"))
        assert (up.requests[2].method, up.requests[2].target) == ("CONNECT", "other.invalid:443")

    run(test, OURS, whole(b"{}"), then=[(whole(b"{}"),), (whole(b"no", status="403 Forbidden"),)])
