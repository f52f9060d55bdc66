"""What the soak plays: exchanges of every kind, drawn by a seed. Exchange 17 of a seed is always the same one."""

from __future__ import annotations

import gzip
import json
import random
import re
import zlib
from dataclasses import dataclass, field
from enum import Enum

import brotli
from conversations import PAIRS
from fake_upstream import END, ask, chunk, request

PATHS = {
    "chat": "/v1/chat/completions",
    "legacy": "/v1/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m-1:{verb}",
    "policy error": "/v1/chat/completions",
    "error": "/v1/chat/completions",
}
#: What finishes a choice, in any API's events as `conversations` writes them.
_FINISH = re.compile(rb'"(?:finish_reason|finishReason|stop_reason)": "|"type": "response\.(?:completed|incomplete)"')
_LINE_END = re.compile(rb"\r\n|\r|\n")


class Fate(Enum):
    """How an exchange ends. All but the first and the last cut it short."""

    WHOLE = "whole"
    UPSTREAM_RESETS = "the upstream resets"
    UPSTREAM_ENDS = "the upstream ends too early"
    CLIENT_LEAVES = "the client leaves"
    CLIENT_RESETS = "the client resets"
    NO_ANSWER = "the upstream closes without a word"
    UPLOAD_LEFT = "the client leaves in its upload"
    UPLOAD_RESET = "the client resets in its upload"
    UPLOAD_REFUSED = "the upstream resets in the upload"
    EARLY_ANSWER = "the upstream answers in the upload"


#: Those that happen in an upload need a request with a body.
UPLOAD_FATES = (Fate.UPLOAD_LEFT, Fate.UPLOAD_RESET, Fate.UPLOAD_REFUSED, Fate.EARLY_ANSWER)
FATES = (Fate.WHOLE,) * 14 + tuple(fate for fate in Fate if fate not in (Fate.WHOLE, *UPLOAD_FATES))


@dataclass
class Exchange:
    """One exchange: what the client sends, what the upstream answers, where it is cut, and how it ends.

    `name` tells what the answer says; two whole exchanges of one name have one verdict. `pieces` are the answer's
    body, each written by itself, `pause` seconds before the next; of a cut one only the first `cut` bytes are.
    `finishes` are the choices that end in it: where the event's last line is complete, and where the event is.

    `sent` is the request in what is written at once, `sent_pause` seconds before the next; a client that leaves in its
    upload keeps the last of it. `sent_body` is what has to reach the upstream, which after `sent_cut` bytes of it does
    what an upload's fate says.
    """

    number: int
    name: str
    judged: bool
    stream: bool
    sent: list[bytes]
    sent_body: bytes
    sent_pause: float
    sent_cut: int
    head: bytes
    framing: str
    body: bytes
    pieces: list[bytes]
    pause: float
    fate: Fate
    cut: int
    coded: bool = False
    finishes: list[tuple[int, int]] = field(default_factory=list)

    @property
    def repeatable(self) -> bool:
        """Whether it may go up twice."""
        return not self.sent_body

    @property
    def sent_short(self) -> bool:
        """Whether its request never becomes whole."""
        return self.fate in (Fate.UPLOAD_LEFT, Fate.UPLOAD_RESET)

    @property
    def goes_up(self) -> bool:
        """A request on a judged path does so once it is whole, any other as it comes."""
        return not (self.judged and self.sent_short)

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
    finishes: list[tuple[int, int]] = []
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
            finishes = _finishes(body)
        else:
            body, content_type = json.dumps(whole, indent=rng.choice([None, 1])).encode(), "application/json"
            if "error" in whole:
                status = "400 Bad Request" if pair == "policy error" else "500 Oops"
        if rng.random() < 0.2:
            coding, body = _pack(rng, body)
            answer_lines.append(f"Content-Encoding: {coding}")
            coded, finishes = True, []  # what is compressed gets no key
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
        part, form = rng.randbytes(rng.randrange(1000, 400_000)), rng.random() < 0.5
        if form:
            part = b"--b\r\n\r\n" + part + b"\r\n--b--\r\n"
        kept = "multipart/form-data; boundary=b" if form else "application/octet-stream"
        sent = request("POST", "/v1/files", part, *lines, f"Content-Type: {kept}")
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
    if kind != "list" and rng.random() < (0.5 if kind == "upload" else 0.1):
        fate = rng.choice(UPLOAD_FATES)
    writes, sent_body, sent_cut = _sent(rng, sent, fate)
    return Exchange(
        number=number,
        name=name,
        judged=judged,
        stream=content_type == "text/event-stream",
        sent=writes,
        sent_body=sent_body,
        sent_pause=rng.choice([0.0, 0.001, 0.004]),
        sent_cut=sent_cut,
        head="\r\n".join(head_lines).encode(),
        framing=framing,
        body=body,
        pieces=_cut(rng, body),
        pause=rng.choice([0.0, 0.0, 0.001, 0.004]),
        fate=fate,
        cut=rng.randrange(len(body)),
        coded=coded,
        finishes=finishes,
    )


def _n(pair: str) -> dict[str, int]:
    return {"n": 2} if "two choices" in pair else {}


def _vary(rng: random.Random, events: bytes) -> bytes:
    """The same events in another framing."""
    if rng.random() < 0.3:
        events = events.replace(b"\n\n", b"\n\n: keep-alive\n\n")
    events = events.replace(b"\n", rng.choice([b"\n", b"\n", b"\r\n", b"\r"]))
    return rng.choice([b"", b"", b"\xef\xbb\xbf", b":\n\n"]) + events


def _finishes(body: bytes) -> list[tuple[int, int]]:
    lines = [_LINE_END.search(body, finish.start()) for finish in _FINISH.finditer(body)]
    return [(line.start(), line.start() + 2 * len(line[0])) for line in lines if line]


def _sent(rng: random.Random, sent: bytes, fate: Fate) -> tuple[list[bytes], bytes, int]:
    """The request `sent`, which has a length if it has a body, as it is written; its body; how much of that is there
    for sure when all writes but the last have come."""
    head, _, body = sent.partition(b"\r\n\r\n")
    if not body or (fate not in UPLOAD_FATES and rng.random() < 0.6):
        return [sent], body, 0
    lead, first, framed = 0, len(body), body
    if rng.random() < 0.5:
        head = re.sub(rb"Content-Length: \d+", b"Transfer-Encoding: chunked", head)
        parts = _cut(rng, body)
        lead, first = len(b"%x\r\n" % len(parts[0])), len(parts[0])
        framed = b"".join(map(chunk, parts)) + END
    if fate in (Fate.UPLOAD_LEFT, Fate.UPLOAD_RESET):
        head += b"\r\nExpect: 100-continue"
    edges = sorted(rng.randrange(lead + 1, len(framed)) for _ in range(rng.choice([1, 2, 6])))
    writes = [framed[start:stop] for start, stop in zip([0, *edges], [*edges, len(framed)], strict=True)]
    enough = rng.randrange(min(first, edges[-1] - lead)) + 1
    return [head + b"\r\n\r\n", *filter(None, writes)], body, enough


def _pack(rng: random.Random, body: bytes) -> tuple[str, bytes]:
    return rng.choice(
        [("gzip", gzip.compress(body, mtime=0)), ("deflate", zlib.compress(body)), ("br", brotli.compress(body))]
    )


def _cut(rng: random.Random, body: bytes) -> list[bytes]:
    edges = sorted(rng.randrange(len(body) + 1) for _ in range(rng.choice([0, 1, 3, 12])))
    return [body[start:stop] for start, stop in zip([0, *edges], [*edges, len(body)], strict=True) if start < stop]
