"""Our own answers, in the shape that OpenAI's clients read. Every message names demur, none holds a secret."""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import formatdate

import httpx
import msgspec

from demur.proxy.observe import TURNED_AWAY, End

Headers = list[tuple[bytes, bytes]]


class OwnError(Exception):
    """An answer that we give in the upstream's place, with some `headers`, and how the exchange ended thereby."""

    def __init__(
        self, status: int, code: str, message: str, end: End = "rejected", headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.end: End = end
        self.headers = headers

    def body(self) -> bytes:
        kind = "invalid_request_error" if self.status < 500 else "upstream_error"
        if self.end in TURNED_AWAY and self.status >= 500:
            kind = "server_error"
        return msgspec.json.encode(
            {"error": {"message": f"demur: {self}", "type": kind, "param": None, "code": self.code}}
        )


def too_large(limit: int) -> OwnError:
    return OwnError(
        413, "request_too_large", f"the request body is over the limit of {limit} bytes (max_request_bytes)"
    )


def no_client_token() -> OwnError:
    return OwnError(
        401,
        "invalid_client_token",
        "this proxy asks for its client token (client_token): as the client's key, or as x-refusal-token beside it",
        "unauthorized",
        [(b"www-authenticate", b"Bearer")],
    )


def overloaded(limit: int) -> OwnError:
    return OwnError(
        503,
        "too_many_exchanges",
        f"{limit} exchanges are open, which is the limit (max_exchanges)",
        "overloaded",
        [(b"retry-after", b"1")],
    )


def client_timeout(seconds: float) -> OwnError:
    return OwnError(
        408, "client_timeout", f"the request did not come in {seconds:g} s (client_timeout)", "client_timeout"
    )


def draining() -> OwnError:
    return OwnError(503, "shutting_down", "shutting down, no new requests are taken")


def no_websocket() -> OwnError:
    return OwnError(501, "websocket_not_supported", "WebSocket connections are not relayed")


def no_transfer_coding() -> OwnError:
    return OwnError(501, "transfer_coding_not_supported", "of all transfer codings, only chunked is supported")


def no_tunnel() -> OwnError:
    return OwnError(501, "connect_not_supported", "CONNECT is not for this proxy: it stands in front of one upstream")


def no_trace() -> OwnError:
    return OwnError(
        405,
        "trace_not_allowed",
        "TRACE makes the upstream show what it was sent, and this route adds a key (key_env, add_headers)",
        headers=[(b"allow", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")],
    )


def no_such_target() -> OwnError:
    return OwnError(404, "not_found", "the request target * names nothing here")


def no_such_version(version: str) -> OwnError:
    if version.startswith("0."):
        return OwnError(400, "malformed_request", "the request's first line has no HTTP version, or one before 1.0")
    return OwnError(505, "http_version_not_supported", f"HTTP/{version} is not spoken here: use HTTP/1.1")


def no_such_method(method: str | None) -> OwnError:
    """None stands for one of which only a part is there, or that is too long to be repeated."""
    return OwnError(501, "method_not_supported", f"the method {method or 'of the request'} is not known here")


def no_host(count: int) -> OwnError:
    fault = {0: "has no Host header", 1: "has a Host header that names no host"}.get(count, "has several Host headers")
    return OwnError(400, "bad_host", f"the request {fault}")


def malformed() -> OwnError:
    return OwnError(400, "malformed_request", "the request is not valid HTTP")


def head_too_large(limit: int) -> OwnError:
    return OwnError(431, "headers_too_large", f"the request's headers or trailers are over the limit of {limit} bytes")


def target_too_long(limit: int) -> OwnError:
    return OwnError(414, "target_too_long", f"the request's path and query are over the limit of {limit} bytes")


def stopped() -> OwnError:
    return OwnError(503, "shutting_down", "demur stopped before the exchange had ended", "shutdown")


def total_timeout(seconds: float | None) -> OwnError:
    return OwnError(504, "total_timeout", f"the exchange took longer than {seconds} s (total_timeout)", "total_timeout")


def internal(exc: Exception) -> OwnError:
    return OwnError(500, "internal_error", f"a fault of demur's own: {type(exc).__name__}", "internal_error")


def before_head(exc: httpx.TransportError) -> OwnError:
    """The upstream gave no answer: 504 when time ran out, else 502."""
    match exc:
        case httpx.ConnectTimeout():
            return OwnError(504, "connect_timeout", f"{exc} (connect_timeout)", "connect_timeout")
        case httpx.TimeoutException():
            return OwnError(504, "first_byte_timeout", f"{exc} (first_byte_timeout)", "first_byte_timeout")
        case httpx.ConnectError() | httpx.ProxyError():
            return OwnError(502, "upstream_unreachable", str(exc), "upstream_error")
        case _:
            return OwnError(502, "upstream_disconnected", str(exc), "upstream_error")


def in_body(exc: httpx.TransportError) -> OwnError:
    """The upstream's answer began and broke off. The client is told if it got nothing yet."""
    if isinstance(exc, httpx.TimeoutException):
        return OwnError(504, "idle_timeout", f"{exc} (idle_timeout)", "idle_timeout")
    return OwnError(502, "upstream_disconnected", str(exc), "upstream_error")


def json_headers(size: int) -> Headers:
    """The headers of a JSON answer of ours. The server adds no Date, so that the upstream's is not doubled."""
    return [
        (b"content-type", b"application/json"),
        (b"content-length", str(size).encode("ascii")),
        (b"date", formatdate(usegmt=True).encode("ascii")),
    ]
