"""The middleware when observing fails, when settings are wrong, and when somebody asks for a verdict."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
from applications import Called, Message, answering, called, part, start
from pydantic import SecretStr
from test_middleware import EVENTS, KEY, REFUSED, SSE, STREAM, guarded, through

from demur.classifier.judge import Classifier, default_classifier
from demur.config import Settings
from demur.proxy.middleware import ID, RefusalMiddleware
from demur.proxy.observe import Exchange

# Faults


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("where", ["asked", "answered", "head", "whole", "passes", "feed", "close", "stream_ended"])
def test_a_fault_in_observing_changes_no_answer(
    kind: str, where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a fault")

    monkeypatch.setattr(f"demur.proxy.witness.Witness.{where}", fail)
    stream = kind == "text/event-stream"
    whole = STREAM if stream else REFUSED
    sent = [part(whole[:300]), part(whole[300:]), part(more=False)]
    got, ended = through(answering(start(kind), *sent))
    assert got.error is None
    assert KEY.sub(b"", got.body) == whole
    assert got.status == 200
    assert [exchange.end for exchange in ended] == ["complete"]
    assert ("could not be observed" in caplog.text) == bool(
        {"asked", "answered", "head"} & {where} or stream != (where == "whole")
    )


#: What may fail below the calls of a witness.
WHERE = [
    *[f"inspection.StreamInspection.{name}" for name in ("later", "feed", "close", "finish", "so_far")],
    *[f"finish.FinishChunk.{name}" for name in ("passes", "feed", "close")],
    *[f"record.Record.{name}" for name in ("asked", "judge", "ended", "exchange")],
    *[f"witness.Witness.{name}" for name in ("begins", "ended", "too_large", "later")],
]
KINDS = pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "events that say json"])


def in_pieces(whole: bytes) -> list[bytes]:
    """The first so small that it does not tell whether events begin."""
    return [whole[:3], *(whole[i : i + 130] for i in range(3, len(whole), 130))]


def fails_from(monkeypatch: pytest.MonkeyPatch, where: str, after: int) -> None:
    """`where` raises from its `after`th call on."""
    owner, _, name = f"demur.proxy.{where}".rpartition(".")
    module, _, kind = owner.rpartition(".")
    cls = getattr(importlib.import_module(module), kind)
    real, calls = getattr(cls, name), itertools.count()

    def fail(*args: Any, **named: Any) -> Any:
        if next(calls) >= after:
            raise RuntimeError("a fault")
        return real(*args, **named)

    monkeypatch.setattr(cls, name, fail)


@pytest.mark.parametrize("settings", [{}, {"hold_chars": 20}, {"stream_verdict": "off"}], ids=["", "held", "off"])
@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("where", WHERE)
@KINDS
def test_a_fault_anywhere_reaches_nobody(
    kind: str, where: str, after: int, cut: bool, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_from(monkeypatch, where, after)
    whole = REFUSED if kind == "application/json" else STREAM
    sent = [part(piece) for piece in in_pieces(whole)]
    head = start(kind if "/" in kind else "application/json", (b"a", b"b"))
    guard, ended = guarded(answering(head, *sent, *([] if cut else [part(more=False)])), **settings)
    got = asyncio.run(called(guard))
    assert got.error is None
    assert KEY.sub(b"", got.body) == whole
    assert (got.status, got.headers[:2]) == (200, head["headers"])
    lost = where == "record.Record.exchange" and not after
    assert [exchange.id for exchange in ended] == ([] if lost else [got.scope[ID]])
    assert guard._listeners is not None
    assert guard._listeners.observers.in_flight == 0


def test_what_was_held_goes_on_once_when_its_head_fails() -> None:
    classifier = Classifier()
    classifier.name = "d\u00e9mur"  # no header can say that
    guard = RefusalMiddleware(
        answering(SSE, *map(part, EVENTS), part(more=False)), settings=Settings(hold_chars=20), classifier=classifier
    )
    got = asyncio.run(called(guard))
    assert (got.error, KEY.sub(b"", got.body), got.headers) == (None, STREAM, SSE["headers"])


@pytest.mark.parametrize("where", ["demur.proxy.witness.Record", "demur.proxy.middleware.Server"])
def test_a_request_that_cannot_be_observed_passes(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(where, None)
    got, ended = through(answering(start(), part(REFUSED, more=False)))
    assert got.messages == [start(), part(REFUSED, more=False)]
    assert list(ended) == []


def test_a_sink_that_fails_harms_nobody() -> None:
    class Broken:
        def ended(self, exchange: Exchange) -> None:
            raise RuntimeError

        def reviewed(self, exchange: Exchange) -> None: ...

    guard = RefusalMiddleware(
        answering(start(), part(REFUSED, more=False)),
        settings=Settings(), classifier=default_classifier(), sinks=[Broken()],
    )  # fmt: skip
    got = asyncio.run(called(guard))
    assert (got.error, got.get("x-refusal-verdict")) == (None, "hard_refusal")


# Settings and the lifespan


async def lifespan(app: Any) -> tuple[list[Message], list[str]]:
    """Startup and shutdown; what the server was told, what the application heard."""
    waiting = ["lifespan.startup", "lifespan.shutdown"]
    told: list[Message] = []
    heard: list[str] = []

    async def receive() -> Message:
        return {"type": waiting.pop(0)}

    async def send(message: Message) -> None:
        told.append(message)

    await app({"type": "lifespan", "heard": heard}, receive, send)
    return told, heard


async def living(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "lifespan":
        await answering(start(), part(REFUSED, more=False))(scope, receive, send)
        return
    for _ in range(2):
        kind = (await receive())["type"]
        scope["heard"].append(kind)
        await send({"type": f"{kind}.complete"})


def test_metrics_of_the_same_name_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    registry = prometheus_client.CollectorRegistry()
    prometheus_client.Counter("refusal_verdicts", "The application's own.", registry=registry)
    monkeypatch.setattr("prometheus_client.REGISTRY", registry)
    monkeypatch.setattr("demur.proxy.application._known", [])
    got, _ = through(answering(start(), part(REFUSED, more=False)))
    assert (got.error, got.get("x-refusal-verdict")) == (None, "hard_refusal")
    assert "of the same name" in caplog.text


def test_the_lifespan_passes() -> None:
    told, heard = asyncio.run(lifespan(guarded(living)[0]))
    assert [message["type"] for message in told] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert heard == ["lifespan.startup", "lifespan.shutdown"]


def test_settings_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = tmp_path / "verdicts.jsonl"
    monkeypatch.setenv("DEMUR_VERDICT_LOG", str(log))
    monkeypatch.setenv("DEMUR_STREAM_VERDICT", "off")

    async def run() -> Called:
        guard = RefusalMiddleware(answering(SSE, part(STREAM, more=False)))
        got = await called(guard)
        guard.app = living
        await lifespan(guard)
        return got

    assert asyncio.run(run()).body == STREAM
    (line,) = log.read_text().splitlines()
    assert json.loads(line)["verdict"]["label"] == "hard_refusal"


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("DEMUR_STREAM_VERDICT", "chunky", "DEMUR_STREAM_VERDICT"),
        ("DEMUR_VERDICT_LOG", "/nowhere/at/all.jsonl", "/nowhere/at/all.jsonl"),
    ],
)
def test_a_wrong_setting_fails_the_startup_or_is_logged_once(
    variable: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(variable, value)
    told, heard = asyncio.run(lifespan(RefusalMiddleware(living)))
    assert [message["type"] for message in told] == ["lifespan.startup.failed"]
    assert says in told[0]["message"]
    assert heard == []

    guard = RefusalMiddleware(living)  # where no lifespan runs
    for _ in range(2):
        assert asyncio.run(called(guard)).messages == [start(), part(REFUSED, more=False)]
    assert [says in record.message for record in caplog.records] == [True]


# Looking up


def looked_up(id: str = "", *, path: str = "/-/verdicts/", method: str = "GET", **scope: Any) -> Called:
    """The verdict of a call, asked for by its id or by `id`."""
    guard, _ = guarded(answering(start(), part(REFUSED, more=False)))

    async def run() -> Called:
        known = (await called(guard)).get("x-refusal-id")
        return await called(guard, b"", path=path + (id or known or ""), method=method, **scope)

    return asyncio.run(run())


def test_a_verdict_is_looked_up_below_the_root_of_the_application() -> None:
    got = looked_up()
    assert (got.status, json.loads(got.body)["label"]) == (200, "hard_refusal")
    assert "text" not in json.loads(got.body)["signals"][0]["spans"][0]
    below = looked_up(path="/llm/-/verdicts/", root_path="/llm")
    assert json.loads(below.body)["label"] == "hard_refusal"
    assert json.loads(looked_up(root_path="/llm").body)["label"] == "hard_refusal"  # what follows the root
    assert looked_up(method="HEAD").body == b""
    unknown = looked_up("nothing")
    assert (unknown.status, json.loads(unknown.body)["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("scope", "status"),
    [
        ({}, 401),
        ({"headers": [(b"Authorization", b"Bearer another")]}, 401),
        ({"headers": [(b"Authorization", b"Bearer secret")]}, 200),
        ({"headers": [(b"x-refusal-token", b"secret")]}, 200),
        ({"query_string": b"key=secret"}, 200),
    ],
    ids=["none", "another", "key", "beside", "query"],
)
def test_a_look_up_shows_the_client_token_if_there_is_one(scope: dict[str, Any], status: int) -> None:
    token = SecretStr("secret")
    guard, _ = guarded(answering(start(), part(REFUSED, more=False)), client_token=token)

    async def run() -> tuple[Called, Called]:
        judged = await called(guard)  # the application asks for what it wants itself
        return judged, await called(guard, b"", path=f"/-/verdicts/{judged.get('x-refusal-id')}", method="GET", **scope)

    judged, got = asyncio.run(run())
    assert (judged.get("x-refusal-verdict"), got.status) == ("hard_refusal", status)
    if status == 401:
        assert json.loads(got.body)["error"]["code"] == "invalid_client_token"
        assert got.get("www-authenticate") == "Bearer"
        assert got.get("content-length") == str(len(got.body))


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings"])
def test_headers_of_a_request_that_can_be_read_once(path: str) -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.extend(scope["headers"])
        await answering(start(), part(REFUSED, more=False))(scope, receive, send)

    guard, ended = guarded(app)

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        await guard({**scope, "headers": iter([(b"X-Refusal-Tag", b"a"), (b"b", b"c")])}, receive, send)

    asyncio.run(called(outer, path=path))
    assert seen == [(b"X-Refusal-Tag", b"a"), (b"b", b"c")]
    assert [exchange.tag for exchange in ended] == (["a"] if "chat" in path else [])


@pytest.mark.parametrize("path", ["/-/verdicts", "/-/verdicts/", "/-/verdicts/a/b", "/-/healthy", "/x/-/verdicts/a"])
def test_other_paths_are_the_applications(path: str) -> None:
    guard, _ = guarded(answering(start(), part(b"mine", more=False)))
    assert asyncio.run(called(guard, b"", path=path, method="GET")).body == b"mine"
    assert asyncio.run(called(guard, b"", path="/-/verdicts/a", method="DELETE")).body == b"mine"


def test_a_stream_that_runs_has_a_pending_verdict() -> None:
    found: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(SSE)
        await send(part(EVENTS[0]))
        found.append((await called(guard, b"", path=f"/-/verdicts/{scope[ID]}", method="GET")).status)
        await send(part(STREAM[len(EVENTS[0]) :], more=False))
        found.append((await called(guard, b"", path=f"/-/verdicts/{scope[ID]}", method="GET")).status)

    guard, _ = guarded(app)
    asyncio.run(called(guard))
    assert found == [202, 200]
