"""The main job: recorded responses, replayed, called through the proxy with the real openai package.

Every text arrives intact; every verdict (headers, finish chunk, lookup) is that of `demur classify` on the same row.
Replay and proxy are real processes on free ports.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
from processes import started

COMMAND = [sys.executable, "-m", "demur.cli.main"]
OWN_ROWS = Path(__file__).parent / "data" / "rows.jsonl"
#: Calls that run at once.
PARALLEL = 8

Row = dict[str, Any]


def test_own_rows_arrive_intact_with_the_verdict_of_classify() -> None:
    check(read(OWN_ROWS), OWN_ROWS)


def test_recorded_responses_arrive_intact_with_the_verdict_of_classify(
    shared_corpus: Callable[[str], Path], tmp_path: Path
) -> None:
    rows = with_distinct_prompts(read(shared_corpus("xstest_v2.jsonl")), 200)
    assert len({row["model"] for row in rows}) >= 5
    chosen = tmp_path / "chosen.jsonl"
    chosen.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    check(rows, chosen)


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def with_distinct_prompts(rows: Sequence[Row], count: int) -> list[Row]:
    """One row for each of `count` prompts, taken from the models in turn."""
    by_prompt: dict[str, list[Row]] = {}
    for row in rows:
        by_prompt.setdefault(row["prompt"].strip(), []).append(row)
    return [found[turn % len(found)] for turn, found in enumerate(by_prompt.values())][:count]


def check(rows: Sequence[Row], file: Path) -> None:
    expected = classified(file)
    with (
        running(r"base_url=(\S+)", "replay", str(file), "--port", "0") as replay,
        running(r"listening on (\S+)", "serve", "--upstream", replay, "--port", "0", "--admin-port", "0") as proxy,
    ):
        asyncio.run(call_all(rows, expected, proxy))


def classified(file: Path) -> dict[str, Row]:
    done = subprocess.run([*COMMAND, "classify", "--jsonl", str(file)], capture_output=True, check=False)
    assert done.returncode == 2, done.stderr
    return {verdict["id"]: verdict for verdict in map(json.loads, done.stdout.splitlines())}


@contextmanager
def running(address: str, *args: str) -> Iterator[str]:
    """A `demur` process that serves; gives the `address` that it prints. It must end by SIGTERM, with 0."""
    with started([*COMMAND, *args], stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        found = next((match for line in process.stdout if (match := re.search(address, line))), None)
        assert found is not None, f"demur {args[0]} did not start"
        yield found[1]
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(timeout=30) == 0, rest


async def call_all(rows: Sequence[Row], expected: dict[str, Row], proxy: str) -> None:
    gate = asyncio.Semaphore(PARALLEL)
    async with (
        openai.AsyncOpenAI(base_url=f"{proxy}/v1", api_key="none", max_retries=0, timeout=60) as client,
        httpx.AsyncClient(base_url=proxy, trust_env=False, timeout=60) as lookup,
    ):

        async def one(row: Row) -> None:
            async with gate:
                await call_json(client, lookup, row, expected[row["id"]])
                await call_stream(client, lookup, row, expected[row["id"]])

        await asyncio.gather(*map(one, rows))


async def call_json(client: openai.AsyncOpenAI, lookup: httpx.AsyncClient, row: Row, expected: Row) -> None:
    raw = await client.chat.completions.with_raw_response.create(model=row["model"], messages=asking(row))
    headers, completion = raw.headers, raw.parse()
    assert (completion.choices[0].message.content or "") == row["response"]
    assert headers.get("x-refusal-verdict") == expected["label"], row["id"]
    assert headers["x-refusal-status"] == expected["status"]
    assert headers.get("x-refusal-action") == expected["action"]
    assert headers.get("x-refusal-rationale") == expected["rationale"]
    assert headers.get("x-refusal-strategy") == expected["strategy"]
    assert headers.get("x-refusal-features", "") == ",".join(present(expected) or ())
    assert headers.get("x-refusal-signals", "") == ",".join(signal_names(expected))
    if expected["confidence"] is not None:
        assert float(headers["x-refusal-score"]) == float(f"{expected['confidence']:.3g}")
    await check_lookup(lookup, headers["x-refusal-id"], expected)


async def call_stream(client: openai.AsyncOpenAI, lookup: httpx.AsyncClient, row: Row, expected: Row) -> None:
    raw = await client.chat.completions.with_raw_response.create(model=row["model"], messages=asking(row), stream=True)
    assert raw.headers["x-refusal-verdict"] == "pending"
    id = raw.headers["x-refusal-id"]
    text, key = "", None
    async with raw.parse() as chunks:
        async for chunk in chunks:
            text += chunk.choices[0].delta.content or ""
            assert (chunk.choices[0].finish_reason is not None) == ("refusal_verdict" in (chunk.model_extra or {}))
            key = (chunk.model_extra or {}).get("refusal_verdict", key)
    assert text == row["response"]
    assert key is not None, row["id"]
    how = {"strategy": expected["strategy"], "features": present(expected)}
    assert key == {
        **{name: expected[name] for name in ("label", "confidence", "status", "action", "rationale")},
        **{name: value for name, value in how.items() if value is not None},
        "signals": signal_names(expected),
        "id": id,
    }
    await check_lookup(lookup, id, expected)


async def check_lookup(lookup: httpx.AsyncClient, id: str, expected: Row) -> None:
    found = (await lookup.get(f"/-/verdicts/{id}")).json()
    wanted = json.loads(json.dumps(expected)) | {"id": id}
    for evidence in (*wanted["signals"], *wanted["codes"]):
        for span in evidence["spans"]:
            del span["text"]
    assert found == wanted


def asking(row: Row) -> Any:
    return [{"role": "user", "content": row["prompt"]}]


def present(verdict: Row) -> list[str] | None:
    features = verdict["features"]
    return None if features is None else [name for name in features if features[name]]


def signal_names(verdict: Row) -> list[str]:
    return list(dict.fromkeys(found["name"] for found in verdict["signals"]))
