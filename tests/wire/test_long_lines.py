"""Lines without end: W16. A tool's arguments may be one line of many megabytes; it passes, and costs what it may."""

from __future__ import annotations

import asyncio

import pytest
from fake_upstream import DONE, END, Script, ask, call_port, chunk, event, head, say, upstream
from wire.exported import play_exported
from wire.notation import chunked, play, same, verdict, without_keys
from wire.serving import serving

STOP = event({}, "stop")
MODES = pytest.mark.parametrize("mode", ["off", "chunk"])
MIB = 1024 * 1024


def arguments(size: int) -> bytes:
    """One chunk of a tool call, `size` bytes long."""
    call = [{"index": 0, "id": "t", "function": {"name": "draw", "arguments": "@"}}]
    piece = event({"tool_calls": call})
    return piece.replace(b"@", b"A" * (size - len(piece) + 1))


@MODES
@pytest.mark.parametrize("size", [64 * 1024 + 1, 512 * 1024 + 1, MIB + 1, 8 * MIB])
def test_w16_one_long_line_is_not_cut(size: int, mode: str) -> None:
    tool = arguments(size) + event({}, "tool_calls") + DONE
    text = say("word " * (size // 5)) + STOP + DONE
    scripts = [chunked(body, range(60_000, len(body), 60_000), 0.0) for body in (tool, text)]
    (tool_answer, tool_exchange, tool_spans), (text_answer, text_exchange, text_spans) = play_exported(
        scripts, stream_verdict=mode
    )
    assert len(arguments(size)) == size
    for answer, body in ((tool_answer, tool), (text_answer, text)):
        same(answer, body, mode)
    capped = size > 2 * MIB  # inspect_bytes
    assert verdict(tool_exchange) == (None, "incomplete" if capped else "tool_call")
    assert verdict(text_exchange)[1] == ("incomplete" if capped else "complete")
    for exchange, spans in ((tool_exchange, tool_spans), (text_exchange, text_spans)):
        assert exchange.verdict is not None
        assert (exchange.verdict.inspected < 1) == capped
        assert spans.both("refusal.inspected") == (exchange.verdict.inspected if capped else None)
        assert spans.both("refusal.status") == exchange.verdict.status


def test_w16_an_event_beyond_any_bound_passes_too() -> None:
    body = say("x" * 17 * MIB) + STOP + DONE
    ((answer, exchange),) = play([chunked(body, range(60_000, len(body), 60_000), 0.0)], stream_verdict="off")
    same(answer, body, "off")
    assert exchange.verdict is not None
    assert verdict(exchange) == (None, "incomplete")
    assert exchange.verdict.inspected < 0.1


def test_w16_what_is_kept_of_a_long_line_is_capped() -> None:
    """A line of 8 MiB is there in few copies; of 24 MiB, no more is kept than of 16."""

    async def run() -> None:
        fine: Script = [head(), chunk(say("Fine.") + STOP + DONE), END]
        async with upstream(*fine) as up, serving(up.url) as app:
            for _ in range(4):
                await call_port(app.port, ask(stream=True))
            app.reset_peak()
            before = app.peak()
            for size in (24 * MIB, 8 * MIB):
                body = arguments(size) + event({}, "tool_calls") + DONE
                up.scripts = [[head(), *[chunk(body[at : at + 2**18]) for at in range(0, size + 2**18, 2**18)], END]]
                app.reset_peak()
                answer = await call_port(app.port, ask(stream=True))
                assert (without_keys(answer.body), answer.clean) == (body, True)
                assert app.peak() - before < 40 * MIB

    asyncio.run(run())
