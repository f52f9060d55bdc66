from __future__ import annotations

import importlib
import tracemalloc
import zlib
from typing import Any

import brotli
import pytest

from demur.proxy import coding as coding_module
from demur.proxy.coding import DECODABLE, MAX_CODINGS, MAX_PARTS, Decoder, OversizedError, UndecodableError

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


def frames(body: bytes, coding: bytes, parts: int) -> bytes:
    return (zstd.compress(body) if coding == b"zstd" else zlib.compress(body, wbits=31)) * parts


@pytest.mark.parametrize("coding", [b"gzip", b"zstd"])
def test_parts_without_end_are_not_decoded(coding: bytes) -> None:
    assert Decoder(coding).feed(frames(b"x", coding, MAX_PARTS), 1 << 20) == b"x" * MAX_PARTS
    decoder = Decoder(coding)
    decoder.feed(frames(b"", coding, MAX_PARTS - 1), 100)
    with pytest.raises(UndecodableError, match=f"beyond {MAX_PARTS} parts"):
        decoder.feed(frames(b"", coding, 2), 100)


def test_a_tower_of_codings_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    made, maker = list[int](), coding_module._MAKERS[b"gzip"]

    def counted() -> coding_module.Layer:
        made.append(1)
        return maker()

    monkeypatch.setitem(coding_module._MAKERS, b"gzip", counted)
    for value in (b",".join([b"gzip"] * 50_000), b"gzip, " * MAX_CODINGS + b"identity"):
        with pytest.raises(UndecodableError, match=f"content codings are not decoded, {MAX_CODINGS} at most"):
            Decoder(value)
    assert made == []
    Decoder(b",".join([b"gzip"] * MAX_CODINGS))
    assert len(made) == MAX_CODINGS


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        (b"gzip", gzipped()),
        (b"deflate", zlib.compress(TEXT)),
        (b"deflate", bare_deflate()),
        (b"br", brotli.compress(TEXT)),
        (b"zstd", zstd.compress(TEXT)),
        (b"gzip, br", brotli.compress(gzipped())),
    ],
)
def test_a_body_that_breaks_off_before_its_first_byte_is_no_empty_one(coding: bytes, packed: bytes) -> None:
    Decoder(coding).close()  # no byte came
    for size in range(1, len(packed) + 1):
        decoder = Decoder(coding)
        if decoder.feed(packed[:size], 1 << 20):
            decoder.close()
        else:
            with pytest.raises(UndecodableError, match="breaks off"):
                decoder.close()


def test_a_whole_body_of_nothing_is_empty() -> None:
    for coding, packed in (
        (b"gzip", zlib.compress(b"", wbits=31)),
        (b"deflate", zlib.compress(b"")),
        (b"br", brotli.compress(b"")),
        (b"zstd", zstd.compress(b"")),
    ):
        decoder = Decoder(coding)
        assert decoder.feed(packed, 100) == b""
        decoder.close()


def test_empty_members_of_the_list_are_no_codings() -> None:
    assert Decoder(b"gzip, ,").feed(gzipped(), 1 << 20) == TEXT
