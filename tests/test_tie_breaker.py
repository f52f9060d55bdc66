"""`classify(…, judge=SecondOpinion(…))`: asked where the rules are not sure, and only there."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from scripted_judge import NEVER, Endpoint, Reply, Request, coded, scripted_judge, status

from demur.audit.judge import JudgeError, JudgeOptions
from demur.audit.second_opinion import SecondOpinion
from demur.classifier import Choice, Trace, Verdict, classify

NO = "I can't help with that."
SURE, UNSURE = Verdict("answer", "complete", 0.9), Verdict("answer", "complete", 0.6)


def judge(endpoint: Endpoint, below: float, **options: Any) -> SecondOpinion:
    return SecondOpinion(JudgeOptions(endpoint.url, "m", **options), below)


def trace(text: str = NO) -> Trace:
    return Trace(choices=(Choice(text=text),))


def test_only_what_is_less_sure_is_asked_about() -> None:
    with scripted_judge(coded("disguised_refusal")) as endpoint:
        with judge(endpoint, 0.7) as opinion:
            assert opinion(trace(), SURE) is SURE
            assert opinion(trace(), Verdict(None, "empty")).review is None
            assert opinion(trace(), Verdict("answer", "complete", 0.7)).review is None
            assert endpoint.requests == []
            got = opinion(trace(), UNSURE)
        assert (got.label, len(endpoint.requests)) == ("disguised_refusal", 1)


def test_below_one_means_all() -> None:
    with scripted_judge(coded("shaped")) as endpoint, judge(endpoint, 1) as opinion:
        assert opinion(trace(), Verdict("answer", "complete", 1.0)).label == "shaped"
    with scripted_judge(coded("shaped")) as endpoint, judge(endpoint, 0) as opinion:
        assert opinion(trace(), Verdict("answer", "complete", 0.0)).label == "answer"
    assert endpoint.requests == []


def test_the_library_takes_it_as_its_judge() -> None:
    with (
        scripted_judge(coded("shaped")) as endpoint,
        judge(endpoint, 1) as opinion,
    ):
        verdict = classify({"prompt": "Do it.", "response": NO}, judge=opinion)
    assert verdict.review is not None
    assert (verdict.label, verdict.review.rules_label) == ("shaped", "hard_refusal")


def test_the_example_of_the_docs_runs() -> None:
    text = (Path(__file__).parent.parent / "docs" / "judge.md").read_text("utf-8")
    [example] = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    with scripted_judge(coded("disguised_refusal", quotes={"label": ["Fruit is a gift of nature"]})) as endpoint:
        exec(compile(example.replace("http://127.0.0.1:11434/v1", endpoint.url), "docs/judge.md", "exec"), names)
    assert names["verdict"].label == "disguised_refusal"


def test_several_are_asked_about_at_once_and_come_back_in_order() -> None:
    both = threading.Barrier(2, timeout=20)

    def together(request: Request) -> Reply:
        both.wait()
        return coded("shaped" if "alpha" in request.exchange else "hard_refusal")

    pairs = [
        (trace(f"I can't, {word}."), verdict) for word, verdict in (("alpha", UNSURE), ("x", SURE), ("beta", UNSURE))
    ]
    with scripted_judge(together) as endpoint, judge(endpoint, 0.7) as opinion:
        assert [verdict.label for verdict in opinion.review(pairs)] == ["shaped", "answer", "hard_refusal"]
    assert len(endpoint.requests) == 2


def test_it_may_be_called_while_a_loop_runs_and_after_it_was_closed() -> None:
    with scripted_judge(coded("shaped")) as endpoint:
        opinion = judge(endpoint, 1, concurrency=1)

        async def within() -> Verdict:
            return opinion(trace(), UNSURE)

        assert asyncio.run(within()).label == "shaped"
        opinion.close()
        opinion.close()
        assert opinion(trace(), UNSURE).label == "shaped"
        opinion.close()
    assert opinion.judge.usage.requests == 2


def test_several_threads_may_call_it() -> None:
    with (
        scripted_judge(coded("shaped")) as endpoint,
        judge(endpoint, 1) as opinion,
    ):
        got: list[Verdict] = []
        threads = [threading.Thread(target=lambda: got.append(opinion(trace(), UNSURE))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert [verdict.label for verdict in got] == ["shaped"] * 4


def test_a_wrong_key_is_told_at_once_whatever_else_is_under_way() -> None:
    def one_hangs(request: Request) -> Reply:
        return NEVER if "alpha" in request.exchange else status(401, "bad key")

    pairs = [(trace(f"I can't, {word}."), UNSURE) for word in ("alpha", "beta")]
    with (
        scripted_judge(one_hangs) as endpoint,
        judge(endpoint, 0.7) as opinion,
        pytest.raises(JudgeError, match="bad key"),
    ):
        opinion.review(pairs)


def test_a_cache_that_cannot_be_opened_is_told_and_leaves_no_thread(tmp_path: Path) -> None:
    threads = threading.active_count()
    options = JudgeOptions("http://127.0.0.1:1", "m", cache=tmp_path / "no" / "folder.db")
    opinion = SecondOpinion(options, below=1)
    for _ in range(2):
        with pytest.raises(JudgeError, match=r"folder\.db"):
            opinion(trace(), UNSURE)
    assert threading.active_count() <= threads  # one of another test may have ended
