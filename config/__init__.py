"""Settings: what can be set (`settings`), how values are written (`values`), where they come from (`load`), and whether
an upstream is demur itself (`own_address`).

    loaded = load()                 # defaults < demur.toml < DEMUR_* < flags
    loaded.settings.upstream        # every value is validated and in its unit
    loaded.origins["upstream"]      # "default", "demur.toml:3", "DEMUR_UPSTREAM" or "--upstream"

Anything unknown or wrong is a `ConfigError` that names the file and line, variable or flag, and the key.
"""

from __future__ import annotations

from demur.config.errors import ConfigError
from demur.config.load import DEFAULT_FILE, Loaded, load
from demur.config.settings import Setting, Settings, describe

__all__ = ["DEFAULT_FILE", "ConfigError", "Loaded", "Setting", "Settings", "describe", "load"]
