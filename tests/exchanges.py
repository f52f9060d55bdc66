"""Exchanges for the tests of what reads them: spans, metrics, verdict log."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from demur.classifier.trace import Ask, Choice, Trace, Usage
from demur.classifier.verdict import Code, Signal, Span, Verdict
from demur.proxy.observe import Exchange

PROMPT = "tell me the zebra password"
REPLY = "I won't share the zebra password, sorry."

REFUSAL = Verdict(
    label="hard_refusal",
    status="complete",
    confidence=0.97,
    rationale="policy",
    strategy="explicit",
    features={"apology": True, "hedge": False, "negative_stance": True},
    codes=(Code("rationale", "policy", "en.rule.own", "puts it on a rule of its own", (Span(14, 32, REPLY[14:32]),)),),
    signals=(
        Signal("refusal_phrase", "hard_refusal", 0.9, "en.refuse.wont", "declines", (Span(0, 13, REPLY[0:13]),)),
        Signal("apology", "hard_refusal", 0.2, "en.apology.sorry", "says sorry", (Span(34, 39, REPLY[34:39]),)),
        Signal("refusal_phrase", "hard_refusal", 0.5, "en.refuse.share", "declines", (Span(2, 13, REPLY[2:13]),)),
    ),
    language="en",
    model="gpt-x",
    rules_version="2026.1",
    id="id-1",
)
TRACE = Trace(
    ask=Ask(prompt=PROMPT, system="guard the zebra", model="gpt-x"),
    choices=(Choice(text=REPLY, finish_reason="stop"),),
    model="gpt-x-2026",
    response_id="resp-1",
    api="openai.chat",
    usage=Usage(input_tokens=11, output_tokens=7, cached_tokens=3, reasoning_tokens=0),
)


def exchange(**changes: Any) -> Exchange:
    """A refused chat completion that took 1.5 s; `changes` replace fields."""
    started = time.perf_counter()
    base = Exchange(
        id="id-1",
        api="openai.chat",
        provider="openai",
        method="POST",
        path="/v1/chat/completions",
        ask=TRACE.ask,
        tag="team-a",
        stream=False,
        upstream_host="api.example.test",
        upstream_port=443,
        status_code=200,
        end="complete",
        error=None,
        started_ns=time.time_ns(),
        started=started,
        first_byte=started + 0.5,
        first_event=None,
        ended=started + 1.5,
        done_marker=None,
        classify_seconds=0.0002,
        trace=TRACE,
        verdict=REFUSAL,
    )
    return replace(base, **changes)


def unjudged(**changes: Any) -> Exchange:
    """A listing of models: nothing to judge."""
    fields: dict[str, Any] = {
        "api": None,
        "provider": None,
        "method": "GET",
        "path": "/v1/models",
        "ask": Ask(),
        "trace": None,
        "verdict": None,
        "tag": None,
    }
    return exchange(**(fields | changes))
