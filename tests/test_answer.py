"""Stream assembly: what is said, by whom, when it ends; and the same trace as from the whole body."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from conversations import PAIRS, chat, chunk, event, gemini, message, sse
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.classifier.answer import StreamAnswer
from demur.classifier.shapes import normalize
from demur.classifier.sse import Event, SSEReader
from demur.classifier.trace import Ask, Choice, ToolCall, Trace, Usage


def events(stream: bytes) -> list[Event]:
    reader = SSEReader()
    return reader.feed(stream) + reader.close()


def fed(*objects: Any, api: str | None = None, **arguments: Any) -> StreamAnswer:
    answer = StreamAnswer(Ask(), api, **arguments)
    for obj in objects:
        answer.feed(obj if isinstance(obj, Event) else event(obj))
    return answer


def only(trace: Trace) -> Choice:
    assert trace.problem is None, trace.why
    (choice,) = trace.choices
    return choice


@pytest.mark.parametrize(("body", "stream"), PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("api", [None, "the path's"])
def test_a_stream_gives_the_trace_of_its_body(body: dict[str, Any], stream: bytes, api: str | None) -> None:
    whole = normalize(body)
    answer = fed(*events(stream), api=api and whole.api)
    trace = answer.trace()
    assert replace(trace, usage=whole.usage, meta={}) == replace(whole, meta={})
    assert trace.usage in (whole.usage, Usage())


@pytest.mark.parametrize(("body", "stream"), PAIRS.values(), ids=PAIRS)
def test_deltas_add_up_to_the_text(body: dict[str, Any], stream: bytes) -> None:
    answer = StreamAnswer(Ask())
    texts: dict[int, str] = {}
    finished: list[int] = []
    for one in events(stream):
        for index, text in answer.feed(one):
            assert index not in finished
            texts[index] = texts.get(index, "") + text
        finished += answer.newly_finished
    choices = answer.trace().choices
    assert texts == {choice.index: choice.text for choice in choices if choice.text}
    assert sorted(finished) == [choice.index for choice in choices if choice.finish_reason]


def test_newly_finished_is_of_the_last_event_only() -> None:
    answer = StreamAnswer(Ask())
    seen = []
    for one in (chunk({"content": "a"}, ""), chunk({"content": "b"}), chunk({}, "stop"), chunk({}), chunk({}, "stop")):
        answer.feed(event(one))
        seen.append(answer.newly_finished)
    assert seen == [(), (), (0,), (), ()]
    both = {"choices": [{"index": 1, "finish_reason": "stop"}, {"index": 0, "finish_reason": "length"}]}
    assert fed(both).newly_finished == (1, 0)


@pytest.mark.parametrize("api", [None, "openai.chat"])
def test_odd_chunks_say_nothing_and_break_nothing(api: str | None) -> None:
    odd: list[Any] = [
        chunk({"content": "Teal"}),
        {"choices": []},
        {"choices": None},
        {"usage": {"prompt_tokens": 1, "completion_tokens": 2}, "choices": []},
        {"id": "x"},
        chunk(None),
        {"choices": [{"index": 0}]},
        {"choices": [{}]},
        {"choices": [None, 7]},
        {"choices": [{"index": "0", "delta": {"content": " is"}}]},
        {"choices": [{"index": -1, "delta": {"content": " a"}}]},
        {"choices": [{"index": None, "delta": "text"}]},
        chunk({"content": 5}),
        chunk({"content": {"type": "text", "text": " colour"}}),
        chunk({"content": ["."]}),
        chunk({"content": None}, 3),  # type: ignore[arg-type]
        "not json",
        "[1]",
        "7",
        "",
        "  ",
        b'\xff{"choices":',
        "[" * 100_000,
        '{"choices":[{"index":0,"delta":{"content":NaN}}]}',
        chunk({}, "stop"),
        "[DONE]",
    ]
    answer = fed(*odd, api=api)
    assert answer.done
    choice = only(answer.trace())
    assert (choice.text, choice.finish_reason, choice.truncated) == ("Teal is a colour.", "stop", False)
    assert answer.trace().usage == Usage(1, 2)


def test_azure_chunks_without_choices_and_without_delta() -> None:
    safe = {"violence": {"filtered": False, "severity": "safe"}}
    results = [{"prompt_index": 0, "content_filter_results": safe}]
    answer = fed(
        {"id": "", "object": "", "model": "", "choices": [], "prompt_filter_results": results},
        chunk({"role": "assistant", "content": "Teal"}),
        chunk({}, "stop"),
        {"id": "", "model": "", "choices": [{"index": 0, "finish_reason": None, "content_filter_results": safe}]},
        "[DONE]",
        api="openai.chat",
    )
    trace = answer.trace()
    assert only(trace) == Choice(text="Teal", finish_reason="stop")
    assert trace.meta == {"prompt_filter_results": results, "content_filter_results": {0: safe}}
    assert (trace.response_id, trace.model) == ("chatcmpl-1", "m-1")


@pytest.mark.parametrize("reason", ["sensitive", "model_length", "eos_token", "STOP"])
def test_finish_reasons_are_kept_verbatim(reason: str) -> None:
    assert only(fed(chunk({"content": "a"}, reason)).trace()).finish_reason == reason


def test_a_block_after_another_finish_reason_counts() -> None:
    trace = fed(chunk({"content": "a"}, "stop"), chunk({}, "content_filter"), chunk({}, "stop")).trace()
    assert only(trace).blocked_by == "content_filter"


def test_reasoning_is_not_text() -> None:
    answer = fed(
        chunk({"reasoning_content": "I can't."}),
        chunk({"reasoning": "No.", "reasoning_details": [{"text": "No."}]}),
        chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Refuse."}]}]}),
        chunk({"content": [{"type": "text", "text": "23"}]}),
        chunk({}, "stop"),
    )
    assert only(answer.trace()).text == "23"


def test_audio_transcripts_are_text() -> None:
    answer = fed(
        chunk({"audio": {"transcript": "It rained "}}), chunk({"audio": {"transcript": "all night.", "data": "QQ=="}})
    )
    assert only(answer.trace()).text == "It rained all night."


def test_a_gateway_side_field_is_the_refusal() -> None:
    answer = fed(chunk({"provider_specific_fields": {"refusal": "I won't."}}), chunk({}, "stop"), api="openai.chat")
    assert only(answer.trace()).refusal == "I won't."


def test_interleaved_tool_calls() -> None:
    def call(slot: int, **function: str) -> dict[str, Any]:
        return chunk({"tool_calls": [{"index": slot, "function": function}]})

    answer = fed(
        call(0, name="a", arguments=""),
        call(1, name="b"),
        call(0, arguments="{1"),
        call(1, arguments="{2}"),
        call(0, arguments="}"),
        chunk({}, "tool_calls"),
    )
    assert only(answer.trace()).tool_calls == (ToolCall("a", "{1}"), ToolCall("b", "{2}"))


def test_a_stream_that_only_repeats_itself_at_the_end_is_read_there() -> None:
    whole = {
        "id": "r",
        "object": "response",
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Oslo."}]}],
    }
    assert only(fed({"type": "response.completed", "response": whole}).trace()).text == "Oslo."
    done = {"type": "response.output_text.done", "item_id": "m", "content_index": 0, "text": "Oslo."}
    assert only(fed(done, {"type": "response.completed", "response": {}}).trace()).text == "Oslo."


def test_a_failed_response() -> None:
    failed = {
        "type": "response.failed",
        "response": {"status": "failed", "error": {"code": "server_error", "message": "x"}},
    }
    trace = fed(failed).trace()
    assert (trace.problem, trace.why) == ("upstream_error", "server_error")
    refused = {
        "type": "response.failed",
        "response": {"status": "failed", "error": {"code": "invalid_prompt", "message": "x"}},
    }
    assert only(fed(refused).trace()).blocked_by == "invalid_prompt"
    delta = {"type": "response.output_text.delta", "item_id": "m", "content_index": 0, "delta": "Oslo"}
    choice = only(fed(delta, failed).trace())
    assert (choice.text, choice.truncated, choice.blocked_by) == ("Oslo", True, None)


@pytest.mark.parametrize(
    "error",
    [
        {"error": {"code": 504, "type": "timeout"}},
        {"error": "the model crashed"},
        {"object": "error", "message": "crashed", "code": 500},
        {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
        {"type": "error", "code": "server_error", "message": "x"},
        event({"message": "boom"}, "error"),
        event({"error": {"message": "boom"}}, "error"),
    ],
)
@pytest.mark.parametrize("api", [None, "openai.chat", "anthropic.messages"])
def test_an_error_in_a_stream_is_no_refusal(error: Any, api: str | None) -> None:
    trace = fed(error, "[DONE]", api=api).trace()
    assert (trace.problem, trace.choices) == ("upstream_error", ())
    late = only(fed(chunk({"content": "Half of"}), error, api=api).trace())
    assert (late.text, late.truncated, late.blocked_by) == ("Half of", True, None)


@pytest.mark.parametrize("api", [None, "openai.chat"])
def test_a_policy_error_in_a_stream_is_a_block(api: str | None) -> None:
    error = {
        "error": {"code": "content_filter", "message": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}
    }
    assert only(fed(error, "[DONE]", api=api).trace()).blocked_by == "content_filter"
    late = fed(chunk({"content": "a"}, "stop"), chunk({"content": "Half"}, index=1), error, api=api).trace()
    assert [choice.blocked_by for choice in late.choices] == [None, "content_filter"]


def test_how_streams_end() -> None:
    said = chunk({"content": "Once"})
    assert only(fed(said, "[DONE]").trace()).truncated, "without a finish reason"
    assert only(fed(said).trace(cut=True)).truncated
    assert not only(fed(said, chunk({}, "stop")).trace()).truncated, "the end marker is not needed"
    assert not only(fed(said, chunk({}, "stop")).trace(cut=True)).truncated
    assert not fed(said, chunk({}, "stop")).done
    assert fed(message(), event({"type": "message_stop"})).done


def test_streams_without_anything_to_judge() -> None:
    assert fed().trace().problem == "empty"
    assert fed("[DONE]").trace().problem == "empty"
    assert fed().trace(cut=True).problem == "empty"
    assert fed(chunk({"role": "assistant"}), chunk({}, "stop")).trace().choices == (Choice(finish_reason="stop"),)
    assert fed({"hello": "world"}, "some text").trace().problem == "unparsed"


def test_an_http_error_with_a_stream_or_a_page() -> None:
    assert fed(status=502).trace().problem == "upstream_error"
    trace = fed({"error": {"code": "content_filter"}}, status=400).trace()
    assert only(trace).blocked_by == "content_filter"
    trace = fed(
        {"error": {"type": "rate_limit_exceeded", "message": "sk-secret"}}, api="openai.chat", status=429
    ).trace()
    assert (trace.problem, trace.why) == ("upstream_error", "HTTP 429: rate_limit_exceeded")


def test_text_beyond_the_cap_is_counted_and_not_kept() -> None:
    answer = StreamAnswer(Ask(), inspect_chars=10)
    deltas = [
        list(answer.feed(event(one)))
        for one in (
            chunk({"content": "abcdef"}),
            chunk({"content": "ghij"}, index=1),
            chunk({"content": "klmnop"}),
            chunk({}, "stop"),
            chunk({}, "stop", index=1),
        )
    ]
    assert deltas == [[(0, "abcdef")], [(1, "ghij")], [], [], []]
    first, second = answer.trace().choices
    assert (first.text, first.truncated, first.inspected) == ("abcdef", True, 0.5)
    assert (second.text, second.truncated, second.inspected) == ("ghij", False, 1.0)


def test_the_cap_counts_tool_arguments_and_refusals() -> None:
    call = chunk({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "x" * 100}}]})
    choice = only(fed(call, chunk({"content": "late"}), chunk({}, "tool_calls"), inspect_chars=51).trace())
    assert (choice.tool_calls, choice.text, choice.truncated) == ((ToolCall("f", "x" * 50),), "", True)
    assert choice.inspected == 51 / 105
    assert only(fed(chunk({"refusal": "y" * 20}), inspect_chars=5).trace()).refusal == "yyyyy"


def test_an_event_too_large_to_read_cuts_the_choices_that_are_open() -> None:
    skipped = Event(None, b"", 0, 100, skipped=100)
    first, second = (
        fed(chunk({"content": "a"}, "stop"), chunk({"content": "b" * 100}, index=1), skipped).trace().choices
    )
    assert (first.truncated, first.inspected) == (False, 1.0)
    assert (second.truncated, second.inspected) == (True, 0.5)
    assert only(fed(skipped).trace()).truncated


def test_a_crowd_of_choices_is_bounded() -> None:
    answer = fed(*(chunk({"content": "x"}, index=index) for index in range(2000)))
    assert len(answer.trace().choices) == 256
    calls = [chunk({"tool_calls": [{"index": slot, "function": {"name": "f"}}]}) for slot in range(2000)]
    assert len(only(fed(*calls).trace()).tool_calls) == 256


def test_lone_surrogates_become_replacement_characters() -> None:
    answer = fed(
        event('{"choices":[{"index":0,"delta":{"content":"a\\ud83d"}}]}'),
        event('{"choices":[{"delta":{"content":"\\ude42b"}}]}'),
    )
    assert only(answer.trace()).text == "a\ufffd\ufffdb"


def test_ollama_lines() -> None:
    answer = fed(
        {"model": "m-1", "message": {"role": "assistant", "content": "Use ", "thinking": "No."}, "done": False},
        {"model": "m-1", "message": {"content": "a whisk."}, "done": False},
        {
            "model": "m-1",
            "message": {"content": ""},
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": 3,
            "eval_count": 5,
        },
    )
    assert answer.done
    trace = answer.trace()
    assert (only(trace), trace.api, trace.usage) == (
        Choice(text="Use a whisk.", finish_reason="stop"),
        "ollama.chat",
        Usage(3, 5),
    )


def test_usage_of_every_vendor() -> None:
    details = {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}
    details["completion_tokens_details"] = {"reasoning_tokens": 2}
    assert fed({"choices": [], "usage": details}).trace().usage == Usage(9, 5, 4, 2)
    started = {
        "type": "message_start",
        "message": message() | {"usage": {"input_tokens": 9, "cache_read_input_tokens": 4}},
    }
    assert fed(started, {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 5}}).trace().usage == Usage(
        9, 5, 4
    )
    metadata = {"promptTokenCount": 9, "candidatesTokenCount": 5, "thoughtsTokenCount": 2, "cachedContentTokenCount": 4}
    assert fed(gemini() | {"usageMetadata": metadata}).trace().usage == Usage(9, 5, 4, 2)
    assert fed({"choices": [], "usage": {"prompt_tokens": -1, "completion_tokens": True}}).trace().usage == Usage()


def test_streams_of_several_kinds_of_line_ends() -> None:
    stream = PAIRS["chat"][1]
    for other in (stream.replace(b"\n", b"\r\n"), stream.replace(b"\n", b"\r"), stream.replace(b"data: ", b"data:")):
        assert only(fed(*events(other)).trace()).text == only(normalize(chat("Boil the eggs for nine minutes."))).text
    assert sse("x") == b"data: x\n\n"


# Whatever stands anywhere in an event, feeding it raises nothing, and the deltas add up to the trace's text.
EVENTS = [
    (one.name, json.loads(one.data))
    for _, stream in PAIRS.values()
    for one in events(stream)
    if one.data not in (b"[DONE]", b"")
]


def places(node: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a JSON tree."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(place for key, value in items for place in places(value, (*path, key)))]


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "content", "type"]), inner),
    max_leaves=6,
)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.sampled_from(EVENTS), min_size=1, max_size=4),
    st.sampled_from([None, "openai.chat", "openai.responses", "anthropic.messages"]),
    st.data(),
)
def test_events_with_junk_in_one_place(
    chosen: list[tuple[str | None, Any]], api: str | None, data: st.DataObject
) -> None:
    answer = StreamAnswer(Ask(), api, inspect_chars=30)
    texts: dict[int, str] = {}
    for name, obj in copy.deepcopy(chosen):
        *path, last = data.draw(st.sampled_from(places(obj)[1:]))
        node = obj
        for key in path:
            node = node[key]
        node[last] = data.draw(JUNK)
        for index, text in answer.feed(event(obj, name)):
            texts[index] = texts.get(index, "") + text
    trace = answer.trace()
    if trace.problem is None:
        assert texts == {choice.index: choice.text for choice in trace.choices if choice.text}
    for text in texts.values():
        text.encode()
