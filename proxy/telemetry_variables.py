"""OpenTelemetry's `OTEL_*` variables, checked before the SDK reads them.

The SDK logs a traceback for some wrong values, goes on with another value for others, and prints headers, which may be
keys. Here each is an error that names the variable. Nothing here loads the SDK.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from urllib.parse import urlsplit

_COUNTS = (
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_BSP_EXPORT_TIMEOUT",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
)
#: Timers and queues take no more; as milliseconds these are 24 days.
_MOST = 2**31 - 1
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_TIMEOUTS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
_HEADERS = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
_DETECTORS = "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS"
_FILES = tuple(
    f"OTEL_EXPORTER_OTLP_{signal}{kind}"
    for signal in ("TRACES_", "")
    for kind in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")
)
#: name=value as the SDK takes it; it drops any other, with a warning that shows it.
_HEADER = re.compile(r"[ \t]*[\w!#$%&'*+.^`|~-]+[ \t]*=[ \t!#-+\--:<-\[\]-~]*", re.ASCII)


class TelemetryError(Exception):
    """An `OTEL_*` variable asks for something that we cannot do; the message names it."""


def configured_exporters(env: Mapping[str, str]) -> list[str]:
    """Which trace exporters the variables ask for, of "otlp" and "console"; none by default.

    An OTLP endpoint alone means "otlp". Raises TelemetryError for what does not work: exporters, and where there is
    one, its protocol, endpoint, headers, files, and the numbers of its queue.
    """
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    default = "otlp" if _first(env, _ENDPOINTS) else "none"
    wanted = [w.strip() for w in (env.get("OTEL_TRACES_EXPORTER") or default).split(",")]
    exporters = list(dict.fromkeys(w for w in wanted if w not in ("", "none")))
    for exporter in exporters:
        if exporter not in ("otlp", "console"):
            raise TelemetryError(f"OTEL_TRACES_EXPORTER: unknown exporter {exporter!r}; known: otlp, console, none")
    if exporters:
        for name in _COUNTS:
            _check_count(name, env.get(name, "").strip())
        _check_detectors(env.get(_DETECTORS, ""))
    if "otlp" in exporters:
        _check_otlp(env)
    return exporters


def _first(env: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, str] | None:
    """The variable that counts, of several that say the same."""
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


def _check_otlp(env: Mapping[str, str]) -> None:
    if (found := _first(env, _PROTOCOLS)) and found[1] != "http/protobuf":
        raise TelemetryError(f"{found[0]}: {_clipped(found[1])} is not supported; use http/protobuf (port 4318)")
    if (found := _first(env, _ENDPOINTS)) and not _is_url(found[1]):
        raise TelemetryError(f"{found[0]}: must be a URL that begins with http:// or https://")
    if (found := _first(env, _TIMEOUTS)) and not _is_time(found[1]):
        raise TelemetryError(f"{found[0]}: {_clipped(found[1])} is not a number of seconds above 0")
    if found := _first(env, _HEADERS):
        for number, header in enumerate(found[1].split(","), 1):
            if header.strip() and not _HEADER.fullmatch(header):
                raise TelemetryError(f"{found[0]}: header {number} is not name=value, values encoded as in a URL")
    for name in _FILES:
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
