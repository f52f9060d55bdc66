"""Where values come from: defaults < `demur.toml` < `DEMUR_*` < flags. Those in effect are validated once, together.

Own code in place of pydantic-settings, which keeps neither the origin of a value nor the line of a wrong one.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails

from demur.config.errors import ConfigError
from demur.config.settings import Setting, Settings, describe

DEFAULT_FILE = Path("demur.toml")
PREFIX = "DEMUR_"
_SECRET = frozenset({"admin_token", "judge_key_env"})
_URLS = frozenset({"upstream", "judge_url"})
#: A larger settings file is a mistake, such as a device or a log.
MOST_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, and for each by name where its value comes from: `default`, `FILE:LINE`, `DEMUR_X` or `--x`."""

    settings: Settings
    origins: Mapping[str, str]
    file: Path | None


@dataclass(frozen=True, slots=True)
class _Given:
    """One value as written: where it stands, and (from a file) the folder that relative paths start from."""

    name: str
    value: object
    origin: str
    folder: Path | None = None


def load(
    file: Path | None = None, env: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> Loaded:
    """Reads the settings; `env` is `os.environ` by default. Raises ConfigError with all problems found.

    Without `file`, `demur.toml` of the working directory is read if there is one. An empty variable counts as not set,
    and so does a flag that is None or `()`. Relative paths start from the file's folder, elsewhere from the working
    directory.
    """
    if file is None and DEFAULT_FILE.is_file():
        file = DEFAULT_FILE
    known = describe()
    problems: list[str] = []
    given: dict[str, _Given] = {}
    for item in (*_from_file(file), *_from_env(os.environ if env is None else env), *_from_flags(flags or {})):
        if item.name in known:
            given[item.name] = item
        else:
            problems.append(f"{item.origin}: {_unknown(item, known)}")
    try:
        settings = Settings.model_validate(
            {name: item.value for name, item in given.items()},
            context={name: item.folder for name, item in given.items()},
        )
    except ValidationError as exc:
        # One problem a key: a list with two wrong items is one wrong setting.
        first = {error["loc"][:1]: error for error in reversed(exc.errors())}
        problems += [_wrong(error, given, known) for error in reversed(first.values())]
    if problems:
        raise ConfigError(problems)
    return Loaded(settings, {name: given[name].origin if name in given else "default" for name in known}, file)


def _from_file(file: Path | None) -> Iterator[_Given]:
    if file is None:
        return
    try:
        with file.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except (OSError, ValueError) as exc:
        raise ConfigError([f"{file}: can't be read: {getattr(exc, 'strerror', None) or exc}"]) from exc
    if len(data) > MOST_BYTES:
        raise ConfigError([f"{file}: is larger than {MOST_BYTES >> 20} MiB, so it is not a settings file"])
    try:
        text = data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as exc:
        raise ConfigError([f"{file}: is not UTF-8 text, at byte {exc.start}"]) from exc
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError([_syntax(file, str(exc), text)]) from exc
    except ValueError:  # Python's own, from int(): its words are about Python
        long = re.search(r"[0-9_]{4000}", text)
        raise ConfigError([_beyond(file, text, long.start() if long else 0, "a number has too many digits")]) from None
    except RecursionError:
        raise ConfigError([_beyond(file, text, _depth_reached(text, 100), "nested too deeply")]) from None
    for name, value in table.items():
        line = _line_of(name, text)
        yield _Given(name, value, f"{file}:{line}" if line else f"{file}", file.parent)


def _syntax(file: Path, message: str, text: str) -> str:
    # tomllib gives the position only inside its message, up to Python 3.13.
    what, _, position = message.rpartition(" (at ")
    if found := re.fullmatch(r"line (\d+), column (\d+)\)", position):
        return f"{file}:{found[1]}:{found[2]}: not valid TOML: {what}"
    return f"{file}:{len(text.splitlines())}: not valid TOML: {what or message}"


def _beyond(file: Path, text: str, at: int, what: str) -> str:
    """A problem with the valid TOML at `at` that is beyond what we read: its line, and the key that it belongs to."""
    before = text[:at]
    keys = re.findall(r"^[ \t]*([^\s=#]+)[ \t]*=", before, re.MULTILINE)
    return f"{file}:{before.count(chr(10)) + 1}: {f'{keys[-1]}: ' if keys else ''}{what}"


def _depth_reached(text: str, depth: int) -> int:
    """Where brackets stand `depth` deep for the first time, else 0."""
    open_now = 0
    for found in re.finditer(r"[\[{\]}]", text):
        open_now += 1 if found[0] in "[{" else -1
        if open_now == depth:
            return found.start()
    return 0


def _line_of(name: str, text: str) -> int | None:
    """The line where a top-level key or table begins; tomllib keeps no positions."""
    found = re.search(rf"^[ \t]*(?:\[+[ \t]*)?[\"']?{re.escape(name)}[\"']?[ \t]*[.=\]]", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else None


def _from_env(env: Mapping[str, str]) -> Iterator[_Given]:
    for variable in sorted(v for v in env if v.startswith(PREFIX)):
        if value := env[variable].strip():
            yield _Given(variable.removeprefix(PREFIX).lower(), value, variable)


def _from_flags(flags: Mapping[str, object]) -> Iterator[_Given]:
    for name, value in flags.items():
        if value is not None and value != ():
            yield _Given(name, value, f"--{name.replace('_', '-')}")


def _unknown(item: _Given, known: Mapping[str, Setting]) -> str:
    def spelled(name: str) -> str:
        if item.origin.startswith(PREFIX):
            return known[name].variable
        return known[name].flag if item.origin.startswith("--") else name

    near = get_close_matches(item.name.lower().replace("-", "_"), known, n=1)
    hint = f"did you mean {spelled(near[0])}?" if near else f"the settings are {', '.join(map(spelled, known))}"
    return f"unknown setting {item.name!r}; {hint}"


def _wrong(error: ErrorDetails, given: Mapping[str, _Given], known: Mapping[str, Setting]) -> str:
    context: dict[str, Any] = error.get("ctx", {})
    if not error["loc"]:  # the settings contradict each other
        sources = ", ".join(f"{k} from {given[k].origin if k in given else 'default'}" for k in context["keys"])
        return f"{error['msg']}: {sources}"
    item, setting = given[str(error["loc"][0])], known[str(error["loc"][0])]
    # A variable and a flag are named after their setting already; a line of a file is not.
    place = item.origin if item.origin in (setting.variable, setting.flag) else f"{item.origin}: {setting.name}"
    if error["type"] in ("no_file", "no_language"):
        return f"{place}: {error['msg']}"
    message = f"{place}: {_shown(item, setting)} is not {setting.accepts}"
    if error["type"] == "value_error":
        message += f": {context['error']}"
    elif error["type"] == "less_than_equal" and f"{context['le']}" not in setting.accepts:
        message += f": it is more than {context['le']}"
    near = get_close_matches(item.value.lower(), setting.words, n=1) if isinstance(item.value, str) else []
    return message + (f"; did you mean {near[0]!r}?" if near else "")


def _shown(item: _Given, setting: Setting) -> str:
    """The value as written, unless it may hold a secret: a token, a URL with credentials, a query or a fragment, or a
    key where the name of its variable belongs."""
    value = item.value
    plain_url = isinstance(value, str) and not any(char in value for char in "@?#")
    if isinstance(value, SecretStr) or setting.name in _SECRET or (setting.name in _URLS and not plain_url):
        return "the value"
    if isinstance(value, bool):
        return str(value).lower()
    try:
        return _clipped(repr(value))
    except (ValueError, RecursionError):  # a number of 5,000 digits, a table 1,000 deep
        return "the value"


def _clipped(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:99]}…"
