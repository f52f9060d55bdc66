"""Whether an upstream's address is one that we listen on ourselves: a request would come back again and again. And
whether what we listen on is this machine's own.

Told by the words alone, nothing is looked up: another name of this machine is not recognised.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_LOCALHOST: frozenset[_Address] = frozenset({ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1")})
# Connecting to "any address" reaches the machine itself.
_ANY = {ipaddress.ip_address("0.0.0.0"): "127.0.0.1", ipaddress.ip_address("::"): "::1"}


def leads_to(url: str, host: str, port: int) -> bool:
    """Whether `url` (validated) names what a server listening on `host` and `port` answers. Port 0 is never known."""
    parts = urlsplit(url)
    if not port or (parts.port or (443 if parts.scheme == "https" else 80)) != port:
        return False
    name = parts.hostname or ""
    called = {ipaddress.ip_address(_ANY[a]) if a in _ANY else a for a in _addresses(name)}
    listening = _addresses(host)
    if called & listening or name.rstrip(".") == host.lower().rstrip("."):
        return True
    # "::" takes IPv4 too, "0.0.0.0" does not take IPv6.
    versions = {version for a in listening & _ANY.keys() for version in ((4, 6) if a.version == 6 else (4,))}
    return any(a.is_loopback and a.version in versions for a in called)


def reaches_beyond(host: str) -> bool:
    """Whether a server that listens on `host` can surely be reached from elsewhere; False for a name."""
    return any(not address.is_loopback for address in _addresses(host))


def _addresses(host: str) -> frozenset[_Address]:
    """The addresses that `host` surely means; none for a name that would have to be looked up."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return _LOCALHOST
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        try:
            address = ipaddress.IPv4Address(socket.inet_aton(name))  # "127.1", "0x7f000001": as connecting reads it
        except (OSError, ValueError):
            return frozenset()
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return frozenset({mapped or address})
