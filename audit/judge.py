"""A language model as a second opinion: it codes a response by the codebook, through any chat-completions endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import httpx
from pydantic import SecretStr

from demur.audit.coding import Coding, Usage
from demur.classifier.trace import Trace
from demur.classifier.verdict import Verdict

__all__ = ["Coding", "Judge", "JudgeError", "JudgeOptions", "Usage", "reviewed"]


class JudgeError(Exception):
    """Something that makes every call fail: a wrong key, model or URL, a cache that can't be used. Says what and where."""


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """Which model to ask, and within what bounds.

    `url` is the API's base URL (such as `http://127.0.0.1:11434/v1`). `timeout` limits one request, `total_timeout` one
    response with all its requests and the waits between, both in seconds. `max_tokens` is the budget of all requests
    together. Prices are per million tokens.
    """

    url: str
    model: str
    key: SecretStr | None = None
    key_name: str | None = None  # the environment variable that it came from, for error texts
    concurrency: int = 4
    timeout: float = 60.0
    total_timeout: float = 300.0
    attempts: int = 4
    max_tokens: int | None = None
    cache: Path | None = None
    input_price: float | None = None
    output_price: float | None = None


class Judge:
    """Asks one model. Made anywhere, used as an asynchronous context in one event loop; tasks may share it."""

    def __init__(
        self,
        options: JudgeOptions,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name = options.model
        self.usage = Usage()
        self.prompt_version = ""

    async def __aenter__(self) -> Judge:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def key(self, trace: Trace, *, index: int | None = None) -> str:
        """A hash of all that the coding depends on: model, prompt version and the texts of the trace."""
        raise NotImplementedError

    async def code(self, trace: Trace, *, index: int | None = None) -> Coding:
        """The coding of the choice with this `index` (None: the first that has text). Never raises but JudgeError."""
        raise NotImplementedError

    @property
    def cost(self) -> float | None:
        """What `usage` costs by the prices; None without them."""
        raise NotImplementedError


def reviewed(trace: Trace, verdict: Verdict, coding: Coding, judge_name: str) -> Verdict:
    """The verdict to report once the judge was asked about the choice `verdict.index`."""
    raise NotImplementedError
