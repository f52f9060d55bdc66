"""aiohttp's errors as httpx's, in words that are safe to show: host and port, never a path, a query or a header."""

from __future__ import annotations

import os
import re
import ssl

import aiohttp
import httpx

# The alerts of a server that got no certificate from us, or one that it does not take.
_NO_CERTIFICATE = re.compile(r"ALERT_.*(CERTIFICATE|HANDSHAKE_FAILURE|UNKNOWN_CA|ACCESS_DENIED)").search


def translate(exc: BaseException, where: str, *, tls: bool = False, in_body: bool = False) -> httpx.TransportError:
    """httpx's exception for aiohttp's; `where` is host and port. `tls`: it may have been about certificates."""
    match exc:
        case aiohttp.ConnectionTimeoutError():
            return httpx.ConnectTimeout(f"no connection to {where} in time")
        case TimeoutError():
            what = "the next bytes" if in_body else "an answer"
            return httpx.ReadTimeout(f"{where} did not send {what} in time")
        case aiohttp.ClientHttpProxyError():
            return httpx.ProxyError(f"the outbound proxy refused to connect to {where}: status {exc.status}")
        case aiohttp.ClientProxyConnectionError():
            return httpx.ProxyError(f"no connection to the outbound proxy for {where}: {_reason(exc)}")
        case aiohttp.ClientConnectorDNSError():
            return httpx.ConnectError(f"the name of {where} can't be resolved: {_reason(exc)}")
        case aiohttp.ClientConnectorCertificateError():
            why = f"{exc.certificate_error} (ca_file names the authorities that are trusted)"
            return httpx.ConnectError(f"the certificate of {where} is not valid: {why}")
        case aiohttp.ClientConnectorSSLError():
            return httpx.ConnectError(f"no TLS connection to {where}: {_why(exc)}{_asked(exc)}")
        case aiohttp.ClientConnectorError():
            return httpx.ConnectError(f"no connection to {where}: {_reason(exc)}{_asked(exc) if tls else ''}")
        case aiohttp.ServerDisconnectedError():
            return httpx.RemoteProtocolError(f"{where} closed the connection without answering")
        case aiohttp.ClientPayloadError():
            return httpx.RemoteProtocolError(f"{where} ended its answer too early")
        case aiohttp.ClientResponseError():
            return httpx.RemoteProtocolError(f"{where} did not answer in valid HTTP")
        case ValueError():
            return httpx.LocalProtocolError(f"the request for {where} can't be sent: {type(exc).__name__}")
        case _:
            what = "closed the TLS connection" if isinstance(_root(exc), ssl.SSLError) else "broke the connection"
            return httpx.ReadError(f"{where} {what}: {_why(exc)}{_asked(exc) if tls else ''}")


def _reason(exc: aiohttp.ClientConnectorError) -> str:
    return exc.strerror or str(exc.os_error) or type(exc.os_error).__name__


def _root(exc: BaseException) -> BaseException:
    while exc.__cause__ is not None:
        exc = exc.__cause__
    return exc


def _why(exc: BaseException) -> str:
    """Why a connection broke. Not in aiohttp's words: they may hold the URL, and with it a key in the query."""
    match root := _root(exc):
        case ssl.SSLError():
            return (root.reason or type(root).__name__).replace("_", " ").lower()
        case aiohttp.ClientConnectionResetError():
            return "it was closed while the request was sent"
        case OSError(errno=int(number)):
            return os.strerror(number)
        case _:
            return type(root).__name__


def _asked(exc: BaseException) -> str:
    """What may be missing where a server ends TLS at its start: one that wants a certificate need not say so."""
    root = _root(exc)
    if isinstance(root, ConnectionResetError) or (
        isinstance(root, ssl.SSLError) and _NO_CERTIFICATE(root.reason or "")
    ):
        return "; if it asks for a client certificate, client_cert names it"
    return ""
