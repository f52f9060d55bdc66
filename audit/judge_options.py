"""Which model is asked, within what bounds, and what makes asking it pointless."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from demur.config import is_key


class JudgeError(Exception):
    """What makes every call fail: a wrong key, model or URL, a cache that can't be used. Says what and where."""


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """Which model to ask, and within what bounds. Raises ValueError that names the option.

    `url` is the API's base URL (such as `http://127.0.0.1:11434/v1`); `key_name` is the environment variable that the
    key is from, for error texts. `timeout` limits one request, `total_timeout` one response with all its requests and
    the waits between them, both in seconds. `attempts` is how often one request is sent at most, `concurrency` how many
    responses are coded at once. `max_tokens` is the budget of all requests together. Prices are per million tokens.
    Without `foreign_words` no error tells what the endpoint says, only its status: that may quote what it was sent.
    """

    url: str = field(repr=False)  # it may hold credentials
    model: str
    key: SecretStr | None = None
    key_name: str | None = None
    concurrency: int = 4
    timeout: float = 60.0
    total_timeout: float = 300.0
    attempts: int = 4
    max_tokens: int | None = None
    cache: Path | None = None
    input_price: float | None = None
    output_price: float | None = None
    foreign_words: bool = True

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must stand in no text: the key, and the credentials of the URL, the longest first."""
        parts = urlsplit(self.url)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        basic = b64encode(f"{user}:{password}".encode()).decode() if parts.username is not None else ""
        key = self.key.get_secret_value() if self.key is not None else ""
        return tuple(sorted(filter(None, {key, password, basic}), key=len, reverse=True))

    def __post_init__(self) -> None:
        for name in ("url", "model"):
            if not getattr(self, name).strip():
                raise ValueError(f"{name} is empty")
        if not self.url.lower().startswith(("http://", "https://")):
            raise ValueError("url does not begin with http:// or https://")
        for name in ("concurrency", "timeout", "total_timeout", "attempts"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}, it must be above 0")
        for name in ("max_tokens", "input_price", "output_price"):
            if (value := getattr(self, name)) is not None and value < 0:
                raise ValueError(f"{name} is {value}, it must not be below 0")
        # Checked here, since httpx would put the value into its error.
        if self.key is not None and not is_key(self.key.get_secret_value()):
            raise ValueError("the key is empty, or has spaces, line ends or letters beyond ASCII")
