"""Content codings of the copy that is judged: which we can decode, and how, piece by piece, never beyond a bound.

gzip and deflate come with Python; br and zstd are decoded when a library for them is installed.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from typing import Any, Protocol

#: Codings of one body, one over the other, beyond which it is not decoded: each takes memory before a byte has come.
MAX_CODINGS = 4
#: Parts of one body beyond which it is not decoded further: an empty one takes 9 bytes, and 15 µs.
MAX_PARTS = 10_000

#: zlib's window size for the gzip format.
_GZIP = 16 + zlib.MAX_WBITS
#: With which bytes a part of a body may begin: a gzip member; a zstd frame, or one to be skipped.
_GZIP_BEGINS = (b"\x1f",)
_ZSTD_BEGINS = (b"\x28", *(bytes([first]) for first in range(0x50, 0x60)))


class Layer(Protocol):
    """Takes one coding off a body, piece by piece."""

    def decode(self, data: bytes, room: int) -> bytes:
        """What `data` decodes to, one byte more than `room` at most."""

    def ended(self) -> bool:
        """Whether the body can end here; before its first byte too."""


class UndecodableError(Exception):
    """The copy can't be decoded: an unknown coding, or bytes that are not in it."""


class OversizedError(UndecodableError):
    """It decodes to more than there is room for. Some 100 bytes can stand for a gigabyte."""


class Decoder:
    """Decodes one body. `coding` is the value of Content-Encoding, one coding or several in the order in which they
    were applied; raises UndecodableError when one is not known, or there are more than anyone applies."""

    def __init__(self, coding: bytes) -> None:
        names = [name.removeprefix(b"x-") for part in coding.split(b",") if (name := part.strip().lower())]
        if len(names) > MAX_CODINGS:
            raise UndecodableError(f"{len(names)} content codings are not decoded, {MAX_CODINGS} at most")
        if any(name not in DECODABLE for name in names):
            raise UndecodableError(f"content coding {coding.decode('ascii', 'replace')[:40]} can't be decoded")
        self._layers = [(name.decode("ascii"), _MAKERS[name]()) for name in reversed(names) if name in _MAKERS]
        self._silent = True

    def feed(self, data: bytes, room: int) -> bytes:
        """What `data` decodes to so far. Raises OversizedError when that is more than `room` bytes."""
        for name, layer in self._layers:
            try:
                data = layer.decode(data, room)
            except UndecodableError:
                raise
            except Exception as exc:  # each library has its own error class
                raise UndecodableError(f"the body is not valid {name}: {type(exc).__name__}") from exc
            if len(data) > room:
                raise OversizedError(f"a piece of the answer decodes to more than {room} bytes")
        self._silent = self._silent and not data
        return data

    def close(self) -> None:
        """The body has ended. Raises UndecodableError when it broke off before anything of it could be decoded; what
        came before a later break is read as it is."""
        for name, layer in self._layers:
            if self._silent and not layer.ended():
                raise UndecodableError(f"the body is not valid {name}: it breaks off")


class _InParts:
    """A body of one part or several, one after the other (RFC 1952, 2.2; RFC 8878, 3.1), each beginning as given.

    What follows them is left out. `make` gives a decompressor as Python's standard library has them.
    """

    def __init__(self, make: Callable[[], Any], begins: tuple[bytes, ...]) -> None:
        self._make = make
        self._begins = begins
        self._part = make()
        self._begun = self._over = False
        self._parts = 1

    def decode(self, data: bytes, room: int) -> bytes:
        found = bytearray()
        while data and not self._over and len(found) <= room:
            self._begun = True
            if not self._part.eof:
                found += self._part.decompress(data, room + 1 - len(found))
                data = self._part.unused_data
            elif not data.startswith(self._begins):
                self._over = True
            elif self._parts == MAX_PARTS:
                raise UndecodableError(f"the body is not decoded beyond {MAX_PARTS} parts")
            else:
                self._part = self._make()
                self._parts += 1
        return bytes(found)

    def ended(self) -> bool:
        return self._over or not self._begun or bool(self._part.eof)


def _gzip() -> Layer:
    return _InParts(lambda: zlib.decompressobj(_GZIP), _GZIP_BEGINS)


class _Deflate:
    """RFC 9110 means zlib by "deflate"; some servers send bare deflate: the first byte tells (as in httpx)."""

    def __init__(self) -> None:
        self._inner: Any = None

    def decode(self, data: bytes, room: int) -> bytes:
        if self._inner is None and data:
            bare = data[0] & 0x0F != 8
            self._inner = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS)
        return self._inner.decompress(data, room + 1) if self._inner else b""

    def ended(self) -> bool:
        return self._inner is None or bool(self._inner.eof)


class _Brotli:
    def __init__(self, module: Any) -> None:
        self._inner = module.Decompressor()
        self._begun = False

    def decode(self, data: bytes, room: int) -> bytes:
        if self._inner.is_finished():
            return b""
        self._begun = self._begun or bool(data)
        found = bytearray(self._inner.process(data, output_buffer_limit=room + 1))
        # It may give out less than the limit at once although it has more.
        while len(found) <= room and not self._inner.can_accept_more_data():
            found += self._inner.process(b"", output_buffer_limit=room + 1 - len(found))
        return bytes(found)

    def ended(self) -> bool:
        return not self._begun or bool(self._inner.is_finished())


def _zstd(module: Any) -> Layer:
    return _InParts(module.ZstdDecompressor, _ZSTD_BEGINS)


def _optional(modules: tuple[str, ...], make: Callable[[Any], Layer]) -> Callable[[], Layer] | None:
    for name in modules:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        return lambda: make(module)
    return None


_MAKERS: dict[bytes, Callable[[], Layer]] = {
    coding: maker
    for coding, maker in {
        b"gzip": _gzip,
        b"deflate": _Deflate,
        b"br": _optional(("brotli", "brotlicffi"), _Brotli),
        b"zstd": _optional(("compression.zstd", "backports.zstd"), _zstd),
    }.items()
    if maker is not None
}

#: The codings that a client may be answered in, so that the copy can be judged.
DECODABLE = frozenset(_MAKERS) | {b"identity"}
