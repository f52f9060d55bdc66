"""What endpoints do to a request, and what becomes of it: waits, attempts, and when none is worth it."""

from __future__ import annotations

import asyncio
import gzip
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from scripted_judge import NEVER, RESET, Reply, Request, Script, coded, completion, json_reply, scripted_judge, status

from demur.audit.coding import Usage
from demur.audit.judge_client import ANSWER_TOKENS, FIRST_WAIT, LONGEST_WAIT, MAX_BODY, JudgeClient, Unanswered
from demur.audit.judge_options import JudgeError, JudgeOptions

TALK = [{"role": "user", "content": "Say it."}]
PACKED = gzip.compress(bytes(2 * MAX_BODY))  # two thousand bytes on the wire
FORMATS = ({"type": "json_schema", "json_schema": {}}, {"type": "json_object"})


class Asked:
    """One conversation after the other at a scripted endpoint: what came back, the waits, the requests."""

    def __init__(self, *script: Script, url: str = "", times: int = 1, **options: Any) -> None:
        self.waits: list[float] = []
        self.usage = Usage()
        self.requests: list[Request] = []
        self.answers: list[str] = []
        self.error: Exception | None = None
        with scripted_judge(*script) as endpoint:
            asyncio.run(self._run(JudgeOptions(url or endpoint.url, "m", **options), times))
        self.requests = endpoint.requests

    async def _run(self, options: JudgeOptions, times: int) -> None:
        async def sleep(seconds: float) -> None:
            self.waits.append(seconds)

        def count(usage: Usage) -> None:
            self.usage += usage

        client = JudgeClient(options, FORMATS, sleep=sleep)
        try:
            for _ in range(times):
                self.answers.append((await client.complete(TALK, count)).choices[0].text)
        except (Unanswered, JudgeError) as error:
            self.error = error
        finally:
            await client.aclose()


OK = completion("Said.")


@pytest.mark.parametrize("fault", [status(429), status(500), status(503), status(408), status(409), status(425), RESET])
def test_a_passing_fault_is_followed_by_another_attempt(fault: Reply) -> None:
    asked = Asked(fault, fault, OK)
    assert (asked.answers, asked.usage.requests, len(asked.requests)) == (["Said."], 3, 3)
    first, second = asked.waits
    assert FIRST_WAIT / 2 <= first <= FIRST_WAIT
    assert FIRST_WAIT <= second <= 2 * FIRST_WAIT


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (status(429, "slow down"), "HTTP 429: slow down, 3 times in a row"),
        (Reply(502, b"<html>"), "HTTP 502, 3 times in a row"),
        (RESET, "the connection broke (ReadError), 3 times in a row"),
    ],
)
def test_the_attempts_are_limited(fault: Reply, words: str) -> None:
    asked = Asked(fault, attempts=3)
    assert isinstance(asked.error, Unanswered)
    assert str(asked.error).endswith(words)
    assert (len(asked.requests), len(asked.waits)) == (3, 2)


def test_an_answer_that_does_not_come_in_time_is_asked_for_again() -> None:
    asked = Asked(NEVER, OK, timeout=0.2)
    assert (asked.answers, len(asked.waits)) == (["Said."], 1)
    asked = Asked(NEVER, timeout=0.1, attempts=2)
    assert str(asked.error).endswith("no answer within 0.1 s, 2 times in a row")


@pytest.mark.parametrize(
    ("asked_for", "waited"),
    [
        *(("7", 7), ("0", 0), ("0.25", 0.25), ("86400", LONGEST_WAIT), ("-3", 0), ("inf", None), ("x", None)),
        *(("9" * 400, None), ("Wed, 21 Oct 9999 07:28:00 GMT", LONGEST_WAIT), ("Mon, 99 Jan 2030 00:00:00 GMT", None)),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0),
        ("Mon, 01 Jan 2030 00:00:00 +99999999999999", None),
    ],
)
def test_it_waits_as_long_as_the_endpoint_says_within_a_bound(asked_for: str, waited: float | None) -> None:
    [wait] = Asked(status(429, retry_after=asked_for), OK).waits
    if waited is None:
        assert FIRST_WAIT / 2 <= wait <= FIRST_WAIT
    else:
        assert wait == waited


