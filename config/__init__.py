"""Settings: what can be set (`settings`, `routes`), how values are written (`values`), where they come from (`load`,
`positions`) and keys (`keys`), what is wrong with them (`problems`), whether an upstream is demur itself
(`own_address`), which routes no request reaches (`shadowed`), and what must hold before the proxy starts (`start`).

    loaded = load()                 # defaults < demur.toml < DEMUR_* < flags
    loaded.settings.upstream        # every value is validated and in its unit
    loaded.origins["upstream"]      # "default", "demur.toml:3", "DEMUR_UPSTREAM" or "--upstream"

Anything unknown or wrong is a `ConfigError` that names the file and line, variable or flag, and the key.
"""

from __future__ import annotations

from demur.config.errors import ConfigError
from demur.config.keys import is_key, key_from
from demur.config.load import DEFAULT_FILE, Loaded, load
from demur.config.routes import Route, key_of
from demur.config.settings import ROUTE, Setting, Settings, describe, describe_route, sections
from demur.config.shadowed import shadowed
from demur.config.start import check_start, open_relay_of

__all__ = [
    "DEFAULT_FILE",
    "ROUTE",
    "ConfigError",
    "Loaded",
    "Route",
    "Setting",
    "Settings",
    "check_start",
    "describe",
    "describe_route",
    "is_key",
    "key_from",
    "key_of",
    "load",
    "open_relay_of",
    "sections",
    "shadowed",
]
