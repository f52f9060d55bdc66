"""Routes that no request can take, because routes before them take all that they would."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence

from demur.config.load import Loaded
from demur.config.routes import Route

_TOKEN = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)


def shadowed(loaded: Loaded) -> list[str]:
    """One line for each route that is never reached: where it stands, and which routes take its requests."""
    found = []
    routes = loaded.settings.route
    for index, route in enumerate(routes):
        takers = {_taker(routes[:index], path, model) for path, model in _kinds(route)}
        taken = sorted(taker for taker in takers if taker is not None)
        if len(taken) == len(takers):
            by = " and ".join(f"route {taker + 1} ({loaded.routes[taker]})" for taker in taken)
            found.append(f"{loaded.routes[index]}: route {index + 1} is never reached: its requests go to {by}")
    return found


def _kinds(route: Route) -> Iterator[tuple[str, str | None]]:
    """The requests that it takes: each prefix with each glob. None: whatever the model, and if there is none."""
    for path in route.paths or ("/",):
        for model in route.models or (None,):
            yield path, model


def _taker(before: Sequence[Route], path: str, model: str | None) -> int | None:
    """The first of the routes that takes all requests of a kind."""
    for index, route in enumerate(before):
        takes_path = not route.paths or any(f"{path}/".startswith(prefix.rstrip("/") + "/") for prefix in route.paths)
        takes_model = not route.models or (model is not None and any(_covers(glob, model) for glob in route.models))
        if takes_path and takes_model:
            return index
    return None


def _covers(wide: str, narrow: str) -> bool:
    """Whether the glob `wide` matches all that `narrow` matches. When in doubt, it does not."""
    tokens = _TOKEN.findall(wide)
    places = {0}  # how far in `wide` one may be, after so much of `narrow`
    for token in _TOKEN.findall(narrow):
        places = _behind_stars(places, tokens)
        stay = {place for place in places if tokens[place : place + 1] == ["*"]}
        places = stay | {place + 1 for place in places - stay if _takes(tokens[place : place + 1], token)}
    return len(tokens) in _behind_stars(places, tokens)


def _behind_stars(places: set[int], tokens: list[str]) -> set[int]:
    """The places and, where a star stands there, those behind it: it may stand for nothing."""
    found = set(places)
    for place in places:
        while tokens[place : place + 1] == ["*"]:
            place += 1
            found.add(place)
    return found


def _takes(wide: list[str], token: str) -> bool:
    """Whether one token that is no star, if there is one, stands for all that `token` may be."""
    if not wide or token == "*":
        return False
    return wide[0] in ("?", token) or (len(token) == 1 and token != "?" and fnmatch.fnmatchcase(token, wide[0]))
