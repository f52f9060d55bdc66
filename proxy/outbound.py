"""The outbound proxy that an upstream is reached through, by the variables that other programs read as well.

`HTTPS_PROXY` or `HTTP_PROXY`, by the upstream's scheme, else `ALL_PROXY`; a name in lower case wins. `NO_PROXY` lists,
with commas between them, whom to reach directly: `*`; host names, which stand for their subdomains too; addresses and
networks such as `10.0.0.0/8`; each may have a port. Nothing is looked up: an address does not match a name.
"""

from __future__ import annotations

import ipaddress
from urllib.request import getproxies_environment

from yarl import URL

from demur.proxy.urls import Base


class OutboundError(Exception):
    """A variable names a proxy that can't be used. The message has no credentials."""


def outbound_proxy(base: Base) -> URL | None:
    """The proxy for requests to `base`, None when there is none. Raises OutboundError."""
    proxies = getproxies_environment()
    scheme = base.url.scheme
    name = scheme if scheme in proxies else "all"
    proxy = proxies.get(name)
    if not proxy or _is_direct(base, proxies.get("no", "")):
        return None
    try:
        url = URL(proxy if "://" in proxy else f"http://{proxy}")
        usable = bool(url.host) and url.port is not None
    except ValueError:
        usable = False
    if not usable or url.scheme not in ("http", "https"):
        what = f"it is a {url.scheme} proxy" if usable else "it is not a URL"
        raise OutboundError(f"{name.upper()}_PROXY can't be used for {base.host}: {what}; http and https proxies can")
    return url


def _is_direct(base: Base, no_proxy: str) -> bool:
    host = base.host.lower().rstrip(".")
    return any(_covers(entry, host, base.port) for part in no_proxy.split(",") if (entry := part.strip().lower()))


def _covers(entry: str, host: str, port: int) -> bool:
    """Whether an entry of `NO_PROXY` stands for `host`."""
    name, colon, digits = entry.rpartition(":")
    if colon and (name.endswith("]") or ":" not in name):  # a port, and not the last part of an IPv6 address
        if digits != str(port):
            return False
        entry = name
    entry = entry.removeprefix("[").removesuffix("]").removeprefix("*").strip(".")
    if not entry or host == entry or host.endswith(f".{entry}"):
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
