"""What a judge must answer: the JSON, its schema, and whether its codes go together."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from demur.audit.coding import CODES, inconsistency
from demur.audit.quotations import MAX_QUOTES, find
from demur.classifier.verdict import Label, Rationale, Strategy
from demur.classifier.voice import answer_start

#: A longer text is no answer of a judge.
MAX_ANSWER = 100_000

_OPENS = re.compile(r'\{\s*"')
#: Openings of JSON that lead nowhere, after which no more are tried: each may run far before it fails.
_DRAFTS = 64


class NotJson(ValueError):
    """The answer holds no JSON object."""


def _no_word(value: object) -> object:
    """Models without a schema write null in many ways."""
    return None if isinstance(value, str) and value.strip().lower() in {"", "null", "none", "n/a", "no"} else value


def _strict(schema: dict[str, Any]) -> None:
    """Every key is asked for; reading stays lenient, for endpoints that don't know schemas."""
    schema["required"] = list(schema["properties"])
    schema["additionalProperties"] = False
    for field in schema["properties"].values():
        field.pop("default", None)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, json_schema_extra=_strict)


class Features(_Part):
    """Which of the eleven are present."""

    apology: bool
    hedge: bool
    explanatory_preface: bool
    positive_alignment: bool
    solidarity: bool
    negative_stance: bool
    alternative_offer: bool
    executed_alternative: bool
    normative_suggestion: bool
    statement_of_principle: bool
    role_based: bool


class Evidence(_Part):
    """Words of the response, copied, and the code that they show: one of `CODES` (others are passed over)."""

    code: Annotated[str, Field(json_schema_extra={"enum": list(CODES)})]
    quote: str


class CodingAnswer(_Part):
    """The judge's answer. The layers are there exactly if nothing of the ask was delivered; with `cannot_code` nothing
    else counts."""

    cannot_code: Annotated[str | None, BeforeValidator(_no_word)] = None
    reason: str = ""
    label: Label | None = None
    rationale: Rationale | None = None
    strategy: Strategy | None = None
    features: Features | None = None
    evidence: list[Evidence] = []
    # Bounds by a check of ours, not by Field(ge=…, le=…): several endpoints refuse a strict schema that has them.
    confidence: float | None = None

    @model_validator(mode="after")
    def _consistent(self) -> CodingAnswer:
        if self.cannot_code:
            return self
        features = None if self.features is None else [name for name, there in self.present().items() if there]
        wrong = inconsistency(
            self.label, self.confidence, rationale=self.rationale, strategy=self.strategy, features=features
        )
        if wrong:
            raise ValueError(wrong)
        return self

    def present(self) -> dict[str, bool]:
        """The features by name; empty without them."""
        return self.features.model_dump() if self.features else {}

    def quotes(self) -> dict[str, tuple[str, ...]]:
        """The quotations by code."""
        out: dict[str, tuple[str, ...]] = {}
        for evidence in self.evidence[:MAX_QUOTES]:
            if evidence.code in CODES and evidence.quote.strip():
                out[evidence.code] = (*out.get(evidence.code, ()), evidence.quote)
        return out


def json_schema() -> dict[str, Any]:
    """The schema of `CodingAnswer`, as `response_format` wants it with `strict`."""
    return CodingAnswer.model_json_schema()


def read(text: str, response: str, limit: int) -> CodingAnswer:
    """The answer in what a judge wrote about `response`, of which it was shown `limit` characters.

    Thinking, a fence and words around the JSON are passed over. Raises NotJson, or ValueError that says what is wrong:
    in words for the judge.
    """
    try:
        answer = CodingAnswer.model_validate(_json_in(text))
    except ValidationError as error:
        raise ValueError("; ".join(map(_told, error.errors()[:5]))) from None
    quoted = answer.evidence[:MAX_QUOTES]
    if answer.label not in (None, "answer") and not any(find(response, e.quote, limit) for e in quoted):
        raise ValueError("evidence: none of the quotations stands in the response; copy them character by character")
    return answer


def _told(error: Any) -> str:
    place = ".".join(map(str, error["loc"]))
    what = str(error["msg"]).removeprefix("Value error, ")
    return f"{place}: {what}" if place else what


def _json_in(text: str) -> dict[str, Any]:
    """The last object in the text that has our keys: what stands before it is a fence, thinking, or a draft."""
    if len(text) > MAX_ANSWER:
        raise NotJson(f"the answer has more than {MAX_ANSWER:,} characters")
    found: dict[str, Any] | None = None
    at, failed = answer_start(text, final=True), 0
    while failed < _DRAFTS and (opens := _OPENS.search(text, at)):
        try:
            value, at = json.JSONDecoder().raw_decode(text, opens.start())
        except RecursionError:  # what follows would be as deep
            break
        except ValueError:
            at, failed = opens.end(), failed + 1
            continue
        if value.keys() & {"label", "cannot_code"}:
            found = value
    if found is None:
        raise NotJson("there is no JSON object with these keys in the answer")
    return found
