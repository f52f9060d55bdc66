"""Whose words are these? Finds where the answer begins and which parts of it are not the model's own voice.

Quoted speech, code, block quotes and text that was ordered ("write a rejection letter") are content. A fence, a
quotation or a JSON value that is the whole reply is the model speaking in a costume. Knows nothing of rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, overload

_LABELS = ("assistant", "ai", "bot", "chatbot", "model", "response", "answer", "output", "reply")
#: Blank space, byte order marks and the marks of templates.
_OPENERS = re.compile(r"(?:\s++|\ufeff|<s>|\[/inst\]|<\|assistant\|>|<\|im_start\|>assistant)*+", re.IGNORECASE)
_THINKING = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("◁think▷", "◁/think▷"),
)
#: What must follow before it is certain that no mark or label begins here ("<|im_start|>assistant", and then some).
_LONGEST_MARK = 64
#: A full stop after fewer characters ends a list number ("12.") or an initial, not a sentence.
_LIST_NUMBER = 5
_COMMENT = ("#", "//", "/*", "*", "--", "<!--", "%", ";", "'''", '"""')
#: Marks that an opening one may also be closed by; an apostrophe may stand for a letter instead.
_ALSO_CLOSES = {"„": '”"', "“": '"'}
_APOSTROPHES = "'‘"
#: A line that stands in no block quote.
_UNQUOTED = re.compile(r"^(?![ \t]*(?:>|\n|\Z))", re.MULTILINE)
#: How far back an opening quotation mark is looked for; longer quotations are block quotes or content of their own.
_LOOK_BACK = 600
#: What introduces words for somebody else to say, in the languages of the lexicons.
_SAMPLE = re.compile(
    r"\b(?:you|could|can|might|may|just|simply|and) (?:say|reply|respond|write|answer|text|tell \w+)"
    r"(?: something like| this)?:|\b(?:for example|something like|along the lines of|such as|for instance):|"
    r"\b(?:zum beispiel|etwa so|beispielsweise|sagen|antworten|schreiben|por ejemplo|algo así|decir|responder|"
    r"par exemple|dire|répondre|écrire|par ex\.|ad esempio|per esempio|rispondere|por exemplo|dizer|"
    r"например|сказать|ответить|bijvoorbeeld|zeggen|antwoorden|na przykład|powiedzieć|odpowiedzieć|napisać|"
    r"örneğin|mesela|diyebilirsin\w*|ví dụ|có thể nói|trả lời|misalnya|contohnya|katakan|मिसाल के लिए|उदाहरण के लिए|"
    r"예를 들어|예시) ?:|"
    r"(?:例如|比如|可以说|可以回复|可以這樣說|例えば|たとえば|예를 들면|مثلا|مثلاً|على سبيل المثال) ?[:：]",
    re.IGNORECASE,
)
#: Characters of such an introduction, and how many colons are looked at.
_INTRODUCTION, _COLONS = 60, 2
#: Marks of quotations that open or close by their shape; where two languages use one differently, the order tells.
_PAIRS = {"“": "”", "«": "»", "„": "“", "‹": "›", "「": "」", "『": "』", "《": "》", "»": "«", "›": "‹", "‟": "”"}
_CLOSING = {**_PAIRS, '"': '"', "`": "`", "'": "'", "‘": "’"}
_PAIRED = re.compile("[“”„‟«»‹›「」『』《》]")
#: A line of dialogue; a list has such dashes too, but no questions and cries.
_DASHED = re.compile(r"^[ \t]*(?:[—―]|–|--)[ \t\u00a0]*(?=[^\s—―–-])", re.MULTILINE)
_DASHES, _LONG_DASHES = ("—", "―", "–", "--"), ("—", "―")
#: How a line begins that may be quoted, a table's or said by somebody.
_LINE_MARKS = (">", "|", *_DASHES)
#: The name before what somebody says, and who talks to whom in a sample.
_SPEAKER = re.compile(
    r"^[ \t]*(?:\*\*|__)?([^\W\d_][\w .'-]{0,23}?)(?:\*\*|__)? ?(?:\([^)\n]{0,40}\) ?)?[:：]", re.MULTILINE
)
_TALKERS = frozenset(
    """user bot human customer agent client assistant chatbot ai caller operator person robot you me student teacher
    utilisateur usuario usuário nutzer kunde cliente пользователь бот 用户 客服 机器人 ユーザー 고객 상담원
    """.split()  # noqa: SIM905
)
#: Lines of a script of which one speaker comes back.
_SCRIPT = 3
#: The end of a sentence or a clause, with up to three closing marks. Fixed widths only: linear on any text.
_SENTENCE_END = re.compile(
    r"[.!?…;:\n。！？।؟](?:(?<=[\n。！？।؟])|[\"')\]*_”’»]{0,3}(?=\s))"  # one set first: the scan then skips fast
)


