"""How long a verdict takes, in this process and without a network: the second table of the benchmark.

Every text is timed as a whole (`one shot`: trace in, verdict out) and, for the two usual sizes, fed in pieces of 20
characters as a stream brings it. Hostile texts are such as break regular expressions and naive trackers; linear cost
shows in µs per 1,000 characters, which must not grow from 16 KB to 1 MB.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

from payloads import ANSWER, PROMPT, stream_events

from demur.classifier import Ask, Choice, Classifier, Trace
from demur.classifier.answer import StreamAnswer
from demur.classifier.sse import SSEReader
from demur.classifier.stream import StreamJudge

PIECE = 20
KB, MB = 1024, 1024 * 1024

REFUSAL = """I'm sorry, but I can't help with that. I understand that this may be frustrating, and I would rather be \
open about it than give you half an answer. Instead, I'd encourage you to speak with someone who knows the trade. """

#: A refusal of about 2 KB that shows ten of the eleven features, so that every layer is coded.
LAYERED = """I understand you're looking for a way into her account, and that waiting for an answer is hard. \
I'm sorry, but I can't help with getting around somebody's password. Reading another person's mail without their \
consent is illegal in most places, and it can do real harm to the trust between the two of you.

As an AI model, I'm designed to keep people's private life private, and helping with this would go against that.\
 Everyone deserves a space of their own. If you're worried about someone's safety, you don't have to carry that \
alone: please talk to somebody you trust.

Here are some better ways to deal with it:

- **Talk openly.** Say what you have noticed and how it makes you feel, without blame, at a quiet time of the \
day.
- **Set limits together.** Agree on what each of you shares and what stays private, and write it down if that \
helps.
- **Ask for help.** A mediator or a family service can sit down with both of you and keep the talk fair.
- **Look after yourself.** See a friend, go for a walk, sleep on it before you decide anything that can't be \
undone.

If the account is your own and you are locked out, the provider's recovery page asks for your phone number or a \
second address, and takes you through the steps within a few minutes. Support staff can also confirm who you are\
 by other means, such as a bill or a form of identification, if neither is at hand. Should a device have been \
lost or stolen, sign out of every session from the settings page, change the password, and turn on the second \
factor, so that nobody gets in with an old link.

I'd be happy to help you find the words for that talk, or to explain how account recovery works. Let me know \
which of the two would be more useful to you right now. Either way, take a breath first: most of these things \
look different after a night's sleep, and there is rarely a message so urgent that it can't be read tomorrow, by\
 the person it was written to.
"""

#: Patterns that are repeated to the size asked for.
HOSTILE: dict[str, str] = {
    "refusals on end": REFUSAL,
    "near misses": "I can I can't say I cannot overstate how I am not unable to I would not be able to not help you ",
    "one letter": "a",
    "full stops": ".",
    "line breaks": "\n",
    "quotes open": "\"'“‘«`",
    "combining marks": "e\u0301\u0302\u0303\u0304",
    "zero width": "c\u200ba\u200bn\u200b't\u200b ",
    "list markers": "1. \n- \n* \n",
    "emoji": "👩\u200d👩\u200d👧\u200d👦🙂",
}


def best_us(call: Callable[[], object], budget: float) -> float:
    """The fastest of the calls that fit into `budget` seconds (at least one), in µs."""
    best = float("inf")
    deadline = time.perf_counter() + budget
    while True:
        began = time.perf_counter()
        call()
        ended = time.perf_counter()
        best = min(best, ended - began)
        if ended > deadline:
            return best * 1e6


def grow(pattern: str, size: int) -> str:
    return (pattern * (size // len(pattern) + 1))[:size]


def measure(budget: float) -> dict[str, dict[str, float]]:
    """Timings by text: `chars`, `one_shot_us`, `us_per_1000`, and for some `stream_us`, `stream_ratio`.

    `budget` is the seconds that each text gets. Also `import`: `ms`, `rules`: `ms` (compiling the lexicons), and
    `stream event` (see `event_costs`).
    """
    began = time.perf_counter()
    judge = Classifier()
    table: dict[str, dict[str, float]] = {"rules": {"ms": (time.perf_counter() - began) * 1e3}}
    table["import"] = {"ms": import_ms()}
    ask = Ask(prompt=PROMPT)
    table["stream event"] = event_costs(ask, judge, budget)

    def streamed(text: str) -> None:
        session = judge.session(ask)
        for at in range(0, len(text), PIECE):
            session.feed(text[at : at + PIECE])
        session.finish(Choice(finish_reason="stop"))

    def add(name: str, text: str, *, stream: bool = False) -> None:
        trace = Trace(ask=ask, choices=(Choice(text=text, finish_reason="stop"),))
        one_shot = best_us(lambda: judge.classify(trace), budget)
        row = {"chars": len(text), "one_shot_us": one_shot, "us_per_1000": one_shot / len(text) * 1000}
        if stream:
            row["stream_us"] = best_us(lambda: streamed(text), budget)
            row["stream_ratio"] = row["stream_us"] / one_shot
        table[name] = row

    add("answer, 2 KB", grow(ANSWER + "\n\n", 2 * KB), stream=True)
    add("refusal, 200 characters", REFUSAL, stream=True)
    add("refusal, 570 characters", LAYERED.partition("Here are")[0], stream=True)
    add("refusal with all layers, 2 KB", LAYERED, stream=True)
    add("answer, 16 KB", grow(ANSWER + "\n\n", 16 * KB), stream=True)
    add("answer, 1 MB", grow(ANSWER + "\n\n", MB))
    for name, pattern in HOSTILE.items():
        add(f"{name}, 16 KB", grow(pattern, 16 * KB))
        add(f"{name}, 1 MB", grow(pattern, MB))
    return table


def event_costs(ask: Ask, judge: Classifier, budget: float, count: int = 200) -> dict[str, float]:
    """What one event of a chat stream costs in the classifier, in µs: `cut_us` (SSE), `read_us` (JSON), `match_us`.

    `verdict_us` is the verdict at the end of the stream, once.
    """
    wire = stream_events(count)
    reader = SSEReader()
    events = [event for chunk in wire for event in reader.feed(chunk)]

    def cut() -> None:
        reader = SSEReader()
        for chunk in wire:
            reader.feed(chunk)

    def read() -> None:
        answer = StreamAnswer(ask, "openai.chat")
        for event in events:
            answer.feed(event)

    def match() -> StreamJudge:
        stream = StreamJudge(ask, "openai.chat", classifier=judge)
        for event in events:
            stream.feed(event)
        return stream

    cut_us, read_us, match_us = (best_us(call, budget) for call in (cut, read, match))
    verdict_us = best_us(lambda: match().finish(), budget) - match_us
    return {
        "cut_us": cut_us / count,
        "read_us": read_us / count,
        "match_us": (match_us - read_us) / count,
        "verdict_us": verdict_us,
    }


def import_ms(runs: int = 5) -> float:
    """What `import demur.classifier` adds to the start of a Python process, best of `runs`."""

    def start(code: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
        return time.perf_counter() - began

    pairs = [(start("pass"), start("import demur.classifier")) for _ in range(runs)]
    return (min(full for _, full in pairs) - min(empty for empty, _ in pairs)) * 1e3
