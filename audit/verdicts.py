"""Verdict records, read back: lines of the proxy's verdict log, output of `demur classify`, results of a probe run.

All three hold the verdict as `Verdict.to_dict` writes it: bare, or under `verdict` with what is known beside it. Only
what a report counts is read; texts and evidence are left alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from demur.classifier.fields import name
from demur.classifier.verdict import FEATURES, SCHEMA_VERSION, Label, Rationale, Status, Strategy

#: Characters kept of a model, a tag and the like: those of the proxy's own log are as long at most.
NAME_LIMIT = 256
#: Whose text or number is a name; both become text.
_Name = str | int | None


class VerdictError(Exception):
    """A record that can't be read as a verdict. The message names the place, the key, and what is wrong."""


@dataclass(frozen=True, slots=True)
class Response:
    """One judged response, as far as a report counts it; of several choices each is a response of its own.

    `model` is what was asked for, `release` what answered. `features` are those that are present; `rationale`,
    `strategy` and `features` are None where they were not coded, the other columns where nobody told.
    """

    label: Label | None
    status: Status
    blocked: bool = False
    rationale: Rationale | None = None
    strategy: Strategy | None = None
    features: frozenset[str] | None = None
    model: str | None = None
    release: str | None = None
    category: str | None = None
    language: str | None = None
    tag: str | None = None
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One line. `reviewed`: it tells anew what an earlier line of this `id` told. `missing` says why it has no verdict,
    and then no responses."""

    responses: tuple[Response, ...]
    id: str | None = None
    reviewed: bool = False
    missing: str | None = None

    @property
    def stands_in(self) -> bool:
        """Whether it counts in place of the other lines of its id: a review that came to a verdict."""
        return self.reviewed and self.id is not None and self.missing is None


class Reviews:
    """Which lines a review replaces. `ids` are those of all reviews, known before the lines are counted."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._waiting = Counter(ids)
        self._known = frozenset(self._waiting)

    def replace(self, record: Record) -> bool:
        """Whether the record is not to be counted, because a review of the same id is.

        The last of several reviews counts. One that was not among `ids` came in meanwhile: what it reviews was counted.
        """
        if record.id is None:
            return False
        if not record.stands_in:
            return record.id in self._known
        self._waiting[record.id] -= 1
        return self._waiting[record.id] != 0


class _Verdict(msgspec.Struct, frozen=True):
    label: Label | None
    status: Status
    schema_version: int = SCHEMA_VERSION
    rationale: Rationale | None = None
    strategy: Strategy | None = None
    features: dict[str, Any] | None = None
    blocked_by: str | None = None
    language: _Name = None
    model: _Name = None
    choices: tuple[_Verdict, ...] = ()


class _Around(msgspec.Struct, frozen=True):
    """What may stand beside a verdict, or in it."""

    id: Any = None
    time: str | int | float | None = None
    model: _Name = None
    response_model: _Name = None
    category: _Name = None
    language: _Name = None
    tag: _Name = None
    reviewed: bool = False


class _Wrapped(_Around, frozen=True):
    verdict: _Verdict | None = None


def read_record(obj: object, source: str) -> Record:
    """The record that `obj`, found at `source`, holds. Raises VerdictError."""
    if not isinstance(obj, dict):
        raise VerdictError(f"{source}: a verdict is a JSON object, this is none")
    wrapped = "verdict" in obj
    if not wrapped and not {"label", "status"} <= obj.keys():
        raise VerdictError(f"{source}: no verdict: {_hint(obj)}")
    around = _convert(obj, _Wrapped if wrapped else _Around, source)
    verdict = around.verdict if isinstance(around, _Wrapped) else _convert(obj, _Verdict, source)
    id = _id(around.id)
    if verdict is None:
        return Record((), id, around.reviewed, "error" if obj.get("error") else "no verdict")
    where = f"{source}: {'verdict.' if wrapped else ''}"
    if verdict.schema_version > SCHEMA_VERSION:
        raise VerdictError(f"{where}schema_version: {verdict.schema_version}, this demur reads up to {SCHEMA_VERSION}")
    time = _time(around.time, source)
    singles = [(single, f"{where}choices[{i}].") for i, single in enumerate(verdict.choices)] or [(verdict, where)]
    return Record(tuple(_response(v, verdict, around, time, at) for v, at in singles), id, around.reviewed)


def review_id(obj: object) -> str | None:
    """The id of what is reviewed, if `obj` is a review to count; one that can't be read must not replace anything."""
    if not isinstance(obj, dict) or obj.get("reviewed") is not True:
        return None
    try:
        record = read_record(obj, "")
    except VerdictError:  # told when the line is counted
        return None
    return record.id if record.stands_in else None


def _response(verdict: _Verdict, whole: _Verdict, around: _Around, time: datetime | None, where: str) -> Response:
    release = around.response_model or verdict.model or whole.model
    return Response(
        label=verdict.label,
        status=verdict.status,
        blocked=verdict.blocked_by is not None,
        rationale=verdict.rationale,
        strategy=verdict.strategy,
        features=None if verdict.features is None else _present(verdict.features, where),
        model=_name(around.model) or _name(release),
        release=_name(release),
        category=_name(around.category),
        language=_name(around.language) or _name(verdict.language) or _name(whole.language),
        tag=_name(around.tag),
        time=time,
    )


def _present(features: dict[str, Any], where: str) -> frozenset[str]:
    for feature in FEATURES:
        if not isinstance(features.get(feature), bool):
            raise VerdictError(f"{where}features.{feature}: true or false is needed, as for each of the eleven")
    return frozenset(feature for feature in FEATURES if features[feature])


def _convert(obj: dict[str, Any], type: type[Any], source: str) -> Any:
    try:
        return msgspec.convert(obj, type)
    except msgspec.ValidationError as error:
        what, _, path = str(error).rpartition(" - at `$")
        key = path.strip(".`")
        raise VerdictError(f"{source}: {key}: {what}" if what else f"{source}: {error}") from None


def _name(value: _Name) -> str | None:
    text = name(value)
    return text and " ".join(text[:NAME_LIMIT].split())


def _id(value: object) -> str | None:
    """An id as text. 1 and 1.0 are one number, however a program wrote it."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _time(value: str | float | None, source: str) -> datetime | None:
    if value is None:
        return None
    try:
        return read_time(value)
    except ValueError:
        raise VerdictError(f"{source}: time: {str(value)[:40]!r} is no time, write 2026-01-31T12:00:00Z") from None


def read_time(value: str | float) -> datetime:
    """ISO 8601, or seconds since 1970; without a zone it is UTC. Raises ValueError."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else datetime.fromtimestamp(value, UTC)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (OverflowError, OSError) as error:
        raise ValueError(str(error)) from None


def _hint(obj: dict[str, Any]) -> str:
    if any(key in obj for key in ("response", "request", "choices", "stream", "messages")):
        return "this is a response that was not judged yet; `demur classify --jsonl` makes verdicts"
    return "it has neither `verdict` nor `label` and `status`"
