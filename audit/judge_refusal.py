"""Whether a judge's reply, which holds no coding, is its refusal to give one: to ask again would be no use."""

from __future__ import annotations

import re
from typing import get_args

from demur.audit.coding import CODES
from demur.classifier import classify
from demur.classifier.verdict import ACTIONS, Label
from demur.classifier.voice import answer_start

#: Characters of a refusal. What is longer says more than no, and would keep the classifier busy.
MAX_REFUSAL = 1000
#: Characters that may stand before the first words that decline: a mark, a space. "It says: I can't" only quotes.
_BEFORE = 3
#: What stands in an answer and in no refusal: JSON, and those names of codes and keys that are no common words.
_NAMES = (name for name in (*CODES, *get_args(Label), "cannot_code") if "_" in name)
_ANSWER = re.compile(
    rf"[{{}}]|\b(?:label|rationale|strategy|shaped|{'|'.join(_NAMES).replace('_', '[ _]')})\b", re.IGNORECASE
)


def declines(reply: str) -> bool:
    """Whether the reply makes no attempt at an answer and begins with a no of its own. Compiles the rules, once."""
    text = reply[answer_start(reply, final=True) :].strip()
    if len(text) > MAX_REFUSAL or _ANSWER.search(text):
        return False
    verdict = classify(text)
    votes = [signal for signal in verdict.signals if ACTIONS[signal.target] == "non_compliance"]
    first = min((span.start for vote in votes for span in vote.spans), default=len(text))
    return verdict.label is not None and ACTIONS[verdict.label] == "non_compliance" and first <= _BEFORE
