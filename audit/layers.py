"""The pragmatic layers as a coder gives them: how a response declined, below whether it did.

A coder is whoever labelled a corpus, the rules, or a language model. A corpus tells its layers in the columns
`rationale`, `strategy` and `features`, the last by demur's own names or by the short ones of the taxonomy's data, as an
object or as the list of those that are there. What is none of the known values is an error, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, get_args

from demur.classifier.verdict import FEATURES, Rationale, Strategy

RATIONALES: tuple[Rationale, ...] = get_args(Rationale)
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
#: The columns of a corpus that hold layers.
LAYER_COLUMNS = ("rationale", "strategy", "features")

_SHORT = {
    "preface": "explanatory_preface",
    "executed_alt": "executed_alternative",
    "alt_offer": "alternative_offer",
    "statement_principle": "statement_of_principle",
}
_PAIR: dict[str, Strategy] = {"explicit_nc": "explicit", "implicit_nc": "implicit"}
_FLAGS = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}
_NOTHING = ("", "none", "null")

Word = TypeVar("Word", bound=str)


class LayersError(ValueError):
    """A value that is none of a layer's. The message names the key."""


@dataclass(frozen=True, slots=True)
class Layers:
    """What a coder says of a refusal; None, and a feature that is missing: not coded."""

    rationale: Rationale | None = None
    strategy: Strategy | None = None
    features: Mapping[str, bool] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.rationale is not None or self.strategy is not None or bool(self.features)

    def differences(self, other: Layers) -> tuple[str, ...]:
        """The layers and features that are coded here and not so by the other one."""
        layers = [name for name in ("rationale", "strategy") if getattr(self, name) not in (None, getattr(other, name))]
        return (*layers, *(name for name, there in self.features.items() if other.features.get(name) is not there))

    def said(self, name: str) -> str:
        """What is coded in a layer, or of a feature, for people."""
        word = getattr(self, name) if name in ("rationale", "strategy") else self.features.get(name)
        return {None: "not coded", True: "yes", False: "no"}.get(word, str(word))

    def to_dict(self) -> dict[str, Any]:
        return {"rationale": self.rationale, "strategy": self.strategy, "features": dict(self.features) or None}


NOT_CODED = Layers()


class Coded(Protocol):
    """What carries layers: a verdict, or the coding of a judge."""

    @property
    def rationale(self) -> Rationale | None: ...
    @property
    def strategy(self) -> Strategy | None: ...
    @property
    def features(self) -> Mapping[str, bool] | None: ...


def layers_of(coded: Coded) -> Layers:
    return Layers(coded.rationale, coded.strategy, coded.features or {})


def read_layers(row: Mapping[str, Any]) -> Layers:
    """The layers that a row of a corpus tells, as far as it does. Raises LayersError."""
    features, strategy = _features(row.get("features")), _word("strategy", row.get("strategy"), STRATEGIES)
    paired = [name for key, name in _PAIR.items() if features.pop(key, False)]
    if len(paired) > 1:
        raise LayersError("'features' has both explicit_nc and implicit_nc, and a strategy is one of them")
    if strategy and paired and paired != [strategy]:
        raise LayersError(f"'strategy' is {strategy!r}, and 'features' has {paired[0]}_nc")
    return Layers(
        rationale=_word("rationale", row.get("rationale"), RATIONALES),
        strategy=strategy or next(iter(paired), None),
        features={name: features[name] for name in FEATURES if name in features},
    )


def _word(key: str, value: object, known: tuple[Word, ...]) -> Word | None:
    spelled = "" if value is None else value.strip().casefold() if isinstance(value, str) else repr(value)
    found = next((word for word in known if word == spelled), None)
    if found is None and spelled not in _NOTHING:
        raise LayersError(f"{key!r} is {_shown(value)}, none of {', '.join(known)}")
    return found


def _features(value: object) -> dict[str, bool]:
    """The features that are coded, by demur's names and those of the pair that says the strategy.

    An object tells each feature for itself; a list, or a text as a header has it, those that are there of all eleven.
    """
    if isinstance(value, str) and value.strip().casefold() in _NOTHING:
        value = None
    if value is None:
        return {}
    if isinstance(value, dict):
        return _flags(value)
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise LayersError(f"'features' is {_shown(value)}, neither an object of them nor a list of their names")
    return dict.fromkeys(FEATURES, False) | _flags({name.strip(): True for name in names})


def _flags(given: Mapping[str, object]) -> dict[str, bool]:
    """Whether each feature is there; those that say null are left out."""
    out: dict[str, bool] = {}
    keys: dict[str, str] = {}
    for key, flag in given.items():
        name = _SHORT.get(key, key)
        if name not in FEATURES and name not in _PAIR:
            raise LayersError(f"'features' has {_shown(key)}, which is none of {', '.join(FEATURES)}")
        if flag is None:
            continue
        if name in keys:
            raise LayersError(f"'features' has {keys[name]!r} and {key!r}, which are one")
        spelled = str(flag).casefold()
        if spelled not in _FLAGS:
            raise LayersError(f"'features.{key}' is {_shown(flag)}, neither 0 nor 1")
        out[name], keys[name] = _FLAGS[spelled], key
    return out


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
