"""One chat-completions endpoint: a conversation goes out, a completion comes back, whatever it takes in between.

Knows HTTP, waits and what endpoints are picky about; nothing of codebooks. No error text holds the key, and
nothing that comes is trusted: not its length, not its headers, not its words.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from demur.audit.coding import Usage
from demur.audit.judge_options import JudgeError, JudgeOptions
from demur.audit.judge_said import one_line
from demur.classifier import fields
from demur.classifier.blocks import error_code
from demur.classifier.shapes import read_body
from demur.classifier.trace import Ask, Trace
from demur.config.values import mask_url

#: Bytes of a response that are read at most. A coding has some thousands.
MAX_BODY = 1_000_000
#: The guess of one answer in tokens, where nobody tells. Those of the calibration examples have 150 to 350.
ANSWER_TOKENS = 400
#: Tokens of one answer beyond which what an endpoint states is no count.
MOST_TOKENS = 10**9
#: Seconds before the second attempt; doubled for each that follows.
FIRST_WAIT = 1.0
#: Seconds of one wait at most, also where the endpoint asks for more.
LONGEST_WAIT = 60.0

_AGAIN = frozenset({408, 409, 425, 429})
#: These answer every request alike.
_HOPELESS = frozenset({401, 402, 403, 404, 405, 410})
#: Quotas that no wait refills, and unknown models under a status that tells nothing.
_HOPELESS_CODES = frozenset({"insufficient_quota", "model_not_found", "invalid_model"})
_UNKNOWN_MODEL = re.compile(
    r"\b(invalid|unknown|no such) model\b|\bmodel\b.{0,100}\b(not found|(does|did) not exist)\b", re.IGNORECASE
)
_UNREACHED = (httpx.ConnectError, httpx.ConnectTimeout)
_FORMAT_WORDS = ("response_format", "json_schema", "json_object", "structured output", "guided", "grammar")
#: Characters of an endpoint's own words that are passed on.
_WORDS = 300


class Unanswered(Exception):
    """One conversation got no completion; another may."""


class _Again(Exception):
    """Worth another attempt. `wait` is what the endpoint asks for, in seconds."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


@dataclass(frozen=True, slots=True)
class _Response:
    """What came back; `unread` says why the body was left unread."""

    status: int
    retry_after: str
    body: bytes = b""
    unread: str = ""


Count = Callable[[Usage], None]
Talk = Sequence[Mapping[str, str]]