def test_a_date_to_come_back_at_is_understood() -> None:
    in_half_a_minute = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    [wait] = Asked(status(503, retry_after=in_half_a_minute), OK).waits
    assert 15 <= wait <= 30
    [wait] = Asked(status(503, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"), OK).waits
    assert wait == 0


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (status(401, "bad key"), "HTTP 401: bad key (no key was sent)"),
        (status(403, "not yours"), "HTTP 403: not yours (no key was sent)"),
        (status(404, "The model does not exist"), "HTTP 404: The model does not exist (the model asked for is 'm')"),
        (Reply(404, b"not found"), "HTTP 404 (the model asked for is 'm')"),
        (status(400, "Invalid model name passed in model=m"), "(the model asked for is 'm')"),
        (status(402, "insufficient credits"), "HTTP 402: insufficient credits"),
        (status(429, "You exceeded your quota", code="insufficient_quota"), "HTTP 429: You exceeded your quota"),
        (Reply(308, b"", (("location", "https://elsewhere.example"),)), "HTTP 308"),
    ],
)
def test_what_would_befall_every_request_ends_the_asking_at_once(answer: Reply, words: str) -> None:
    asked = Asked(answer)
    assert isinstance(asked.error, JudgeError)
    assert str(asked.error).startswith("the judge at http://127.0.0.1:")
    assert str(asked.error).endswith(words)
    assert (len(asked.requests), asked.waits) == (1, [])


def test_an_address_where_nothing_listens_is_named() -> None:
    with socket.socket() as taken:  # bound and not listening: refuses
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        asked = Asked(OK, url=url, attempts=2)
    assert isinstance(asked.error, JudgeError)
    assert f"the judge at {url}: no connection" in str(asked.error)
    assert len(asked.waits) == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (status(400, "context length exceeded"), "HTTP 400: context length exceeded"),
        (status(413, "too large"), "HTTP 413: too large"),
        (Reply(422, b'{"detail": "no such field"}'), "HTTP 422: no such field"),
        (Reply(200, b"<html>Welcome"), "answers with no chat completion: the body is not JSON"),
        (Reply(200, b""), "answers with no chat completion: no body"),
        (Reply(200, b'{"error": "model is loading"}'), "HTTP 200: model is loading"),
        (status(400, "\x1b[2Jred\x07 \u202eon\r\none line"), "HTTP 400: [2Jred on one line"),
        (Reply(200, PACKED, (("content-encoding", "gzip"),)), "answers in a packed form that was not asked for"),
        (Reply(200, b" " * (MAX_BODY + 1)), f"answers with more than {MAX_BODY:,} bytes"),
        (Reply(200, b"[" * 900_000), "answers with no chat completion: the body is not JSON"),
    ],
)
def test_a_refused_conversation_says_why_and_is_not_repeated(answer: Reply, words: str) -> None:
    asked = Asked(answer)
    assert isinstance(asked.error, Unanswered)
    assert str(asked.error).endswith(words)
    assert len(asked.requests) == 1


@pytest.mark.parametrize("charset", ["hex", "rot13", "undefined", "zlib", "base64", "idna", "utf-16", "utf-7", "ü"])
def test_a_letter_code_that_is_none_is_passed_over(charset: str) -> None:
    def no_schema(request: Request) -> Reply:
        header = ("content-type", f"application/json; charset={charset}")
        return Reply(400, b'{"error": "\xff response_format"}', (header,)) if "response_format" in request.body else OK

    assert Asked(no_schema).answers == ["Said."]


def test_a_flood_is_not_read_to_its_end() -> None:
    flood = Reply(200, b"10000\r\n" + b" " * 65536 + b"\r\n", (("transfer-encoding", "chunked"),), endless=True)
    asked = Asked(flood)
    assert isinstance(asked.error, Unanswered)
    assert "answers with more than" in str(asked.error)


