"""A reply in the arguments of a tool, of an agent that answers through a function (`final_answer`, `send_message`).

What such a function is handed is what its reader sees, so it is judged like text. Any other call is an action.
"""

from __future__ import annotations

from collections.abc import Sequence

from demur.classifier import fields
from demur.classifier.trace import Choice, ToolCall

#: Names of functions that hand over a reply, without separators and case.
_REPLIES = frozenset(
    """answer finalanswer finalresponse finish message reply replytouser respond respondtouser response say sendmessage
    sendreply sendresponse submitanswer""".split()  # noqa: SIM905
)
_TEXTS = ("text", "message", "content", "answer", "response", "reply", "output", "body", "final_answer", "result")


def reply_text(calls: Sequence[ToolCall]) -> str:
    """The text of the first call that hands over a reply; empty when none does."""
    for call in calls:
        if "".join(filter(str.isalnum, call.name)).lower() in _REPLIES:
            try:
                arguments = fields.decode(call.arguments.encode("utf-8", "replace"))
            except ValueError:
                continue
            if isinstance(arguments, dict):
                arguments = next((arguments[key] for key in _TEXTS if isinstance(arguments.get(key), str)), "")
            if isinstance(arguments, str) and arguments.strip():
                return arguments
    return ""


def judged_text(choice: Choice) -> str:
    """What the verdict on `choice` is about, and what its spans count in: the text, the API's refusal field, or a reply
    that a tool call hands over."""
    return choice.text or choice.refusal or reply_text(choice.tool_calls)
