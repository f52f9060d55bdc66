"""Faults in the framing of an answer, wherever they come (W30, W31, W38), and heads that never end (W73)."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

import pytest
from fake_upstream import DONE, END, FIN, Step, ask, call, chunk, connection, event, head, proxy, say, upstream, whole
from wire.notation import keys, without_keys

STOP = event({}, "stop")
FAULTS = [
    b"zz\r\n",
    b"-5\r\n",
    b"FFFFFFFFFFFFFFFFFF\r\n",
    b"HTTP/1.1 500 Internal Server Error\r\n\r\n",
    b"3\r\nabcde\r\n",
    b"0\r\nno colon\r\n\r\n",
]
#: The fault comes by itself, or in one packet with what stands before it.
TOGETHER = pytest.mark.parametrize("together", [False, True], ids=["later", "at once"])


def script(*steps: bytes, together: bool) -> list[Step]:
    """Then the connection stays open: nothing but the fault says that no more comes."""
    out: list[Step] = [b"".join(steps)] if together else [part for step in steps for part in (step, 0.05)]
    return [*out, 20.0]


@TOGETHER
@pytest.mark.parametrize("fault", FAULTS, ids=repr)
def test_w31_a_stream_ends_where_its_framing_fails(fault: bytes, together: bool) -> None:
    async def run() -> None:
        said = say("Fine. ")
        async with (
            upstream(*script(head(), chunk(said), fault, together=together)) as up,
            proxy(up.url, idle_timeout=8.0) as px,
        ):
            answer = await call(px, ask(stream=True))
            assert (answer.status, answer.clean) == (200, False)
            assert answer.body.startswith(said)
            exchange = await px.end()
            assert (exchange.end, exchange.verdict and exchange.verdict.status) == ("upstream_error", "incomplete")
            await asyncio.wait_for(up.left.wait(), 4)

    asyncio.run(run())


@TOGETHER
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings"])
def test_w31_so_does_any_other_answer(path: str, together: bool) -> None:
    async def run() -> None:
        steps = script(head("application/json"), chunk(b"{"), b"zz\r\n", together=together)
        async with upstream(*steps) as up, proxy(up.url, idle_timeout=8.0) as px:
            answer = await call(px, ask(path=path))
            if path == "/v1/embeddings":  # it passes as it comes
                assert (answer.status, answer.clean, answer.body) == (200, False, b"{")
            else:  # it was held until whole
                assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_disconnected")
            assert (await px.end()).end == "upstream_error"

    asyncio.run(run())


def test_w31_garbage_behind_a_whole_answer_is_nobody_s() -> None:
    async def run() -> None:
        body = say("Fine.") + STOP + DONE
        async with (
            upstream(head() + chunk(body) + END + b"garbage\r\n\r\n", 0.2, FIN, then=[(whole(b"{}"),)]) as up,
            proxy(up.url) as px,
        ):
            answer = await call(px, ask(stream=True))
            assert (answer.clean, without_keys(answer.body), len(keys(answer.body))) == (True, body, 1)
            assert (await call(px, ask())).body == b"{}"
            assert up.connections == 2

    asyncio.run(run())


@pytest.mark.parametrize("cut", range(1, 5))
def test_a_head_is_known_wherever_its_end_is_cut(cut: int) -> None:
    async def run() -> None:
        top = head()
        rest = top[-cut:] + chunk(say("x")) + b"zz\r\n"
        async with upstream(top[:-cut], 0.05, rest, 20.0) as up, proxy(up.url, idle_timeout=8.0) as px:
            answer = await call(px, ask(stream=True))
            assert (answer.status, answer.clean, answer.body) == (200, False, say("x"))

    asyncio.run(run())


INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"


@pytest.mark.parametrize(
    "steps",
    [
        (INTERIM, 20.0),
        tuple(step for _ in range(40) for step in (INTERIM, 0.1)),
        (b"HTTP/1.1 100 Continue\r\n\r\n", 20.0),
        (b"HTTP/1.1 200 OK\r\n", *(step for _ in range(40) for step in (b"X-A: a\r\n", 0.1)), 20.0),
    ],
    ids=["early hints", "hints without end", "continue", "a head bit by bit"],
)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_w73_only_a_head_that_counts_is_a_first_byte(steps: Any, method: str) -> None:
    sent = ask() if method == "POST" else b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"

    async def run() -> None:
        async with upstream(*steps) as up, proxy(up.url, first_byte_timeout=0.4, idle_timeout=20.0) as px:
            async with asyncio.timeout(3):
                answer = await call(px, sent)
            assert (answer.status, answer.json()["error"]["code"]) == (504, "first_byte_timeout")
            assert (await px.end()).end == "first_byte_timeout"

    asyncio.run(run())


def test_w73_interim_answers_do_not_use_up_the_time_of_the_body() -> None:
    async def run() -> None:
        body = say("a") + STOP + DONE
        steps = INTERIM, 0.3, INTERIM, 0.3, head(), 0.6, chunk(say("a")), 0.6, chunk(STOP + DONE), END
        async with upstream(*steps) as up, proxy(up.url, first_byte_timeout=2.0, idle_timeout=3.0) as px:
            answer = await call(px, ask(stream=True))
            assert (answer.clean, without_keys(answer.body)) == (True, body)

    asyncio.run(run())


@pytest.mark.parametrize("settings", [{}, {"stream_verdict": "off"}, {"hold_chars": 60_000}], ids=str)
def test_w73_what_is_cut_while_its_client_does_not_read_has_no_gap(settings: Any) -> None:
    """Pieces end in the middle of events; the client reads on when the time is up, while last bytes may go out."""
    events = b"".join(say(f"{number} " + "x" * 20_000) for number in range(400))

    async def run() -> None:
        pieces = b"".join(chunk(events[at : at + 50_001]) for at in range(0, len(events), 50_001))
        async with upstream(head(), pieces, 20.0) as up, proxy(up.url, total_timeout=1.0, **settings) as px:
            loop = asyncio.get_running_loop()
            with socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.setblocking(False)
                await loop.sock_connect(client, ("127.0.0.1", px.port))
                await loop.sock_sendall(client, ask(stream=True))
                await asyncio.sleep(1.3)
                received = b""
                async with asyncio.timeout(15):
                    with suppress(ConnectionError):
                        while piece := await loop.sock_recv(client, 2**20):
                            received += piece
            body = unchunked(received.partition(b"\r\n\r\n")[2])
            assert 0 < len(body) < len(events)
            assert events.startswith(body)
            assert (await px.end()).end == "total_timeout"

    asyncio.run(run())


def unchunked(body: bytes) -> bytes:
    """As much as came of a body in the chunked coding."""
    out = []
    while (size := body.partition(b"\r\n")) and size[0]:
        length = int(size[0], 16)
        out.append(size[2][:length])
        body = size[2][length + 2 :]
    return b"".join(out)


def test_w73_the_total_time_ends_an_exchange_whose_client_reads_nothing() -> None:
    """Its last piece is half an event, which waits to be sent when the time is up."""

    async def run() -> None:
        pieces = [step for _ in range(400) for step in (chunk(say("x" * 50_000)), 0.0)]
        async with (
            upstream(head(), *pieces, chunk(STOP[:20]), 60.0) as up,
            proxy(up.url, total_timeout=1.5) as px,
            connection(px) as (reader, writer),
        ):
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(ask(stream=True))
            async with asyncio.timeout(15):
                exchange = await px.end()
            assert exchange.end == "total_timeout"
            del reader

    asyncio.run(run())
