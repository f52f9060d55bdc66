"""The kinds of values that settings have: how each is written by a person, and what it is once read.

The same text is accepted from a file, a variable or a flag. A kind carries `Accepts`: the words of errors and help.
"""

from __future__ import annotations

import ipaddress
import math
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo
from pydantic_core import PydanticCustomError

from demur.config.keys import is_key

# Decimal, so that 700 ms are 0.7 s and not the nearest double of 700 * 0.001.
SECONDS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "min": Decimal(60), "h": Decimal(3600)}
BYTES = {
    "b": Decimal(1),
    "kb": Decimal(10**3),
    "mb": Decimal(10**6),
    "gb": Decimal(10**9),
    "kib": Decimal(2**10),
    "mib": Decimal(2**20),
    "gib": Decimal(2**30),
}
#: Bounds that no sensible value reaches and that every timer, counter and JSON reader can hold.
MOST_SECONDS = 10**9
MOST_BYTES = 2**50
MOST_COUNT = 10**9
MOST_PARALLEL = 1000
#: The languages that come with rules.
LANGUAGES = ("en", "zh", "ja", "ko", "es", "fr", "de", "pt", "it", "ru", "ar", "hi", "tr", "nl", "pl", "vi", "id")
ALL_WORDS = frozenset({"all", "none"})
#: How a setting that has an off position is switched off (TOML has no null).
OFF_WORDS = frozenset({"off", "none", "false"})

