"""What must hold before the proxy starts, and does not matter to the commands that only read settings: keys and who
may use them, and where verdicts are written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from demur.config.errors import ConfigError
from demur.config.keys import key_from
from demur.config.load import Loaded
from demur.config.own_address import reaches_beyond
from demur.config.routes import key_of
from demur.config.settings import Settings


def check_start(loaded: Loaded, env: Mapping[str, str]) -> None:
    """Raises ConfigError for keys that can't be had from `env`, for an open relay, and for a verdict log or
    a judge's cache that surely can't be written. It writes nothing.
    """
    settings, problems = loaded.settings, []
    for index, (route, keys) in enumerate(zip(settings.route, loaded.route_keys, strict=True), start=1):
        try:
            key_of(route, env)
        except ValueError as error:
            problems.append(f"{keys['key_env']}: route {index}: {error}")
    if open_relay := open_relay_of(settings, [settings.host], loaded.routes):
        problems.append(f"{loaded.origins['host']}: {open_relay}")
    if settings.judge_url and settings.judge_key_env:
        try:
            key_from(settings.judge_key_env, env)
        except ValueError as error:
            problems.append(f"{loaded.place('judge_key_env')}: {error}")
    files = {"verdict_log": settings.verdict_log, "judge_cache": settings.judge_cache if settings.judge_url else None}
    for name, path in files.items():
        if path is not None and (wrong := _not_to_append_to(path)):
            problems.append(f"{loaded.place(name)}: {wrong}")
    if problems:
        raise ConfigError(problems)


def _not_to_append_to(path: Path) -> str | None:
    """What stands in the way of appending to a file, or of making it, as far as it can be told without."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return _not_to_make(Path(os.path.realpath(path)) if path.is_symlink() else path)
    except OSError as error:  # links that go in circles, a name that is too long, a folder that is closed to us
        return f"{path} can't be written to: {error.strerror}"
    if stat.S_ISDIR(mode):
        return f"{path} is a folder"
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        return f"{path} is neither a file nor a pipe"
    return None if os.access(path, os.W_OK) else f"{path} can't be written to"


def _not_to_make(path: Path) -> str | None:
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} for {path.name}"
    return None if os.access(path.parent, os.W_OK | os.X_OK) else f"no file can be made in {path.parent}"


def open_relay_of(settings: Settings, hosts: Iterable[str], places: Sequence[str] = ()) -> str | None:
    """What is wrong when a proxy that listens on `hosts` adds keys for anybody; None when nothing is. `places` are
    those of the routes.

    A name that would have to be looked up counts as this machine's own: its addresses are known once they are bound.
    """
    keyed = [index for index, route in enumerate(settings.route, start=1) if route.adds_key]
    beyond = [host for host in hosts if reaches_beyond(host)]
    if not keyed or not beyond or settings.client_token is not None:
        return None
    place = f" ({places[keyed[0] - 1]})" if places else ""
    return (
        f"route {keyed[0]}{place} adds a key, and host is {settings.host}, which can be reached from beyond this "
        "machine: anybody there could use the key. Set client_token, or a host such as 127.0.0.1"
    )
