"""Keys stand in variables of the environment: how one is read, and what can be one."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import SecretStr


def key_from(variable: str, env: Mapping[str, str]) -> SecretStr:
    """The key that the variable holds. Raises ValueError, without the key, if there is none that can be sent."""
    key = env.get(variable, "").strip()
    if not key:
        raise ValueError(f"the variable {variable} is not set, or empty")
    if not is_key(key):
        raise ValueError(f"what the variable {variable} holds is not a key: printable ASCII, no spaces")
    return SecretStr(key)


def is_key(text: str) -> bool:
    """Whether it can be sent in a header as `Bearer …`. RFC 6750's b64token and a little more, without quoting."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text