_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")
_BRACKETED = re.compile(r"([^@]*@)?\[[0-9A-Fa-f:.]+\](:[0-9]*)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_NUMBERS = re.compile(r"[0-9.]+")


@dataclass(frozen=True, slots=True)
class Accepts:
    """What a setting takes, as a noun phrase ("a port number …"), and the unit of the value once read."""

    what: str
    unit: str = ""


def parse_seconds(value: object) -> float:
    """Seconds from a number or from text such as "10", "500ms", "2m", "1h"."""
    return _quantity(value, SECONDS, default_unit="s")


def parse_bytes(value: object) -> int:
    """Bytes from a number or from text such as "64MiB" (2**20) or "2 MB" (10**6)."""
    return int(_quantity(value, BYTES, default_unit="b"))


def _quantity(value: object, units: Mapping[str, Decimal], default_unit: str) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    elif isinstance(value, str) and (match := _QUANTITY.fullmatch(value)):
        unit = match[2].lower() or default_unit
        if unit not in units:
            raise ValueError(f"the unit {match[2]!r} is none of {', '.join(units)}")
        number = float(Decimal(match[1]) * units[unit])
    else:
        raise ValueError("not a number with a unit")
    if not math.isfinite(number):
        raise ValueError("not a finite number")
    return number


def write_seconds(value: float) -> str:
    """As a person writes it: "5m", "10s", "1.5s"."""
    return _written(Decimal(str(value)), {name: SECONDS[name] for name in ("h", "m", "s")}, "s")


def write_bytes(value: int) -> str:
    """As a person writes it: "64MiB", "100b"."""
    return _written(Decimal(value), {name: BYTES[name.lower()] for name in ("GiB", "MiB", "KiB", "b")}, "b")


def _written(value: Decimal, units: Mapping[str, Decimal], smallest: str) -> str:
    """In the largest of the units that leaves a whole number."""
    unit = next((name for name, size in units.items() if value and value % size == 0), smallest)
    return f"{(value / units[unit]).normalize():f}{unit}"


def _not_bool(value: object) -> object:
    # pydantic would take true for 1.
    if isinstance(value, bool):
        raise ValueError("not a number")
    return value


def _flag(value: object) -> object:
    # pydantic would take "y", 1 and others, which the setting's words do not name.
    written = value.strip().lower() if isinstance(value, str) else value
    if isinstance(written, bool) or written in ("true", "false"):
        return written
    raise PydanticCustomError("flag", "neither true nor false")


def _word(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


def _off_to_none(value: object) -> object:
    return None if value is False or (isinstance(value, str) and value.strip().lower() in OFF_WORDS) else value


def _host(value: str) -> str:
    host = value.removeprefix("[").removesuffix("]")
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        if not _is_host_name(value):
            raise ValueError("not an address, nor a host name") from None
        return value


def _is_host_name(text: str) -> bool:
    """Letters, digits and "_.-", in parts of at most 63: what looking a name up takes. Numbers alone are no name."""
    if _NUMBERS.fullmatch(text):
        try:
            socket.inet_aton(text)  # "127.1", as connecting reads it
        except OSError:
            return False
    return bool(_HOST_NAME.fullmatch(text)) and len(text) < 254 and all(0 < len(p) < 64 for p in text.split("."))


def _url(value: str) -> str:
    if not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError("it has characters that a URL can't have (an international host name is written as xn--…)")
    try:
        parts = urlsplit(value)
    except ValueError:  # its own words may repeat a part of the URL
        raise ValueError("what stands in brackets is not an IPv6 address") from None
    if parts.scheme not in {"http", "https"}:
        raise ValueError("it does not begin with http:// or https://")
    if not parts.hostname:
        raise ValueError("it names no host")
    if not (_BRACKETED.fullmatch(parts.netloc) or _is_host_name(parts.hostname.removesuffix("."))):
        raise ValueError("its host is not an address, nor a host name")
    if "?" in value or "#" in value:
        raise ValueError("a base URL has no query and no fragment")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError("its port is not a number from 1 to 65535")
    return value.rstrip("/")


def _variable(value: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise ValueError("it is to name the variable that holds the key, not to be the key")
    if value.upper().startswith("DEMUR_"):
        raise ValueError("variables that begin with DEMUR_ are settings")
    return value


def _model_name(value: str) -> str:
    if not value.strip() or not value.isprintable() or len(value) > 200:
        raise ValueError("it is empty, or longer than 200 characters, or has control characters")
    return value.strip()


def mask_url(url: str) -> str:
    """The URL with `user:password@` replaced; either part may be a key."""
    return re.sub(r"(?<=//)[^/?#]*@", "****@", url)


def _token(value: SecretStr) -> SecretStr:
    if not is_key(value.get_secret_value()):
        raise ValueError("it is sent as `Authorization: Bearer …`: printable ASCII, no spaces")
    return value


def _path(value: Any, info: ValidationInfo) -> Any:
    """Text to a path: `~` expanded, relative to the folder that `info.context` has for this setting, if any."""
    if isinstance(value, str):
        if not value or "\0" in value:
            raise ValueError("not a path")
        try:
            value = Path(value).expanduser()
        except RuntimeError:
            raise ValueError(f"there is no home directory {value.partition('/')[0]!r}") from None
    if isinstance(value, Path) and info.field_name and info.context and (folder := info.context.get(info.field_name)):
        return folder / value
    return value


def _paths(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, str):
        value = [part for part in value.split(os.pathsep) if part]
    return [_path(item, info) for item in value] if isinstance(value, (list, tuple)) else value


def _existing(value: Path) -> Path:
    # Errors of their own kind: they say all there is to say.
    try:
        if value.is_file():
            return value
    except OSError as error:  # a name that is too long, a folder that is closed to us
        raise PydanticCustomError(
            "no_file", "{path} can't be read: {why}", {"path": repr(str(value)), "why": error.strerror or str(error)}
        ) from error
    what = "is not a regular file" if os.path.lexists(value) else "does not exist"
    raise PydanticCustomError("no_file", "the file {path} {what}", {"path": repr(str(value)), "what": what})


def _all_existing(value: tuple[Path, ...]) -> tuple[Path, ...]:
    for path in value:
        _existing(path)
    return value


def _codes(value: Any) -> Any:
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
        return value
    codes = [code.lower() for part in parts for code in re.split(r"[\s,;:]+", part) if code]
    return [] if codes in ([word] for word in ALL_WORDS) else codes


def _known_codes(value: tuple[str, ...]) -> tuple[str, ...]:
    for code in value:
        if code not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            raise PydanticCustomError(
                "no_language", "there are no rules for {code}; there are: {known}", {"code": repr(code), "known": known}
            )
    return tuple(dict.fromkeys(value))


_TIME = 'in seconds or such as "500ms", "10s", "2m", "1h"'
_SIZE = 'a size above 0, in bytes or such as "64MiB", "2 MB"'
_OFF = BeforeValidator(_off_to_none)

BaseUrl = Annotated[str, AfterValidator(_url), Accepts("an http or https URL such as https://api.openai.com/v1")]
BaseUrlOrNone = Annotated[
    Annotated[str, AfterValidator(_url)] | None,
    _OFF,
    Accepts('an http or https URL such as http://127.0.0.1:11434/v1, or "none"'),
]
Host = Annotated[str, AfterValidator(_host), Accepts("an IP address or a host name to listen on")]
Port = Annotated[int, BeforeValidator(_not_bool), Field(ge=0, le=65535), Accepts("a port number from 0 to 65535")]
Count = Annotated[int, BeforeValidator(_not_bool), Field(ge=0, le=MOST_COUNT), Accepts("a whole number, 0 or more")]
Flag = Annotated[bool, BeforeValidator(_flag), Accepts("true or false")]
CountOrNone = Annotated[
    Annotated[int, Field(gt=0, le=MOST_COUNT)] | None,
    BeforeValidator(_not_bool),
    _OFF,
    Accepts('a whole number above 0, or "none"'),
]
Parallel = Annotated[
    int, BeforeValidator(_not_bool), Field(ge=1, le=MOST_PARALLEL), Accepts(f"a whole number from 1 to {MOST_PARALLEL}")
]
PriceOrNone = Annotated[
    Annotated[float, Field(ge=0, le=MOST_COUNT)] | None,
    BeforeValidator(_not_bool),
    _OFF,
    Accepts('a number, 0 or more, or "none"'),
]
Share = Annotated[float, BeforeValidator(_not_bool), Field(ge=0, le=1), Accepts("a number from 0 to 1")]
Size = Annotated[int, BeforeValidator(parse_bytes), Field(gt=0, le=MOST_BYTES), Accepts(_SIZE, "bytes")]
Seconds = Annotated[
    float, BeforeValidator(parse_seconds), Field(gt=0, le=MOST_SECONDS), Accepts(f"a time above 0, {_TIME}", "seconds")
]
SecondsOrZero = Annotated[
    float,
    BeforeValidator(parse_seconds),
    Field(ge=0, le=MOST_SECONDS),
    Accepts(f"a time, 0 or more, {_TIME}", "seconds"),
]
SecondsOrNone = Annotated[Seconds | None, _OFF, Accepts(f'a time above 0, {_TIME}, or "none"', "seconds")]
Secret = Annotated[SecretStr, AfterValidator(_token)]
SecretOrNone = Annotated[Secret | None, _OFF, Accepts('a token, or "none"')]
VariableOrNone = Annotated[
    Annotated[str, AfterValidator(_variable)] | None, _OFF, Accepts('the name of an environment variable, or "none"')
]
ModelOrNone = Annotated[Annotated[str, AfterValidator(_model_name)] | None, _OFF, Accepts('a model\'s name, or "none"')]
PathOrNone = Annotated[Path | None, BeforeValidator(_path), _OFF, Accepts('a path, or "off"')]
FileOrNone = Annotated[
    Annotated[Path, AfterValidator(_existing)] | None,
    BeforeValidator(_path),
    _OFF,
    Accepts('the path of a file, or "none"'),
]
Files = Annotated[
    tuple[Path, ...],
    AfterValidator(_all_existing),
    BeforeValidator(_paths),
    Accepts(f"a list of files (in one text: separated by {os.pathsep!r})"),
]
Languages = Annotated[
    tuple[str, ...],
    AfterValidator(_known_codes),
    BeforeValidator(_codes),
    Accepts(f"a list of language codes (in one text: separated by ','): {', '.join(LANGUAGES)}"),
]
Word = BeforeValidator(_word)
