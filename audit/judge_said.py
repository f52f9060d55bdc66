"""Words of a judge and of its endpoint, made fit to be kept and shown: no secrets, nothing that a terminal obeys."""

from __future__ import annotations

from collections.abc import Iterable

#: What stands in place of a secret.
MASK = "****"


def masked(words: str, secrets: Iterable[str]) -> str:
    """The words without the secrets: endpoints and models echo what they were sent."""
    for secret in secrets:
        words = words.replace(secret, MASK)
    return words


def one_line(words: str, secrets: Iterable[str], limit: int) -> str:
    """The same on one line, without control characters, and clipped."""
    line = "".join(char for char in " ".join(words.split()) if char.isprintable())
    line = masked(line, secrets)
    return line if len(line) <= limit else f"{line[:limit]}…"