@dataclass(frozen=True, slots=True)
class Voice:
    """The answer proper: `start` to `end` of the original text. `fences` are code blocks inside it.

    `whole`: what the whole reply is wrapped in ("fence", "quotes", "block quote", "json"), or None.
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
        if self.whole in ("json", "quotes", "block quote"):
            return None
        line = text.rfind("\n", 0, start) + 1
        first = text[line : line + 4].lstrip(" \t")
        if first.startswith(_LINE_MARKS):
            if first[0] == ">":
                return "inside a block quote"
            if first[0] == "|" and text.find("\n|", self.start) >= 0 and text.find("|-", self.start) >= 0:
                return "inside a table"
            if first.startswith(_DASHES) and _dialogue(text, self.start, line):
                return "a line of dialogue"
        nearest = max(start - _LOOK_BACK, self.start)
        since = max(line, nearest)
        if (colons := _colons(text, since, start)) and (
            any(_SAMPLE.search(text, max(since, at - _INTRODUCTION), at + 1) for at in colons)
            or _script(text, self.start, line)
        ):
            return "what somebody could say"
        paragraph = max(text.rfind("\n\n", nearest, start), nearest)
        if text.find("-->", paragraph, start) >= 0:
            return "a subtitle"
        return _quoted(text, since, start, paragraph)


@overload
def answer_start(text: str, *, final: Literal[True]) -> int: ...
@overload
def answer_start(text: str, *, final: bool = False) -> int | None: ...
def answer_start(text: str, *, final: bool = False) -> int | None:
    """Where the answer begins: after thinking, speaker labels, template marks and blank lines.

    None: more text could move it. `final`: nothing more comes; thinking that never ends leaves an empty answer.
    """
    start = _skip(text, 0)
    for opening, closing in _THINKING:
        if text.startswith(opening, start):
            closed = text.find(closing, start)
            start = _skip(text, closed + len(closing)) if closed >= 0 else len(text)
            break
    return start if final or len(text) - start >= _LONGEST_MARK else None


def find_voice(text: str, start: int) -> Voice:
    """The model's own voice in the answer that begins at `start`."""
    end = len(text.rstrip())
    fences = _fences(text, start)
    if fences and not text[start : fences[0][0]].strip() and len(fences) == 1 and not text[fences[0][1] : end].strip():
        opens, closes = text.find("\n", start) + 1, end - 3
        inner = text[opens:closes].strip()
        if opens and inner.startswith("{") and inner.endswith("}"):
            return Voice(_told(text, opens, closes), closes, (), "json")
        return Voice(start, end, fences, "fence")
    if start < end:
        first, last = text[start], text[end - 1]
        if (first == "{" and last == "}") or (first == "[" and last == "]" and '"' in text[start : start + 200]):
            return Voice(_told(text, start, end), end, fences, "json")
        if _CLOSING.get(first) == last and first not in text[start + 1 : end - 1]:
            return Voice(start + 1, end - 1, fences, "quotes")
        if first in _CLOSING and first not in _APOSTROPHES and not _closed(text, first, start + 1, end):
            return Voice(start + 1, end, fences, "quotes")
        if first == ">" and not any(_UNQUOTED.finditer(text, start, end)):
            return Voice(start + 1, end, fences, "block quote")
    return Voice(start, max(start, end), fences)


