"""What a language model said of a response, code by code, and what asking it took. Knows no endpoint and no HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from demur.classifier.verdict import FEATURES, Label, Outcome, Rationale, Strategy

#: What a quotation may be evidence for: "label", or a code of one of the layers.
CODES = ("label", *get_args(Rationale), *get_args(Strategy), *FEATURES)


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
            raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'coding'}: {first['msg']}") from None
        if coding.features is not None and set(coding.features) != set(FEATURES):
            raise ValueError(f"features: not one for each of {', '.join(FEATURES)}")
        if coding.outcome == "coded" and (coding.label is None or coding.confidence is None):
            raise ValueError("label, confidence: missing where the outcome is coded")
        return coding

    def with_usage(self, usage: Usage) -> Coding:
        return replace(self, usage=usage)


@cache
def _reader() -> TypeAdapter[Coding]:
    return TypeAdapter(Coding)
