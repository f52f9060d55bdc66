"""What the soak plays: exchanges of every kind, drawn by a seed. Exchange 17 of a seed is always the same one."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from dataclasses import dataclass, field
from enum import Enum

import brotli
from conversations import PAIRS
from fake_upstream import ask, request

PATHS = {
    "chat": "/v1/chat/completions",
    "legacy": "/v1/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m-1:{verb}",
    "policy error": "/v1/chat/completions",
    "error": "/v1/chat/completions",
}
REFUSED_IN_WORDS = "I'm sorry, but I can't help with that."


class Fate(Enum):
    """How an exchange ends. All but the first cut it short."""

    WHOLE = "whole"
    UPSTREAM_RESETS = "the upstream resets"
    UPSTREAM_ENDS = "the upstream ends too early"
    CLIENT_LEAVES = "the client leaves"
    CLIENT_RESETS = "the client resets"
    NO_ANSWER = "the upstream closes without a word"


FATES = (Fate.WHOLE,) * 14 + tuple(Fate)[1:]


@dataclass
class Exchange:
    """One exchange: what the client sends, what the upstream answers, where it is cut, and how it ends.

    `name` tells what the answer says; two whole exchanges of one name have one verdict. `pieces` are the answer's
    body, each written by itself, `pause` seconds before the next; of a cut one only the first `cut` bytes are.
    `sent_body` is what has to reach the upstream.
    """

    number: int
    name: str
    judged: bool
    stream: bool
    sent: bytes
    sent_body: bytes
    head: bytes
    framing: str
    body: bytes
    pieces: list[bytes]
    pause: float
    fate: Fate
    cut: int
    coded: bool = False
    written: list[bytes] = field(default_factory=list)  # what the upstream did write

    @property
    def trace_id(self) -> str:
        return f"{self.number + 1:032x}"


def draw(seed: int, number: int) -> Exchange:
    """Exchange `number` of the soak `seed`."""
    rng = random.Random(f"{seed}/{number}")
    kind = rng.choices(["stream", "json", "error", "list", "upload", "embeddings"], [50, 25, 8, 6, 6, 5])[0]
    lines = [f"X-Exchange: {number}", f"x-refusal-tag: e{number}", f"traceparent: 00-{number + 1:032x}-{1:016x}-01"]
    answer_lines = []
    status = "200 OK"
    name, judged, coded = kind, False, False
    if kind in ("stream", "json"):
        pair = rng.choice(list(PAIRS))
        whole, events = PAIRS[pair]
        name, judged = f"{pair}, {kind}", True
        path = PATHS[pair.partition(",")[0]].format(
            verb="streamGenerateContent?alt=sse" if kind == "stream" else "generateContent"
        )
        sent = ask(f"question {number % 7}", *lines, path=path, stream=kind == "stream", **_n(pair))
        if kind == "stream":
            body, content_type = _vary(rng, events), "text/event-stream"
        else:
            body, content_type = json.dumps(whole, indent=rng.choice([None, 1])).encode(), "application/json"
            if "error" in whole:
                status = "400 Bad Request" if pair == "policy error" else "500 Oops"
        if rng.random() < 0.2:
            coding, body = _pack(rng, body)
            answer_lines.append(f"Content-Encoding: {coding}")
            coded = True
    elif kind == "error":
        status = rng.choice(["401 Unauthorized", "429 Too Many", "500 Oops", "503 Busy"])
        name, judged = f"error {status}", True
        sent = ask("question", *lines, stream=rng.random() < 0.5)
        body, content_type = b'{"error":{"message":"no","type":"x"}}', "application/json"
        answer_lines.append("Retry-After: 3")
    elif kind == "list":
        sent = request("GET", "/v1/models?limit=9", None, *lines)
        body, content_type = rng.randbytes(rng.randrange(1, 60_000)), "application/octet-stream"
    elif kind == "upload":
        part = b"--b\r\n\r\n" + rng.randbytes(rng.randrange(1000, 400_000)) + b"\r\n--b--\r\n"
        sent = request("POST", "/v1/files", part, *lines, "Content-Type: multipart/form-data; boundary=b")
        body, content_type = b'{"id":"file-1"}', "application/json"
    else:
        sent = request("POST", "/v1/embeddings", b'{"input":"I can\'t"}', *lines)
        body, content_type = json.dumps({"data": [0.5] * rng.randrange(5000)}).encode(), "application/json"
    framing = rng.choice(["chunked", "chunked", "length", "close"])
    framed = {
        "chunked": "Transfer-Encoding: chunked",
        "length": f"Content-Length: {len(body)}",
        "close": "Connection: close",
    }
    head_lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", framed[framing], *answer_lines, "", ""]
    fate = rng.choice(FATES)
    return Exchange(
        number=number,
        name=name,
        judged=judged,
        stream=content_type == "text/event-stream",
        sent=sent,
        sent_body=sent.partition(b"\r\n\r\n")[2],
        head="\r\n".join(head_lines).encode(),
        framing=framing,
        body=body,
        pieces=_cut(rng, body),
        pause=rng.choice([0.0, 0.0, 0.001, 0.004]),
        fate=fate,
        cut=rng.randrange(len(body)),
        coded=coded,
    )


def _n(pair: str) -> dict[str, int]:
    return {"n": 2} if "two choices" in pair else {}


def _vary(rng: random.Random, events: bytes) -> bytes:
    """The same events in another framing."""
    if rng.random() < 0.3:
        events = events.replace(b"\n\n", b"\n\n: keep-alive\n\n")
    events = events.replace(b"\n", rng.choice([b"\n", b"\n", b"\r\n", b"\r"]))
    return rng.choice([b"", b"", b"\xef\xbb\xbf", b":\n\n"]) + events


def _pack(rng: random.Random, body: bytes) -> tuple[str, bytes]:
    return rng.choice(
        [("gzip", gzip.compress(body, mtime=0)), ("deflate", zlib.compress(body)), ("br", brotli.compress(body))]
    )


def _cut(rng: random.Random, body: bytes) -> list[bytes]:
    edges = sorted(rng.randrange(len(body) + 1) for _ in range(rng.choice([0, 1, 3, 12])))
    return [body[start:stop] for start, stop in zip([0, *edges], [*edges, len(body)], strict=True) if start < stop]
