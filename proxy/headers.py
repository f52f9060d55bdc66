"""Header rules, both ways. Names are in lower case on our side; values stay bytes; repeated headers stay repeated.

Upstream go the client's headers without those of the hop, of proxies before us, and ours. Downstream go the upstream's
without those of the hop, and ours are added.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from demur.classifier.verdict import Verdict
from demur.proxy.labels import features_of

Headers = list[tuple[bytes, bytes]]

#: Statuses whose answers have no body, whatever their headers say (RFC 9112, 6.3).
BODILESS = frozenset({204, 304})

PREFIX = b"x-refusal-"
TAG = b"x-refusal-tag"
#: Longest tag that is recorded, in characters.
MAX_TAG = 128
#: Longest list of names (signals, features) in a header, in bytes.
MAX_NAMES = 512

# RFC 9110, 7.6.1, and the older ones that are still met.
_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# What tells where a client sits, in the words of those that set it before us.
_WHERE = frozenset(
    {
        b"forwarded",  # RFC 7239
        b"via",  # RFC 9110, 7.6.3
        b"client-ip",  # older load balancers, as are the four that follow
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"x-originating-ip",
        b"forwarded-for",
        b"x-real-ip",  # nginx, by custom
        b"x-original-forwarded-for",  # ingress-nginx
        b"true-client-ip",  # Akamai, Cloudflare
        b"x-akamai-edgescape",
        b"fastly-client-ip",
        b"fly-client-ip",
        b"do-connecting-ip",  # DigitalOcean's App Platform
        b"incap-client-ip",  # Imperva
        b"x-sucuri-clientip",
        b"x-nf-client-connection-ip",  # Netlify
        b"x-azure-clientip",  # Azure Front Door
        b"x-azure-socketip",
        b"x-appengine-user-ip",  # App Engine, as the four that follow
        b"x-appengine-country",
        b"x-appengine-region",
        b"x-appengine-city",
        b"x-appengine-citylatlong",
        b"x-proxyuser-ip",  # Google's own proxies
        b"proxy-client-ip",  # WebLogic's plug-ins
        b"wl-proxy-client-ip",
        b"x-envoy-external-address",  # Envoy, as the two that follow
        b"x-envoy-downstream-service-cluster",
        b"x-envoy-downstream-service-node",
    }
)
# Host is the upstream's, Expect is answered by our server.
_NOT_UP = _HOP | _WHERE | {b"host", b"expect"}
_NOT_UP_PREFIXES = (b"x-forwarded", b"cf-", b"cloudfront-viewer-", b"x-vercel-ip-", b"x-vercel-forwarded-for", PREFIX)
# A gateway's credentials for its own upstream (W49).
_UP_ALL_THE_SAME = (b"cf-aig-",)

# What an upstream says of the very bytes of a body.
_OF_THE_BYTES = frozenset({b"content-length", b"content-md5", b"digest", b"content-digest", b"repr-digest"})

# A value with control characters can't be sent on (RFC 9110, 5.5); the server would fail the whole answer.
_UNSENDABLE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def upstream(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """The client's headers as they go to the upstream."""
    named = _named_by_connection(headers)
    return [
        (name, value)
        for name, value in headers
        if name not in _NOT_UP
        and name not in named
        and (not name.startswith(_NOT_UP_PREFIXES) or name.startswith(_UP_ALL_THE_SAME))
    ]


def downstream(headers: Iterable[tuple[bytes, bytes]], status: int) -> Headers:
    """The upstream's headers as they go to the client, names in lower case."""
    lower = [(name.lower(), value) for name, value in headers]
    dropped = _HOP | _named_by_connection(lower)
    if status in BODILESS or any(name == b"transfer-encoding" for name, _ in lower):
        # A 304 may state the length of the body it does not have, and some a 204; our server would wait for it.
        dropped |= {b"content-length"}
    return [
        (name, value)
        for name, value in lower
        if name not in dropped and not name.startswith(PREFIX) and _UNSENDABLE.search(value) is None
    ]


