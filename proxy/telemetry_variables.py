"""OpenTelemetry's `OTEL_*` variables, checked before the SDK reads them.

The SDK logs a traceback for some wrong values, goes on with another value for others, and prints headers, which may be
keys. Here each is an error that names the variable. Nothing here loads the SDK.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

#: What is exported: spans as TRACES, events as LOGS.
Signal = Literal["TRACES", "LOGS"]

#: The prefix of a signal's queue variables.
QUEUES: Mapping[Signal, str] = {"TRACES": "OTEL_BSP", "LOGS": "OTEL_BLRP"}
_COUNTS = ("SCHEDULE_DELAY", "EXPORT_TIMEOUT", "MAX_QUEUE_SIZE", "MAX_EXPORT_BATCH_SIZE")
#: Timers and queues take no more; as milliseconds these are 24 days.
_MOST = 2**31 - 1
_DETECTORS = "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS"
#: name=value as the SDK takes it; it drops any other, with a warning that shows it.
_HEADER = re.compile(r"[ \t]*[\w!#$%&'*+.^`|~-]+[ \t]*=[ \t!#-+\--:<-\[\]-~]*", re.ASCII)


class TelemetryError(Exception):
    """An `OTEL_*` variable asks for something that we cannot do; the message names it."""


def configured_exporters(env: Mapping[str, str], signal: Signal) -> list[str]:
    """Which exporters the variables ask for, of "otlp" and "console", for one signal; none by default.

    An OTLP endpoint alone means "otlp". Raises TelemetryError for what does not work: exporters, and where there is
    one, its protocol, endpoint, headers, files, and the numbers of its queue.
    """
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    default = "otlp" if _otlp(env, signal, "ENDPOINT") else "none"
    variable = f"OTEL_{signal}_EXPORTER"
    wanted = [w.strip() for w in (env.get(variable) or default).split(",")]
    exporters = list(dict.fromkeys(w for w in wanted if w not in ("", "none")))
    for exporter in exporters:
        if exporter not in ("otlp", "console"):
            raise TelemetryError(f"{variable}: unknown exporter {exporter!r}; known: otlp, console, none")
    if exporters:
        for count in _COUNTS:
            name = f"{QUEUES[signal]}_{count}"
            _check_count(name, env.get(name, "").strip())
        _check_detectors(env.get(_DETECTORS, ""))
    if "otlp" in exporters:
        _check_otlp(env, signal)
    return exporters


def _otlp(env: Mapping[str, str], signal: Signal, kind: str) -> tuple[str, str] | None:
    """The variable that counts, of the signal's own and the one for all, and its value."""
    names = (f"OTEL_EXPORTER_OTLP_{signal}_{kind}", f"OTEL_EXPORTER_OTLP_{kind}")
    return next(((name, env[name].strip()) for name in names if env.get(name, "").strip()), None)


def _check_count(name: str, value: str) -> None:
    # Ten digits at most, before int(): it takes no more than 4,300.
    if value and not (re.fullmatch(r"\+?0*[0-9]{1,10}", value) and 0 < int(value) <= _MOST):
        raise TelemetryError(f"{name}: {_clipped(value)} is not a whole number from 1 to {_MOST}")


def _check_detectors(value: str) -> None:
    known = entry_points(group="opentelemetry_resource_detector").names
    for detector in filter(None, map(str.strip, value.split(","))):
        if detector not in known | {"*"}:
            names = ", ".join(sorted(known))
            raise TelemetryError(f"{_DETECTORS}: unknown detector {_clipped(detector)}; installed: {names}")


def _check_otlp(env: Mapping[str, str], signal: Signal) -> None:
    if (found := _otlp(env, signal, "PROTOCOL")) and found[1] != "http/protobuf":
        raise TelemetryError(f"{found[0]}: {_clipped(found[1])} is not supported; use http/protobuf (port 4318)")
    if (found := _otlp(env, signal, "ENDPOINT")) and not _is_url(found[1]):
        raise TelemetryError(f"{found[0]}: must be a URL that begins with http:// or https://")
    if (found := _otlp(env, signal, "TIMEOUT")) and not _is_time(found[1]):
        raise TelemetryError(f"{found[0]}: {_clipped(found[1])} is not a number of seconds above 0")
    if found := _otlp(env, signal, "HEADERS"):
        for number, header in enumerate(found[1].split(","), 1):
            if header.strip() and not _HEADER.fullmatch(header):
                raise TelemetryError(f"{found[0]}: header {number} is not name=value, values encoded as in a URL")
    for kind in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"):
        for name in (f"OTEL_EXPORTER_OTLP_{signal}_{kind}", f"OTEL_EXPORTER_OTLP_{kind}"):
            if (path := env.get(name, "").strip()) and not Path(path).is_file():
                raise TelemetryError(f"{name}: there is no file {_clipped(path)}")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_time(text: str) -> bool:
    try:
        return 0 < float(text) <= _MOST
    except ValueError:
        return False


def _clipped(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:59]}…")
