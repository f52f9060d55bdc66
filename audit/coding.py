"""What a language model said of a response, code by code, and what asking it took. Knows no endpoint and no HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, get_args

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
        out = {name: getattr(self, name) for name in ("outcome", "label", "confidence", "rationale", "strategy")}
        quotes = {code: list(quotes) for code, quotes in self.quotes.items()}
        features = dict(self.features) if self.features is not None else None
        return {**out, "features": features, "quotes": quotes, "reason": self.reason, "usage": asdict(self.usage)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Coding:
        """The coding that `to_dict` wrote. Raises ValueError that names the key when `data` is none."""
        _check(data)
        quotes = {code: tuple(quotes) for code, quotes in (data.get("quotes") or {}).items()}
        known = {name: data.get(name) for name in ("label", "confidence", "rationale", "strategy", "features", "reason")}
        return cls(data["outcome"], **known, quotes=quotes, usage=Usage(**(data.get("usage") or {})))

    def with_usage(self, usage: Usage) -> Coding:
        return replace(self, usage=usage)


_WORDS: Mapping[str, tuple[object, ...]] = {
    "outcome": get_args(Outcome),
    "label": (*get_args(Label), None),
    "rationale": (*get_args(Rationale), None),
    "strategy": (*get_args(Strategy), None),
}


def _check(data: Mapping[str, Any]) -> None:
    if not isinstance(data, Mapping):
        raise ValueError("a coding is a JSON object")
    for key, words in _WORDS.items():
        if data.get(key) not in words:
            raise ValueError(f"{key} is {data.get(key)!r}, which is none of {', '.join(map(str, words))}")
    features = data.get("features")
    if features is not None and (
        not isinstance(features, Mapping)
        or set(features) != set(FEATURES)
        or not all(isinstance(value, bool) for value in features.values())
    ):
        raise ValueError(f"features is not an object of true and false for {', '.join(FEATURES)}")
    if data["outcome"] == "coded" and data.get("label") is None:
        raise ValueError("label is missing where the outcome is coded")
