"""Content codings of the copy that is judged: which we can decode, and how, piece by piece, never beyond a bound.

gzip and deflate come with Python; br and zstd are decoded when a library for them is installed.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from typing import Any

#: zlib's window size for the gzip format.
_GZIP = 16 + zlib.MAX_WBITS
#: With which bytes a part of a body may begin: a gzip member; a zstd frame, or one to be skipped.
_GZIP_BEGINS = (b"\x1f",)
_ZSTD_BEGINS = (b"\x28", *(bytes([first]) for first in range(0x50, 0x60)))

#: Decodes a piece to one byte more than `room` at most: (data, room) → decoded.
Decode = Callable[[bytes, int], bytes]


class UndecodableError(Exception):
    """The copy can't be decoded: an unknown coding, or bytes that are not in it."""


class OversizedError(UndecodableError):
    """It decodes to more than there is room for. Some 100 bytes can stand for a gigabyte."""


class Decoder:
    """Decodes one body. `coding` is the value of Content-Encoding, one coding or several in the order in which they
    were applied; raises UndecodableError when one is not known."""

    def __init__(self, coding: bytes) -> None:
        names = [name.strip().lower().removeprefix(b"x-") for name in coding.split(b",")]
        self._layers: list[tuple[str, Decode]] = []
        for name in reversed(names):
            if name not in DECODABLE:
                raise UndecodableError(f"content coding {coding.decode('ascii', 'replace')[:40]} can't be decoded")
            if name in _MAKERS:
                self._layers.append((name.decode("ascii"), _MAKERS[name]()))

    def feed(self, data: bytes, room: int) -> bytes:
        """What `data` decodes to so far. Raises OversizedError when that is more than `room` bytes."""
        for name, decode in self._layers:
            try:
                data = decode(data, room)
            except Exception as exc:  # each library has its own error class
                raise UndecodableError(f"the body is not valid {name}: {type(exc).__name__}") from exc
            if len(data) > room:
                raise OversizedError(f"a piece of the answer decodes to more than {room} bytes")
        return data


def _in_parts(make: Callable[[], Any], begins: tuple[bytes, ...]) -> Decode:
    """A body of one part or several, one after the other (RFC 1952, 2.2; RFC 8878, 3.1), each beginning as given.

    What follows them is left out. `make` gives a decompressor as Python's standard library has them.
    """
    part, over = make(), False

    def decode(data: bytes, room: int) -> bytes:
        nonlocal part, over
        found = bytearray()
        while data and not over and len(found) <= room:
            if part.eof:
                part, over = make(), not data.startswith(begins)
            else:
                found += part.decompress(data, room + 1 - len(found))
                data = part.unused_data
        return bytes(found)

    return decode


def _gzip() -> Decode:
    return _in_parts(lambda: zlib.decompressobj(_GZIP), _GZIP_BEGINS)


def _deflate() -> Decode:
    """RFC 9110 means zlib by "deflate"; some servers send bare deflate: the first byte tells (as in httpx)."""
    decompress: Decode | None = None

    def decode(data: bytes, room: int) -> bytes:
        nonlocal decompress
        if decompress is None and data:
            bare = data[0] & 0x0F != 8
            decompress = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS).decompress
        return decompress(data, room + 1) if decompress else b""

    return decode


def _brotli(module: Any) -> Decode:
    decompressor = module.Decompressor()

    def decode(data: bytes, room: int) -> bytes:
        if decompressor.is_finished():
            return b""
        found = bytearray(decompressor.process(data, output_buffer_limit=room + 1))
        # It may give out less than the limit at once although it has more.
        while len(found) <= room and not decompressor.can_accept_more_data():
            found += decompressor.process(b"", output_buffer_limit=room + 1 - len(found))
        return bytes(found)

    return decode


def _zstd(module: Any) -> Decode:
    return _in_parts(module.ZstdDecompressor, _ZSTD_BEGINS)


def _optional(modules: tuple[str, ...], make: Callable[[Any], Decode]) -> Callable[[], Decode] | None:
    for name in modules:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        return lambda: make(module)
    return None


_MAKERS: dict[bytes, Callable[[], Decode]] = {
    coding: maker
    for coding, maker in {
        b"gzip": _gzip,
        b"deflate": _deflate,
        b"br": _optional(("brotli", "brotlicffi"), _brotli),
        b"zstd": _optional(("compression.zstd", "backports.zstd"), _zstd),
    }.items()
    if maker is not None
}

#: The codings that a client may be answered in, so that the copy can be judged.
DECODABLE = frozenset(_MAKERS) | {b"identity"}
