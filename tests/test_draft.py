"""The draft: what was read of one response, bounded, and the trace that comes of it."""

from __future__ import annotations

from demur.classifier.draft import MAX_CALLS, MAX_CHOICES, MAX_PLACES, MAX_REASON, Draft
from demur.classifier.trace import Ask, Choice, Trace

ASK = Ask("Why?", model="asked")


def test_what_is_said_of_a_choice_that_is_not_open_is_dropped() -> None:
    draft = Draft()
    draft.say(0, "a")
    draft.refuse(0, "b")
    draft.call(0, 0, "f", "{}")
    draft.end(0, "stop")
    draft.block(0, "x", "blockReason")
    draft.cut(0)
    assert (draft.choices, draft.deltas, draft.finished, draft.next_slot(0)) == ({}, [], [], 0)
    assert draft.silent(0)


def test_bounds() -> None:
    draft = Draft()
    for index in range(MAX_CHOICES + 10):
        draft.open(index)
    assert len(draft.choices) == MAX_CHOICES
    for slot in range(MAX_CALLS + 10):
        draft.call(0, slot, "f", "")
    draft.end(1, "x" * 1000)
    for index in range(MAX_PLACES + 10):
        draft.hear("item", index)
    first, second = draft.trace(ASK).choices[:2]
    assert (len(first.tool_calls), first.truncated, len(second.finish_reason or "")) == (MAX_CALLS, True, MAX_REASON)
    assert len(draft._heard) == MAX_PLACES


def test_the_limit_is_over_all_choices_and_kinds() -> None:
    draft = Draft(limit=6)
    draft.open(0)
    draft.open(1)
    draft.say(0, "abc")
    draft.refuse(1, "de")
    draft.call(1, 0, "fg", "{}")
    draft.say(0, "xyz")
    first, second = draft.trace(ASK).choices
    assert (first.text, first.inspected, first.truncated) == ("abc", 0.5, True)
    assert (second.refusal, second.tool_calls[0].name, second.inspected, second.truncated) == ("de", "f", 0.5, True)
    assert draft.deltas == [(0, "abc")]


def test_an_error_matters_only_where_nothing_was_said() -> None:
    draft = Draft()
    draft.open(0)
    draft.fail({"code": "server_error"}, 500)
    assert draft.trace(ASK) == Trace(ask=ASK, problem="upstream_error", why="HTTP 500: server_error", model="asked")
    draft.end(0, "error")
    assert draft.trace(ASK).problem == "upstream_error"
    draft.say(0, "Half")
    assert draft.trace(ASK).choices == (Choice(text="Half", finish_reason="error", truncated=True),)
    draft.end(0, "content_filter")
    assert draft.trace(ASK).choices == (
        Choice(
            text="Half",
            finish_reason="content_filter",
            blocked_by="content_filter",
            blocked_field="finish_reason",
        ),
    )


def test_the_first_error_is_told_and_a_block_is_never_lost() -> None:
    draft = Draft()
    draft.fail({"code": "server_error"})
    draft.fail({"code": "content_filter"})
    draft.fail({"code": "other"})
    assert draft.trace(ASK).choices == (Choice(blocked_by="content_filter", blocked_field="error.code"),)


def test_a_trace_asked_for_early_changes_nothing() -> None:
    draft = Draft()
    draft.open(0)
    draft.say(0, "Half")
    early = draft.trace(ASK, stream=True)
    assert early.choices[0].truncated
    draft.end(0, "stop")
    assert draft.trace(ASK, stream=True).choices == (Choice(text="Half", finish_reason="stop"),)


def test_nothing_read() -> None:
    draft = Draft()
    assert draft.trace(ASK).problem == "empty"
    draft.unread += 1
    assert draft.trace(ASK).problem == "unparsed"
    draft.readable = True
    assert draft.trace(ASK).problem == "empty"
