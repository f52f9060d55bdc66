"""For every test: a clean environment, no network but loopback, and on CI nothing left out for lack of a tool."""

from __future__ import annotations

import importlib.util
import ipaddress
import logging
import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"
ON_CI = os.environ.get("CI", "").lower() in {"1", "true"}

_PREFIXES = ("DEMUR_", "OTEL_", "OPENAI_", "ANTHROPIC_")
_SUFFIXES = ("_PROXY",)
_NAMES = frozenset({"COLUMNS", "FORCE_COLOR", "NO_COLOR", "SSL_CERT_DIR", "SSL_CERT_FILE"})


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No variable and no demur.toml of the developer's reaches a test; the working directory is an empty one."""
    for name in list(os.environ):
        upper = name.upper()
        if upper.startswith(_PREFIXES) or upper.endswith(_SUFFIXES) or upper in _NAMES:
            monkeypatch.delenv(name)
    monkeypatch.chdir(_empty_folder(tmp_path_factory))


def _empty_folder(factory: pytest.TempPathFactory) -> Path:
    folder = factory.getbasetemp() / "cwd"
    folder.mkdir(exist_ok=True)
    return folder


# A server that runs in the tests' process sets these up for the whole process, and for good.
_LOGGERS = tuple(map(logging.getLogger, ("demur", "uvicorn", "uvicorn.access", "uvicorn.asgi", "uvicorn.error")))
_FRESH = tuple((log.level, log.propagate, log.disabled, (*log.handlers,), (*log.filters,)) for log in _LOGGERS)


@pytest.fixture(autouse=True)
def fresh_loggers() -> None:
    """What an earlier test's server made of its loggers (level, handlers, propagation) hides no line from this test."""
    for logger, (level, propagate, disabled, handlers, filters) in zip(_LOGGERS, _FRESH, strict=True):
        logger.setLevel(level)
        logger.propagate, logger.disabled = propagate, disabled
        logger.handlers[:], logger.filters[:] = handlers, filters


@pytest.fixture
def require_tool() -> Callable[[str], str]:
    """`require_tool("nginx")` is the program's path; without it the test is skipped, on CI failed."""

    def require(name: str) -> str:
        return shutil.which(name) or pytest.skip(f"{name} is not installed")

    return require


@pytest.fixture
def shared_corpus() -> Callable[[str], Path]:
    """`shared_corpus("x.jsonl")` is a file of ../shared/corpora; without it the test is skipped, on CI too."""

    def find(name: str) -> Path:
        file = SHARED / "corpora" / name
        return file if file.is_file() else pytest.skip(f"../shared/corpora/{name} is absent")

    return find


@pytest.fixture
def scoreboard() -> ModuleType:
    """../shared/tools/score.py as a module; without it the test is skipped, on CI too."""
    file = SHARED / "tools" / "score.py"
    if not file.is_file():
        pytest.skip("../shared/tools/score.py is absent")
    spec = importlib.util.spec_from_file_location("score", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# On CI a skipped test is a failed one: it should have been given what it needs. ../shared is not the project's own.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _no_skip_on_ci(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _no_skip_on_ci(report)
    return report


def _no_skip_on_ci(report: pytest.TestReport | pytest.CollectReport) -> None:
    if ON_CI and report.skipped and not hasattr(report, "wasxfail") and "../shared" not in str(report.longrepr):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"left out on CI, where everything must run: {reason}"


# An audit hook sees every socket of this process, also those that a library opens. There is no way to remove it again.

_escapes: list[str] = []


def _is_local(host: object) -> bool:
    if host is None or isinstance(host, bytes):
        host = (host or b"").decode("ascii", "replace")
    if not isinstance(host, str):
        return False
    name = host.lower().rstrip(".")
    # RFC 6761: names that never leave the machine, or never exist.
    if name in {"", "localhost"} or name.endswith((".localhost", ".invalid")):
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _is_numeric(host: object) -> bool:
    try:
        ipaddress.ip_address(host.decode() if isinstance(host, bytes) else str(host))
    except ValueError:
        return False
    return True


def _guard(event: str, args: tuple[object, ...]) -> None:
    if event in {"socket.connect", "socket.sendto"}:
        address = args[1]
        if not isinstance(address, tuple) or _is_local(address[0]):  # no tuple: a Unix socket
            return
        place = f"{address[0]}:{address[1]}"
    elif event == "socket.getaddrinfo":
        if _is_local(args[0]) or _is_numeric(args[0]):
            return
        place = str(args[0])
    else:
        return
    _escapes.append(place)
    raise OSError(f"tests reach loopback only, not {place}")


sys.addaudithook(_guard)


@pytest.fixture(autouse=True)
def no_network_but_loopback() -> Iterator[None]:
    """Fails the test that tried, even when the code under test swallowed the error."""
    _escapes.clear()
    yield
    assert not _escapes, f"the test reached for {_escapes[0]}: tests reach loopback only"
