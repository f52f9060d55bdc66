"""The judge that the settings name, for every command that asks one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from demur.cli.judge_places import keep_apart
from demur.cli.main import needs_extra
from demur.config import Settings, key_from

if TYPE_CHECKING:
    from demur.audit.judge import JudgeOptions


def judge_options(settings: Settings, command: str) -> JudgeOptions | None:
    """How to ask the judge of these settings; None when they name none.

    What can't be asked becomes the command's error: an extra that is not installed, a variable without a key, a cache
    that is another file of the command.
    """
    if settings.judge_url is None or settings.judge_model is None:
        return None
    keep_apart(settings)
    key, name = None, settings.judge_key_env
    if name is not None:
        try:
            key = key_from(name, os.environ)
        except ValueError as error:
            raise click.ClickException(f"judge_key_env: {error}") from None
    with needs_extra("judge", command):
        from demur.audit.judge import JudgeOptions
    return JudgeOptions(
        settings.judge_url,
        settings.judge_model,
        key,
        key_name=name,
        concurrency=settings.judge_concurrency,
        timeout=settings.judge_timeout,
        # Every attempt may take its time, with waits between; without any limit a stuck one would never end.
        total_timeout=5 * settings.judge_timeout,
        max_tokens=settings.judge_max_tokens,
        cache=settings.judge_cache,
        input_price=settings.judge_input_price,
        output_price=settings.judge_output_price,
    )
