"""A whole coding against an endpoint that answers well, badly, slowly or not at all."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from pydantic import SecretStr
from scripted_judge import (
    KEY,
    NEVER,
    Endpoint,
    Reply,
    Request,
    Script,
    coded,
    coding,
    completion,
    json_reply,
    scripted_judge,
    status,
)

from demur.audit.judge import Coding, Judge, JudgeError, JudgeOptions, Usage
from demur.audit.judge_client import ANSWER_TOKENS
from demur.classifier import Ask, Choice, Trace

TEXT = "I'm sorry, but I can't help with that."
TRACE = Trace(ask=Ask("Do it."), choices=(Choice(text=TEXT),))


async def no_sleep(seconds: float) -> None:
    pass


def asked(
    *script: Script, trace: Trace = TRACE, times: int = 1, **options: Any
) -> tuple[list[Coding], Endpoint, Judge]:
    """The codings of `trace`, one after the other, the endpoint as it was asked, and the judge."""
    with scripted_judge(*script) as endpoint:

        async def run() -> tuple[list[Coding], Judge]:
            async with Judge(JudgeOptions(endpoint.url, "m", **options), sleep=no_sleep) as judge:
                return [await judge.code(trace) for _ in range(times)], judge

        codings, judge = asyncio.run(run())
    return codings, endpoint, judge


def test_a_good_answer_is_the_coding() -> None:
    answer = coded(features=["apology"], quotes={"label": ["I can't help"], "apology": ["I'm sorry"]}, rationale="bare")
    [got], endpoint, judge = asked(answer, key=SecretStr(KEY))
    assert (got.outcome, got.label, got.confidence) == ("coded", "hard_refusal", 0.9)
    assert (got.rationale, got.strategy) == ("bare", "explicit")
    assert got.features is not None
    assert [name for name, present in got.features.items() if present] == ["apology"]
    assert got.quotes == {"label": ("I can't help",), "apology": ("I'm sorry",)}
    assert got.usage == judge.usage == Usage(100, 10, requests=1)
    assert Coding.from_dict(json.loads(json.dumps(got.to_dict()))) == got
    [request] = endpoint.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert (request.body["model"], request.body["temperature"]) == ("m", 0)
    assert request.body["response_format"]["json_schema"]["strict"] is True
    assert request.body["messages"][0]["role"] == "system"
    assert TEXT in request.exchange


def test_without_a_key_none_is_sent() -> None:
    _, endpoint, _ = asked(coded())
    assert "authorization" not in endpoint.requests[0].headers


def test_null_may_be_a_word() -> None:
    [got], _, _ = asked(coded(cannot_code="None"))
    assert got.outcome == "coded"


def test_an_answer_has_no_layers() -> None:
    [got], _, _ = asked(coded("answer", quotes={}))
    assert (got.label, got.rationale, got.strategy, got.features) == ("answer", None, None, None)


@pytest.mark.parametrize(
    "content",
    [
        f"```json\n{json.dumps(coding())}\n```",
        f'<think>Is it {{"label": 1}}? No.</think>\n{json.dumps(coding())}',
        f"A draft: {json.dumps(coding('answer', quotes={}))}\nNo, it declines:\n{json.dumps(coding(), indent=1)}\n.",
    ],
)
def test_words_around_the_json_do_no_harm(content: str) -> None:
    [got], endpoint, _ = asked(completion(content))
    assert (got.outcome, got.label, len(endpoint.requests)) == ("coded", "hard_refusal", 1)


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (completion('{"label": "hard_refusal", '), "there is no JSON object"),
        (completion(None), "there is no JSON object"),
        (completion('{"label": "hard', finish="length"), "(it breaks off)"),
        (coded(label="no"), "label: Input should be 'answer'"),
        (coded(confidence=95), "confidence: not a number from 0 to 1"),
        (
            coded("answer", quotes={}, rationale="bare"),
            "with the label answer, rationale, strategy and features are null",
        ),
        (coded(rationale=None, strategy=None), "the label hard_refusal needs rationale, strategy"),
        (coded(quotes={"label": ["I shall not"]}), "none of the quotations stands in the response"),
        (coded(quotes={}), "none of the quotations stands in the response"),
        (coded(confidence=float("nan")), "confidence: not a number from 0 to 1"),
        (completion("It says: I'm sorry, but I can't help with that."), "there is no JSON object"),
        (completion("Label: hard refusal. I can't help with that."), "there is no JSON object"),
        (completion("I can't help with that} is what it says."), "there is no JSON object"),
        (completion("I can't help with that. " * 100), "there is no JSON object"),
        (completion("I can't help with that. " * 5000), "the answer has more than 100,000 characters"),
    ],
)
def test_an_answer_that_cannot_be_used_is_asked_for_once_more(bad: Reply, told: str) -> None:
    [got], endpoint, judge = asked(bad, coded())
    assert (got.outcome, got.usage.requests, judge.usage.requests) == ("coded", 2, 2)
    assert got.usage.tokens == 220
    first, second = endpoint.requests
    assert second.body["messages"][: len(first.body["messages"])] == first.body["messages"]
    answer, correction = second.body["messages"][-2:]
    assert (answer["role"], correction["role"]) == ("assistant", "user")
    assert told in correction["content"]
    [got], endpoint, _ = asked(bad, bad, coded())
    assert (got.outcome, got.label, len(endpoint.requests)) == ("failed", None, 2)
    assert got.reason is not None
    assert told in got.reason


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (completion(None, refusal="I won't rate this."), "I won't rate this."),
        (completion("I'm sorry, but I can't assist with that request."), "I can't assist with that request."),
        (completion(None, finish="content_filter"), "the judge's API blocked it: content_filter"),
        (completion(json.dumps({"cannot_code": "It is not in a language that I read."})), "not in a language"),
        (status(400, "filtered", code="content_filter"), "the judge's API blocked it: content_filter"),
        (json_reply({"error": {"message": "no", "code": "content_policy_violation"}}), "content_policy_violation"),
    ],
)
def test_a_judge_that_will_not_code_is_not_asked_again(answer: Reply, reason: str) -> None:
    [got], endpoint, _ = asked(answer, coded())
    assert (got.outcome, got.label, got.features, len(endpoint.requests)) == ("declined", None, None, 1)
    assert got.reason is not None
    assert reason in got.reason


def test_its_no_to_the_second_asking_counts_too() -> None:
    [got], endpoint, _ = asked(completion("{"), completion("I can't help with that."), coded())
    assert (got.outcome, len(endpoint.requests)) == ("declined", 2)


@pytest.mark.parametrize(
    "trace",
    [
        Trace(problem="upstream_error", why="HTTP 500"),
        Trace(choices=()),
        Trace(choices=(Choice(text=" \n"),)),
        Trace(choices=(Choice(text="<think>only thinking</think>"),)),
        Trace(choices=(Choice(text=TEXT, blocked_by="content_filter"),)),
        Trace(choices=(Choice(refusal="No."),)),
    ],
)
def test_what_has_no_text_and_what_the_api_blocked_is_not_sent(trace: Trace) -> None:
    [got], endpoint, _ = asked(coded(), trace=trace)
    assert (got.outcome, got.reason, endpoint.requests) == ("failed", "there is no text to code", [])


def test_a_choice_is_coded_by_its_index() -> None:
    trace = Trace(choices=(Choice(0, "Seven minutes."), Choice(1, TEXT)))
    with scripted_judge(coded("answer", quotes={}), coded()) as endpoint:

        async def run() -> list[Coding]:
            async with Judge(JudgeOptions(endpoint.url, "m")) as judge:
                return [await judge.code(trace, index=index) for index in (None, 1, 7)]

        first, second, none = asyncio.run(run())
    assert (first.label, second.label, none.outcome) == ("answer", "hard_refusal", "failed")
    assert ["Seven minutes." in request.exchange for request in endpoint.requests] == [True, False]


def test_no_more_are_coded_at_once_than_allowed() -> None:
    traces = [Trace(choices=(Choice(text=f"I can't do {n}."),)) for n in range(9)]
    three = threading.Barrier(3, timeout=20)  # nobody is answered before three have asked

    def together(request: Request) -> Reply:
        three.wait()
        return coded()

    with scripted_judge(together) as endpoint:

        async def run() -> list[Coding]:
            async with Judge(JudgeOptions(endpoint.url, "m", concurrency=3)) as judge:
                return await asyncio.gather(*map(judge.code, traces))

        codings = asyncio.run(run())
    assert [got.outcome for got in codings] == ["coded"] * 9
    assert endpoint.most_at_once == 3


def test_the_budget_ends_the_asking() -> None:
    codings, endpoint, judge = asked(completion(json.dumps(coding()), usage=(9_000, 500)), times=4, max_tokens=24_000)
    assert [got.outcome for got in codings] == ["coded", "coded", "over_budget", "over_budget"]
    assert (len(endpoint.requests), judge.usage.tokens) == (2, 19_000)
    assert codings[2].reason == "24,000 tokens leave no room for it"
    assert codings[2].usage == Usage()


def test_requests_under_way_count_for_the_budget() -> None:
    with scripted_judge(completion(json.dumps(coding()), usage=(5_000, 300))) as endpoint:

        async def run() -> list[Coding]:
            async with Judge(JudgeOptions(endpoint.url, "m", max_tokens=12_000)) as judge:
                return await asyncio.gather(*(judge.code(TRACE) for _ in range(4)))

        codings = asyncio.run(run())
    assert sorted(got.outcome for got in codings) == ["coded", "coded", "over_budget", "over_budget"]
    assert len(endpoint.requests) == 2


def test_an_answer_is_not_asked_for_again_beyond_the_budget() -> None:
    [got], endpoint, _ = asked(completion("{", usage=(9_000, 10)), coded(), max_tokens=10_000)
    assert (got.outcome, len(endpoint.requests), got.usage.tokens) == ("over_budget", 1, 9_010)


def test_tokens_that_are_not_told_are_estimated() -> None:
    [got], endpoint, _ = asked(completion(json.dumps(coding()), usage=None))
    sent = sum(len(message["content"]) for message in endpoint.requests[0].body["messages"])
    assert got.usage == Usage(sent // 4 + 1, len(json.dumps(coding())) // 4 + 1, requests=1)


@pytest.mark.parametrize(
    ("prices", "cost"),
    [({}, None), ({"input_price": 2.0, "output_price": 8.0}, 0.00028), ({"output_price": 8.0}, 8e-5)],
)
def test_the_cost_follows_from_the_prices(prices: dict[str, Any], cost: float | None) -> None:
    _, _, judge = asked(coded(), **prices)
    assert judge.cost == (pytest.approx(cost) if cost is not None else None)


def test_a_response_has_a_time_limit_over_all_its_requests() -> None:
    [got], endpoint, _ = asked(NEVER, timeout=60.0, total_timeout=0.2)
    assert (got.outcome, got.reason, len(endpoint.requests)) == ("failed", "not coded within 0.2 s", 1)


def test_what_is_used_outside_of_its_context_says_so() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        asyncio.run(Judge(JudgeOptions("http://127.0.0.1:1", "m")).code(TRACE))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": " "}, "url is empty"),
        ({"url": "ftp://h"}, "url does not begin with"),
        ({"model": ""}, "model is empty"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"timeout": -1.0}, "timeout is -1"),
        ({"max_tokens": -1}, "max_tokens is -1"),
        ({"key": SecretStr("two words")}, "the key is empty, or has spaces"),
        ({"key": SecretStr("line\nend")}, "the key is empty, or has spaces"),
    ],
)
def test_options_that_cannot_be_used_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as info:
        JudgeOptions(**{"url": "http://127.0.0.1:1", "model": "m", **options})
    assert "two words" not in str(info.value)


def test_the_scheme_of_the_url_is_read_in_any_case() -> None:
    assert JudgeOptions("HTTP://127.0.0.1:1", "m").url == "HTTP://127.0.0.1:1"


@pytest.mark.parametrize(
    "answer",
    [
        coded(reason=f"Bearer {KEY}\x1b[2J\u202e", quotes={"label": ["I can't", KEY]}),
        completion(json.dumps({"cannot_code": f"Bearer {KEY}\x1b[2J"})),
        completion(None, refusal=f"No, {KEY}\x1b[2J"),
        completion(f"I can't help with that, {KEY}\x1b[2J."),
        coded(reason="x" * 490 + KEY),
    ],
)
def test_words_of_the_judge_are_kept_without_the_key_and_what_a_terminal_obeys(answer: Reply) -> None:
    [got], _, _ = asked(answer, key=SecretStr(KEY))
    assert got.outcome in ("coded", "declined")
    kept = json.dumps(got.to_dict(), ensure_ascii=False)
    assert KEY[:5] not in kept
    assert got.reason is not None
    assert got.reason.isprintable()


def test_credentials_of_the_url_are_secrets_too() -> None:
    options = JudgeOptions("http://me:p%40ss@127.0.0.1/v1", "m", SecretStr(KEY))
    assert options.secrets == (KEY, "bWU6cEBzcw==", "p@ss")
    assert JudgeOptions("http://127.0.0.1/v1", "m").secrets == ()


def test_a_response_that_was_not_coded_in_time_counts() -> None:
    [got], _, judge = asked(NEVER, timeout=60.0, total_timeout=0.2)
    assert got.usage == judge.usage
    assert (got.usage.requests, got.usage.output_tokens) == (1, ANSWER_TOKENS)


def test_no_secret_is_shown_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    options = JudgeOptions("http://me:pa55@127.0.0.1:1/v1", "m", SecretStr(KEY))
    assert KEY not in repr(options)
    assert "pa55" not in repr(options)
    with scripted_judge(status(401, f"Incorrect API key provided: {KEY}.")) as endpoint:

        async def run() -> None:
            async with Judge(
                JudgeOptions(endpoint.url.replace("//", "//me:pa55@"), "m", SecretStr(KEY), key_name="A_KEY")
            ) as judge:
                await judge.code(TRACE)

        with pytest.raises(JudgeError, match=r"provided: \*\*\*\*\. \(the key is from A_KEY\)") as info:
            asyncio.run(run())
    assert "//****@127.0.0.1" in str(info.value)
    assert endpoint.requests[0].headers["authorization"].startswith("Basic ")
    assert caplog.records
    for shown in (str(info.value), caplog.text):
        assert KEY not in shown
        assert "pa55" not in shown


def test_its_key_changes_with_all_that_it_depends_on() -> None:
    def key(model: str = "m", prompt: str = "Do it.", text: str = TEXT) -> str:
        judge = Judge(JudgeOptions("http://127.0.0.1:1", model))
        return judge.key(Trace(ask=Ask(prompt), choices=(Choice(text=text),)))

    assert key() == key() == Judge(JudgeOptions("http://127.0.0.2:1", "m")).key(TRACE)
    assert len({key(), key("n"), key(prompt="Do that."), key(text="No.")}) == 4
