from __future__ import annotations

import importlib
import tracemalloc
import zlib
from typing import Any

import brotli
import pytest

from demur.proxy.coding import DECODABLE, Decoder, OversizedError, UndecodableError

try:
    zstd: Any = importlib.import_module("compression.zstd")
except ImportError:
    zstd = importlib.import_module("backports.zstd")

TEXT = b"data: to be packed, over and over. " * 100


def gzipped() -> bytes:
    packer = zlib.compressobj(wbits=31)
    return packer.compress(TEXT) + packer.flush()


def two_members() -> bytes:
    parts = []
    for text in (TEXT[:1000], b"", TEXT[1000:]):
        packer = zlib.compressobj(wbits=31)
        parts += [packer.compress(text), packer.flush()]
    return b"".join(parts)


def bare_deflate() -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(TEXT) + packer.flush()


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        (b"gzip", gzipped()),
        (b" X-GZIP ", gzipped()),
        (b"gzip", two_members()),
        (b"gzip", gzipped() + bytes(40)),
        (b"deflate", zlib.compress(TEXT)),
        (b"deflate", bare_deflate()),
        (b"br", brotli.compress(TEXT)),
        (b"zstd", zstd.compress(TEXT)),
        (b"zstd", zstd.compress(TEXT[:1000]) + zstd.compress(TEXT[1000:]) + b"??"),
        (b"gzip, identity, br", brotli.compress(gzipped())),
    ],
)
def test_any_cut_decodes(coding: bytes, packed: bytes) -> None:
    for size in (1, 7, len(packed)):
        decoder = Decoder(coding)
        parts = [decoder.feed(packed[start : start + size], 1 << 20) for start in range(0, len(packed), size)]
        assert b"".join(parts) == TEXT


def test_what_can_not_be_decoded_is_said() -> None:
    with pytest.raises(UndecodableError, match="content coding pack200 can't be decoded"):
        Decoder(b"pack200")
    with pytest.raises(UndecodableError, match="gzip, pack200 can't"):
        Decoder(b"gzip, pack200")
    for name in ("gzip", "deflate", "br", "zstd"):
        with pytest.raises(UndecodableError, match=f"the body is not valid {name}: "):
            Decoder(name.encode()).feed(b"\xffplain text", 100)


def test_what_clients_ask_for_is_decoded() -> None:
    assert frozenset({b"gzip", b"deflate", b"br", b"zstd", b"identity"}) == DECODABLE


BOMB = bytes(20_000_000)


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        (b"gzip", zlib.compress(BOMB, wbits=31)),
        (b"deflate", zlib.compress(BOMB)),
        (b"br", brotli.compress(BOMB, quality=3)),
        (b"zstd", zstd.compress(BOMB)),
        (b"gzip, br", brotli.compress(zlib.compress(BOMB, wbits=31), quality=3)),
    ],
    ids=["gzip", "deflate", "br", "zstd", "two"],
)
def test_a_bomb_is_not_unpacked(coding: bytes, packed: bytes) -> None:
    room = 1_000_000
    tracemalloc.start()
    with pytest.raises(OversizedError, match=f"more than {room} bytes"):
        Decoder(coding).feed(packed, room)
    assert tracemalloc.get_traced_memory()[1] < 10 * room
    tracemalloc.stop()
