"""Connections to upstreams: outbound proxies, private authorities, client certificates, IPv6. All on real sockets."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from fake_upstream import Answer, ask, call, completion, proxy, request, upstream, whole

from demur.proxy.outbound import OutboundError, outbound_proxy
from demur.proxy.tls import CertificateError, client_context
from demur.proxy.urls import Base

FINE = whole(completion("Fine."))
KEY = ("Authorization: Bearer sk-of-the-client",)


@dataclass
class Authority:
    """A private certificate authority; `file` is its certificate."""

    ca: trustme.CA
    folder: Path
    file: Path

    def server(self, *names: str, asks: bool = False) -> ssl.SSLContext:
        """For a server that is called by one of `names`, and `asks` for a certificate of ours."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*names).configure_cert(context)
        if asks:
            context.verify_mode = ssl.CERT_REQUIRED
            self.ca.configure_trust(context)
        return context

    def client(self) -> tuple[Path, Path]:
        """A client's certificate and its key."""
        cert, key = self.folder / "client.pem", self.folder / "client.key"
        issued = self.ca.issue_cert("client@team.test")
        issued.cert_chain_pems[0].write_to_path(cert)
        issued.private_key_pem.write_to_path(key)
        return cert, key


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    ca = trustme.CA()
    file = tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(file)
    return Authority(ca, tmp_path, file)


@dataclass
class Outbound:
    """A forward proxy; `heads` are the requests that it got."""

    port: int = 0
    heads: list[str] = field(default_factory=list)


@asynccontextmanager
async def outbound(
    leads_to: int, *, answer: bytes = b"HTTP/1.1 200 fine\r\n\r\n", tls: Any = None
) -> AsyncIterator[Outbound]:
    """Answers each CONNECT with `answer` and, where that is a 200, leads to the port `leads_to`, whatever it asks for.

    Without an answer it hangs. Any other request gets a completion.
    """
    got = Outbound()
    tasks: set[asyncio.Task[None]] = set()

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            got.heads.append(head)
            writer.write(answer if head.startswith("CONNECT ") else FINE)
            if not answer:
                await reader.read()
            if b" 200 " in answer and head.startswith("CONNECT "):
                up_reader, up_writer = await asyncio.open_connection("127.0.0.1", leads_to)
                await asyncio.gather(pipe(reader, up_writer), pipe(up_reader, writer))
        writer.close()
        tasks.discard(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    got.port = server.sockets[0].getsockname()[1]
    try:
        yield got
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


def asked(url: str, *, sent: bytes = ask("x", *KEY), **settings: Any) -> Answer:
    """What a client gets through demur from `url`."""

    async def main() -> Answer:
        async with proxy(url, **settings) as px:
            return await call(px, sent)

    return asyncio.run(main())


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


# Outbound proxies.


def chosen(url: str) -> str | None:
    found = outbound_proxy(Base.parse(url))
    return str(found) if found else None


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ({"https_proxy": "http://p:1", "HTTPS_PROXY": "http://q:1"}, "http://p:1"),
        ({"https_proxy": "", "HTTPS_PROXY": "http://q:1"}, None),
        ({"HTTPS_PROXY": "p:1"}, "http://p:1"),
        ({"HTTP_PROXY": "http://p:1"}, None),
        ({"ALL_PROXY": "http://p:1"}, "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "HTTPS_PROXY": "http://q:1"}, "http://q:1"),
        ({"ALL_PROXY": "socks5://p:1", "HTTPS_PROXY": "http://q:1"}, "http://q:1"),
        ({"HTTPS_PROXY": "https://u:p@p:1"}, "https://u:p@p:1"),
        ({"HTTPS_PROXY": "http://[::1]:1"}, "http://[::1]:1"),
        ({"HTTPS_PROXY": "http://p"}, "http://p"),
    ],
)
def test_the_proxy_is_chosen_by_the_scheme(variables: dict[str, str], expected: str | None) -> None:
    with environment(**variables):
        assert chosen("https://api.example/v1") == expected


