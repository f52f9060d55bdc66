"""A judge's endpoint on loopback that answers as it is told: well, badly, slowly or not at all.

    with scripted_judge(coded("hard_refusal"), status(429, retry_after="7"), RESET) as endpoint:
        …  JudgeOptions(endpoint.url, "m")  …
    assert len(endpoint.requests) == 2

Each request takes the next reply; the last is given to all that follow. A reply may be a function of the request.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from demur.classifier.verdict import FEATURES

KEY = "sk-of-nobody-0123456789"


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came; `headers` by lower-case name."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def exchange(self) -> str:
        """What was asked to be coded, between its markers."""
        users = [message["content"] for message in self.body["messages"] if message["role"] == "user"]
        return str(next(text for text in reversed(users) if text.startswith("Material to code")))


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back, after `wait` seconds or when the test ends; `reset` breaks the connection instead, and with
    `endless` the body is repeated until the client leaves."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    wait: float = 0.0
    reset: bool = False
    endless: bool = False


Script = Reply | Callable[[Request], Reply]


@dataclass
class Endpoint:
    """`requests` in order of arrival; `most_at_once` is how many were open together at most."""

    script: list[Script]
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    open_now: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: threading.Event = field(default_factory=threading.Event)

    def next(self, request: Request) -> Reply:
        with self.lock:
            self.requests.append(request)
            step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return step if isinstance(step, Reply) else step(request)


@contextmanager
def scripted_judge(*script: Script) -> Iterator[Endpoint]:
    """An endpoint while the block runs."""
    endpoint = Endpoint(list(script))

    class Handler(_Handler):
        owner = endpoint

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        request = Request(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        endpoint = self.owner
        with endpoint.lock:
            endpoint.open_now += 1
            endpoint.most_at_once = max(endpoint.most_at_once, endpoint.open_now)
        try:
            reply = endpoint.next(request)
            endpoint.over.wait(reply.wait)
        finally:
            with endpoint.lock:
                endpoint.open_now -= 1
        self.close_connection = reply.reset or endpoint.over.is_set()
        if reply.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            return
        with suppress(ConnectionError):  # a client whose patience ended
            self.send_response(reply.status)
            length = () if reply.endless else (("content-length", str(len(reply.body))),)
            for name, value in (*length, *reply.headers):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)
            while reply.endless and not endpoint.over.is_set():
                self.wfile.write(reply.body)

    def log_message(self, format: str, *args: object) -> None:
        pass


# What a judge says.


def coding(label: str = "hard_refusal", **changes: Any) -> dict[str, Any]:
    """An answer as the codebook wants it. `features` names those that are present; `quotes` is by code.

    Its quotation stands in every response that holds "I can't".
    """
    refused = label in ("hard_refusal", "disguised_refusal")
    present = changes.pop("features", ())
    quotes = changes.pop("quotes", {"label": ["I can't"]})
    return {
        "cannot_code": None,
        "reason": "It was asked for something, and that is what came of it.",
        "label": label,
        "rationale": "bare" if refused else None,
        "strategy": "explicit" if refused else None,
        "features": {name: name in present for name in FEATURES} if refused else None,
        "evidence": [{"code": code, "quote": quote} for code, quotes_ in quotes.items() for quote in quotes_],
        "confidence": 0.9,
        **changes,
    }


def completion(
    content: str | None, *, finish: str = "stop", usage: tuple[int, int] | None = (100, 10), **message: Any
) -> Reply:
    """A chat completion with this content; `usage` is what it says of tokens, if anything."""
    body: dict[str, Any] = {
        "id": "c",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
        ],
    }
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return json_reply(body)


def coded(label: str = "hard_refusal", **changes: Any) -> Reply:
    """A good answer."""
    return completion(json.dumps(coding(label, **changes)))


def json_reply(body: object, status: int = 200, **more: Any) -> Reply:
    return Reply(status, json.dumps(body).encode(), (("content-type", "application/json"),), **more)


def status(code: int, message: str = "", /, *, retry_after: str | None = None, **error: Any) -> Reply:
    """An error in OpenAI's form."""
    body = {"error": {"message": message or f"error {code}", **error}}
    headers = [("content-type", "application/json"), *([("retry-after", retry_after)] if retry_after else [])]
    return Reply(code, json.dumps(body).encode(), tuple(headers))


#: A connection that breaks, and an answer that never comes within a test.
RESET = Reply(reset=True)
NEVER = Reply(wait=600)
