"""`[[route]]` tables: which requests go to another upstream, with which key, and how their headers change on the way.

Keys never stand in the file: a route names the variable that holds one, and `key_of` reads it when the proxy starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from demur.config.keys import key_from
from demur.config.values import Accepts, BaseUrl, Flag, VariableOrNone, mask_url

# RFC 9110, 5.6.2.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: How the paths of APIs begin: taking such a prefix off is seldom meant.
_API_PATH = re.compile(
    r"/(?:v\d\w*|openai/deployments|models?|api/\w+|chat/completions|completions|responses|messages|embeddings)(?:/|\Z)"
)
#: Headers that belong to the connection, to the framing of the body, or to demur.
_OURS = frozenset({"host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect"})
_BODY = frozenset({"content-length", "content-encoding", "accept-encoding"})
_CREDENTIAL = re.compile(r"auth|key|token|secret|cookie|credential|password")


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _globs(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        if not pattern or not pattern.isprintable() or len(pattern) > 200 or pattern != pattern.strip():
            raise ValueError(f"{pattern[:40]!r} is empty, longer than 200 characters, or has blanks at its ends")
        # fnmatch takes a bracket that is never closed literally, which nobody means.
        if "[" in re.sub(r"\[!?\]?[^\]]*\]", "", pattern):
            raise ValueError(f"{pattern!r} has a [ that is never closed")
    return patterns


def _prefixes(paths: tuple[str, ...]) -> tuple[str, ...]:
    for path in paths:
        if not path.startswith("/") or path.startswith("//"):
            raise ValueError(f"{path[:40]!r} does not begin with one /")
        if not path.isascii() or not path.isprintable() or " " in path or len(path) > 1000:
            raise ValueError(f"{path[:40]!r} has characters that a path can't have (others are written as %E4 …)")
        if "?" in path or "#" in path or "*" in path:
            raise ValueError(f"{path[:40]!r} has a ?, # or *: a prefix is a plain path, and matches all below it")
        if path == "/-" or path.startswith("/-/"):
            raise ValueError(f"{path[:40]!r} is demur's own")
    return tuple(path.rstrip("/") or "/" for path in paths)


def _header_name(name: str) -> str:
    name = name.lower()
    if not _TOKEN.fullmatch(name) or len(name) > 200:
        raise ValueError(f"{name[:40]!r} is not the name of a header")
    if name in _OURS or name in _BODY or name.startswith(("proxy-", "x-refusal-")):
        raise ValueError(f"{name} is not for a route: demur sets it itself, or never sends it")
    return name


def _header_names(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_header_name(name) for name in names)


def _header_values(values: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
    read: dict[str, SecretStr] = {}
    for name, value in values.items():
        lower = _header_name(name)
        if lower in read:
            raise ValueError(f"{lower} stands there twice")
        text = value.get_secret_value()
        if not text.isascii() or not text.isprintable() or text != text.strip() or not text:
            raise ValueError(f"the value of {lower} can't be sent: printable ASCII, no blanks at its ends")
        read[lower] = value
    return read


_LIST = BeforeValidator(_listed)
Globs = Annotated[
    tuple[str, ...],
    AfterValidator(_globs),
    _LIST,
    Accepts('a list of model names, with * ? [abc] for what varies, such as ["claude-*"]'),
]
Prefixes = Annotated[
    tuple[str, ...], AfterValidator(_prefixes), _LIST, Accepts('a list of path prefixes such as ["/anthropic"]')
]
HeaderName = Annotated[str, AfterValidator(_header_name), Accepts('the name of a header such as "x-api-key"')]
HeaderNames = Annotated[
    tuple[str, ...], AfterValidator(_header_names), _LIST, Accepts('a list of header names such as ["openai-project"]')
]
HeaderValues = Annotated[
    Mapping[str, SecretStr],
    AfterValidator(_header_values),
    Accepts('a table of headers such as { anthropic-version = "2023-06-01" }'),
]
FlagOrNone = Annotated[Flag | None, Accepts("true or false")]


class Route(BaseModel):
    """One `[[route]]`, immutable. Header names are in lower case, prefixes have no slash at their end."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, hide_input_in_errors=True)

    models: Globs = Field(default=(), description="globs; a request for one of these models takes this route")
    paths: Prefixes = Field(default=(), description="a request whose path is one of these, or below, takes this route")
    strip_prefix: FlagOrNone = Field(
        default=None, description="whether the matched prefix is taken off the path before it joins the upstream's"
    )
    upstream: BaseUrl = Field(description="base URL of the API that these requests are sent to")
    key_env: VariableOrNone = Field(default=None, description="the variable that holds the key that is added")
    key_header: HeaderName = Field(
        default="authorization",
        description="the header that the key goes into; authorization has Bearer before it",
    )
    add_headers: HeaderValues = Field(default={}, description="headers that are set, in place of the client's")
    remove_headers: HeaderNames = Field(default=(), description="headers of the client that are not sent on")

    @property
    def adds_key(self) -> bool:
        """Whether requests are sent with a credential that is not the client's; when in doubt, they are."""
        return self.key_env is not None or any(_CREDENTIAL.search(name) for name in self.add_headers)

    @property
    def strips(self) -> bool:
        return self.strip_prefix is not False

    @model_validator(mode="after")
    def _whole(self) -> Route:
        if not self.models and not self.paths:
            raise _problem("has neither models nor paths; what takes no route goes to the setting upstream")
        if "@" in self.upstream.partition("//")[2].partition("/")[0]:
            raise _problem("upstream: user and password in a URL are never sent; a key goes by key_env")
        if self.key_env is None and "key_header" in self.model_fields_set:
            raise _problem("key_header: there is no key; key_env names the variable that holds it")
        if self.key_env is not None and self.key_header in self.add_headers:
            raise _problem(f"add_headers: {self.key_header} is the header of the key (key_header)")
        if twice := self.add_headers.keys() & set(self.remove_headers):
            raise _problem(f"remove_headers: {min(twice)} is set by add_headers, in place of the client's")
        if self.strip_prefix is not None and not self.paths:
            raise _problem("strip_prefix: there are no paths")
        for path in self.paths:
            if self.strip_prefix is None and _API_PATH.match(path):
                raise _problem(
                    f"strip_prefix: {path} looks like the API's own path: say whether it is taken off (true) or stays "
                    "(false)"
                )
        return self

    def masked(self) -> dict[str, object]:
        """What is set, safe to show: no value of an added header, which may be a key."""
        shown: dict[str, object] = {name: getattr(self, name) for name in type(self).model_fields}
        shown["upstream"] = mask_url(self.upstream)
        shown["add_headers"] = dict.fromkeys(self.add_headers, "****")
        return {name: value for name, value in shown.items() if value or value is False}

    def __str__(self) -> str:
        """In one line, safe to show."""
        matchers = [
            f"{name} {' '.join(value)}" for name, value in (("models", self.models), ("paths", self.paths)) if value
        ]
        kept = ", prefix stays" if self.strip_prefix is False else ""
        parts = [f"{' and '.join(matchers)}{kept} → {mask_url(self.upstream)}"]
        if self.key_env is not None:
            parts.append(f"key of {self.key_env} in {self.key_header}")
        parts += [f"adds {name}" for name in self.add_headers]
        parts += [f"removes {name}" for name in self.remove_headers]
        return "; ".join(parts)

    def __repr_args__(self) -> list[tuple[str | None, object]]:
        return list(self.masked().items())


def key_of(route: Route, env: Mapping[str, str]) -> SecretStr | None:
    """The key that the route adds, None when it adds none. Raises ValueError, without the key, if it can't be sent."""
    if route.key_env is None:
        return None
    try:
        return key_from(route.key_env, env)
    except ValueError as error:
        raise ValueError(f"key_env: {error}") from None


def _problem(text: str) -> PydanticCustomError:
    return PydanticCustomError("route", "{text}", {"text": text})
