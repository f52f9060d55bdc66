from __future__ import annotations

import zlib

import pytest

from demur.proxy.coding import DECODABLE, Decoder, UndecodableError

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
    ],
)
def test_any_cut_decodes(coding: bytes, packed: bytes) -> None:
    for size in (1, 7, len(packed)):
        decoder = Decoder(coding)
        parts = [decoder.feed(packed[start : start + size]) for start in range(0, len(packed), size)]
        assert b"".join(parts) == TEXT


def test_what_can_not_be_decoded_is_said() -> None:
    with pytest.raises(UndecodableError, match="content coding pack200 can't be decoded"):
        Decoder(b"pack200")
    with pytest.raises(UndecodableError, match="gzip, br can't"):
        Decoder(b"gzip, br")
    with pytest.raises(UndecodableError, match="the body is not valid gzip: error"):
        Decoder(b"gzip").feed(b"plain text")


def test_what_python_can_decode_is_offered() -> None:
    assert {b"gzip", b"deflate", b"identity"} <= DECODABLE
