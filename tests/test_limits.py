"""Load and slow clients: what is turned away, with what words, and what never is."""

from __future__ import annotations

import asyncio
import re
import resource
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fake_upstream import (
    DONE,
    END,
    Answer,
    Proxy,
    Upstream,
    ask,
    call,
    chunk,
    completion,
    connection,
    event,
    head,
    proxy,
    read_answer,
    request,
    say,
    upstream,
    whole,
)

from demur.config import describe
from demur.proxy import errors
from demur.proxy.metrics import Metrics

FINE = whole(completion("Fine."))
STOP = event({}, "stop")
#: Seconds of `client_timeout` in these tests, and of a wait that is sure to be longer.
SHORT, LONG = 0.3, 0.6
#: Seconds of it where parts of it are slept through.
ROOMY = 2.0


def limited(test: Callable[[Proxy, Upstream], Awaitable[None]], *steps: Any, **settings: Any) -> None:
    async def main() -> None:
        async with upstream(*(steps or (FINE,))) as up, proxy(up.url, **settings) as px:
            await test(px, up)

    asyncio.run(main())


async def answer_of(px: Proxy, *pieces: bytes | float) -> Answer | None:
    """What a client gets that sends pieces with pauses between, and then waits until its connection is closed.

    None if that happens without a word.
    """
    async with connection(px) as (reader, writer), asyncio.timeout(20):
        reading = asyncio.ensure_future(read_answer(reader))
        for piece in pieces:
            if isinstance(piece, float):
                await asyncio.sleep(piece)
            elif not writer.is_closing():
                writer.write(piece)
        try:
            answer = await reading
        except asyncio.IncompleteReadError:
            return None
        with suppress(ConnectionError):
            assert await reader.read() == b""
        return answer


def test_no_more_exchanges_than_the_limit() -> None:
    metrics = Metrics()

    async def main() -> None:
        open_stream = (head(), chunk(say("Fine")), 60.0, chunk(STOP + DONE), END)
        async with upstream(*open_stream) as up, proxy(up.url, max_exchanges=2, app={"sinks": [metrics]}) as px:
            async with connection(px) as (one, writer_one), connection(px) as (two, writer_two):
                for writer in (writer_one, writer_two):
                    writer.write(ask(stream=True))
                for reader in (one, two):
                    await reader.readuntil(b"Fine")
                for sent in (ask(), request("GET", "/v1/models")):
                    answer = await call(px, sent)
                    assert (answer.status, answer.get("retry-after")) == (503, "1")
                    assert answer.json()["error"] == {
                        "message": "demur: 2 exchanges are open, which is the limit (max_exchanges)",
                        "type": "server_error",
                        "param": None,
                        "code": "too_many_exchanges",
                    }
                for path in ("/-/healthy", "/-/ready"):
                    assert (await call(px, request("GET", path))).status == 200
                assert len(up.requests) == 2
            await px.end(4)
            async with connection(px) as (reader, writer):
                writer.write(ask(stream=True))
                assert b" 200 " in await reader.readuntil(b"Fine")  # there is room again
            assert sorted(e.end for e in px.ended[:4]) == ["client_disconnect"] * 2 + ["overloaded"] * 2
        text = metrics.render()[0].decode()
        assert 'refusal_requests_total{end="overloaded"} 2.0' in text
        assert "refusal_upstream_errors_total{" not in text

    asyncio.run(main())


def test_there_is_no_limit_by_default() -> None:
    async def test(px: Proxy, up: Upstream) -> None:
        answers = await asyncio.gather(*(call(px, ask()) for _ in range(50)))
        assert [answer.status for answer in answers] == [200] * 50

    limited(test)


HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "pieces",
    [
        (HEAD,),
        (HEAD[:3],),
        (b"\r\n", HEAD[:3]),
        (HEAD, 0.1, b"a: b\r\n", 0.1, b"a: b\r\n", 0.1, b"a: b\r\n", 0.1, b"a: b\r\n"),
        (request("GET", "/-/healthy")[:-1],),
    ],
    ids=["half a head", "half a line", "blank line", "line by line", "all but one byte"],
)
def test_a_head_that_comes_slowly_is_not_waited_for(pieces: tuple[bytes | float, ...]) -> None:
    async def test(px: Proxy, up: Upstream) -> None:
        answer = await answer_of(px, *pieces)
        assert answer is not None
        assert (answer.status, answer.json()["error"]["code"]) == (408, "client_timeout")
        assert f"in {SHORT} s (client_timeout)" in answer.json()["error"]["message"]
        assert answer.get("connection") == "close"
        assert not px.ended

    limited(test, client_timeout=SHORT)


def test_a_connection_without_a_request_is_closed_without_a_word() -> None:
    async def test(px: Proxy, up: Upstream) -> None:
        assert await answer_of(px) is None

    limited(test, client_timeout=SHORT)


def test_the_next_request_of_a_connection_has_the_same_limit() -> None:
    async def test(px: Proxy, up: Upstream) -> None:
        async with connection(px) as (reader, writer), asyncio.timeout(20):
            for _ in range(2):
                writer.write(ask())
                assert (await read_answer(reader)).status == 200
                await asyncio.sleep(LONG)  # idle: that is another limit
            writer.write(HEAD)
            assert (await read_answer(reader)).status == 408
            assert await reader.read() == b""

    limited(test, client_timeout=SHORT)


