"""Credentials of a request: where clients put their keys, and the token that this proxy may ask them for.

The token is taken where any client can put it: as its key, whichever header that goes into, or as `x-refusal-token`
beside a key of its own. Either way it goes no further.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from urllib.parse import unquote_to_bytes

from demur.proxy import errors
from demur.proxy.headers import Headers

#: Ours, like everything that begins with `x-refusal-`; never sent on.
TOKEN = b"x-refusal-token"
_KEYS = frozenset({b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"})
#: What tells an upstream who the client is: its keys, those of gateways and clouds, its session.
_CREDENTIALS = _KEYS | {b"cf-aig-authorization", b"x-amz-security-token", b"cookie"}
_PARAMETERS = frozenset({b"key", b"api_key", b"api-key", b"apikey", b"access_token", b"subscription-key"})


def without_credentials(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    return [(name, value) for name, value in headers if name not in _CREDENTIALS]


def query_without_credentials(query: bytes) -> bytes:
    """The query without keys, the rest byte for byte."""
    return _query_without(query, lambda value: True)


class ClientToken:
    """Admits the requests that show the token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode("ascii")

    def admit(self, headers: Headers, query: bytes, *, preflight: bool = False) -> tuple[Headers, bytes]:
        """The headers and the query without the token. Raises OwnError for a request that does not show it.

        A browser asks without any credential whether it may send a request at all: a `preflight` passes, and gets no
        key of ours.
        """
        kept = [(name, value) for name, value in headers if not self._shown_in(name, value)]
        query_kept = _query_without(query, self._is)
        if len(kept) == len(headers) and query_kept == query and not preflight:
            raise errors.no_client_token()
        return kept, query_kept

    def _shown_in(self, name: bytes, value: bytes) -> bool:
        if name == b"authorization":
            scheme, _, value = value.partition(b" ")
            return scheme.lower() == b"bearer" and self._is(value.strip())
        return (name in _KEYS or name == TOKEN) and self._is(value)

    def _is(self, value: bytes) -> bool:
        return hmac.compare_digest(value, self._token)


def _query_without(query: bytes, concerned: Callable[[bytes], bool]) -> bytes:
    if b"=" not in query:
        return query
    kept = []
    for part in query.split(b"&"):
        name, _, value = part.partition(b"=")
        if unquote_to_bytes(name).lower() not in _PARAMETERS or not concerned(unquote_to_bytes(value)):
            kept.append(part)
    return b"&".join(kept)