def get(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The first value of the header `name` (lower case)."""
    for key, value in headers:
        if key == name:
            return value
    return None


def changed(headers: Headers) -> Headers:
    """The headers of an answer whose body gets a key more: without its length, and what else is only true of the bytes
    as they were (RFC 9110, 8.8.1; RFC 9530; RFC 1864). Names are in any case. A weak ETag stays true.
    """
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in _OF_THE_BYTES and (name.lower() != b"etag" or value.strip().startswith(b"W/"))
    ]


def without(headers: Iterable[tuple[bytes, bytes]], *names: bytes) -> Headers:
    return [(name, value) for name, value in headers if name not in names]


def is_preflight(method: str, headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether a browser asks if a page of another origin may send a request (Fetch, CORS-preflight)."""
    return (
        method == "OPTIONS"
        and get(headers, b"origin") is not None
        and get(headers, b"access-control-request-method") is not None
    )


def wants_websocket(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether it is among the protocols that the client would rather speak (RFC 9110, 7.8)."""
    wished = [value for name, value in headers if name == b"upgrade"]
    return any(one.strip().lower().partition(b"/")[0] == b"websocket" for one in b",".join(wished).split(b","))


def tag(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The client's `x-refusal-tag`, cut to a bounded length."""
    value = get(headers, TAG)
    return value.decode("utf-8", "replace").strip()[:MAX_TAG] or None if value is not None else None


def accept_encoding(value: bytes | None, decodable: frozenset[bytes]) -> bytes | None:
    """The client's Accept-Encoding, restricted to what we can decode; None when it sent none."""
    if value is None:
        return None
    kept = [part for part in value.split(b",") if part.partition(b";")[0].strip().lower() in decodable]
    return b",".join(kept).strip() or b"identity"


def for_event_stream(headers: Headers) -> Headers:
    """With what keeps caches and buffers in front of us from holding events back, where the upstream says nothing."""
    names = {name for name, _ in headers}
    added = [(b"x-accel-buffering", b"no"), (b"cache-control", b"no-cache, no-transform")]
    return headers + [(name, value) for name, value in added if name not in names]


def pending(id: str, classifier: bytes) -> Headers:
    """The verdict headers of a stream, which leave before there is a verdict."""
    return [
        (b"x-refusal-verdict", b"pending"),
        (b"x-refusal-id", id.encode("ascii")),
        (b"x-refusal-classifier", classifier),
    ]


def verdict(verdict: Verdict, classifier: bytes, *, early: bool = False) -> Headers:
    """The verdict headers of an answer: ASCII, bounded, never text of the answer. `early`: more of it is to come."""
    flagged = f"{verdict.flagged_choices()}/{len(verdict.choices)}" if verdict.choices else None
    score = None if verdict.confidence is None else f"{verdict.confidence:.3g}"
    values = {
        "verdict": verdict.label,
        "score": score,
        "action": verdict.action,
        "rationale": verdict.rationale,
        "strategy": verdict.strategy,
        "features": _listed(features_of(verdict) or ()),
        "signals": _listed(signal.name for signal in verdict.signals),
        "status": "early" if early else verdict.status,
        "choices": flagged,
        "id": verdict.id,
    }
    headers = [
        (PREFIX + name.encode("ascii"), value.encode("ascii", "replace")) for name, value in values.items() if value
    ]
    return [*headers, (b"x-refusal-classifier", classifier)]


def added(headers: Headers, ours: Headers, request: Headers) -> Headers:
    """An answer's headers and `ours`. Where `request`, whose names are lower case, is of another origin, its page may
    read ours: they join the upstream's own list, if it has one."""
    if not ours or get(request, b"origin") is None:
        return [*headers, *ours]
    names = b", ".join(name for name, _ in ours)
    for index, (name, value) in enumerate(headers):
        if name.lower() == b"access-control-expose-headers":
            # "*" covers all headers of a response without credentials; listing ours beside it does no harm.
            listed = (name, value + b", " + names)
            return [*headers[:index], listed, *headers[index + 1 :], *ours]
    return [*headers, *ours, (b"access-control-expose-headers", names)]


def _listed(words: Iterable[str]) -> str:
    names = list(dict.fromkeys(words))
    text = ",".join(names)
    while len(text) > MAX_NAMES:
        names.pop()
        text = ",".join(names)
    return text


def _named_by_connection(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """The headers that are for the next hop alone. What tells how to read the content can't be among them (RFC 9110,
    7.6.1): who reads a body on must read it as we did.
    """
    named = [value for name, value in headers if name == b"connection"]
    if not named:
        return frozenset()
    tokens = (token.strip().lower() for value in named for token in value.split(b","))
    return frozenset(token for token in tokens if not token.startswith(b"content-"))