def test_a_head_behind_a_running_exchange_breaks_nothing() -> None:
    async def test(px: Proxy, up: Upstream) -> None:
        async with connection(px) as (reader, writer), asyncio.timeout(20):
            writer.write(ask(stream=True) + HEAD)
            answer = await read_answer(reader)
            assert (answer.status, answer.clean, answer.body[-len(DONE) :]) == (200, True, DONE)
            assert await reader.read() == b""

    limited(test, head(), chunk(say("Fine")), LONG, chunk(STOP + DONE), END, client_timeout=SHORT)


def test_a_stray_line_end_breaks_nothing() -> None:
    async def test(px: Proxy, up: Upstream) -> None:
        async with connection(px) as (reader, writer), asyncio.timeout(20):
            writer.write(ask(stream=True))
            await asyncio.sleep(0.1)
            writer.write(b"\r\n")
            answer = await read_answer(reader)
            assert (answer.status, answer.clean, answer.body[-len(DONE) :]) == (200, True, DONE)

    limited(test, head(), chunk(say("Fine")), 3 * LONG, chunk(STOP + DONE), END, client_timeout=SHORT)


def test_a_stray_line_end_takes_no_time_from_the_next_head() -> None:
    async def test(px: Proxy, up: Upstream) -> None:
        async with connection(px) as (reader, writer), asyncio.timeout(20):
            for _ in range(2):
                writer.write(request("GET", "/-/healthy"))
                assert (await read_answer(reader)).status == 200
                writer.write(b"\r\n")
                await asyncio.sleep(0.7 * ROOMY)
                sent = request("GET", "/-/healthy")
                writer.write(sent[:20])
                await asyncio.sleep(0.6 * ROOMY)
                writer.write(sent[20:])
                assert (await read_answer(reader)).status == 200

    limited(test, client_timeout=ROOMY)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/files"])
@pytest.mark.parametrize("framing", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
def test_a_body_that_comes_slowly_is_not_waited_for(path: str, framing: str) -> None:
    async def test(px: Proxy, up: Upstream) -> None:
        start = request("POST", path, None, framing)
        drop = b"{" if framing.startswith("C") else b"1\r\n{\r\n"
        drops: list[bytes | float] = [drop, 0.1] * 10
        for pieces in ([start], [start, drop], [start, *drops]):
            answer = await answer_of(px, *pieces)
            assert answer is not None
            assert (answer.status, answer.json()["error"]["code"]) == (408, "client_timeout")
        await px.end(3)
        assert {exchange.end for exchange in px.ended} == {"client_timeout"}
        assert "Fine" not in str(px.ended)

    limited(test, client_timeout=SHORT)


def test_a_body_that_makes_way_gets_its_time() -> None:
    """A second more for each 500 bytes: 2,000 of them in a second are fast enough, in all but the first second."""

    async def test(px: Proxy, up: Upstream) -> None:
        async with connection(px) as (reader, writer), asyncio.timeout(20):
            writer.write(request("POST", "/v1/files", None, "Content-Length: 6000"))
            for _ in range(30):
                writer.write(b"x" * 200)
                await asyncio.sleep(0.1)
            assert (await read_answer(reader)).status == 200
        assert up.requests[0].body == b"x" * 6000

    limited(test, client_timeout=1)


def test_a_slow_upstream_is_no_fault_of_the_client() -> None:
    """It takes the body slowly, and answers late: the client's time does not run."""
    body = b"x" * 3_000_000

    async def main() -> None:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(LONG)
            await reader.readexactly(len(body))
            await asyncio.sleep(LONG)
            writer.write(FINE)
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(connected, "127.0.0.1", 0, limit=1024) as server:
            port = server.sockets[0].getsockname()[1]
            async with proxy(f"http://127.0.0.1:{port}/v1", client_timeout=SHORT) as px:
                assert (await call(px, request("POST", "/v1/files", body))).status == 200

    asyncio.run(main())


def test_a_refused_client_does_not_stay_for_ever() -> None:
    """Whoever gets his answer early, and goes on sending his body byte by byte, is shown out."""

    async def test(px: Proxy, up: Upstream) -> None:
        async with connection(px) as (reader, writer), asyncio.timeout(20):
            writer.write(request("POST", "/v1/files", None, "Content-Length: 1000000"))
            assert (await read_answer(reader)).status == 401
            gone = asyncio.ensure_future(reader.read())
            for _ in range(100):
                if gone.done():
                    break
                writer.write(b"x")
                await asyncio.sleep(0.05)
            assert gone.done()

    limited(test, client_timeout=SHORT, client_token="t")


def test_who_sends_at_once_is_never_late() -> None:
    async def test(px: Proxy, up: Upstream) -> None:
        assert (await call(px, ask())).status == 200

    limited(test, LONG, FINE, client_timeout=SHORT)


def test_the_limit_of_open_files_is_raised() -> None:
    code = """
import resource
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
from demur.proxy import server
server.raise_open_files()
print(resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard))
"""
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] > 64
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_the_docs_name_every_limit_and_code() -> None:
    text = (Path(__file__).parent.parent / "docs" / "connections.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(\w+)`", text))
    limits = {name for name in describe() if name.endswith("_timeout") and not name.startswith("judge_")}
    assert limits | {"max_exchanges", "max_request_bytes", "ca_file", "client_cert", "client_key"} <= names
    answers = (errors.overloaded(1), errors.client_timeout(1), errors.too_large(1), errors.head_too_large(1))
    for answer in (*answers, errors.target_too_long(1), errors.no_client_token()):
        if answer.status != 401:
            assert f"{answer.status} `{answer.code}`" in text
        assert f"`{answer.end}`" in text
