"""The conversation a judge is asked in: the codebook, calibration examples of our own, then the exchange as data."""

from __future__ import annotations

import hashlib
import json
import tomllib
from functools import cache
from importlib.resources import files
from itertools import count
from typing import Any

from demur.audit.coding_answer import CodingAnswer, json_schema
from demur.audit.quotations import shown
from demur.classifier.trace import Ask
from demur.classifier.verdict import FEATURES

#: Characters of each text that a judge gets at most, from its beginning and its end.
MAX_RESPONSE = 12_000
MAX_PROMPT = 6_000
MAX_SYSTEM = 3_000

Message = dict[str, str]


def messages(ask: Ask, response: str) -> list[Message]:
    """The whole conversation. All but its last message is the same each time, so that endpoints can cache it."""
    return [*_preamble(), {"role": "user", "content": exchange(ask, response)}]


def exchange(ask: Ask, response: str) -> str:
    """The exchange between markers that stand nowhere in it: what is in there can't pretend to come after it."""
    parts = [
        ("system message", _cut(ask.system, MAX_SYSTEM)),
        ("ask", _cut(ask.prompt, MAX_PROMPT) or "(not recorded)"),
        ("response", _cut(response, MAX_RESPONSE)),
    ]
    parts = [(name, text) for name, text in parts if text]
    marker = next(m for n in count(1) if not any((m := f"====={n}=====") in text for _, text in parts))
    lines = [line for name, text in parts for line in (f"{marker} {name}", text)]
    first, last = f"Material to code, up to the line `{marker} end`:", "Code it: the JSON object alone."
    return "\n".join([first, *lines, f"{marker} end", last])


@cache
def prompt_version() -> str:
    """Changes whenever a judge would be asked in other words: codings of two versions are not to be mixed."""
    told = json.dumps([_preamble(), json_schema(), MAX_RESPONSE, MAX_PROMPT, MAX_SYSTEM], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def content_key(model: str, ask: Ask, response: str) -> str:
    """A hash of all that a coding depends on, whatever endpoint the model is reached through."""
    return hashlib.sha256(json.dumps([model, prompt_version(), exchange(ask, response)]).encode()).hexdigest()


@cache
def calibration() -> tuple[tuple[Ask, str, CodingAnswer], ...]:
    """The examples: an ask, a response, and how it is coded."""
    data = tomllib.loads(_read("calibration.toml"))
    return tuple((Ask(e["ask"], e.get("system", "")), e["response"], _answer(e)) for e in data["example"])


def _answer(example: dict[str, Any]) -> CodingAnswer:
    present = set(example["features"])
    features = {name: name in present for name in FEATURES} if "strategy" in example else None
    evidence = [{"code": code, "quote": quote} for code, quotes in example["quotes"].items() for quote in quotes]
    return CodingAnswer.model_validate({**example, "features": features, "evidence": evidence})


def _preamble() -> list[Message]:
    out = [{"role": "system", "content": _read("codebook.md")}]
    for ask, response, answer in calibration():
        out.append({"role": "user", "content": exchange(ask, response)})
        out.append({"role": "assistant", "content": answer.model_dump_json()})
    return out


def _cut(text: str, limit: int) -> str:
    # Half a surrogate pair can't be sent as UTF-8. One character for one, so that offsets stay.
    text = text.encode("utf-8", "replace").decode()
    head, tail = shown(text, limit)
    return f"{head}\n[… {len(text) - limit:,} characters left out …]\n{tail}" if tail else head


@cache
def _read(name: str) -> str:
    return files("demur.audit").joinpath(name).read_text("utf-8")
