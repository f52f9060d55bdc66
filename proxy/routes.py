"""Which upstream a request goes to, by its path and its model, and what changes on the way there.

The first route that matches takes a request; without one it goes to the `upstream` of the settings, where nothing
changes. A route that adds a key sends none of the client's credentials beside it.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from demur.config import ConfigError, Route, Settings, key_of
from demur.proxy import headers
from demur.proxy.credentials import query_without_credentials, without_credentials
from demur.proxy.headers import Headers
from demur.proxy.urls import Base, path_of


@dataclass(frozen=True, slots=True)
class Destination:
    """One upstream. Of `prefixes` the longest that fits is taken off a path. `added` may hold a key."""

    base: Base
    prefixes: tuple[bytes, ...] = ()
    removed: frozenset[bytes] = frozenset()
    adds_key: bool = False
    added: Headers = field(default_factory=list, repr=False)

    @property
    def host(self) -> str:
        return self.base.host

    @property
    def port(self) -> int:
        return self.base.port

    def target(self, raw_path: bytes, query: bytes) -> bytes:
        """The request target for the upstream."""
        path = path_of(raw_path)
        for prefix in self.prefixes:
            if _is_below(path, prefix):
                path = path[len(prefix) :]
                break
        return self.base.target(path, query_without_credentials(query) if self.adds_key else query)

    def headers(self, up: Headers, *, preflight: bool = False) -> Headers:
        """The headers `up` as they go there. A `preflight`, which shows no credential, gets none: who decides that it
        is one has looked at the client's own headers, some of which are not in `up`.
        """
        if not self.added and not self.removed:
            return up
        if self.adds_key:
            up = without_credentials(up)
        if preflight:
            return headers.without(up, *self.removed)
        return [*headers.without(up, *self.removed, *(name for name, _ in self.added)), *self.added]


class Router:
    """Chooses destinations. Raises ConfigError when the key of a route is not in `env`."""

    def __init__(self, settings: Settings, env: Mapping[str, str]) -> None:
        self.default = Destination(Base.parse(settings.upstream))
        self._rules = [_Rule(number, route, env) for number, route in enumerate(settings.route, start=1)]

    def asks_for_model(self, raw_path: bytes) -> bool:
        """Whether it depends on the model where a request with this path goes."""
        path = path_of(raw_path)
        for rule in self._rules:
            if rule.takes_path(path):
                return rule.models is not None
        return False

    def choose(self, raw_path: bytes, model: str | None) -> Destination:
        """Where a request goes; `model` is None when it names none."""
        path = path_of(raw_path)
        for rule in self._rules:
            if rule.takes_path(path) and rule.takes_model(model):
                return rule.destination
        return self.default


class _Rule:
    """One route, read for matching. `models` is None when it takes any."""

    def __init__(self, number: int, route: Route, env: Mapping[str, str]) -> None:
        try:
            key = key_of(route, env)
        except ValueError as error:
            raise ConfigError([f"route {number}: {error}"]) from None
        values = {name: value.get_secret_value() for name, value in route.add_headers.items()}
        if key is not None:
            bearer = "Bearer " if route.key_header == "authorization" else ""
            values[route.key_header] = bearer + key.get_secret_value()
        prefixes = sorted((path.encode("ascii") for path in route.paths), key=len, reverse=True)
        self.models = re.compile("|".join(map(fnmatch.translate, route.models))) if route.models else None
        self._prefixes = tuple(prefixes)
        self.destination = Destination(
            Base.parse(route.upstream),
            tuple(prefix for prefix in prefixes if prefix != b"/") if route.strips else (),
            frozenset(name.encode("ascii") for name in route.remove_headers),
            route.adds_key,
            [(name.encode("ascii"), value.encode("ascii")) for name, value in values.items()],
        )

    def takes_path(self, path: bytes) -> bool:
        return not self._prefixes or any(_is_below(path, prefix) for prefix in self._prefixes)

    def takes_model(self, model: str | None) -> bool:
        return self.models is None or (model is not None and self.models.match(model) is not None)


def _is_below(path: bytes, prefix: bytes) -> bool:
    """Whether `path` is `prefix`, or goes on behind it with a slash."""
    return prefix == b"/" or path == prefix or path.startswith(prefix + b"/")
