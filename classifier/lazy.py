"""A property that is worked out once, when it is first asked for.

`functools.cached_property` takes a lock for that in Python 3.11, which costs more than most of what is worked out here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801  (it reads like `property`)
    """Keeps the value in the instance, under its own name: from then on it is found there first."""

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        self._work_out = work_out
        self.__doc__ = work_out.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        value = instance.__dict__[self._name] = self._work_out(instance)
        return value
