"""The one exception of this room."""

from __future__ import annotations

from collections.abc import Iterable


class ConfigError(Exception):
    """The configuration can't be used.

    Each of `problems` names a place (file and line, variable or flag), a key and what is wrong with it.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))
