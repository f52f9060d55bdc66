"""The block tables: each row says no; an ordinary stop or error never does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from demur.classifier import blocks
from demur.classifier.answer import StreamAnswer
from demur.classifier.plain import read_plain
from demur.classifier.shapes import normalize
from demur.classifier.sse import Event
from demur.classifier.trace import Ask, Choice

REQUEST = {"messages": [{"role": "user", "content": "Hi"}]}


def blocked_by(error: dict[str, Any], status: int = 400) -> str | None:
    """What an error body with that HTTP status is read as: the raw reason of a block, None for a mere error."""
    trace = normalize({"request": REQUEST, "response": error, "status": status})
    if trace.choices:
        (choice,) = trace.choices
        assert not choice.truncated
        return choice.blocked_by
    assert trace.problem == "upstream_error"
    return None


@pytest.mark.parametrize("reason", blocks.STOPS)
def test_each_stop_reason_is_a_block_in_any_case(reason: str) -> None:
    assert blocks.is_block(reason)
    assert blocks.is_block(reason.upper())
    assert not blocks.is_short(reason)


@pytest.mark.parametrize("reason", blocks.SHORT)
def test_each_short_reason_is_no_block(reason: str) -> None:
    assert blocks.is_short(reason.upper())
    assert not blocks.is_block(reason)


@pytest.mark.parametrize(
    "reason", [None, "", "stop", "end_turn", "tool_calls", "STOP", "OTHER", "eos", "completed", "filter"]
)
def test_ordinary_ends_are_neither(reason: str | None) -> None:
    assert not blocks.is_block(reason)
    assert not blocks.is_short(reason)


def test_a_reason_may_carry_the_vendors_own_word() -> None:
    assert blocks.is_block("content_filter: PROHIBITED_CONTENT")


@pytest.mark.parametrize("code", blocks.CODES)
def test_each_code_is_a_block_verbatim(code: str) -> None:
    assert blocked_by({"error": {"code": code, "message": "No."}}) == code
    assert blocked_by({"error": {"type": code.upper(), "message": "No."}}) == code.upper()
    assert blocked_by({"error": {"code": f"{code}.unavailable", "message": "No."}}) is None
    assert blocked_by({"error": {"code": f"v1.{code}", "message": "No."}}) is None
    assert blocked_by({"error": {"code": code, "message": "Slow down", "type": "rate_limit_error"}}) is None
    assert blocked_by({"error": {"code": code, "message": "The filter did not answer"}}, 503) is None


@pytest.mark.parametrize("words", blocks.MESSAGES)
def test_each_message_is_a_block_in_its_own_words(words: str) -> None:
    message = f"Sorry: {words.capitalize()} (request 1)"
    assert blocked_by({"error": {"code": "invalid_request_error", "message": message}}) == words.capitalize()
    assert blocked_by({"error": {"code": "model_not_found", "message": message}}) is None
    assert blocked_by({"error": {"code": "429", "message": message}}) is None
    assert blocked_by({"error": {"message": message}}, 429) is None
    assert blocked_by({"error": {"message": f"The model `{words}` does not exist"}}) is None
    assert blocked_by({"error": {"message": f"Unknown value '{words}'"}}) is None
    assert blocked_by({"error": {"message": f"Unknown action {words}"}}) is None
    assert blocked_by({"error": {"message": f"{words} is not a rule of this gateway"}}) is None
    assert blocked_by({"error": {"message": f"{{'error': '{words}', 'id': 1}}"}}) == words


@pytest.mark.parametrize("code", blocks.UNSURE_CODES)
def test_a_code_with_a_second_use_is_told_by_its_message(code: str) -> None:
    assert code in blocks.CODES
    assert blocked_by({"error": {"code": code, "message": "It was flagged as against our policy"}}) == code
    assert blocked_by({"error": {"code": code, "message": "This type of information is limited for safety"}}) == code
    for words in blocks.UNSURE_CODES[code]:
        assert blocked_by({"error": {"code": code, "message": f"Not a list: {words} something"}}) is None


@pytest.mark.parametrize("code", blocks.NUMBERS)
def test_a_number_is_told_by_its_key_and_its_vendors_words(code: str) -> None:
    for words in blocks.NUMBERS[code].words:
        assert blocked_by({"error": {"code": int(code), "message": f"So: {words}."}}) == code
        assert blocked_by({"error": {"code": code, "message": f"So: {words.upper()}."}}) == code
        assert blocked_by({"error": {"code": code, "message": f"So: {words}."}}, 500) is None
        for foreign in ("error_code", "type", "status", "status_code", "action"):
            assert blocked_by({"error": {foreign: code, "message": f"So: {words}."}}) is None
        for longer in (f"429.{code}", f"model.v1.{code}", f"{code}.1"):
            assert blocked_by({"error": {"code": longer, "message": f"So: {words}."}}) is None
    assert blocked_by({"error": {"code": code, "message": "Not a list"}}) is None
    assert blocked_by({"error": {"code": code}}) is None


FILTERED = {"violence": {"filtered": True, "severity": "medium"}}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            {"error": {"code": "content_filter", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
            "content_filter",
        ),
        (
            {"error": {"code": None, "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
            "ResponsibleAIPolicyViolation",
        ),
        (
            {"error": {"code": "400", "inner_error": {"code": "ResponsibleAIPolicyViolation"}}},
            "ResponsibleAIPolicyViolation",
        ),
        ({"error": {"code": "InputTextSensitiveContentDetected", "message": "x"}}, "InputTextSensitiveContentDetected"),
        ({"error": {"code": "SensitiveContentDetected.SevereViolation"}}, "SensitiveContentDetected.SevereViolation"),
        ({"error": {"code": "OutputImageRiskDetection"}}, "OutputImageRiskDetection"),
        (
            {"error": {"code": "InputVideoSensitiveContentDetected.PrivacyInformation"}},
            "InputVideoSensitiveContentDetected.PrivacyInformation",
        ),
        ({"code": "DataInspectionFailed", "message": "x", "request_id": "r"}, "DataInspectionFailed"),
        ({"error": {"message": "high risk", "type": "content_filter"}}, "content_filter"),
        (
            {"code": "invalid argument", "error": "Content violates usage guidelines. Failed check."},
            "Content violates usage guidelines",
        ),
        ({"error": [{"code": 2016, "message": "Prompt blocked"}]}, "2016"),
        ({"errors": [{"code": 2017, "message": "Response blocked"}]}, "2017"),
        ({"base_resp": {"status_code": 1026, "status_msg": "input new_sensitive"}}, "new_sensitive"),
        ({"error": {"message": "output new_sensitive (1027)", "type": "bad_request_error"}}, "new_sensitive"),
        (  # Zhipu, at home and abroad
            {
                "error": {"code": "1301", "message": "内容可能包含敏感信息"},
                "contentFilter": [{"level": 1, "role": "user"}],
            },
            "1301",
        ),
        ({"error": {"code": "1301", "message": "Potentially unsafe or sensitive content in input."}}, "1301"),
        ({"code": 10013, "message": "输入审核不通过", "sid": "cha1"}, "10013"),  # Spark, its own and OpenAI's shape
        ({"error": {"code": "10014", "message": "输出涉及敏感信息", "type": "api_error"}}, "10014"),
        ({"error": {"message": "sensitive chat messages", "code": "bad_request"}}, "sensitive chat messages"),  # UCloud
        (
            {"error": {"message": 'litellm.APIError: XException - {"message":"ContentPolicyViolationError: No."}'}},
            "ContentPolicyViolationError",
        ),
        (  # xAI, as of a caller
            {"code": "The caller does not have permission", "error": "Content violates usage guidelines. Team: t"},
            "Content violates usage guidelines",
        ),
        (  # WSO2 without its details
            {"code": "900514", "message": "Runtime Error", "description": "Violation of word-count detected."},
            "900514",
        ),
        (  # LiteLLM, alone, within another class, and quoted by a client
            {"error": {"message": "litellm.ContentPolicyViolationError: it was flagged", "code": "400"}},
            "ContentPolicyViolationError",
        ),
        (
            {"error": {"message": "litellm.BadRequestError: OpenAIException - ContentPolicyViolationError: No."}},
            "ContentPolicyViolationError",
        ),
        (
            {"error": {"message": "Error code: 400 - litellm.ContentPolicyViolationError: No.", "type": "None"}},
            "ContentPolicyViolationError",
        ),
        ({"error": {"code": 403, "metadata": {"reasons": ["violence"], "flagged_input": "x"}}}, "violence"),
        (  # Mistral
            {"error": {"message": "Content blocked by guardrail", "status": 403}, "guardrails": {"results": {}}},
            "Content blocked by guardrail",
        ),
        (  # WSO2
            {"code": "900514", "type": "WORD_COUNT", "message": {"action": "GUARDRAIL_INTERVENED", "direction": "R"}},
            "900514",
        ),
        (  # LiteLLM, its detail as an object, as text, and beside the action of Bedrock
            {"error": {"message": {"error": "Violated OpenAI moderation policy", "moderation_result": {}}}},
            "Violated OpenAI moderation policy",
        ),
        (
            {"error": {"message": "{'error': 'Violated guardrail policy', 'x': 1}", "type": "None", "code": "400"}},
            "Violated guardrail policy",
        ),
        ({"error": {"message": {"error": "no", "action": "GUARDRAIL_INTERVENED"}}}, "GUARDRAIL_INTERVENED"),
        ({"detail": {"error": "Violated content safety policy"}}, "Violated content safety policy"),
        (  # Databricks
            {"error_code": "BAD_REQUEST", "message": '{"finishReason":"input_guardrail_triggered"}'},
            "input_guardrail_triggered",
        ),
        (  # Anthropic
            {"type": "error", "error": {"type": "x", "message": "It was blocked under Anthropic's Usage Policy."}},
            "blocked under Anthropic's Usage Policy",
        ),
        ({"error": {"code": 403, "metadata": {"reasons": [], "flagged_input": "x"}}}, None),
        (  # FastAPI's list: a guard of an own server, and Mistral, which puts a list under `msg`
            {"detail": [{"loc": ["body"], "msg": "not today", "type": "guardrails_violation"}]},
            "guardrails_violation",
        ),
        (
            {"object": "error", "message": {"detail": [{"msg": ["Content blocked by guardrail"], "type": "value"}]}},
            "Content blocked by guardrail",
        ),
        (  # LiteLLM hands on what Azure said
            {
                "error": {
                    "code": "400",
                    "message": "AzureException",
                    "provider_specific_fields": {"innererror": {"code": "ResponsibleAIPolicyViolation"}},
                }
            },
            "ResponsibleAIPolicyViolation",
        ),
        (  # a gateway that quotes Azure
            {"error": {"message": "Error code: 400 - {'innererror': {'code': 'ResponsibleAIPolicyViolation'}}"}},
            "ResponsibleAIPolicyViolation",
        ),
        (  # Tencent's envelope, and its stream's
            {"Response": {"Error": {"Code": "OperationDenied.TextIllegalDetected", "Message": "x"}, "RequestId": "r"}},
            "OperationDenied.TextIllegalDetected",
        ),
        (
            {"ErrorMsg": {"Code": "OperationDenied.ImageIllegalDetected", "Msg": "x"}},
            "OperationDenied.ImageIllegalDetected",
        ),
        (  # SAP
            {"request_id": "r", "code": 400, "message": "Content filtered due to Safety violations. Change it."},
            "Content filtered due to Safety violations",
        ),
        (  # NeMo
            {"error": {"message": "Stopped by rails.", "type": "guardrails_violation", "code": "content_blocked"}},
            "content_blocked",
        ),
        (
            {
                "type": "error",
                "error": {"type": "invalid_request_error", "message": "Output blocked by content filtering policy"},
            },
            "Output blocked by content filtering policy",
        ),
    ],
)
def test_vendors_spellings(error: dict[str, Any], reason: str | None) -> None:
    assert blocked_by(error) == reason


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, {"error": {"message": "Incorrect key", "type": "invalid_request_error", "code": "invalid_api_key"}}),
        (403, {"error": {"message": "Region not supported", "code": "unsupported_country_region_territory"}}),
        (404, {"error": {"message": "No such model", "code": "model_not_found"}}),
        (400, {"error": {"message": "Too long", "code": "context_length_exceeded"}}),
        (422, {"detail": [{"loc": ["body", "messages"], "msg": "field required"}]}),
        (
            422,
            {"detail": [{"loc": ["body"], "msg": ["one", "two"], "type": "extra_forbidden", "input": "new_sensitive"}]},
        ),
        (401, {"detail": "Not authenticated"}),
        (200, {"error_code": 336003, "error_msg": "the messages must be an odd number"}),  # Qianfan
        (400, {"error_code": 110, "error_msg": "Access token invalid"}),
        (400, {"Response": {"Error": {"Code": "InvalidParameterValue.Model", "Message": "No such model"}}}),
        (400, {"code": "InvalidParameter.DataInspection", "message": "The image can't be read"}),  # DashScope
        (429, {"error": {"message": "Slow down", "type": "requests", "code": "rate_limit_exceeded"}}),
        (429, {"error": {"code": "1302", "message": "Rate limit"}}),
        (500, {"error": {"message": "The server had an error", "type": "server_error"}}),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        (400, {"error": {"code": 400, "message": "Bad value", "status": "INVALID_ARGUMENT"}}),
        (400, {"error": {"code": "content_filter_error", "message": "The filter took too long"}}),
        (400, {"error": {"code": "bad", "message": {"error": "no", "action": "NONE"}}}),
        (500, {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}),
        (400, {}),
    ],
)
def test_any_other_error_is_an_error(status: int, error: dict[str, Any]) -> None:
    assert blocked_by(error, status) is None


#: Errors of the vendors that the tables name: quotas, keys, parameters, and trouble with filters and guardrails.
ORDINARY = (Path(__file__).parent / "data" / "ordinary_errors.jsonl").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("line", ORDINARY)
def test_an_ordinary_error_is_no_block_even_where_it_speaks_of_filters(line: str) -> None:
    row = json.loads(line)
    assert blocked_by(row["response"], row["status"]) is None


def test_why_names_the_code_and_never_the_message() -> None:
    secret = {
        "error": {"message": "Incorrect key: sk-1234", "type": "invalid_request_error", "code": "invalid_api_key"}
    }
    assert normalize({"response": secret, "status": 401}).why == "HTTP 401: invalid_api_key"
    assert normalize({"response": {"error": "sk-1234 is wrong"}, "status": 401}).why == "HTTP 401"
    assert normalize({"response": {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}}).why == "RESOURCE_EXHAUSTED"


@pytest.mark.parametrize("filtered", [False, True])
def test_azure_annotations_alone_decide_nothing(filtered: bool) -> None:
    results = {"violence": {"filtered": filtered, "severity": "high"}}
    choice = {"message": {"content": "The line held."}, "finish_reason": "stop", "content_filter_results": results}
    (read,) = normalize({"object": "chat.completion", "choices": [choice]}).choices
    assert read.blocked_by is None


def test_a_gateway_may_hand_on_the_vendors_own_word() -> None:
    choice = {"message": {"content": ""}, "finish_reason": "stop", "native_finish_reason": "PROHIBITED_CONTENT"}
    (read,) = normalize({"choices": [choice]}).choices
    assert (read.blocked_by, read.blocked_field) == ("PROHIBITED_CONTENT", "native_finish_reason")
    (read,) = normalize({"choices": [{**choice, "native_finish_reason": "STOP"}]}).choices
    assert read.blocked_by is None


@pytest.mark.parametrize(
    ("reason", "blocked"),
    [("OTHER", True), ("MODEL_ARMOR", True), ("JAILBREAK", True), ("BLOCK_REASON_UNSPECIFIED", False), ("", False)],
)
def test_a_blocked_gemini_prompt_is_blocked_for_any_reason(reason: str, blocked: bool) -> None:
    trace = normalize({"promptFeedback": {"blockReason": reason}})
    assert bool(trace.choices) is blocked
    if blocked:
        assert trace.choices[0].blocked_by == reason


def test_why_names_what_is_wrong_with_a_request() -> None:
    wrong = {"detail": [{"loc": ["body", "top_p"], "msg": "a number, please", "type": "float_type", "input": "secret"}]}
    assert normalize({"response": wrong, "status": 422}).why == "HTTP 422: float_type"
    assert normalize({"response": wrong}).why == "float_type"
    assert normalize({"response": {"error_code": 336003, "error_msg": "secret"}}).why == "336003"


def both(event: dict[str, Any], *more: dict[str, Any]) -> Choice:
    """What a body, or a stream of such events, is read as; both alike in what was said and in why it was blocked."""
    answer = StreamAnswer(Ask(), "openai.chat")
    for part in (event, *more):
        answer.feed(Event(None, json.dumps(part).encode(), 0, 0))
    (choice,) = answer.trace().choices
    if not more:
        (whole,) = normalize({"request": REQUEST, "response": event}).choices
        assert (whole.text, whole.blocked_by, whole.blocked_field) == (
            choice.text,
            choice.blocked_by,
            choice.blocked_field,
        )
    return choice


@pytest.mark.parametrize("flag", [0, 1, 2, 3, 4, None, True, "3"])
def test_qianfan_flags_a_choice(flag: object) -> None:
    choice = {"index": 0, "delta": {"content": "No words on that."}, "finish_reason": "stop", "flag": flag}
    read = both({"id": "as-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})
    assert read.text == "No words on that."
    blocked = flag in (2, 3, 4) and flag is not True
    assert (read.blocked_by, read.blocked_field) == ((str(flag), "flag") if blocked else (None, ""))


def test_qianfans_own_answers() -> None:
    head = {"id": "as-1", "object": "chat.completion", "created": 1, "is_truncated": False}
    fine = {**head, "result": "Plums.", "need_clear_history": False, "finish_reason": "normal"}
    assert (both(fine).text, both(fine).blocked_by) == ("Plums.", None)
    unsafe = {**head, "result": "Let us change the subject.", "need_clear_history": True, "ban_round": -1}
    assert both(unsafe).blocked_by == "need_clear_history"
    assert both({**fine, "finish_reason": "content_filter"}).blocked_by == "content_filter"
    streamed = both(
        {**fine, "result": "Pl", "is_end": False, "finish_reason": ""}, {**fine, "result": "ums.", "is_end": True}
    )
    assert (streamed.text, streamed.finish_reason, streamed.truncated) == ("Plums.", "normal", False)


def test_bedrock_marks_a_completion_wherever_it_comes() -> None:
    choice = {"index": 0, "delta": {"content": "Not here."}, "finish_reason": "stop"}
    chunk = {"id": "c", "model": "m", "choices": [choice]}
    assert both(chunk).blocked_by is None
    assert both({**chunk, "amazon-bedrock-guardrailAction": "NONE"}).blocked_by is None
    assert both({**chunk, "amazon-bedrock-guardrailAction": "INTERVENED"}).blocked_by == "INTERVENED"


@pytest.mark.parametrize(
    ("event", "blocked"),
    [
        ({"detail": [{"loc": ["body"], "msg": "Content blocked by guardrail", "type": "value_error"}]}, True),
        ({"detail": [{"loc": ["body"], "msg": "Input should be a number", "type": "float_type"}]}, False),
        ({"error_code": 336100, "error_msg": "try again"}, False),
        ({"ErrorMsg": {"Code": "OperationDenied.TextIllegalDetected", "Msg": "x"}}, True),
        ({"error": {"message": "Stopped by rails.", "type": "guardrails_violation", "code": "content_blocked"}}, True),
    ],
)
def test_an_error_inside_a_stream(event: dict[str, Any], blocked: bool) -> None:
    answer = StreamAnswer(Ask(), "openai.chat")
    answer.feed(Event(None, json.dumps(event).encode(), 0, 0))
    trace = answer.trace()
    assert bool(trace.choices) is blocked
    assert trace.problem == (None if blocked else "upstream_error")


def test_flagged_and_marked_chunks_are_not_plain() -> None:
    def plain(**more: Any) -> bool:
        choice = {"index": 0, "delta": {"content": "x"}, "flag": more.pop("flag", 0)}
        return read_plain(json.dumps({"choices": [choice], **more}).encode()) is not None

    assert plain()
    assert not plain(flag=3)
    assert not plain(**{"amazon-bedrock-guardrailAction": "INTERVENED"})


def test_of_a_message_and_of_details_only_so_much_is_searched() -> None:
    words = next(iter(blocks.MESSAGES))
    room = blocks.MAX_MESSAGE - len(words)
    assert blocked_by({"error": {"message": "x" * (room - 2) + ". " + words}})
    assert not blocked_by({"error": {"message": "x" * (room - 1) + ". " + words}})
    entries = [{"type": "x", "loc": [], "msg": "no"}] * blocks.MAX_DETAILS
    assert not blocked_by({"detail": [*entries, {"type": "x", "loc": [], "msg": words}]})
