"""Whether the words of prompts, answers and evidence may be recorded: off, unless the ecosystem's switch says so."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from enum import Enum
from functools import cache

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

logger = logging.getLogger("demur.capture")


class Capture(Enum):
    """The values of the switch, as OpenTelemetry's GenAI instrumentations know them."""

    NO_CONTENT = "NO_CONTENT"
    SPAN_ONLY = "SPAN_ONLY"
    EVENT_ONLY = "EVENT_ONLY"
    SPAN_AND_EVENT = "SPAN_AND_EVENT"

    @property
    def text(self) -> bool:
        """Whether text may be recorded anywhere: in the verdict log and under `/-/verdicts/{id}`."""
        return self is not Capture.NO_CONTENT

    @property
    def spans(self) -> bool:
        return self in (Capture.SPAN_ONLY, Capture.SPAN_AND_EVENT)


#: Older instrumentations know the switch as a boolean.
_SPELLINGS = {
    "": Capture.NO_CONTENT,
    "FALSE": Capture.NO_CONTENT,
    "0": Capture.NO_CONTENT,
    "TRUE": Capture.SPAN_AND_EVENT,
    "1": Capture.SPAN_AND_EVENT,
    **{c.value: c for c in Capture},
}


def content_capture(env: Mapping[str, str] | None = None) -> Capture:
    """Reads the switch. Other programs share the variable: an unknown value is a warning and records nothing."""
    return _read((os.environ if env is None else env).get(VARIABLE, ""))


@cache  # several readers in one process: one warning
def _read(value: str) -> Capture:
    capture = _SPELLINGS.get(value.strip().upper())
    if capture is None:
        known = ", ".join(c.value for c in Capture)
        logger.warning("%s: %r is none of %s; no content is recorded", VARIABLE, value, known)
        return Capture.NO_CONTENT
    return capture
