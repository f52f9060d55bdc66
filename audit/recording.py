"""Recorded traces, found again by what was asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from demur.classifier import Trace, normalize


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded exchange. `raw` is the provider's own response object or SSE text, None when only the text is known.

    `status` is the HTTP status it came with.
    """

    trace: Trace
    raw: dict[str, Any] | str | None
    status: int

    @property
    def models(self) -> tuple[str, ...]:
        """The model that was asked for and the one that answered, as far as they are known."""
        return tuple(dict.fromkeys(m for m in (self.trace.ask.model, self.trace.model) if m))


class Recording:
    """Traces in the order of their files. Those that can't be read, or that hold no ask, can never match.

    `unmatched` counts these; `models` lists the recorded models in order of appearance.
    """

    def __init__(self, objects: Iterable[object]) -> None:
        self._by_prompt: defaultdict[str, list[Recorded]] = defaultdict(list)
        self._served: defaultdict[tuple[str, str | None], int] = defaultdict(int)
        self.size = self.unmatched = 0
        models: dict[str, None] = {}
        for obj in objects:
            recorded = _recorded(obj)
            self.size += 1
            if recorded is None or not recorded.trace.ask.prompt.strip():
                self.unmatched += 1
                continue
            self._by_prompt[recorded.trace.ask.prompt.strip()].append(recorded)
            models.update(dict.fromkeys(recorded.models))
        self.models = tuple(models)

    def take(self, prompt: str, model: str | None, count: int = 1) -> Sequence[Recorded]:
        """The next `count` answers to `prompt`: those of `model` where it has any, in file order, cycling.

        Empty when nothing matches. Surrounding white space of the prompt does not count.
        """
        prompt = prompt.strip()
        matching = self._by_prompt.get(prompt, [])
        of_model = [recorded for recorded in matching if model in recorded.models]
        key = (prompt, model if of_model else None)
        matching = of_model or matching
        if not matching:
            return ()
        first = self._served[key]
        self._served[key] += count
        return [matching[(first + step) % len(matching)] for step in range(count)]


def _recorded(obj: object) -> Recorded | None:
    trace = normalize(obj)
    raw, status = _raw(obj), obj.get("status") if isinstance(obj, dict) else None
    if trace.problem == "unparsed" and raw is None:
        return None
    if not isinstance(status, int) or not 200 <= status <= 599:
        status = _error_status(raw, blocked=trace.problem is None) if _is_error(raw) else 200
    return Recorded(trace, raw, status)


def _raw(obj: object) -> dict[str, Any] | str | None:
    """What the provider sent, inside an envelope or bare."""
    if not isinstance(obj, dict):
        return None
    if isinstance(obj.get("stream"), str):
        return str(obj["stream"])
    if "prompt" in obj or "response" in obj:
        response = obj.get("response")
        return response if isinstance(response, dict) else None
    return obj


def _is_error(raw: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(raw, dict) and bool(raw.get("error")) and "choices" not in raw


def _error_status(raw: dict[str, Any], *, blocked: bool) -> int:
    """The status of an error that was recorded without one: what its body says, else what such an error comes with."""
    error = raw["error"]
    said = [error.get("status"), error.get("code")] if isinstance(error, dict) else []
    if (status := next((s for s in said if isinstance(s, int) and 400 <= s <= 599), None)) is not None:
        return status
    return 400 if blocked else 429 if "rate_limit" in str(error) else 500
