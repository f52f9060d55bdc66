"""What must hold before the proxy starts, and does not matter to the commands that only read settings: keys and who
may use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from demur.config.errors import ConfigError
from demur.config.load import Loaded
from demur.config.own_address import reaches_beyond
from demur.config.routes import key_of
from demur.config.settings import Settings


def check_start(loaded: Loaded, env: Mapping[str, str]) -> None:
    """Raises ConfigError for routes whose key can't be had from `env`, and for an open relay."""
    problems = []
    for index, (route, place) in enumerate(zip(loaded.settings.route, loaded.routes, strict=True), start=1):
        try:
            key_of(route, env)
        except ValueError as error:
            problems.append(f"{place}: route {index}: {error}")
    if open_relay := open_relay_of(loaded.settings, [loaded.settings.host]):
        problems.append(open_relay)
    if problems:
        raise ConfigError(problems)


def open_relay_of(settings: Settings, hosts: Iterable[str]) -> str | None:
    """What is wrong when a proxy that listens on `hosts` adds keys for anybody; None when nothing is.

    A name that would have to be looked up counts as this machine's own: its addresses are known once they are bound.
    """
    keyed = [index for index, route in enumerate(settings.route, start=1) if route.adds_key]
    beyond = [host for host in hosts if reaches_beyond(host)]
    if not keyed or not beyond or settings.client_token is not None:
        return None
    return (
        f"route {keyed[0]} adds a key, and host is {settings.host}, which can be reached from beyond this machine: "
        "anybody there could use the key. Set client_token, or a host such as 127.0.0.1"
    )
