"""A vendor's server, scripted: every API in its own words, and the request's `model` says what happens.

    with vendor() as up:
        openai.OpenAI(base_url=f"{up.url}/v1", …).chat.completions.create(model="refusal", …)

It runs in threads, so that clients of any kind may call it: synchronous, asynchronous, in another process.

| model | what happens |
|---|---|
| `answer`, `refusal`, `refusal-field`, `json` | such a reply |
| `thinking` | an answer after thoughts of refusing, in the shape of vLLM |
| `tools` | a call of the first tool offered, and an answer once its result is there |
| `error-400`, `error-401`, `error-429`, `error-500` | that error, in the API's own shape |
| `flaky-429`, `flaky-500` | the error for the first request under that name (add `:anything`), then an answer |
| `error-in-stream`, `cut` | five events, then an error event; then a reset |
| `stall` | five events, or nothing where no stream was asked for; then silence until the client leaves |
| `endless` | events without end, until the client leaves |
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from typing import Any

import vendor_replies as words
from vendor_replies import Reply

ANSWER = "Apples, pears and plums are three fruits."
REFUSAL = "I'm sorry, but I can't help with that."
JSON = '{"fruits": ["apple", "pear"], "count": 2}'
#: Seconds after which a script that waits for its client to leave gives up.
PATIENCE = 30.0

ERRORS = {
    400: ("invalid_request_error", "'temperature' must be at most 2."),
    401: ("authentication_error", "Incorrect API key provided."),
    429: ("rate_limit_error", "Rate limit reached."),
    500: ("api_error", "The server had an error."),
}
_DIALECTS: tuple[tuple[str, str, str], ...] = (
    # path, whole body, events: names in vendor_replies
    (r"/chat/completions$", "chat", "chat_events"),
    (r"/completions$", "completion", "completion_events"),
    (r"/responses$", "response", "response_events"),
    (r"/messages$", "message", "message_events"),
    (r":(?:generateContent|streamGenerateContent)$", "gemini", "gemini_events"),
    (r"/api/chat$", "ollama", "ollama_lines"),
)


@dataclass(frozen=True)
class Seen:
    """One request as it came."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def model(self) -> str:
        if found := re.search(r"/models/([^/:]+):", self.path):
            return found[1]
        with suppress(ValueError, TypeError, KeyError):
            return str(json.loads(self.body)["model"])
        return ""


@dataclass(eq=False)
class Vendor:
    """`requests` in order; `left` is set, with the model's name in `gone`, once a client has left a waiting script."""

    url: str
    requests: list[Seen] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)

    def forget(self) -> None:
        self.requests.clear()
        self.gone.clear()
        self.left.clear()

    def leave(self, model: str) -> None:
        self.gone.append(model)
        self.left.set()


