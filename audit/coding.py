"""What a language model said of a response, code by code, and what asking it took. Knows no endpoint and no HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from demur.classifier.verdict import ACTIONS, FEATURES, Label, Outcome, Rationale, Strategy

#: What a quotation may be evidence for: "label", or a code of one of the layers.
CODES = ("label", *get_args(Rationale), *get_args(Strategy), *FEATURES)
#: Outcomes that stay: what they say of a text is not asked for again. What failed may succeed another time.
SETTLED = ("coded", "declined")
#: More tokens or requests than this are no count: a coding takes a few requests of bounded counts.
_MOST = 10**12


def inconsistency(label: Label | None, confidence: float | None, **layers: object) -> str | None:
    """What is wrong with codes that are given together, or None. `layers` are `rationale`, `strategy` and `features`;
    None: not given. The layers go exactly with a label by which nothing was delivered."""
    if label is None or confidence is None:
        return "label and confidence are needed"
    if not 0 <= confidence <= 1:
        return "confidence: not a number from 0 to 1"
    if ACTIONS[label] == "non_compliance":
        missing = [name for name, value in layers.items() if value is None]
        return f"the label {label} needs {', '.join(missing)}" if missing else None
    return f"with the label {label}, rationale, strategy and features are null" if any(layers.values()) else None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the endpoint counts them (estimated where it does not), HTTP requests sent, answers from the cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    cached: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.requests + other.requests,
            self.cached + other.cached,
        )

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Coding:
    """One response, coded by the judge, or why it is not: then all between `outcome` and `reason` is None or empty.

    `confidence` is 0 to 1. `rationale`, `strategy` and `features` (one bool for each of `FEATURES`) are there where
    the label is a hard or disguised refusal. `quotes` holds the judge's words of the response by code (see `CODES`),
    as it gave them. `reason` is its own sentence, or says why nothing was coded. `usage` is of this coding alone.
    """

    outcome: Outcome
    label: Label | None = None
    confidence: float | None = None
    rationale: Rationale | None = None
    strategy: Strategy | None = None
    features: dict[str, bool] | None = None
    quotes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reason: str | None = None
    usage: Usage = Usage()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data that `from_dict` reads."""
        out: dict[str, Any] = _reader().dump_python(self, mode="json")
        return out

    @classmethod
    def from_dict(cls, data: object) -> Coding:
        """The coding that `to_dict` wrote; unknown keys are passed over. Raises ValueError that names the key."""
        try:
            coding = _reader().validate_python(data)
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"{first['loc'][0] if first['loc'] else 'coding'}: {first['msg']}") from None
        if wrong := coding._wrong():
            raise ValueError(wrong)
        return coding

    def _wrong(self) -> str | None:
        """What no answer of a judge that was taken can have led to."""
        usage = self.usage
        if not all(0 <= n <= _MOST for n in (usage.input_tokens, usage.output_tokens, usage.requests, usage.cached)):
            return "usage: not a number of tokens or requests"
        layers = {"rationale": self.rationale, "strategy": self.strategy, "features": self.features}
        given = {"label": self.label, "confidence": self.confidence, **layers, "quotes": self.quotes or None}
        if self.outcome != "coded":
            surplus = [name for name, value in given.items() if value is not None]
            return f"{surplus[0]}: given where the outcome is {self.outcome}" if surplus else None
        if self.features is not None and set(self.features) != set(FEATURES):
            return f"features: not one for each of {', '.join(FEATURES)}"
        if unknown := [code for code in self.quotes if code not in CODES]:
            return f"quotes: {unknown[0]!r} is no code"
        return inconsistency(self.label, self.confidence, **layers)

    def with_usage(self, usage: Usage) -> Coding:
        return replace(self, usage=usage)


@cache
def _reader() -> TypeAdapter[Coding]:
    return TypeAdapter(Coding)
