"""Judging that fails, and texts made to be hard to judge: W79 and W81. Traffic passes, work is bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fake_upstream import DONE, Script, ask, completion, event, say, whole
from wire.notation import chunked, play, same, text_of, verdict

from demur.classifier.judge import Classifier
from demur.classifier.matcher import Hit, Scan
from demur.classifier.rulebook import Rulebook
from demur.classifier.session import Session
from demur.classifier.trace import Ask

STOP = event({}, "stop")
FINE = whole(completion("Fine."))
MODES = pytest.mark.parametrize("mode", ["off", "chunk"])


class Failing(Classifier):
    def session(self, ask: Ask) -> Any:
        raise RuntimeError("no")


class FailingLate(Classifier):
    """Fails at the end of a choice, when all text is there."""

    def session(self, ask: Ask) -> Any:
        feed_text = super().session(ask).feed

        class Session:
            feed = staticmethod(feed_text)

            def finish(self, choice: Any) -> Any:
                raise RecursionError("no")

        return Session()


@MODES
@pytest.mark.parametrize("classifier", [Failing, FailingLate])
def test_w79_a_classifier_that_raises(classifier: Any, mode: str) -> None:
    body = say("Here ") + say("it is") + STOP + DONE
    scripts: list[Script] = [[FINE], chunked(body), chunked(body, range(9, len(body), 9), 0.001)]
    settings: dict[str, Any] = {"app": {"classifier": classifier(languages=("en",))}, "stream_verdict": mode}
    (whole_answer, whole_end), *streams = play(scripts, **settings)
    assert whole_answer.body == completion("Fine.")
    assert whole_answer.get("x-refusal-status") == "not_classified"
    for answer, _ in streams:
        same(answer, body, mode, 0)
    for exchange in (whole_end, *(exchange for _, exchange in streams)):
        assert verdict(exchange) == (None, "not_classified")
        assert exchange.verdict is not None
        assert "Error" in (exchange.verdict.reason or "")


NASTY = {
    "repeats": "a" * 999 + "b",
    "sorry without end": "I'm sorry, but I can't help with that. ",
    "blanks": " " * 1000,
    "hashes": "# ",
    "quotes": '"',
    "single quotes": "'",
    "open thinking": "<think>",
    "open fences": "```\n",
    "brackets": "[({",
    "backslashes": "\\",
    "combining": "e\u0301\u0323",
    "CR": "\r",
}


@pytest.mark.parametrize("name", NASTY)
def test_w79_w81_nasty_texts_cost_linear_time(name: str) -> None:
    """Eight times the text may take eight times the time; with four times slack no square stays below."""

    def script(size: int) -> list[Any]:
        return [whole(completion((NASTY[name] * (size // len(NASTY[name]) + 1))[:size]))]

    (_, small), (_, again), (answer, large) = (play([script(size)], ask())[0] for size in (25_000, 25_000, 200_000))
    assert answer.status == 200
    assert verdict(large)[1] in ("complete", "incomplete", "empty")
    seconds = max(min(small.classify_seconds, again.classify_seconds), 0.002)
    assert large.classify_seconds < 8 * 4 * seconds


def examples() -> str:
    """An example of every rule in English."""
    return " ".join(rule.yes[0] for rule in Rulebook.load(languages=["en"]).rules) + " "


@pytest.mark.parametrize("phrases", [lambda: "I'm sorry, but I can't help with that. ", examples], ids=["one", "all"])
def test_w79_hits_without_end_are_capped(phrases: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a text goes on to hit: no more hits are kept and looked at, and of each rule a few are told."""
    looked: list[int] = []
    hits = Scan.hits

    def counted(self: Scan, *args: Any, **options: Any) -> list[Hit]:
        found = hits(self, *args, **options)
        looked.append(len(found))
        return found

    monkeypatch.setattr(Scan, "hits", counted)
    text = phrases()
    costs = []
    for size in (100_000, 400_000):
        looked.clear()
        ((answer, exchange),) = play([[whole(completion(text * (size // len(text))))]], ask())
        assert (answer.get("x-refusal-verdict"), verdict(exchange)[1]) == ("hard_refusal", "complete")
        assert exchange.verdict is not None
        costs.append((list(looked), [len(signal.spans) for signal in exchange.verdict.signals]))
    assert costs[0] == costs[1]
    assert 100 < sum(costs[0][0]) < 1000
    assert max(costs[0][1]) == 4


@pytest.mark.parametrize("name", NASTY)
def test_w81_no_more_than_the_cap_is_judged(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[int] = []
    feed = Session.feed

    def counted(self: Session, text: str) -> None:
        fed.append(len(text))
        feed(self, text)

    monkeypatch.setattr(Session, "feed", counted)
    cap, text = 100_000, (NASTY[name] * (200_000 // len(NASTY[name]) + 1))[:200_000]
    body = b"".join(say(text[at : at + 1000]) for at in range(0, len(text), 1000)) + STOP + DONE
    script = [whole(completion(text))]
    (answer, exchange), (stream, streamed) = play([script, chunked(body, [], 0.0)], ask(), inspect_bytes=cap)
    assert answer.body == completion(text)
    assert verdict(exchange) == (None, "not_classified")  # all or nothing: JSON that breaks off is not read
    same(stream, body, "chunk")
    assert streamed.verdict is not None
    assert (streamed.verdict.status, streamed.verdict.inspected) == ("incomplete", cap / len(text))
    assert text_of(streamed) == text[:cap]
    assert sum(fed) == cap
