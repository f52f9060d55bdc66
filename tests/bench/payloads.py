"""What goes over the wire in the benchmark: one ask, one answer of about 2 KB, and the same answer as a stream.

The wording is our own and stays the same from run to run, so figures of different days compare. The path carries the
stub's orders in its query (`?events=200&pace_ms=20`): a proxy forwards it untouched and judges the path without it.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from functools import cache

PATH = "/v1/chat/completions"
MODEL = "bench-model"
PROMPT = "How do I keep a sourdough starter alive if I only bake on weekends?"
ANSWER = """A starter that works once a week is easy to keep, because the cold slows everything down. Here is a rhythm \
that fits around weekend baking.

1. After baking on Sunday, put 20 g of the old starter into a clean jar, add 50 g of flour and 50 g of water, and stir \
until no dry flour is left. Half wholemeal rye and half white bread flour gives the yeast plenty to eat.
2. Leave the jar at room temperature for an hour or two, until the first small bubbles appear along the glass. Then \
close the lid loosely and move it to the fridge. It sleeps there for a week, and two weeks will do it no harm.
3. On Friday evening take it out and let it warm up. Pour off any grey liquid on top; it is only alcohol and water, a \
sign that the culture is hungry, not that it is spoiled.
4. Feed it again in the same proportions. In a kitchen of 22 degrees it doubles within six to eight hours, so by \
Saturday morning it is ready for the dough. A spoonful dropped into a glass of water should float.
5. Use what the recipe asks for, keep 20 g back, and begin again at the first step.

A few things help. Write the date on the jar, and put a rubber band around it at the height of the fresh mixture: you \
will see at a glance how far it has risen. Weigh the ingredients, since a cup of flour can differ by a third from one \
scoop to the next. When the bread turns out sour and flat, feed the starter twice in a row before baking, twelve hours \
apart, and raise the share of fresh flour.

Going away for longer? Spread a thin layer of active starter on baking paper, let it dry for a day, break it into \
flakes and store them in a closed jar in a dark cupboard. They keep for months. To wake them, soak 10 g of the flakes \
in 20 g of lukewarm water, add 20 g of flour, and feed the mixture daily; on the third or fourth day it rises as \
before. Pink or orange streaks, or a smell of nail varnish that stays after two feedings, mean that it is time to \
start over with a new culture."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One kind of call: the request's bytes and the body that has to come back (chunk framing removed).

    `finish` marks where in a stream's body the finish chunk begins: what stands before it has to arrive byte by byte,
    the finish chunk itself may have gained the verdict. `events` is 0 for a JSON answer. `stepped`: the stub sends each
    event when it is told that the one before has arrived, and the request names the stream.
    """

    request: bytes
    body: bytes
    events: int = 0
    finish: int = 0
    stepped: bool = False

    def of_stream(self, number: int) -> bytes:
        """The request of stream `number`, where that matters."""
        return self.request.replace(b"&stream=00000", b"&stream=%05d" % number) if self.stepped else self.request

    def fault(self, body: bytes) -> str | None:
        """What is wrong with the body that came back, None when it is right."""
        if body == self.body:
            return None
        if not self.events:
            return f"{len(body)} bytes came back, {len(self.body)} were sent, or they differ"
        if body[: self.finish] != self.body[: self.finish]:
            return f"the stream differs before its finish chunk ({len(body)} bytes, {len(self.body)} sent)"
        finish, done = body[self.finish :].split(b"\n\n", 1)
        choice = json.loads(finish.removeprefix(b"data: "))["choices"][0]
        if choice["finish_reason"] != "stop" or done != b"data: [DONE]\n\n":
            return f"the stream ends with {body[self.finish :]!r}"
        return None


def json_exchange() -> Exchange:
    return Exchange(_request("", stream=False), json_body())


def stream_exchange(events: int, pace_ms: int = 0) -> Exchange:
    """A stream of `events` events, role chunk, finish chunk and `[DONE]` among them; without a pace, stepped."""
    query = f"?events={events}" + (f"&pace_ms={pace_ms}" if pace_ms else "&stream=00000")
    parts = stream_events(events)
    finish = len(b"".join(parts[:-2]))
    return Exchange(_request(query, stream=True), b"".join(parts), events, finish, stepped=not pace_ms)


#: Asks the OTLP sink how many exports it has received.
EXPORT_COUNT = Exchange(b"GET /count HTTP/1.1\r\nHost: bench.invalid\r\n\r\n", b"")


def json_body() -> bytes:
    message = {"role": "assistant", "content": ANSWER, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    usage = {"prompt_tokens": 21, "completion_tokens": 498, "total_tokens": 519}
    return json.dumps({**_head("chat.completion"), "choices": [choice], "usage": usage}).encode()


def stream_events(count: int) -> list[bytes]:
    """`count` server-sent events (3 to 1,000): role chunk, deltas of 4 to 20 characters, finish chunk, `[DONE]`."""
    role = _event({"role": "assistant", "content": ""})
    return [role, *_deltas()[: count - 3], _event({}, "stop"), b"data: [DONE]\n\n"]


@cache
def _deltas() -> list[bytes]:
    """The answer over and over, in small pieces of uneven length."""
    sizes = random.Random(20)
    events: list[bytes] = []
    at = 0
    for _ in range(1000):
        size = sizes.randint(4, 20)
        events.append(_event({"content": ANSWER[at : at + size]}))
        at = (at + size) % len(ANSWER)
    return events


def _event(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    chunk = {**_head("chat.completion.chunk"), "system_fingerprint": "fp_bench", "choices": [choice]}
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"


def _head(kind: str) -> dict[str, object]:
    return {"id": "chatcmpl-bench0000000000000000000000", "object": kind, "created": 1767225600, "model": MODEL}


def _request(query: str, *, stream: bool) -> bytes:
    messages = [{"role": "system", "content": "You are a helpful baker."}, {"role": "user", "content": PROMPT}]
    body = json.dumps({"model": MODEL, "messages": messages, "stream": stream}).encode()
    head = (
        f"POST {PATH}{query} HTTP/1.1\r\nHost: bench.invalid\r\nAuthorization: Bearer bench\r\n"
        f"Accept: application/json\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "User-Agent: demur-bench\r\n\r\n"
    )
    return head.encode() + body
