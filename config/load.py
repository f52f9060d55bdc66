"""Where values come from: defaults < `demur.toml` < `DEMUR_*` < flags. Those in effect are validated once, together.

Own code in place of pydantic-settings, which keeps neither the origin of a value nor the line of a wrong one.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from demur.config import positions, problems
from demur.config.errors import ConfigError
from demur.config.problems import PREFIX, Given
from demur.config.settings import ROUTE, Settings, describe

DEFAULT_FILE = Path("demur.toml")
#: A larger settings file is a mistake, such as a device or a log.
MOST_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, and for each by name where its value comes from: `default`, `FILE:LINE`, `DEMUR_X` or `--x`."""

    settings: Settings
    origins: Mapping[str, str]
    file: Path | None
    #: Where each route stands.
    routes: tuple[str, ...] = ()
    #: Where each key of each route stands, by its name.
    route_keys: tuple[Mapping[str, str], ...] = ()

    def place(self, name: str) -> str:
        """What a message about a setting begins with. A variable and a flag are named after it already."""
        origin, setting = self.origins[name], describe()[name]
        return origin if origin in (setting.variable, setting.flag) else f"{origin}: {name}"


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
    known = Settings.model_fields
    found: list[str] = []
    given: dict[str, Given] = {}
    for item in (*_from_file(file), *_from_env(os.environ if env is None else env), *_from_flags(flags or {})):
        if item.name in known and (item.name != ROUTE or item.folder is not None):
            given[item.name] = item
        else:
            found.append(problems.unknown(item))
    try:
        settings = Settings.model_validate(
            {name: item.value for name, item in given.items()},
            context={name: item.folder for name, item in given.items()},
        )
    except ValidationError as exc:
        # One problem a key, also of each route: a list with two wrong items is one wrong setting.
        first = {error["loc"][: 3 if error["loc"][:1] == (ROUTE,) else 1]: error for error in reversed(exc.errors())}
        found += [problems.wrong(error, given) for error in reversed(first.values())]
    if found:
        raise ConfigError(found)
    origins = {name: given[name].origin if name in given else "default" for name in known}
    if ROUTE not in given:
        return Loaded(settings, origins, file)
    place = given[ROUTE].place
    routes = tuple(place(index) for index in range(len(settings.route)))
    keys = tuple({key: place(index, key) for key in r.model_fields_set} for index, r in enumerate(settings.route))
    return Loaded(settings, origins, file, routes, keys)


def _from_file(file: Path | None) -> Iterator[Given]:
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
        raise ConfigError([_beyond(file, text, positions.depth_reached(text, 100), "nested too deeply")]) from None
    for name, value in table.items():
        line = positions.line_of(name, text)
        lines = positions.lines_of_tables(name, text) if name == ROUTE else ()
        yield Given(name, value, f"{file}:{line}" if line else f"{file}", file.parent, lines)


def _syntax(file: Path, message: str, text: str) -> str:
    # tomllib gives the position only inside its message, up to Python 3.13.
    what, _, position = message.rpartition(" (at ")
    if found := re.fullmatch(r"line (\d+), column (\d+)\)", position):
        if what == "Cannot overwrite a value" and (twice := positions.last_key(text, int(found[1]))):
            return f"{file}:{twice[0]}: {twice[1]} is set twice"
        return f"{file}:{found[1]}:{found[2]}: not valid TOML: {what}"
    return f"{file}:{len(text.splitlines())}: not valid TOML: {what or message}"


def _beyond(file: Path, text: str, at: int, what: str) -> str:
    """A problem with the valid TOML at `at` that is beyond what we read: its line, and the key that it belongs to."""
    line, key = positions.beyond(text, at)
    return f"{file}:{line}: {key}{what}"


def _from_env(env: Mapping[str, str]) -> Iterator[Given]:
    for variable in sorted(v for v in env if v.startswith(PREFIX)):
        if value := env[variable].strip():
            yield Given(variable.removeprefix(PREFIX).lower(), value, variable)


def _from_flags(flags: Mapping[str, object]) -> Iterator[Given]:
    for name, value in flags.items():
        if value is not None and value != ():
            yield Given(name, value, f"--{name.replace('_', '-')}")
