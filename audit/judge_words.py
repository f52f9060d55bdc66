"""What judges said of a corpus, for people: the same words on a terminal and on a page."""

from __future__ import annotations

from demur.audit.agreement import Agreement
from demur.audit.agreement_words import LABELS_AND_RULES, Coders
from demur.audit.judge_report import Between, Fate, JudgeReport

LABELS_AND_JUDGE = Coders("labels", "judge")
JUDGE_AND_RULES = Coders("judge", "rules")
TWO_JUDGES = Coders("first", "second")

_FATES: dict[Fate, str] = {
    "coded": "coded",
    "declined": "declined to code",
    "failed": "failed",
    "over_budget": "over the budget",
    "not_asked": "not asked",
    "nothing_to_send": "with nothing to send",
}


def head(judge: JudgeReport) -> str:
    """Who it is, and what became of how many rows."""
    coded, *others = [(_FATES[fate], count) for fate, count in judge.fates.items()]
    said = f"judge {judge.name} (prompt {judge.prompt_version}): {coded[1]} of {judge.rows} rows coded"
    return "; ".join([said, ", ".join(f"{count} {words}" for words, count in others if count)]).removesuffix("; ")


def usage(judge: JudgeReport) -> str:
    """What coding them took."""
    used = judge.usage
    return f"{used.requests:,} requests, {used.input_tokens:,} tokens sent, {used.output_tokens:,} received"


def compared(judge: JudgeReport) -> list[tuple[Coders, Agreement]]:
    """The agreements, on the rows that the judge coded."""
    return [
        (LABELS_AND_RULES, judge.labels_and_rules),
        (LABELS_AND_JUDGE, judge.labels_and_judge),
        (JUDGE_AND_RULES, judge.judge_and_rules),
    ]


def head_of_two(two: Between) -> str:
    return f"judges {two.first} (first) and {two.second} (second): {two.agreement.action.rows} rows that both coded"
