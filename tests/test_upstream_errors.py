"""What is said of an upstream that ends the connection: why, as far as it can be known, and never where in it."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import aiohttp
import httpx
import pytest
import trustme
import uvloop

from demur.proxy.tls import client_context
from demur.proxy.upstream import AiohttpTransport
from demur.proxy.upstream_errors import translate

LOOPS = [None, uvloop.new_event_loop]
HINT = "if it asks for a client certificate, client_cert names it"


@contextmanager
def server(context: ssl.SSLContext) -> Iterator[int]:
    """Its port. Who can't show a certificate is told so by an alert, which no reset overtakes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with suppress(OSError):
            while True:
                plain, _ = listener.accept()
                rest = socket.socket(fileno=os.dup(plain.fileno()))
                with rest, suppress(OSError):
                    with suppress(OSError), context.wrap_socket(plain, server_side=True) as connection:
                        connection.recv(1)
                    rest.shutdown(socket.SHUT_WR)
                    rest.settimeout(10)
                    while rest.recv(65536):
                        pass

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(20)


@pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("size", [0, 10, 1_000_000])
def test_who_asks_for_a_certificate_in_vain_is_said_to_and_the_url_is_not(
    loop: Callable[[], asyncio.AbstractEventLoop] | None, version: ssl.TLSVersion, size: int, tmp_path: Path
) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost").configure_cert(context)
    ca.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    context.maximum_version = version

    async def main(port: int) -> str:
        transport = AiohttpTransport(tls=client_context(tmp_path / "ca.pem"))
        request = httpx.Request("POST", f"https://localhost:{port}/v1/models?key=s3cret", content=b"x" * size)
        with pytest.raises(httpx.TransportError) as caught:
            await asyncio.wait_for(transport.handle_async_request(request), 20)
        await transport.aclose()
        return str(caught.value)

    with server(context) as port, asyncio.Runner(loop_factory=loop) as runner:
        for _ in range(5):  # which of two faults is seen first is a race
            message = runner.run(main(port))
            assert message.endswith(HINT), message
            assert f"localhost:{port}" in message
            assert "connection" in message
            for hidden in ("s3cret", "models", "https:"):
                assert hidden not in message


def faults() -> Iterator[BaseException]:
    """aiohttp's, whose own words hold the URL of the request."""
    url = "https://h:1/v1?key=s3cret"
    for cause in (None, ConnectionResetError(104, f"reset {url}"), aiohttp.ClientConnectionResetError(url)):
        for number in (None, 32):
            fault = aiohttp.ClientOSError(number, f"Can not write request body for {url}")
            fault.__cause__ = cause
            yield fault
    yield aiohttp.ClientConnectionError(f"Connection lost: {url}")
    yield aiohttp.InvalidURL(url)
    yield aiohttp.TooManyRedirects(None, (), message=url)  # type: ignore[arg-type]
    yield aiohttp.ServerDisconnectedError(url)
    yield aiohttp.ClientPayloadError(url)
    yield aiohttp.ServerTimeoutError(url)
    yield ValueError(url)
    yield OSError(url)


@pytest.mark.parametrize("fault", list(faults()), ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("in_body", [True, False])
def test_no_text_of_the_library_reaches_a_message(fault: BaseException, tls: bool, in_body: bool) -> None:
    message = str(translate(fault, "h:1", tls=tls, in_body=in_body))
    assert "h:1" in message
    assert "s3cret" not in message
    assert "https:" not in message


def test_a_reset_has_a_reason_and_without_tls_nothing_of_certificates() -> None:
    fault = aiohttp.ClientOSError(104, "Can not write request body for http://h:1/v1")
    fault.__cause__ = ConnectionResetError(104, "Connection reset by peer")
    assert str(translate(fault, "h:1")) == "h:1 broke the connection: Connection reset by peer"
    assert str(translate(fault, "h:1", tls=True)) == f"h:1 broke the connection: Connection reset by peer; {HINT}"
