"""The processes that are measured: how each is started, pinned, watched and ended.

All run on loopback, with an environment cleaned of proxy, `DEMUR_*` and `OTEL_*` variables and a working directory of
their own, and are ended by process id.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

HERE = Path(__file__).parent
#: The names of the rows, in their order.
DIRECT, NGINX, BARE = "direct", "nginx", "bare pass-through"
DEMUR, DEMUR_OFF, DEMUR_OTLP = "demur", "demur, verdict off", "demur, OTLP"
#: Seconds a process gets to accept connections, and to end after SIGTERM.
START, STOP = 20.0, 10.0
NGINX_MISSING = "not installed (Debian: apt-get install nginx-light)"

NGINX_CONFIGURATION = """\
daemon off;
master_process off;
pid {directory}/nginx.pid;
error_log stderr error;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    keepalive_requests 1000000000;
    upstream stub {{
        server 127.0.0.1:{upstream};
        keepalive 256;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        location / {{
            proxy_pass http://stub;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
}}
"""


class StartError(Exception):
    """A process that was to be measured did not come up."""


@dataclass(frozen=True, slots=True)
class Cores:
    """Which core the measured process gets and which the stub and the load; None where there is only one."""

    proxy: int | None
    load: int | None

    @classmethod
    def available(cls) -> Cores:
        cores = sorted(os.sched_getaffinity(0))
        return cls(cores[0], cores[1]) if len(cores) > 1 else cls(None, None)


@dataclass(frozen=True, slots=True)
class Process:
    """One running process, the port it listens on and the pipe that is its standard input."""

    name: str
    port: int
    pid: int
    stdin: int

    def cpu(self) -> float:
        """Seconds of CPU, user and system, that all its threads have used: its process clock, in nanoseconds.

        The clock's number is the one that `clock_getcpuclockid(3)` of the C library makes of a process id on Linux;
        /proc/PID/stat counts the same in ticks of 10 ms, too coarse for a window of a second.
        """
        return time.clock_gettime((~self.pid << 3) | 2)

    def rss_mb(self) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise StartError(f"{self.name} (pid {self.pid}) has ended")


class Runner:
    """Starts processes and ends them all, last first, when the `with` block is left."""

    def __init__(self, directory: Path, cores: Cores) -> None:
        self.directory = directory
        self.cores = cores
        self.stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stack.close()

    def stub(self, name: str = DIRECT) -> Process:
        """The stub upstream; a second one serves as the sink of OTLP exports."""
        return self._start(
            name, lambda port: [sys.executable, str(HERE / "stub_upstream.py"), str(port)], self.cores.load
        )

    def nginx(self, upstream: int) -> Process | None:
        """nginx with one worker, or None where it is not installed."""
        binary = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
        if binary is None:
            return None

        def command(port: int) -> list[str]:
            directory = self.directory / "nginx"
            directory.mkdir()
            configuration = directory / "nginx.conf"
            configuration.write_text(NGINX_CONFIGURATION.format(directory=directory, upstream=upstream, port=port))
            return [binary, "-p", str(directory), "-c", str(configuration), "-e", "stderr"]

        return self._start(NGINX, command, self.cores.proxy)

    def passthrough(self, upstream: int) -> Process:
        script = [sys.executable, str(HERE / "passthrough.py"), f"http://127.0.0.1:{upstream}"]
        return self._start(BARE, lambda port: [*script, str(port)], self.cores.proxy)

    def demur(self, name: str, upstream: int, *flags: str, otlp: int | None = None) -> Process:
        """`demur serve` in its default settings but for `flags`; `otlp` is the port that takes its exports."""

        def command(port: int) -> list[str]:
            binary = str(Path(sys.executable).with_name("demur"))
            ports = ["--port", str(port), "--admin-port", str(free_port())]
            return [binary, "serve", "--upstream", f"http://127.0.0.1:{upstream}/v1", *ports, *flags]

        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{otlp}"} if otlp else {}
        return self._start(name, command, self.cores.proxy, endpoint)

    def _start(
        self, name: str, command: Callable[[int], Sequence[str]], core: int | None, extra: dict[str, str] | None = None
    ) -> Process:
        """Starts `command(port)` on `core` and waits until its port accepts connections.

        Its standard input is a pipe, open as long as the run; its output goes to a file that a failure quotes.
        """
        port = free_port()
        log = self.directory / (name.replace(" ", "-").replace(",", "") + ".log")
        with log.open("wb") as output, on_core(core):
            process = subprocess.Popen(
                [*command(port)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env={**clean_environment(), **(extra or {})},
            )
        assert process.stdin is not None
        self.stack.callback(end, process)
        deadline = time.monotonic() + START
        while process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return Process(name, port, process.pid, process.stdin.fileno())
            except OSError:
                time.sleep(0.02)
        state = f"ended with code {process.returncode}" if process.returncode is not None else "does not listen"
        raise StartError(f"{name}: {state}\n{log.read_text(errors='replace')[-4000:]}")


def end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.terminate()
    try:
        process.wait(STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def clean_environment() -> dict[str, str]:
    unwanted = ("DEMUR_", "OTEL_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
    return {name: value for name, value in os.environ.items() if not name.upper().startswith(unwanted)}


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """A process started inside the block, and all its threads, stay on `core`."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
