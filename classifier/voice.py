"""Whose words are these? Finds where the answer begins and which parts of it are not the model's own voice.

Quoted speech, code, block quotes and text that was ordered ("write a rejection letter") are content. A fence, a
quotation or a JSON value that is the whole reply is the model speaking in a costume. Knows nothing of rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, overload

_LABELS = ("assistant", "ai", "bot", "chatbot", "model", "response", "answer", "output", "reply")
_OPENERS = ("<s>", "[/inst]", "<|assistant|>", "<|im_start|>assistant", "\ufeff")
#: What must follow before it is certain that no mark or label begins here ("<|im_start|>assistant", and then some).
_LONGEST_MARK = 64
#: A full stop after fewer characters ends a list number ("12.") or an initial, not a sentence.
_LIST_NUMBER = 5
_COMMENT = ("#", "//", "/*", "*", "--", "<!--", "%", ";", "'''", '"""')
_CLOSING = {'"': '"', "“": "”", "«": "»", "'": "'", "‘": "’", "„": "“", "{": "}", "(": ")"}
#: How far back an opening quotation mark is looked for; longer quotations are block quotes or content of their own.
_LOOK_BACK = 600
#: What introduces words for somebody else to say.
_SAMPLE = re.compile(
    r"\b(?:you|could|can|might|may|just|simply|and) (?:say|reply|respond|write|answer|text|tell \w+)"
    r"(?: something like| this)?:|\b(?:for example|something like|along the lines of|such as):",
    re.IGNORECASE,
)
_MARK = re.compile("[\"“«`'‘]")
#: The end of a sentence or a clause, with up to three closing marks. Fixed widths only: linear on any text.
_SENTENCE_END = re.compile(
    r"[.!?…;:\n。！？।؟](?:(?<=[\n。！？।؟])|[\"')\]*_”’»]{0,3}(?=\s))"  # one set first: the scan then skips fast
)


@dataclass(frozen=True, slots=True)
class Voice:
    """The answer proper: `start` to `end` of the original text. `fences` are code blocks inside it.

    `whole`: what the whole reply is wrapped in ("fence", "quotes", "json"), or None.
    """

    start: int
    end: int
    fences: tuple[tuple[int, int], ...] = ()
    whole: str | None = None

    def foreign(self, text: str, start: int) -> str | None:
        """Why the words at `start` are not the model's own; None if they are."""
        for opened, closed in self.fences:
            if opened <= start < closed:
                if self.whole == "fence" and _remark(text, start):
                    return None
                return "inside a code block"
        if self.whole in ("json", "quotes"):
            return None
        line = text.rfind("\n", 0, start) + 1
        if text.startswith(">", line) or text.startswith((" >", "  >"), line):
            return "inside a block quote"
        since = max(line, start - _LOOK_BACK, self.start)
        if text.find(":", since, start) >= 0 and _SAMPLE.search(text, since, start):
            return "what somebody could say"
        return _quoted(text, since, start)


@overload
def answer_start(text: str, *, final: Literal[True]) -> int: ...
@overload
def answer_start(text: str, *, final: bool = False) -> int | None: ...
def answer_start(text: str, *, final: bool = False) -> int | None:
    """Where the answer begins: after thinking, speaker labels, template marks and blank lines.

    None: more text could move it. `final`: nothing more comes; thinking that never ends leaves an empty answer.
    """
    start = _skip(text, 0)
    if text.startswith("<think>", start):
        closed = text.find("</think>", start)
        start = _skip(text, closed + len("</think>")) if closed >= 0 else len(text)
    return start if final or len(text) - start >= _LONGEST_MARK else None