class JudgeClient:
    """Sends conversations to the model of `options`. `formats` are the response formats to try, the best first.

    What the endpoint does not know is left out from then on. `slots` is for callers to keep to the concurrency. Raises
    JudgeError for a URL that can't be called. Lives in one event loop.
    """

    def __init__(
        self,
        options: JudgeOptions,
        formats: Sequence[Mapping[str, Any]],
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.slots = asyncio.Semaphore(options.concurrency)
        self._options, self._sleep = options, sleep
        self._formats: list[Mapping[str, Any]] = list(formats)
        # The same answer each time, as far as the endpoint can. Reasoning models know no temperature.
        self._extras: dict[str, Any] = {"temperature": 0}
        self._reached = False
        self._where = f"the judge at {mask_url(options.url)}"
        try:
            url = httpx.URL(f"{options.url.rstrip('/')}/chat/completions")
        except httpx.InvalidURL:
            raise JudgeError(f"{self._where}: this is no URL") from None
        # httpx logs the URL of each request: credentials go beside it.
        auth = (url.username, url.password) if url.userinfo else None
        self._url = url.copy_with(username=None, password=None)
        # Unpacking could make much of little, and an answer is short.
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if options.key is not None:
            headers["authorization"] = f"Bearer {options.key.get_secret_value()}"
        limits = httpx.Limits(max_connections=options.concurrency)
        # No cookie is kept: an endpoint could make each request larger than the last.
        cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
        self._http = httpx.AsyncClient(
            headers=headers, auth=auth, cookies=cookies, timeout=options.timeout, limits=limits, transport=transport
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def complete(self, messages: Talk, count: Count) -> Trace:
        """The completion of a conversation. `count` is told what each request used, as it happens.

        Raises Unanswered, or JudgeError for what would befall every other conversation too.
        """
        for attempt in range(1, self._options.attempts + 1):
            try:
                trace = await self._adapted(messages, count)
            except _Again as fault:
                if attempt == self._options.attempts:
                    raise Unanswered(f"{self._where}: {fault}, {attempt} times in a row") from fault
                await self._sleep(_wait(attempt, fault.wait))
            except httpx.RequestError as fault:
                if attempt == self._options.attempts:
                    why = f"{self._where}: {_told(fault)}, {attempt} times in a row"
                    if isinstance(fault, _UNREACHED) and not self._reached:
                        raise JudgeError(why) from fault  # it is the address, not this conversation
                    raise Unanswered(why) from fault
                await self._sleep(_wait(attempt, None))
            else:
                return trace
        raise AssertionError("attempts is above 0")

    async def _adapted(self, messages: Talk, count: Count) -> Trace:
        """One attempt. It is repeated at once without a parameter that the endpoint complains of: each goes once."""
        while True:
            format = self._formats[0] if self._formats else None
            extras = self._extras | ({"response_format": format} if format else {})
            body = {"model": self._options.model, "messages": list(messages), **extras}
            response = await self._post(body, messages, count)
            if response.status not in (400, 422):
                return self._completion(response, messages, count)
            words = response.body.decode("utf-8", "replace").lower()
            if format is not None and any(word in words for word in _FORMAT_WORDS):
                self._formats = [known for known in self._formats if known is not format]
            elif "temperature" in extras and "temperature" in words:
                self._extras = {}
            else:
                return self._completion(response, messages, count)

    async def _post(self, body: Mapping[str, Any], messages: Talk, count: Count) -> _Response:
        count(Usage(requests=1))
        try:
            async with asyncio.timeout(self._options.timeout):  # httpx's own limits each step, not the whole
                response = await self._read(json.dumps(body).encode())
        except TimeoutError:
            count(_guess(messages))
            raise _Again(f"no answer within {self._options.timeout:g} s") from None
        except (asyncio.CancelledError, httpx.ReadError, httpx.ReadTimeout, httpx.RemoteProtocolError):
            count(_guess(messages))  # it was sent, and may well be billed
            raise
        self._reached = True
        return response

    async def _read(self, content: bytes) -> _Response:
        async with self._http.stream("POST", self._url, content=content) as response:
            head = response.status_code, response.headers.get("retry-after", "")
            if response.headers.get("content-encoding", "").strip().lower() not in ("", "identity"):
                return _Response(*head, unread="answers in a packed form that was not asked for")
            body = bytearray()
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > MAX_BODY:
                    return _Response(*head, unread=f"answers with more than {MAX_BODY:,} bytes")
            return _Response(*head, bytes(body))

    def _completion(self, response: _Response, messages: Talk, count: Count) -> Trace:
        """What a response holds: a completion, or a policy block. Everything else is raised."""
        status = response.status
        trace = read_body(Ask(), "chat", status, response.body)
        if 200 <= status < 300 or trace.choices:
            count(_usage(trace, messages))
        if trace.choices and trace.problem is None:
            return trace
        said, code = self._said(response)
        told = f"{self._where}: HTTP {status}"
        heard = f"{told}: {said}" if said and self._options.foreign_words else told
        unknown = status in (400, 422) and _UNKNOWN_MODEL.search(said)
        if unknown or status in _HOPELESS or code in _HOPELESS_CODES or 300 <= status < 400:
            raise JudgeError(self._hint(status, heard))
        if status in _AGAIN or status >= 500:
            raise _Again(heard.removeprefix(f"{self._where}: "), _retry_after(response.retry_after))
        if response.unread:
            heard = f"{self._where}: {response.unread}"
        elif status < 400 and not said:
            heard = f"{self._where}: answers with no chat completion"
            if self._options.foreign_words:
                heard += f": {one_line(trace.why or trace.problem or '', self._options.secrets, _WORDS)}"
        raise Unanswered(heard)

    def _said(self, response: _Response) -> tuple[str, str]:
        """The endpoint's own words and code, fit to be shown."""
        try:
            body = fields.mapping(fields.decode(response.body))
        except ValueError:
            return "", ""
        error = fields.mapping(body.get("error")) or body
        found = (error.get(name) for name in ("message", "detail", "error"))
        words = next((word for word in found if isinstance(word, str)), "")
        return one_line(words, self._options.secrets, _WORDS), error_code(error)

    def _hint(self, status: int, told: str) -> str:
        """What to look at, beside what the endpoint said."""
        match status:
            case 401 | 403 if self._options.key is None:
                return f"{told} (no key was sent)"
            case 401 | 403:
                return f"{told} (the key is from {self._options.key_name or 'the options'})"
            case 400 | 404 | 422:
                return f"{told} (the model asked for is {self._options.model!r})"
            case _:
                return told


def _usage(trace: Trace, messages: Talk) -> Usage:
    """As the endpoint counts, else about four characters a token; of an answer that is no completion, the guess."""
    sent, came = trace.usage.input_tokens, trace.usage.output_tokens
    guess = sum(len(choice.text) for choice in trace.choices) // 4 + 1 if trace.choices else ANSWER_TOKENS
    return Usage(
        input_tokens=sent if sent is not None and sent <= MOST_TOKENS else estimate(messages),
        output_tokens=came if came is not None and came <= MOST_TOKENS else guess,
    )


def _guess(messages: Talk) -> Usage:
    """Of a request whose answer nobody saw."""
    return Usage(input_tokens=estimate(messages), output_tokens=ANSWER_TOKENS)


def estimate(messages: Talk) -> int:
    """Tokens of a conversation, at about four characters each."""
    return sum(len(message["content"]) for message in messages) // 4 + 1


def _wait(attempt: int, asked: float | None) -> float:
    """Seconds before the attempt after number `attempt`: what was asked for, else doubled each time, and scattered, so
    that many who failed together don't come back together."""
    if asked is not None:
        return min(asked, LONGEST_WAIT)
    return min(FIRST_WAIT * (1 << (attempt - 1)), LONGEST_WAIT) * random.uniform(0.5, 1)


def _retry_after(value: str) -> float | None:
    """Seconds, from a number or a date (RFC 9110, 10.2.3); None for what is neither."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            when = parsedate_to_datetime(value)
            seconds = (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
        except (ValueError, OverflowError):  # the latter for years that no calendar has
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _told(fault: httpx.RequestError) -> str:
    """A fault of the connection in words of ours: httpx's own may quote a header."""
    match fault:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            return "no connection in time"
        case httpx.TimeoutException():
            return "no answer in time"
        case httpx.ConnectError():
            return f"no connection ({fault})" if str(fault) else "no connection"
        case _:
            return f"the connection broke ({type(fault).__name__})"
