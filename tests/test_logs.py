from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator

import pytest

from demur.proxy import logs


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """What `configure` changes of the root logger is put back."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json")
    logging.getLogger("demur.relay").info("ended by %s", "idle_timeout")
    logging.getLogger("demur.relay").debug("not shown")
    try:
        raise ValueError("one\ntwo")
    except ValueError:
        logging.getLogger("demur.observe").exception("failed")
    plain, fault = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert plain.keys() == {"time", "level", "logger", "message"}
    assert (plain["level"], plain["logger"], plain["message"]) == ("info", "demur.relay", "ended by idle_timeout")
    assert "ValueError: one\ntwo" in fault["exception"]


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("warning", "text")
    logging.getLogger("demur.relay").warning("said")
    logging.getLogger("demur.relay").info("not said")
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("WARNING demur.relay: said")


def test_trouble_that_goes_on_is_due_once_a_minute_for_each_subject(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 5.0  # as soon after the start of the machine as you like
    monkeypatch.setattr(time, "monotonic", lambda: now)
    seldom = logs.Seldom()
    assert [seldom.due("a"), seldom.due("a"), seldom.due("b")] == [True, False, True]
    now += logs.COMPLAIN_EVERY - 0.1
    assert not seldom.due("a")
    now += 0.1
    assert seldom.due("a")