def find_voice(text: str, start: int) -> Voice:
    """The model's own voice in the answer that begins at `start`."""
    end = len(text.rstrip())
    fences = _fences(text, start)
    if fences and not text[start : fences[0][0]].strip() and len(fences) == 1 and not text[fences[0][1] : end].strip():
        return Voice(start, end, fences, "fence")
    if start < end:
        first, last = text[start], text[end - 1]
        if (first == "{" and last == "}") or (first == "[" and last == "]" and '"' in text[start : start + 200]):
            return Voice(start, end, fences, "json")
        if _CLOSING.get(first) == last and first not in text[start + 1 : end - 1] and first not in "{(":
            return Voice(start + 1, end - 1, fences, "quotes")
    return Voice(start, max(start, end), fences)


def sentences(text: str, start: int, end: int, *, until: int | None = None) -> list[tuple[int, int]]:
    """The sentences and lines between `start` and `end`, as places in the text; they follow on each other.

    `until`: what comes after the sentence that holds this place stays one piece.
    """
    out: list[tuple[int, int]] = []
    at = start
    for match in _SENTENCE_END.finditer(text, start, end):
        stop = match.end()
        if stop - at < _LIST_NUMBER and (stop - at < 2 or text[match.start()] == "."):
            continue
        if not (text[at].isspace() and text[at:stop].isspace()):
            out.append((at, stop))
            at = stop
            if until is not None and stop > until:
                break
    if end - at > 1 and not text[at:end].isspace():
        out.append((at, end))
    return out


def _skip(text: str, at: int) -> int:
    """Past blank space, byte order mark, template marks and one speaker label."""
    labelled = False
    while True:
        while text[at : at + 1].isspace():
            at = len(text) - len(text[at:].lstrip())
        head = text[at : at + 24].lower()
        if head.startswith(_OPENERS):
            at += len(next(mark for mark in _OPENERS if head.startswith(mark)))
            continue
        colon = head.find(":")
        if labelled or colon <= 0 or head[:colon].strip("* #") not in _LABELS:
            return at
        labelled, at = True, at + colon + 1


def _fences(text: str, start: int) -> tuple[tuple[int, int], ...]:
    out: list[tuple[int, int]] = []
    opened = text.find("```", start)
    while opened >= 0 and len(out) < 64:
        closed = text.find("```", opened + 3)
        end = closed + 3 if closed >= 0 else len(text)
        out.append((opened, end))
        opened = text.find("```", end)
    return tuple(out)


def _remark(text: str, at: int) -> bool:
    """Whether the line of a fenced reply is prose or a comment and the block holds no code line before it."""
    opened = text.rfind("```", 0, at)
    head = text.find("\n", opened, at) + 1
    if not head:
        return True
    language = text[opened + 3 : head].strip().lower()
    lines = [line.strip() for line in text[head:at].split("\n")[:40]]
    lines[-1] = text[text.rfind("\n", 0, at) + 1 : at + 2].strip()
    if language in ("", "text", "txt", "markdown", "md", "plaintext"):
        return True
    return all(not line or line.startswith(_COMMENT) for line in lines)


def _quoted(text: str, since: int, start: int) -> str | None:
    before = text[since:start]
    if not _MARK.search(before):
        return None
    if before.count('"') % 2 or before.rfind("“") > before.rfind("”") or before.rfind("«") > before.rfind("»"):
        return "inside a quotation"
    if before.count("`") % 2:
        return "inside inline code"
    for mark, closing in (("'", "'"), ("‘", "’")):
        opened = len(before) - 1 if before == mark else max(before.rfind(f" {mark}"), before.rfind(f":{mark}"))
        if opened >= 0 and _closes(text, closing, start) and not _closes_between(before, closing, opened + 2):
            return "inside a quotation"
    return None


def _closes(text: str, mark: str, at: int) -> bool:
    """Whether a closing single quote (no apostrophe inside a word) follows within the paragraph."""
    stop = min(len(text), at + _LOOK_BACK)
    while (at := text.find(mark, at, stop)) >= 0:
        if at + 1 == len(text) or not text[at + 1].isalnum():
            return True
        at += 1
    return False


def _closes_between(before: str, mark: str, at: int) -> bool:
    while (at := before.find(mark, at)) >= 0:
        if at + 1 < len(before) and not before[at + 1].isalnum():
            return True
        at += 1
    return False
