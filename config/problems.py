"""What is wrong with a setting, in words: each problem names its place, its key, and what is accepted there.

No text repeats what may be a secret: a token, a URL with credentials, a query or a fragment, the value of an added
header, or a key where the name of its variable belongs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic_core import ErrorDetails

from demur.config.settings import ROUTE, Setting, describe, describe_route

PREFIX = "DEMUR_"
_SECRET = frozenset({"admin_token", "client_token", "judge_key_env", "key_env", "add_headers"})
_URLS = frozenset({"upstream", "judge_url"})
#: Errors whose own words say all there is to say.
_SAID = frozenset({"no_file", "no_language", "route"})


@dataclass(frozen=True, slots=True)
class Given:
    """One value as written: where it stands, and (from a file) the folder that relative paths start from.

    `lines` are those of the tables, one by one, and of their keys, if the value is a list of tables.
    """

    name: str
    value: object
    origin: str
    folder: Path | None = None
    lines: Sequence[Mapping[str, int]] = ()

    def place(self, index: int, key: str = "") -> str:
        """Where table `index`, or a key of it, stands."""
        lines = self.lines[index] if index < len(self.lines) else {}
        line = lines.get(key) or lines.get("")
        return f"{self.origin.rpartition(':')[0]}:{line}" if line else self.origin


def unknown(item: Given) -> str:
    known = describe()
    if item.name == ROUTE:
        return f"{item.origin}: routes are tables, [[{ROUTE}]] of a settings file; nothing else can hold them"

    def spelled(name: str) -> str:
        if name == ROUTE:
            return f"[[{ROUTE}]]"
        if item.origin.startswith(PREFIX):
            return known[name].variable
        return known[name].flag if item.origin.startswith("--") else name

    near = _nearest(item.name, [*known, *([ROUTE] if item.folder else [])], spelled)
    tables = item.value if isinstance(item.value, list) else [item.value]
    if item.folder and tables and all(isinstance(table, dict) for table in tables):
        said = f"{item.origin}: unknown section {item.name!r}: a settings file has none but [[{ROUTE}]]"
        return f"{said}; {near or 'settings stand at its top, such as port = 8787'}"
    return f"{item.origin}: unknown setting {item.name!r}; {near or '`demur config show` lists all that there are'}"


def wrong(error: ErrorDetails, given: Mapping[str, Given]) -> str:
    context: dict[str, Any] = error.get("ctx", {})
    if not error["loc"]:  # the settings contradict each other
        keys, route = context["keys"], context.get("route")
        place = next((_place(key, given, route) for key in keys if key in given), "defaults")
        return f"{place}: {error['msg']}: {', '.join(_source(key, given, route) for key in keys)}"
    name = str(error["loc"][0])
    if name == ROUTE:
        return _wrong_route(error, given[name])
    item, setting = given[name], describe()[name]
    # A variable and a flag are named after their setting already; a line of a file is not.
    place = item.origin if item.origin in (setting.variable, setting.flag) else f"{item.origin}: {setting.name}"
    return f"{place}: {_said(error, item.value, setting)}"


def _source(key: str, given: Mapping[str, Given], route: int | None) -> str:
    named = f"{ROUTE} {route + 1}" if key == ROUTE and route is not None else key
    return f"{named} from {_place(key, given, route) if key in given else 'default'}"


def _place(key: str, given: Mapping[str, Given], route: int | None) -> str:
    if key == ROUTE and route is not None:
        return given[key].place(route, "upstream")
    return given[key].origin


def _wrong_route(error: ErrorDetails, item: Given) -> str:
    _, *inner = error["loc"]
    if not inner or error["type"] in ("model_type", "model_attributes_type"):
        return f"{item.origin}: {ROUTE}: it is not a list of tables; each route begins with a line [[{ROUTE}]]"
    index, key = int(inner[0]), str(inner[1]) if len(inner) > 1 else ""
    route, known = f"{ROUTE} {index + 1}", describe_route()
    if error["type"] == "missing":
        return f"{item.place(index)}: {route}: {key} is missing: {known[key].description}"
    if error["type"] == "route":
        return f"{item.place(index, error['msg'].partition(':')[0])}: {route}: {error['msg']}"
    place = f"{item.place(index, key)}: {route}"
    if key not in known:
        near = _nearest(key, list(known), str) or f"the keys are {', '.join(known)}"
        return f"{place}: unknown key {key!r}; {near}"
    value = item.value[index].get(key) if isinstance(item.value, list | tuple) else None
    return f"{place}: {key}: {_said(error, value, known[key])}"


def _said(error: ErrorDetails, value: object, setting: Setting) -> str:
    context: dict[str, Any] = error.get("ctx", {})
    if error["type"] in _SAID:
        return error["msg"]
    message = f"{_shown(value, setting)} is not {setting.accepts}"
    if error["type"] == "value_error":
        message += f": {context['error']}"
    elif error["type"] == "less_than_equal" and f"{context['le']}" not in setting.accepts:
        message += f": it is more than {context['le']}"
    near = get_close_matches(value.lower(), setting.words, n=1) if isinstance(value, str) else []
    return message + (f"; did you mean {near[0]!r}?" if near else "")


def _nearest(name: str, names: Sequence[str], spelled: Callable[[str], str]) -> str | None:
    near = get_close_matches(name.lower().replace("-", "_"), names, n=1)
    return f"did you mean {spelled(near[0])}?" if near else None


def _shown(value: object, setting: Setting) -> str:
    """The value as written, unless it may hold a secret."""
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