SECRET_ASK = "my landlord is called Zaphod"


@pytest.mark.parametrize(
    "answer",
    [
        *(status(code, SECRET_ASK) for code in (400, 401, 402, 403, 404, 405, 410, 413, 422, 429, 500)),
        status(400, f"Unknown model in {SECRET_ASK}"),
        status(429, SECRET_ASK, code="insufficient_quota"),
        status(429, "x", code=SECRET_ASK),
        status(308, SECRET_ASK),
        json_reply({"error": {"message": SECRET_ASK}}),
        json_reply({"error": {"code": SECRET_ASK}}),
        json_reply({"detail": SECRET_ASK}),
    ],
)
def test_where_words_of_others_are_not_wanted_none_is_told(answer: Reply) -> None:
    asked = Asked(answer, foreign_words=False, attempts=2)
    assert asked.error is not None
    assert "Zaphod" not in str(asked.error)
    assert f"HTTP {answer.status}" in str(asked.error) or answer.status == 200


@pytest.mark.parametrize("code", [400, 422])
def test_a_format_that_it_does_not_know_is_left_out_from_then_on(code: int) -> None:
    def no_schema(request: Request) -> Reply:
        format = request.body.get("response_format")
        return (
            OK if format == {"type": "json_object"} else status(code, "response_format: json_schema is not supported")
        )

    asked = Asked(no_schema, times=2)
    assert asked.answers == ["Said.", "Said."]
    assert [r.body["response_format"]["type"] for r in asked.requests] == ["json_schema", "json_object", "json_object"]


def test_an_endpoint_without_any_format_or_temperature_is_asked_without() -> None:
    def plain_only(request: Request) -> Reply:
        for name in ("response_format", "temperature"):
            if name in request.body:
                return status(400, f"Unsupported parameter: '{name}'")
        return OK

    asked = Asked(plain_only, times=2)
    assert (asked.answers, len(asked.requests), asked.waits) == (["Said.", "Said."], 5, [])
    assert set(asked.requests[-1].body) == {"model", "messages"}


def test_a_complaint_that_never_ends_does() -> None:
    asked = Asked(status(400, "response_format and temperature are wrong"))
    assert isinstance(asked.error, Unanswered)
    assert len(asked.requests) == 4


def test_long_words_of_the_endpoint_are_clipped() -> None:
    asked = Asked(status(400, "x " * 5000))
    assert len(str(asked.error)) < 400


def test_no_cookie_is_kept() -> None:
    baking = replace(OK, headers=(*OK.headers, ("set-cookie", "crumb=1; Path=/")))
    asked = Asked(baking, baking, times=2)
    assert asked.answers == ["Said.", "Said."]
    assert ["cookie" in request.headers for request in asked.requests] == [False, False]


def test_the_usage_is_told_as_it_happens() -> None:
    asked = Asked(status(500), coded(), OK, times=2)
    assert asked.usage == Usage(200, 20, requests=3)


USED = {"prompt_tokens": 70, "completion_tokens": 9}
GUESSED = Usage(len("Say it.") // 4 + 1, ANSWER_TOKENS)


@pytest.mark.parametrize(
    ("answer", "used"),
    [
        (json_reply({"object": "chat.completion", "choices": [], "usage": USED}), Usage(70, 9)),
        (json_reply({"object": "chat.completion", "choices": []}), GUESSED),
        (json_reply({"choices": [], "usage": {"prompt_tokens": 2**62, "completion_tokens": -5}}), GUESSED),
        (Reply(200, b"<html>Welcome"), GUESSED),
        (Reply(200, b" " * (MAX_BODY + 1)), GUESSED),
        (NEVER, GUESSED),
        (status(500), Usage()),
        (status(413), Usage()),
    ],
)
def test_what_was_answered_without_use_counts_too(answer: Reply, used: Usage) -> None:
    asked = Asked(answer, attempts=1, timeout=0.2 if answer is NEVER else 10)
    assert isinstance(asked.error, Unanswered)
    assert asked.usage == used + Usage(requests=1)
