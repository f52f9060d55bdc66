"""The server as a process of its own: what it says, how it starts, how it stops."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from fake_upstream import (
    DONE,
    END,
    Answer,
    Step,
    ask,
    call_port,
    chunk,
    completion,
    event,
    head,
    request,
    say,
    upstream,
    whole,
)

SERVE = """
import json, sys
from demur.config import Settings
from demur.proxy.server import serve
sys.exit(serve(Settings(**json.loads(sys.argv[1])), lambda *urls: print(*urls, flush=True)))
"""
NOHUP = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{SERVE}"
SLOW_FLUSH = f"""
import time
from demur.proxy.verdict_log import VerdictLog
def close(log, real=VerdictLog.close):
    print("flushing", flush=True)
    time.sleep(1)
    real(log)
    print("flushed", flush=True)
VerdictLog.close = close
{SERVE}"""
STOP = event({}, "stop")


@dataclass
class Running:
    process: asyncio.subprocess.Process
    said: str
    port: int
    admin_port: int

    async def call(self, sent: bytes) -> Answer:
        return await call_port(self.port, sent)

    async def ready(self) -> bool:
        return (await self.call(request("GET", "/-/ready"))).status == 200


@asynccontextmanager
async def serving(url: str, program: str = SERVE, **settings: Any) -> AsyncIterator[Running]:
    process = await start(program, upstream=url, port=0, admin_port=0, **settings)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            said = (await process.stdout.readline()).decode()
        ports = [int(port) for port in re.findall(r"http://\S+:(\d+)", said)]
        yield Running(process, said, *ports)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def start(program: str = SERVE, /, **settings: Any) -> asyncio.subprocess.Process:
    settings = {"languages": ["en"], **settings}  # one starts in a third of the time of all
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, json.dumps(settings), stdout=-1, stderr=-1, env={**os.environ, "PYTHONUTF8": "1"}
    )


async def output(process: asyncio.subprocess.Process) -> tuple[str, str]:
    """What it wrote until it ended by itself, which it must do soon."""
    try:
        out, err = await asyncio.wait_for(process.communicate(), 30)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return out.decode(), err.decode()


def slow_stream(seconds: float) -> list[Step]:
    return [head(), chunk(say("Fine")), seconds, chunk(STOP + DONE), END]


def test_it_says_where_it_listens_and_serves_metrics_beside() -> None:
    async def run() -> None:
        async with upstream(whole(completion("Fine."))) as up, serving(up.url) as app:
            assert app.said == f"http://127.0.0.1:{app.port} http://127.0.0.1:{app.admin_port}\n"
            answer = await app.call(ask())
            assert answer.get("x-refusal-verdict") == "answer"
            assert (answer.all("date"), answer.all("server")) == ([], [])  # the upstream's, which had none
            metrics = await call_port(app.admin_port, request("GET", "/metrics"))
            assert b'refusal_verdict="answer"' in metrics.body
            assert b"refusal_requests_in_flight 0.0" in metrics.body
            async with asyncio.timeout(10):  # W80: how late the event loop is, sampled four times a second
                while b"\nrefusal_event_loop_lag_seconds_count 0.0" in metrics.body:
                    await asyncio.sleep(0.1)
                    metrics = await call_port(app.admin_port, request("GET", "/metrics"))
            assert b"\nrefusal_event_loop_lag_seconds_count " in metrics.body

    asyncio.run(run())


def test_w52_a_request_with_two_framings_is_refused() -> None:
    async def run() -> None:
        async with upstream(whole(b"{}")) as up, serving(up.url) as app:
            for lines in (
                ("Content-Length: 4", "Transfer-Encoding: chunked"),
                ("Transfer-Encoding: chunked", "Content-Length: 4"),
            ):
                sent = request("POST", "/v1/chat/completions", None, *lines) + b"0\r\n\r\n"
                assert (await app.call(sent)).status == 400
            assert up.requests == []
            # W63: a WebSocket is refused in words
            wanted = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13")
            answer = await app.call(request("GET", "/v1/realtime?model=m", None, *wanted))
            assert (answer.status, answer.json()["error"]["code"]) == (501, "websocket_not_supported")
            assert up.requests == []

    asyncio.run(run())


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_w76_open_streams_end_in_peace(stop: signal.Signals) -> None:
    async def run() -> None:
        async with upstream(*slow_stream(1.5)) as up, serving(up.url) as app:
            streams = [asyncio.ensure_future(app.call(ask(stream=True))) for _ in range(5)]
            await asyncio.sleep(0.5)
            assert await app.ready()
            app.process.send_signal(stop)
            await asyncio.sleep(0.2)
            assert not await app.ready()
            assert (await app.call(ask())).status == 503
            for answer in await asyncio.gather(*streams):
                assert answer.clean
                assert answer.body.endswith(DONE)
            assert await asyncio.wait_for(app.process.wait(), 10) == 0

    asyncio.run(run())


@pytest.mark.parametrize("how", ["second signal", "drain_seconds"])
def test_w76_what_does_not_end_is_broken_off(how: str, tmp_path: Any) -> None:
    async def run() -> None:
        log = tmp_path / "verdicts.jsonl"
        limit = 30 if how == "second signal" else 0.3
        async with upstream(*slow_stream(60)) as up, serving(up.url, drain_seconds=limit, verdict_log=str(log)) as app:
            stream = asyncio.ensure_future(app.call(ask(stream=True)))
            await asyncio.sleep(0.5)
            begun = time.perf_counter()
            app.process.send_signal(signal.SIGTERM)
            if how == "second signal":
                await asyncio.sleep(0.2)
                app.process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(app.process.wait(), 10) == 0
            assert time.perf_counter() - begun < 5
            answer = await stream
            assert (answer.clean, answer.body) == (False, say("Fine"))
            (record,) = (json.loads(line) for line in log.read_text().splitlines())
            assert record["end"] == "shutdown"

    asyncio.run(run())


def test_a_hangup_that_is_ignored_stays_ignored() -> None:
    """As under nohup: the terminal may go."""

    async def run() -> None:
        async with upstream(*slow_stream(1.0)) as up, serving(up.url, program=NOHUP) as app:
            stream = asyncio.ensure_future(app.call(ask(stream=True)))
            while not up.requests:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            app.process.send_signal(signal.SIGHUP)
            assert (await stream).clean
            assert await app.ready()
            app.process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(app.process.wait(), 30) == 0

    asyncio.run(run())


@pytest.mark.parametrize("again", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_no_signal_cuts_the_flush(again: signal.Signals, tmp_path: Any) -> None:
    async def run() -> None:
        log = tmp_path / "verdicts.jsonl"
        async with (
            upstream(whole(completion("Fine."))) as up,
            serving(up.url, program=SLOW_FLUSH, verdict_log=str(log)) as app,
        ):
            assert (await app.call(ask())).status == 200
            app.process.send_signal(signal.SIGTERM)
            assert app.process.stdout is not None
            async with asyncio.timeout(30):
                assert await app.process.stdout.readline() == b"flushing\n"
            for _ in range(3):
                app.process.send_signal(again)
                await asyncio.sleep(0.1)
            async with asyncio.timeout(30):
                assert await app.process.stdout.readline() == b"flushed\n"
            await asyncio.wait_for(app.process.wait(), 30)
            (record,) = (json.loads(line) for line in log.read_text().splitlines())
            assert record["end"] == "complete"

    asyncio.run(run())


def test_a_forced_stop_does_not_look_like_a_fault() -> None:
    async def run() -> None:
        silent = 60.0
        async with upstream(*slow_stream(60), then=[(silent,)]) as up, serving(up.url, drain_seconds=0.2) as app:
            begun = asyncio.ensure_future(app.call(ask(stream=True)))
            while not up.requests:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            waiting = asyncio.ensure_future(app.call(ask()))
            await asyncio.sleep(0.3)
            app.process.send_signal(signal.SIGTERM)
            assert not (await begun).clean
            answer = await waiting
            assert (answer.status, answer.json()["error"]["code"]) == (503, "shutting_down")
            _, err = await asyncio.wait_for(app.process.communicate(), 10)
            assert app.process.returncode == 0
            assert "exchanges open: 2" in err.decode()
            assert "as they had not ended: 2" in err.decode()
            for word in ("Traceback", "Exception", "ERROR"):
                assert word not in err.decode()

    asyncio.run(run())


def test_a_port_that_is_taken_is_a_clear_error() -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as sock:
            taken = sock.getsockname()[1]
            for name in ("port", "admin_port"):
                process = await start(**{"port": 0, "admin_port": 0, name: taken})
                out, err = await output(process)
                assert (process.returncode, out) == (1, "")
                assert err == f"demur: can't listen on 127.0.0.1 port {taken} ({name}): Address already in use\n"

    asyncio.run(run())


@pytest.mark.parametrize("host", ["::1", "localhost", "::"])
def test_w83_other_addresses(host: str) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 on this machine")

    async def run() -> None:
        async with upstream(whole(b"{}")) as up, serving(up.url, host=host) as app:
            for address in {"::1": ["::1"], "localhost": ["127.0.0.1"], "::": ["::1", "127.0.0.1"]}[host]:
                assert (await call_port(app.port, request("GET", "/-/ready"), host=address)).status == 200

    asyncio.run(run())


def test_faults_at_the_start_are_told_in_one_line(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "openai.com,a.example")
    (tmp_path / "ca.pem").write_text("not a certificate")

    async def run() -> None:
        settings = {"port": 0, "admin_port": 0}
        faults: list[tuple[dict[str, Any], str]] = [
            ({"ca_file": str(tmp_path / "ca.pem")}, "ca_file"),
            ({"client_cert": str(tmp_path / "ca.pem")}, "client_cert"),
            ({"verdict_log": str(tmp_path)}, "verdict_log"),
            ({"route": [{"models": "m", "upstream": "https://a.example", "key_env": "NO_KEY"}]}, "route 1: key_env"),
            ({"upstream": "https://b.example"}, "HTTPS_PROXY can't be used for b.example: it is a socks5 proxy"),
            ({"route": [{"models": "m", "upstream": "https://c.example"}]}, "HTTPS_PROXY can't be used for c.example"),
        ]
        for wrong, words in faults:
            process = await start(**settings, **wrong)
            _, err = await output(process)
            assert process.returncode == 1
            assert err.count("\n") == 1
            assert err.startswith("demur: ")
            assert words in err

    asyncio.run(run())