@contextmanager
def vendor() -> Iterator[Vendor]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.block_on_close = False
    server.vendor = Vendor(f"http://127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.vendor  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def vendor(self) -> Vendor:
        return self.server.vendor  # type: ignore[attr-defined, no-any-return]

    def log_message(self, *args: object) -> None:
        """Nothing: pytest shows what was asserted."""

    def handle(self) -> None:
        with suppress(ConnectionError):
            super().handle()

    def finish(self) -> None:
        with suppress(ConnectionError):
            super().finish()

    def do_GET(self) -> None:
        self._see(b"")
        model = {"id": "answer", "object": "model", "created": words.CREATED, "owned_by": "nobody"}
        if self.path.endswith("/models"):
            self._json({"object": "list", "data": [model, {**model, "id": "refusal"}]})
        else:
            self._json(model)

    def do_POST(self) -> None:
        request = self._see(self._body())
        path = request.path.partition("?")[0]
        if path.endswith("/embeddings"):
            self._embed(json.loads(request.body))
        elif path.endswith("/audio/speech"):
            self._whole(200, bytes(range(256)) * 40, "audio/mpeg")
        elif path.endswith(("/files", "/audio/transcriptions")):
            self._receive(request)
        else:
            for pattern, whole, events in _DIALECTS:
                if re.search(pattern, path):
                    return self._play(request, whole, events)
            self._json({"error": {"message": f"no such path: {path}", "type": "invalid_request_error"}}, 404)
        return None

    def _see(self, body: bytes) -> Seen:
        headers = tuple((name.lower(), value) for name, value in self.headers.items())
        request = Seen(self.command, self.path, headers, body)
        self.vendor.requests.append(request)
        return request

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    # What a model says.

    def _play(self, request: Seen, whole: str, events: str) -> None:
        asked = json.loads(request.body)
        streams = asked.get("stream", whole == "ollama") or ":streamGenerateContent" in request.path
        act, _, _ = request.model.partition(":")
        before = sum(seen.model == request.model for seen in self.vendor.requests) - 1
        if (failed := re.fullmatch(r"(error|flaky)-(\d+)", act)) and (failed[1] == "error" or not before):
            self._fail(int(failed[2]), whole)
            return
        reply = reply_to(act, request.model, asked)
        if not streams:
            if act == "stall":
                self._wait(request.model)
            else:
                self._json(getattr(words, whole)(reply))
            return
        usage = {"usage": True} if asked.get("stream_options", {}).get("include_usage") and whole == "chat" else {}
        parts: Iterator[bytes] = getattr(words, events)(reply, **usage)
        self._head(200, "application/x-ndjson" if whole == "ollama" else "text/event-stream")
        if act in ("error-in-stream", "cut", "stall", "endless"):
            self._break_off(act, request.model, whole, list(islice(parts, 5)))
            return
        for part in parts:
            self._chunk(part)
        self._chunk(b"")

    def _break_off(self, act: str, model: str, whole: str, parts: list[bytes]) -> None:
        try:
            for part in parts:
                self._chunk(part)
            end = time.monotonic() + PATIENCE
            while act == "endless" and time.monotonic() < end:
                self._chunk(parts[-1])
                time.sleep(0.02)
        except ConnectionError:
            self.vendor.leave(model)
            raise
        if act == "stall":
            self._wait(model)
        elif act == "error-in-stream":
            self._chunk(words.data(_error(500, whole), "error" if whole in ("message", "response") else None))
            self._chunk(b"")
        else:
            time.sleep(0.1)  # else the reset overtakes what was sent
            self._reset()

    def _fail(self, status: int, whole: str) -> None:
        headers = {"x-request-id": "req_1"}
        if status == 429:
            headers |= {"retry-after": "1", "retry-after-ms": "20", "x-ratelimit-remaining-requests": "0"}
        self._json(_error(status, whole), status, **headers)

    def _wait(self, model: str) -> None:
        """Until the client leaves."""
        self.connection.settimeout(PATIENCE)
        with suppress(ConnectionError):
            self.connection.recv(1)
        self.vendor.leave(model)
        self.close_connection = True

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    # What no model says.

    def _embed(self, asked: dict[str, Any]) -> None:
        numbers = [0.5, -0.25, 1.0]
        packed = base64.b64encode(struct.pack("<3f", *numbers)).decode()
        value = packed if asked.get("encoding_format") == "base64" else numbers
        texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
        rows = [{"object": "embedding", "index": i, "embedding": value} for i in range(len(texts))]
        usage = {"prompt_tokens": 3, "total_tokens": 3}
        self._json({"object": "list", "data": rows, "model": asked["model"], "usage": usage})

    def _receive(self, request: Seen) -> None:
        """An upload: its file part comes back as a digest."""
        boundary = dict(request.headers)["content-type"].partition("boundary=")[2].strip('"').encode()
        [part] = [part for part in request.body.split(b"--" + boundary) if b"filename=" in part]
        content = part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
        digest = hashlib.sha256(content).hexdigest()
        if request.path.endswith("/files"):
            head = {"id": f"file-{digest}", "object": "file", "bytes": len(content), "created_at": words.CREATED}
            self._json({**head, "filename": "notes.jsonl", "purpose": "batch", "status": "processed"})
        else:
            self._json({"text": digest})

    # HTTP.

    def _json(self, obj: Any, status: int = 200, **headers: str) -> None:
        self._whole(status, json.dumps(obj).encode(), "application/json", **headers)

    def _whole(self, status: int, body: bytes, kind: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _head(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _chunk(self, part: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))


def reply_to(act: str, model: str, asked: dict[str, Any]) -> Reply:
    """What is said under the name `act` to a request."""
    if act == "tools" and '"tool_result"' not in (text := json.dumps(asked)) and "22 degrees" not in text:
        return Reply(model, tool=_first_tool(asked), arguments='{"city": "Oslo"}')
    texts = {"refusal": REFUSAL, "json": JSON, "tools": "It is 22 degrees in Oslo."}
    n = asked.get("n") or 1
    refusal = REFUSAL if act == "refusal-field" else None
    text = "" if refusal else texts.get(act, ANSWER)
    thinking = REFUSAL if act == "thinking" else None
    return Reply(model, text, refusal=refusal, thinking=thinking, n=n, logprobs=bool(asked.get("logprobs")))


def _first_tool(asked: dict[str, Any]) -> str:
    """The name of the first tool that a request offers, in any API's shape."""
    tool = asked["tools"][0]
    for key in ("function", "functionDeclarations"):
        inner = tool.get(key)
        tool = inner[0] if isinstance(inner, list) else inner or tool
    return str(tool["name"])


def _error(status: int, whole: str) -> dict[str, Any]:
    kind, text = ERRORS[status]
    if whole == "message":
        return {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}
    if whole == "gemini":
        names = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}
        return {"error": {"code": status, "message": text, "status": names[status]}}
    if whole == "ollama":
        return {"error": text}
    return {"error": {"message": text, "type": kind, "param": None, "code": None}}
