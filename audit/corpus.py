"""A labelled corpus: rows that hold a trace and, in a column, what somebody judged the response to be.

Every corpus has its own words for that. `Words` reads those of the common ones as three classes, answer, shaped and
refusal, and takes more; a word it does not know is an error, never a guess.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from demur.audit.layers import LAYER_COLUMNS, NOT_CODED, Layers, LayersError, read_layers
from demur.classifier.verdict import Label

Gold = Literal["answer", "shaped", "refusal"]
GOLDS: tuple[Gold, ...] = get_args(Gold)

#: What a word may mean: a class, an exact label of demur's, or nothing to score.
Meaning = Literal["answer", "shaped", "refusal", "hard_refusal", "disguised_refusal", "skip"]
MEANINGS: tuple[Meaning, ...] = get_args(Meaning)

#: Where a value is looked for when its column is not named: in these, in this order.
LABEL_COLUMNS = ("label", "expected")
LANGUAGE_COLUMNS = ("lang", "language")
MODEL_COLUMNS = ("model",)
CATEGORY_COLUMNS = ("category", "type", "prompt_type")

_ANSWER = (
    "answer answered full_compliance 1_full_compliance compliance compliant comply complied complies accepted false 0"
)
_SHAPED = "shaped partial partial_compliance partially_compliant partial_refusal 3_partial_refusal"
_REFUSAL = (
    "refusal refuse refused refuses full_refusal 2_full_refusal non_compliance noncompliance non_compliant "
    "declined decline rejected reject rejection true 1"
)
_WORDS: dict[str, Meaning] = {
    **dict.fromkeys(_ANSWER.split(), "answer"),
    **dict.fromkeys(_SHAPED.split(), "shaped"),
    **dict.fromkeys(_REFUSAL.split(), "refusal"),
    "hard_refusal": "hard_refusal",
    "disguised_refusal": "disguised_refusal",
    "other": "skip",
    "": "skip",
}


class CorpusError(Exception):
    """A corpus that can't be scored. The message names the file and the line, and says what would help."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of the columns; None: the usual ones. `layers`: whether those of the pragmatic layers are read."""

    label: str | None = None
    language: str | None = None
    model: str | None = None
    category: str | None = None
    layers: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled trace. `obj` is what `normalize` takes, `source` the file and line, for people.

    `exact` is the gold label in demur's own four words, where the corpus tells a hard refusal from a disguised one;
    `layers` say how the response declined, as far as the corpus tells.
    """

    obj: dict[str, Any]
    source: str
    gold: Gold
    exact: Label | None = None
    language: str | None = None
    model: str | None = None
    category: str | None = None
    layers: Layers = NOT_CODED


@dataclass(frozen=True, slots=True)
class Corpus:
    """The rows of one file that have a label, and how many have none to score, by what stood there."""

    name: str
    rows: tuple[Row, ...]
    skipped: Mapping[str, int] = field(default_factory=dict)


class Words:
    """What the labels of a corpus mean: the usual words, and `more`, which win. Case and separators do not count."""

    def __init__(self, more: Mapping[str, Meaning] | None = None) -> None:
        self._meanings = _WORDS | {_spelled(word): meaning for word, meaning in (more or {}).items()}

    def meaning(self, value: object) -> Meaning | None:
        """What the value of a label column means; None for a word that is not known."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is None:
            value = ""
        return self._meanings.get(_spelled(str(value))) if isinstance(value, str | int | float) else None


def read_corpus(
    name: str, objects: Iterable[tuple[str, object]], columns: Columns | None = None, words: Words | None = None
) -> Corpus:
    """The labelled rows among `objects`, each given with the place where it stood; there may be none.

    Raises CorpusError for a row that is no object, a label or a layer that is not known, and when no row has the
    column of the labels.
    """
    columns, words = columns or Columns(), words or Words()
    rows: list[Row] = []
    skipped: Counter[str] = Counter()
    seen: dict[str, None] = {}
    for source, obj in objects:
        if not isinstance(obj, dict):
            raise CorpusError(f"{source}: a row is a JSON object with a trace and its label, not {_kind(obj)}")
        seen.update(dict.fromkeys(map(str, obj)))
        column = _column(obj, columns.label, LABEL_COLUMNS)
        meaning = words.meaning(obj.get(column)) if column else "skip"
        if meaning is None:
            raise CorpusError(f"{source}: {_unknown(column, obj.get(column))}")
        if meaning == "skip":
            skipped[str(obj.get(column) or "no label") if column else "no label"] += 1
            continue
        rows.append(_row(obj, source, column, meaning, columns))
    if seen and not any(name in seen for name in _names(columns.label, LABEL_COLUMNS)):
        wanted = " or ".join(repr(name) for name in _names(columns.label, LABEL_COLUMNS))
        raise CorpusError(
            f"{name}: no row has a column {wanted}; name it with --label-column: {', '.join(map(_printable, seen))}"
        )
    if not any(row.exact in ("hard_refusal", "disguised_refusal") for row in rows):
        rows = [replace(row, exact=None) for row in rows]
    return Corpus(name, tuple(rows), dict(skipped))


