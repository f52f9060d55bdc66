"""`demur classify --judge`: the judge that is asked, and what became of asking it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from demur.classifier import Verdict
from demur.cli.judge_progress import requests, spent
from demur.cli.judge_settings import judge_options
from demur.cli.main import needs_extra
from demur.config import Settings

if TYPE_CHECKING:
    from demur.audit.second_opinion import SecondOpinion

#: The settings that only a judge reads.
FLAGS = tuple(name for name in Settings.model_fields if name.startswith("judge_"))


@contextmanager
def second_opinion(settings: Settings, wanted: bool, flags: Mapping[str, object]) -> Iterator[SecondOpinion | None]:
    """The judge of the settings while it is needed; None if none is wanted. What ends the asking ends the command."""
    if not wanted:
        if idle := [f"--{name.replace('_', '-')}" for name in FLAGS if flags.get(name) is not None]:
            raise click.UsageError(f"{idle[0]} has no effect without --judge")
        yield None
        return
    options = judge_options(settings, "classify --judge")
    if options is None:
        raise click.UsageError(
            "--judge needs a model to ask: --judge-url and --judge-model, or the settings of this name"
        )
    with needs_extra("judge", "classify --judge"):
        from demur.audit.judge import JudgeError
        from demur.audit.second_opinion import SecondOpinion
    try:
        with SecondOpinion(options, settings.judge_below) as opinion:
            yield opinion
    except JudgeError as error:
        raise click.ClickException(str(error)) from error


class Reviews:
    """Counts what became of the verdicts that a judge was asked about."""

    def __init__(self) -> None:
        self._fates = Counter[str]()

    def count(self, verdict: Verdict) -> None:
        if (review := verdict.review) is not None:
            agreed = "confirmed" if review.label == review.rules_label else "changed"
            self._fates[agreed if review.outcome == "coded" else review.outcome.replace("_", " ")] += 1

    def told(self, opinion: SecondOpinion, seen: int) -> str:
        """One line: how many were asked about, what came of it, what it took."""
        fates = ", ".join(f"{self._fates[fate]} {fate}" for fate in ("changed", "confirmed", "declined", "failed"))
        if self._fates["over budget"]:
            fates += f", {self._fates['over budget']} over budget"
        asked = f"asked {opinion.judge.name} about {opinion.asked} of {seen}"
        return f"{asked}: {fates}; {requests(opinion.judge)}, {spent(opinion.judge)}"
