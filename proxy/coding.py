"""Content codings of the copy that is judged: which we can decode, and how, piece by piece.

gzip and deflate come with Python; br and zstd are decoded when a library for them is installed.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from typing import Any

#: zlib's window size for the gzip format, and the first byte of each member.
_GZIP = 16 + zlib.MAX_WBITS
_GZIP_BEGINS = b"\x1f"


class UndecodableError(Exception):
    """The copy can't be decoded: an unknown coding, or bytes that are not in it."""


class Decoder:
    """Decodes one body. `coding` is the value of Content-Encoding; raises UndecodableError when it is not known."""

    def __init__(self, coding: bytes) -> None:
        self._coding = coding.strip().lower().removeprefix(b"x-")
        maker = _MAKERS.get(self._coding)
        if maker is None:
            raise UndecodableError(f"content coding {coding.decode('ascii', 'replace')[:40]} can't be decoded")
        self._decode = maker()

    def feed(self, data: bytes) -> bytes:
        """What `data` decodes to so far."""
        try:
            return self._decode(data)
        except Exception as exc:  # each library has its own error class
            name = self._coding.decode("ascii")
            raise UndecodableError(f"the body is not valid {name}: {type(exc).__name__}") from exc


def _gzip() -> Callable[[bytes], bytes]:
    """A gzip body is one member or several, one after the other (RFC 1952, 2.2). What follows them is left out."""
    member, over = zlib.decompressobj(_GZIP), False

    def decode(data: bytes) -> bytes:
        nonlocal member, over
        parts = []
        while data and not over:
            if member.eof:
                member, over = zlib.decompressobj(_GZIP), not data.startswith(_GZIP_BEGINS)
            else:
                parts.append(member.decompress(data))
                data = member.unused_data
        return b"".join(parts)

    return decode


def _deflate() -> Callable[[bytes], bytes]:
    """RFC 9110 means zlib by "deflate"; some servers send bare deflate: the first byte tells (as in httpx)."""
    decompress: Callable[[bytes], bytes] | None = None

    def decode(data: bytes) -> bytes:
        nonlocal decompress
        if decompress is None and data:
            bare = data[0] & 0x0F != 8
            decompress = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS).decompress
        return decompress(data) if decompress else b""

    return decode


def _optional(modules: tuple[str, ...], make: Callable[[Any], Callable[[bytes], bytes]]) -> Any:
    for name in modules:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        return lambda: make(module)
    return None


_MAKERS: dict[bytes, Callable[[], Callable[[bytes], bytes]]] = {
    coding: maker
    for coding, maker in {
        b"gzip": _gzip,
        b"deflate": _deflate,
        b"br": _optional(("brotli", "brotlicffi"), lambda module: module.Decompressor().process),
        b"zstd": _optional(("compression.zstd", "backports.zstd"), lambda module: module.ZstdDecompressor().decompress),
    }.items()
    if maker is not None
}

#: The codings that a client may be answered in, so that the copy can be judged.
DECODABLE = frozenset(_MAKERS) | {b"identity"}
