"""A language model as a second opinion: it codes a response by the codebook, through any chat-completions endpoint.

    judge_options   which model, within what bounds
    codebook        the conversation that it is asked in (codebook.md, calibration.toml)
    judge_client    one endpoint: retries, waits, what it does not know
    judge_said      its words and those of its endpoint, fit to be kept
    coding_answer   what it must answer, read and checked; `quotations` finds its words in the response again
    judge_refusal   whether what it answers instead is a refusal
    coding          what came of it, for everybody else
    judge_cache     codings kept in a file
    review          a verdict and a coding become the verdict to report
    second_opinion  the tie-breaker of `classify(…, judge=…)`

This file: one response to one coding, within the budget.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import httpx

from demur.audit.codebook import MAX_RESPONSE, content_key, messages, prompt_version
from demur.audit.coding import SETTLED, Coding, Usage
from demur.audit.coding_answer import CodingAnswer, NotJson, json_schema, read
from demur.audit.judge_cache import JudgeCache
from demur.audit.judge_client import ANSWER_TOKENS, JudgeClient, Unanswered, estimate
from demur.audit.judge_options import JudgeError, JudgeOptions
from demur.audit.judge_refusal import declines
from demur.audit.judge_said import masked, one_line
from demur.audit.review import reviewed
from demur.classifier.replies import judged_text
from demur.classifier.trace import Choice, Trace
from demur.classifier.voice import answer_start

__all__ = ["Coding", "Judge", "JudgeError", "JudgeOptions", "Usage", "reviewed"]

#: The best first; an endpoint that knows none gets along by the codebook's own words.
FORMATS: tuple[Mapping[str, object], ...] = (
    {"type": "json_schema", "json_schema": {"name": "coding", "strict": True, "schema": json_schema()}},
    {"type": "json_object"},
)
#: Characters of the judge's own words that are kept.
REASON = 500
#: Characters of an answer that can't be read, shown to the judge again.
_SHOWN_AGAIN = 4000


class _OverBudget(Exception):
    """The budget has no room for another request."""


class Judge:
    """Asks one model. Made anywhere, used as an asynchronous context in one event loop, where tasks may share it.

    `name` is the model's; `usage` is what was used so far. Entering raises JudgeError when the cache can't be used.
    """

    def __init__(
        self,
        options: JudgeOptions,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name, self.usage, self.prompt_version = options.model, Usage(), prompt_version()
        self._options, self._transport, self._sleep = options, transport, sleep
        self._reserved = 0
        self._cache: JudgeCache | None = None
        self._client: JudgeClient | None = None

    async def __aenter__(self) -> Self:
        if self._options.cache is not None:
            self._cache = JudgeCache(self._options.cache)
        self._client = JudgeClient(self._options, FORMATS, self._transport, self._sleep)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.aclose()
        if self._cache is not None:
            self._cache.close()

    @property
    def cost(self) -> float | None:
        """What `usage` costs by the prices of the options; None without them."""
        prices = self._options.input_price, self._options.output_price
        if prices == (None, None):
            return None
        tokens = self.usage.input_tokens, self.usage.output_tokens
        return sum(count * (price or 0) for count, price in zip(tokens, prices, strict=True)) / 1e6

    def key(self, trace: Trace, *, index: int | None = None) -> str:
        """A hash of all that the coding depends on: model, prompt version, the texts as they are shown."""
        choice = _choice(trace, index)
        return content_key(self.name, trace.ask, _text(choice) if choice else "")

    async def code(self, trace: Trace, *, index: int | None = None) -> Coding:
        """The coding of the choice with this `index` (None: of the first that has text).

        What an API has blocked, and what has no text, is not sent: `failed`. Raises JudgeError for what would befall
        every other trace too.
        """
        choice = _choice(trace, index)
        if choice is None:
            return Coding("failed", reason="there is no text to code")
        text, key = _text(choice), self.key(trace, index=index)
        if known := await self._known(key):
            self.usage += known.usage
            return known
        spent = Usage()

        def count(usage: Usage) -> None:
            nonlocal spent
            spent += usage
            self.usage += usage

        async with self._endpoint.slots:
            try:
                async with asyncio.timeout(self._options.total_timeout):
                    coding = await self._ask(messages(trace.ask, text), text, count)
            except TimeoutError:
                coding = Coding("failed", reason=f"not coded within {self._options.total_timeout:g} s")
        coding = coding.with_usage(spent)
        if self._cache is not None and coding.outcome in SETTLED:
            await asyncio.to_thread(self._cache.put, key, coding)
        return coding

    async def _known(self, key: str) -> Coding | None:
        """The coding in the cache. In a thread, since another process may be writing."""
        known = await asyncio.to_thread(self._cache.get, key) if self._cache is not None else None
        return known.with_usage(Usage(cached=1)) if known else None

    async def _ask(self, talk: Sequence[Mapping[str, str]], text: str, count: Callable[[Usage], None]) -> Coding:
        """Asks, and once more with what was wrong if the answer can't be used."""
        for again in (True, False):
            try:
                with self._within_budget(talk):
                    reply = (await self._endpoint.complete(talk, count)).choices[0]
            except _OverBudget:
                return Coding("over_budget", reason=f"{self._options.max_tokens:,} tokens leave no room for it")
            except Unanswered as why:
                return Coding("failed", reason=str(why))
            if reply.refusal or reply.blocked_by:
                return self._declined(reply.refusal or f"the judge's API blocked it: {reply.blocked_by}")
            try:
                return self._coding(read(reply.text, text, MAX_RESPONSE))
            except NotJson as error:
                # In a thread: the first verdict compiles the rules.
                if await asyncio.to_thread(declines, reply.text):
                    return self._declined(reply.text)
                problem = str(error)
            except ValueError as error:
                problem = str(error)
            problem += " (it breaks off)" if reply.truncated else ""
            if again:
                talk = [*talk, *_correction(reply.text, problem)]
        return Coding("failed", reason=f"the judge's answer can't be used, twice in a row: {problem}")

    def _coding(self, answer: CodingAnswer) -> Coding:
        if answer.cannot_code:
            return self._declined(answer.cannot_code)
        secrets = self._options.secrets
        quotes = {code: tuple(masked(q, secrets) for q in words) for code, words in answer.quotes().items()}
        return Coding(
            "coded",
            label=answer.label,
            confidence=answer.confidence,
            rationale=answer.rationale,
            strategy=answer.strategy,
            features=answer.present() if answer.strategy else None,
            quotes=quotes,
            reason=one_line(answer.reason, secrets, REASON) or None,
        )

    def _declined(self, words: str) -> Coding:
        return Coding("declined", reason=one_line(words, self._options.secrets, REASON))

    @contextmanager
    def _within_budget(self, talk: Sequence[Mapping[str, str]]) -> Iterator[None]:
        """Keeps room for one request, so that those under way together do not exceed the budget."""
        budget, needed = self._options.max_tokens, estimate(talk) + ANSWER_TOKENS
        if budget is not None and self.usage.tokens + self._reserved + needed > budget:
            raise _OverBudget
        self._reserved += needed
        try:
            yield
        finally:
            self._reserved -= needed

    @property
    def _endpoint(self) -> JudgeClient:
        if self._client is None:
            raise RuntimeError("a Judge is used within `async with`")
        return self._client


def _choice(trace: Trace, index: int | None) -> Choice | None:
    """The choice to code. What the API itself has blocked or put into its refusal field needs no second opinion."""
    if trace.problem is not None:
        return None
    for choice in trace.choices:
        if index in (None, choice.index) and not choice.blocked_by and not choice.refusal and _text(choice).strip():
            return choice
    return None


def _text(choice: Choice) -> str:
    """The answer without thinking before it."""
    text = judged_text(choice)
    return text[answer_start(text, final=True) :]


def _correction(answer: str, problem: str) -> list[Mapping[str, str]]:
    told = f"This can't be used: {problem}. Answer again, with one JSON object as the codebook describes it."
    return [{"role": "assistant", "content": answer[:_SHOWN_AGAIN] or "(empty)"}, {"role": "user", "content": told}]