@pytest.mark.parametrize(
    ("no_proxy", "url", "direct"),
    [
        ("*", "https://api.example/v1", True),
        (" a, * ", "https://api.example/v1", True),
        ("api.example", "https://api.example/v1", True),
        ("API.Example", "https://api.example./v1", True),
        ("example", "https://api.example/v1", True),
        (".example", "https://api.example/v1", True),
        ("*.example", "https://api.example/v1", True),
        ("pi.example", "https://api.example/v1", False),
        ("other, api.example", "https://api.example/v1", True),
        ("", "https://api.example/v1", False),
        (",,", "https://api.example/v1", False),
        ("api.example:443", "https://api.example/v1", True),
        ("api.example:8443", "https://api.example/v1", False),
        ("api.example:8443", "https://api.example:8443/v1", True),
        ("10.0.0.0/8", "https://10.1.2.3/v1", True),
        ("10.0.0.0/8", "https://11.1.2.3/v1", False),
        ("10.1.2.3", "https://10.1.2.3:8443/v1", True),
        ("10.1.2.3:8443", "https://10.1.2.3:8443/v1", True),
        ("10.1.2.3:1", "https://10.1.2.3:8443/v1", False),
        ("::1", "https://[::1]:8443/v1", True),
        ("[::1]", "https://[::1]:8443/v1", True),
        ("[::1]:8443", "https://[::1]:8443/v1", True),
        ("[::1]:1", "https://[::1]:8443/v1", False),
        ("fd00::/8", "https://[fd12::3]/v1", True),
        ("fd00::/8", "https://[fe80::3]/v1", False),
        ("10.0.0.0/8", "https://api.example/v1", False),
        ("nonsense/8", "https://10.1.2.3/v1", False),
    ],
)
def test_no_proxy(no_proxy: str, url: str, direct: bool) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        with environment(HTTPS_PROXY="http://p:1", **{name: no_proxy}):
            assert (chosen(url) is None) == direct


