"""Where a request goes: the upstream's base URL and the client's raw path and query, joined without re-encoding."""

from __future__ import annotations

from dataclasses import dataclass

import httpx

#: The extension of the scope that says of a request target that it ends with its "?".
EMPTY_QUERY = "demur.empty_query"

_VERSION = b"/v1"


@dataclass(frozen=True, slots=True)
class Base:
    """The upstream's base URL. `prefix` is its path, one slash before it and none behind; `host` has no brackets."""

    url: httpx.URL
    prefix: bytes

    @classmethod
    def parse(cls, url: str) -> Base:
        """From a validated base URL such as `https://api.openai.com/v1`."""
        parsed = httpx.URL(url)
        path = parsed.raw_path.partition(b"?")[0].strip(b"/")
        return cls(parsed, b"/" + path if path else b"")

    @property
    def host(self) -> str:
        return self.url.host

    @property
    def netloc(self) -> bytes:
        """For the Host header: the port only where it is not the scheme's own."""
        return self.url.netloc

    @property
    def port(self) -> int:
        return self.url.port or (443 if self.url.scheme == "https" else 80)

    def target(self, raw_path: bytes, query: bytes) -> bytes:
        """The request target: base and path joined, one repeated `/v1` dropped, none added, never `//` at the joint.

        `http://h/v1` or `http://h` with `/v1/models` gives `/v1/models`; `http://h` with `/models` gives `/models`.
        """
        path = path_of(raw_path)
        if self.prefix.endswith(_VERSION) and (path == _VERSION or path.startswith(_VERSION + b"/")):
            path = path[len(_VERSION) :]
        target = self.prefix + path or b"/"
        return target + b"?" + query if query else target


def path_of(raw_path: bytes) -> bytes:
    """The path with one slash before it, otherwise as it came."""
    return b"/" + raw_path.lstrip(b"/") if raw_path.startswith(b"//") else raw_path