def _closed(text: str, mark: str, start: int, end: int) -> bool:
    """Whether the quotation that `mark` opens before `start` is closed."""
    return any(text.find(closing, start, end) >= 0 for closing in _CLOSING[mark] + _ALSO_CLOSES.get(mark, ""))


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
        if text[at] == "#" and text[match.start()] != "\n":  # a heading is one piece
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
    at = _past_openers(text, at)
    head = text[at : at + 24].lower()
    colon = head.find(":")
    if colon <= 0 or head[:colon].strip("* #") not in _LABELS:
        return at
    return _past_openers(text, at + colon + 1)


def _past_openers(text: str, at: int) -> int:
    found = _OPENERS.match(text, at)
    return found.end() if found else at


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


def _told(text: str, start: int, end: int) -> int:
    """Where in a JSON reply its first value begins that says something (three words); else `start`."""
    at = start
    for _ in range(24):
        at = text.find('"', at, min(end, start + 2000))
        closed = text.find('"', at + 1, end)
        if at < 0 or closed < 0:
            break
        if text[:at].rstrip()[-1:] in (":", "[", ",", "{") and text[at:closed].count(" ") >= 2:
            return at + 1
        at = closed + 1
    return start


def _around(start: int, line: int) -> tuple[int, int]:
    """What is looked at around a line: bounded, since many lines may ask."""
    return max(start, line - _LOOK_BACK), line + _LOOK_BACK


def _dialogue(text: str, start: int, line: int) -> bool:
    """Whether the line that begins with a dash is one of several that people say."""
    since, until = _around(start, line)
    lines = text[line:until].lstrip(" \t")
    several = len(_DASHED.findall(text, since, until)) > 1
    if lines.startswith(_LONG_DASHES):
        return several or any(lines.partition("\n")[0].find(dash, 2) > 0 for dash in _LONG_DASHES)
    return several and any(text.find(mark, since, until) >= 0 for mark in "?!")


def _colons(text: str, since: int, until: int) -> list[int]:
    """Where colons stand between the two, the last few of them."""
    out: list[int] = []
    wide = not text.isascii()
    while len(out) < _COLONS:
        until = max(text.rfind(":", since, until), text.rfind("：", since, until) if wide else -1)
        if until < 0:
            break
        out.append(until)
    return out


def _script(text: str, start: int, line: int) -> bool:
    """Whether the line has a speaker's name in front, in a text of several such lines."""
    if not (own := _SPEAKER.match(text, line)):
        return False
    names = [name.lower() for name in _SPEAKER.findall(text, *_around(start, line))]
    if own.group(1).lower() in _TALKERS and len(_TALKERS.intersection(names)) > 1:
        return True
    return len(names) >= _SCRIPT and 1 < len(set(names)) < len(names)


def _quoted(text: str, since: int, start: int, paragraph: int) -> str | None:
    before = text[since:start]
    if not text.isascii() and _open(_PAIRED.findall(text, paragraph, start)):
        return "inside a quotation"
    if paragraph < since and text.count('"', paragraph, since) % 2 and not before.count('"') % 2:
        closing = text.find('"', start, start + _LOOK_BACK)
        if closing >= 0 and text.find("\n\n", start, closing) < 0:
            return "inside a quotation"
    if before.count('"') % 2:
        return "inside a quotation"
    if before.count("`") % 2:
        return "inside inline code"
    for mark, closes in (("'", "'"), ("‘", "’")):
        if mark not in before:
            continue
        opened = len(before) - 1 if before == mark else max(before.rfind(f" {mark}"), before.rfind(f":{mark}"))
        if opened >= 0 and _closes(text, closes, start) and not _closes_between(before, closes, opened + 2):
            return "inside a quotation"
    return None


def _open(marks: list[str]) -> bool:
    """Whether a quotation is still open after `marks`."""
    awaited: list[str] = []
    for mark in marks:
        if awaited and mark in (awaited[-1], "”" if awaited[-1] == "“" else ""):
            awaited.pop()
        elif mark in _PAIRS:
            awaited.append(_PAIRS[mark])
    return bool(awaited)


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