@pytest.mark.parametrize(
    ("proxy_url", "what"),
    [
        ("socks5://u:s3cret@p:1", "it is a socks5 proxy"),
        ("ftp://p", "it is a ftp proxy"),
        ("http://u:s3cret@p:99999", "it is not a URL"),
        ("http://", "it is not a URL"),
        ("http://u:s3cret@", "it is not a URL"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_named_without_its_credentials(proxy_url: str, what: str) -> None:
    for name, url in (("HTTPS_PROXY", "https://api.example/v1"), ("ALL_PROXY", "http://api.example/v1")):
        with environment(**{name: proxy_url}), pytest.raises(OutboundError) as info:
            chosen(url)
        assert str(info.value) == f"{name} can't be used for api.example: {what}; http and https proxies can"
    with environment(HTTPS_PROXY=proxy_url):
        answer = asked("https://api.invalid/v1")
        assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_unreachable")
        assert what in answer.json()["error"]["message"]
        assert b"s3cret" not in answer.body


def test_w82_a_tunnel_through_a_proxy_and_a_private_authority(authority: Authority) -> None:
    async def main() -> None:
        async with upstream(FINE, ssl=authority.server("api.example")) as up, outbound(up.port) as out:
            with environment(HTTPS_PROXY=f"http://me:p%40ss@127.0.0.1:{out.port}", NO_PROXY="other.example,10.0.0.0/8"):
                async with proxy("https://api.example/v1", ca_file=authority.file) as px:
                    for _ in range(3):
                        answer = await call(px, ask("x", *KEY, "Proxy-Authorization: Basic of-the-client"))
                        assert (answer.status, answer.get("x-refusal-verdict")) == (200, "answer")
            [head] = out.heads
            credentials = base64.b64encode(b"me:p@ss").decode()
            assert head.startswith("CONNECT api.example:443 HTTP/1.1\r\n")
            assert f"Proxy-Authorization: Basic {credentials}\r\n" in head
            assert {line.partition(":")[0] for line in head.split("\r\n")[1:-2]} == {"Host", "Proxy-Authorization"}
            assert "of-the-client" not in head
            assert [got.target for got in up.requests] == ["/v1/chat/completions"] * 3
            for got in up.requests:
                assert got.all("proxy-authorization") == []
                assert got.all("host") == ["api.example"]
                assert got.all("authorization") == ["Bearer sk-of-the-client"]
            assert up.connections == 1

    asyncio.run(main())


def test_w82_a_proxy_that_speaks_tls_itself(authority: Authority) -> None:
    async def main() -> None:
        server = authority.server("api.example")
        async with upstream(FINE, ssl=server) as up, outbound(up.port, tls=authority.server("127.0.0.1")) as out:
            with environment(HTTPS_PROXY=f"https://127.0.0.1:{out.port}"):
                async with proxy("https://api.example/v1", ca_file=authority.file) as px:
                    assert (await call(px, ask("x", *KEY))).status == 200
            assert out.heads[0].startswith("CONNECT api.example:443 ")

    asyncio.run(main())


def test_w82_a_plain_upstream_through_a_proxy() -> None:
    async def main() -> None:
        async with outbound(0) as out:
            with environment(HTTP_PROXY=f"http://me:pass@127.0.0.1:{out.port}"):
                async with proxy("http://api.invalid:81/v1") as px:
                    assert (await call(px, ask("x", *KEY))).get("x-refusal-verdict") == "answer"
            [head] = out.heads
            assert head.startswith("POST http://api.invalid:81/v1/chat/completions HTTP/1.1\r\n")
            assert "Proxy-Authorization: Basic bWU6cGFzcw==\r\n" in head

    asyncio.run(main())


def test_w82_whom_no_proxy_names_is_reached_directly(authority: Authority) -> None:
    """Counted at the proxy and at the upstream, whose port is its own each time."""
    direct = ["*", "localhost", "LOCALHOST", ".localhost", "a.example, localhost", "localhost:{port}", "*.localhost"]
    through = ["", "a.example", "ocalhost", "localhost:1", "127.0.0.1", "localhost.example", "a.localhost"]
    addresses = {"127.0.0.1": 0, "127.0.0.0/8": 0, "127.0.0.1:{port}": 0, "localhost": 1, "10.0.0.0/8": 1, "::1": 1}
    cases = [("localhost", name, 0) for name in direct] + [("localhost", name, 1) for name in through]
    cases += [("127.0.0.1", name, count) for name, count in addresses.items()]

    async def main() -> None:
        tls = authority.server("localhost", "127.0.0.1")
        async with upstream(FINE, ssl=tls) as up, outbound(up.port) as out:
            for number, (host, name, count) in enumerate(cases, 1):
                with environment(HTTPS_PROXY=f"http://127.0.0.1:{out.port}", NO_PROXY=name.format(port=up.port)):
                    async with proxy(f"https://{host}:{up.port}/v1", ca_file=authority.file) as px:
                        assert (await call(px, ask("x", *KEY))).get("x-refusal-verdict") == "answer"
                assert (host, name, len(out.heads), len(up.requests)) == (host, name, count, number)
                assert all(head.startswith(f"CONNECT {host}:{up.port} ") for head in out.heads)
                out.heads.clear()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "status", "code", "words"),
    [
        (b"HTTP/1.1 407 no\r\nContent-Length: 0\r\n\r\n", 502, "upstream_unreachable", "refused to connect to api.exa"),
        (b"HTTP/1.1 403 no\r\nContent-Length: 6\r\n\r\ns3cret", 502, "upstream_unreachable", "status 403"),
        (b"nonsense\r\n\r\n", 502, "upstream_disconnected", "api.example"),
        (b"", 504, "connect_timeout", "no connection to api.example in time"),
    ],
    ids=["wants credentials", "refuses", "talks nonsense", "hangs"],
)
def test_a_proxy_that_does_not_connect(answer: bytes, status: int, code: str, words: str) -> None:
    async def main() -> None:
        async with outbound(0, answer=answer) as out:
            with environment(HTTPS_PROXY=f"http://me:s3cret@127.0.0.1:{out.port}"):
                async with proxy("https://api.example/v1", connect_timeout=0.5) as px:
                    got = await call(px, ask("x", *KEY))
            assert (got.status, got.json()["error"]["code"]) == (status, code)
            assert words in got.json()["error"]["message"]
            assert b"s3cret" not in got.body
            assert len(out.heads) == 1

    asyncio.run(main())


def test_a_proxy_that_is_not_there_is_named_as_the_cause() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with environment(HTTPS_PROXY=f"http://me:s3cret@127.0.0.1:{port}"):
        answer = asked("https://api.example/v1")
    assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_unreachable")
    assert "no connection to the outbound proxy for api.example" in answer.json()["error"]["message"]
    assert b"s3cret" not in answer.body


# Certificates.


def test_w82_an_unknown_authority_is_refused_and_the_settings_or_the_environment_make_it_known(
    authority: Authority, tmp_path: Path, require_tool: Callable[[str], str]
) -> None:
    openssl = require_tool("openssl")  # tells the name by which a certificate is found in a folder

    async def main() -> None:
        folder = tmp_path / "certs"
        folder.mkdir()
        async with upstream(FINE, ssl=authority.server("localhost")) as up:
            url = f"https://localhost:{up.port}/v1"

            async def status(**settings: Any) -> int:
                async with proxy(url, **settings) as px:
                    answer = await call(px, ask("x", *KEY))
                    if answer.status == 502:
                        assert (
                            f"the certificate of localhost:{up.port} is not valid" in answer.json()["error"]["message"]
                        )
                    return answer.status

            assert await status() == 502
            assert up.requests == []  # nothing is sent to whom we do not trust
            assert await status(ca_file=authority.file) == 200
            with environment(SSL_CERT_FILE=str(authority.file)):
                assert await status() == 200
            command = [openssl, "x509", "-hash", "-noout", "-in", str(authority.file)]
            process = await asyncio.create_subprocess_exec(*command, stdout=-1)
            name = (await process.communicate())[0].decode().strip()
            (folder / f"{name}.0").write_bytes(authority.file.read_bytes())
            with environment(SSL_CERT_DIR=str(folder), SSL_CERT_FILE=str(tmp_path / "none.pem")):
                assert await status() == 200
            with environment(SSL_CERT_FILE=str(authority.file)):
                other = tmp_path / "other.pem"
                trustme.CA().cert_pem.write_to_path(other)
                assert await status(ca_file=other) == 502  # the setting is in place of the environment

    asyncio.run(main())


def test_a_certificate_for_another_name_is_refused(authority: Authority) -> None:
    async def main() -> None:
        async with upstream(FINE, ssl=authority.server("other.example")) as up:
            async with proxy(f"https://127.0.0.1:{up.port}/v1", ca_file=authority.file) as px:
                answer = await call(px, ask("x", *KEY))
            assert (answer.status, up.requests) == (502, [])
            assert "not valid for '127.0.0.1'" in answer.json()["error"]["message"]

    asyncio.run(main())


def test_a_client_certificate_is_shown_to_who_asks(authority: Authority, tmp_path: Path) -> None:
    cert, key = authority.client()
    both = tmp_path / "both.pem"
    both.write_bytes(cert.read_bytes() + key.read_bytes())

    async def main() -> None:
        async with upstream(FINE, ssl=authority.server("localhost", asks=True)) as up:
            url = f"https://localhost:{up.port}/v1"
            known: dict[str, Any] = {"ca_file": authority.file}
            for ours in ({"client_cert": cert, "client_key": key}, {"client_cert": both}):
                async with proxy(url, **(known | ours)) as px:
                    assert (await call(px, ask("x", *KEY))).get("x-refusal-verdict") == "answer"
            async with proxy(url, **known) as px:
                answer = await call(px, ask("x", *KEY))
                assert answer.status == 502
                assert (await px.end()).end == "upstream_error"
            assert len(up.requests) == 2

    asyncio.run(main())


def test_files_that_cannot_be_used_are_named(authority: Authority, tmp_path: Path) -> None:
    cert, key = authority.client()
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    locked, other = tmp_path / "locked.key", tmp_path / "other.key"
    encryption = serialization.BestAvailableEncryption(b"password")
    locked.write_bytes(private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    authority.ca.issue_cert("x").private_key_pem.write_to_path(other)
    (tmp_path / "text.pem").write_text("not a certificate")
    for files, words in (
        ((tmp_path / "text.pem",), f"ca_file: {tmp_path}/text.pem can't be used: "),
        ((tmp_path / "none.pem",), f"ca_file: {tmp_path}/none.pem can't be used: No such file or directory"),
        ((None, cert), f"client_cert: {cert} can't be used: "),
        ((None, key), f"client_cert: {key} can't be used: "),
        ((None, cert, locked), f"client_cert: {cert} with client_key: {locked} can't be used: "),
        (
            (None, cert, other),
            f"client_cert: {cert} with client_key: {other} can't be used: [X509: KEY_VALUES_MISMATCH",
        ),
    ):
        with pytest.raises(CertificateError) as info:
            client_context(*files)
        assert str(info.value).startswith(words)


# Addresses, and what is not sent.


def test_w83_an_upstream_on_ipv6_keeps_its_brackets() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 on this machine")

    async def main() -> None:
        hosts: list[str] = []

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            hosts.extend(line for line in head.split("\r\n") if line.lower().startswith("host:"))
            writer.write(FINE)
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(connected, "::1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with proxy(f"http://[::1]:{port}/v1") as px:
                assert (await call(px, request("GET", "/v1/models"))).status == 200
                exchange = await px.end()
                assert (exchange.upstream_host, exchange.upstream_port) == ("::1", port)
        assert hosts == [f"host: [::1]:{port}"]

    asyncio.run(main())


def test_no_credential_comes_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither from a netrc file, nor from the upstream's URL."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password s3cret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_bytes(netrc.read_bytes())

    async def main() -> None:
        async with upstream(FINE) as up:
            for url in (up.url, up.url.replace("//", "//me:s3cret@")):
                async with proxy(url) as px:
                    assert (await call(px, ask("x"))).status == 200
        assert [got.all("authorization") for got in up.requests] == [[], []]
        assert all("s3cret" not in got.raw_head.decode() for got in up.requests)

    asyncio.run(main())


def test_each_upstream_has_connections_of_its_own() -> None:
    """What one upstream sets, the next never sees: no cookie, no connection, no key."""

    async def main() -> None:
        first = whole(completion("Fine."), "application/json", "Set-Cookie: session=of-the-first; Path=/")
        with ExitStack() as stack:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setenv("FIRST_KEY", "k1")
            patch.setenv("SECOND_KEY", "k2")
            async with upstream(first) as one, upstream(FINE) as two:
                routes = [
                    {"models": "one", "upstream": one.url, "key_env": "FIRST_KEY"},
                    {"models": "two", "upstream": two.url, "key_env": "SECOND_KEY", "key_header": "x-api-key"},
                ]
                async with proxy("http://127.0.0.1:1", route=routes) as px:
                    for model in ("one", "two", "one", "two"):
                        assert (await call(px, ask("x", model=model))).status == 200
                assert (one.connections, two.connections) == (1, 1)
                heads = [got.raw_head.decode() for got in two.requests]
                assert [got.all("authorization") for got in one.requests] == [["Bearer k1"]] * 2
                assert [got.all("x-api-key") for got in two.requests] == [["k2"]] * 2
                assert not [head for head in heads if "k1" in head or "cookie" in head.lower()]
                assert not [got for got in one.requests if got.all("cookie")]

    asyncio.run(main())
