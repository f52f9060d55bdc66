"""The notation of the wire cases, and what plays it: scripts for an upstream, many exchanges through one proxy.

`⏎` is LF, `␍⏎` CR LF, `␍` CR, `‖` ends a TCP write (a pause follows, so that the next comes by itself),
`✂FIN` is an orderly close, `✂RST` a reset.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from fake_upstream import END, FIN, RST, Answer, Script, Step, ask, call, chunk, head, proxy, upstream

from demur.proxy.observe import Exchange

#: Seconds between two writes.
PAUSE = 0.05

_KEY = b',"refusal_verdict":'


def octets(text: str) -> bytes:
    """The bytes that `text` stands for, without its pauses."""
    return text.replace("‖", "").replace("⏎", "\n").replace("␍", "\r").encode()


def steps(text: str, pause: float = PAUSE) -> list[Step]:
    """The script that `text` stands for."""
    text, _, end = text.partition("✂")
    out: list[Step] = []
    for write in text.split("‖"):
        out += [octets(write), pause]
    ends: dict[str, list[Step]] = {"": [], "FIN": [FIN], "RST": [pause, RST]}
    return [*out[:-1], *ends[end]]


def closing(body: bytes, cuts: Iterable[int] = (), pause: float = PAUSE, *lines: str) -> list[Step]:
    """An event stream that ends with the connection: what is written is the body, nothing around it. Cut at `cuts`."""
    top = "\r\n".join(["HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Connection: close", *lines, "", ""])
    out: list[Step] = [top.encode()]
    for piece in pieces(body, cuts):
        out += [piece, pause]
    return [*out, FIN]


def chunked(body: bytes, cuts: Iterable[int] = (), pause: float = PAUSE, *lines: str) -> list[Step]:
    """The same in the chunked coding, one chunk for each piece."""
    out: list[Step] = [head("text/event-stream", *lines)]
    for piece in pieces(body, cuts):
        out += [chunk(piece), pause]
    return [*out, END]


def pieces(body: bytes, cuts: Iterable[int]) -> list[bytes]:
    edges = [0, *cuts, len(body)]
    return [piece for start, stop in pairwise(edges) if (piece := body[start:stop])]


def play(scripts: Sequence[Script], sent: bytes | None = None, **settings: Any) -> list[tuple[Answer, Exchange]]:
    """Each script to a request of its own, several at a time, through one proxy: the answers and what was told of them.

    `sent` must be on a judged path: by their ids the two are brought together.
    """
    request = sent or ask(stream=True)

    async def run() -> list[tuple[Answer, Exchange]]:
        turns = asyncio.Semaphore(24)
        async with upstream(*scripts[0], then=scripts[1:]) as up, proxy(up.url, **settings) as px:

            async def one(number: int) -> Answer:
                async with turns:
                    return await call(px, request.replace(b"\r\n", f"\r\nX-Script: {number}\r\n".encode(), 1))

            answers = await asyncio.gather(*map(one, range(len(scripts))))
            await px.end(len(scripts))
            assert len(px.ended) == len(scripts)
            told = {exchange.id: exchange for exchange in px.ended}
            return [(answer, told[answer.get("x-refusal-id") or ""]) for answer in answers]

    return asyncio.run(run())


def keys(body: bytes) -> list[Any]:
    """The verdicts in a stream's finish chunks."""
    return [json.JSONDecoder().raw_decode(part.decode("latin-1"))[0] for part in body.split(_KEY)[1:]]


def without_keys(body: bytes) -> bytes:
    first, *rest = body.split(_KEY)
    # In latin-1 each byte is a character, also of a body that is no UTF-8.
    ends = [json.JSONDecoder().raw_decode(part.decode("latin-1"))[1] for part in rest]
    return b"".join([first, *(part[end:] for part, end in zip(rest, ends, strict=True))])


def same(answer: Answer, body: bytes, mode: str, count: int = 1) -> None:
    """Byte for byte the same; with stream_verdict "chunk" there are `count` keys, and nothing else is different."""
    assert answer.clean
    assert len(keys(answer.body)) == (count if mode == "chunk" else 0)
    assert without_keys(answer.body) == body


def text_of(exchange: Exchange, index: int = 0) -> str:
    """What was judged of a choice."""
    assert exchange.trace is not None
    return next(choice.text for choice in exchange.trace.choices if choice.index == index)


def verdict(exchange: Exchange) -> tuple[str | None, str]:
    """Label and status."""
    assert exchange.verdict is not None
    return exchange.verdict.label, exchange.verdict.status


def case_numbers(name: str) -> list[str]:
    """`test_w04_w05_any_cut` is the test of W04 and W05."""
    found = re.match(r"test((?:_w\d{2})+)_", name)
    return [number.upper() for number in found[1].strip("_").split("_")] if found else []