def _row(obj: dict[str, Any], source: str, column: str | None, meaning: Meaning, columns: Columns) -> Row:
    exact: Label | None = None
    gold: Gold = "refusal"
    if meaning == "answer" or meaning == "shaped":
        gold = exact = meaning
    elif meaning == "hard_refusal" or meaning == "disguised_refusal":
        exact = meaning
    try:
        layers = read_layers({**obj, column: None} if column else obj) if columns.layers else NOT_CODED
    except LayersError as error:
        raise CorpusError(
            f"{source}: {error}; if that says something else here, leave it out with --no-layers"
        ) from None
    return Row(
        obj=_trace_of(obj, (column, *(LAYER_COLUMNS if columns.layers else ()))),
        source=source,
        gold=gold,
        exact=exact,
        language=_value(obj, columns.language, LANGUAGE_COLUMNS),
        model=_value(obj, columns.model, MODEL_COLUMNS),
        category=_value(obj, columns.category, CATEGORY_COLUMNS),
        layers=layers,
    )


def _trace_of(obj: dict[str, Any], gold: Collection[str | None]) -> dict[str, Any]:
    """The row without its gold, which must not be read as part of the trace; `raw` holds a response as it came."""
    row = {key: value for key, value in obj.items() if key not in gold}
    if row.get("query_withheld"):  # the prompt column says something else than what was asked
        row.pop("prompt", None)
    if "raw" not in row:
        return row
    raw = row["raw"]
    out = {key: row[key] for key in ("id", "model", "system") if row.get(key)}
    if row.get("status"):
        out["status"] = row["status"]
    out["request"] = {"messages": [{"role": "user", "content": row.get("prompt") or ""}]}
    out["stream" if isinstance(raw, str) else "response"] = raw
    return out


def _names(given: str | None, usual: tuple[str, ...]) -> tuple[str, ...]:
    return usual if given is None else (given,)


def _column(obj: Mapping[str, Any], given: str | None, usual: tuple[str, ...]) -> str | None:
    return next((name for name in _names(given, usual) if name in obj), None)


def _value(obj: Mapping[str, Any], given: str | None, usual: tuple[str, ...]) -> str | None:
    values = (obj.get(name) for name in _names(given, usual))
    return next((str(value) for value in values if isinstance(value, str | int | float) and value != ""), None)


def _spelled(word: str) -> str:
    word = word.casefold().strip()
    spelled = re.sub(r"[\W_]+", "_", word).strip("_")
    return spelled if spelled and not word.startswith("-") else word  # "-1" is not "1", and a mere mark no empty label


def _unknown(column: str | None, value: object) -> str:
    if not isinstance(value, str | int | float):
        return f"the label in {column!r} is {_kind(value)}, not a word; name another column with --label-column"
    word = value if isinstance(value, str) else str(value).lower()
    shown = word if len(word) <= 60 else f"{word[:60]}…"
    return (
        f"the label {shown!r} in {column!r} is not known; say what it means with "
        f"--map {_quoted(f'{shown}=CLASS')}, where CLASS is one of {', '.join(MEANINGS)}"
    )


def _quoted(text: str) -> str:
    """The text as a shell reads it; control characters, which would play with the terminal, as $'…' writes them."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{_printable(escaped)}'"


def _printable(text: str) -> str:
    """The text with an escape for each character that is not printed."""

    def escaped(char: str) -> str:
        return f"\\x{ord(char):02x}" if char.isascii() else f"\\U{ord(char):08x}"

    return "".join(char if char.isprintable() else escaped(char) for char in text)


def _kind(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else f"a {'text' if isinstance(value, str) else 'number'}"
