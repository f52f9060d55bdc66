"""Helpers that read other people's JSON: the expected type or its empty value, never an exception."""

from __future__ import annotations

import math

import pytest

from demur.classifier import fields


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a": 1}', {"a": 1}),
        ('{"a": "北京"}', {"a": "北京"}),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        ('\ufeff{"a": 1}', {"a": 1}),
        (b' \r\n{"a": 1}\n', {"a": 1}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b'"caf\xe9"', "caf\ufffd"),
        (b'"\\ud800"', "\ud800"),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
def test_decode(data: bytes | str, value: object) -> None:
    assert fields.decode(data) == value


def test_decode_takes_nan() -> None:
    assert math.isnan(fields.decode(b"[NaN]")[0])


@pytest.mark.parametrize(
    "data", [b"", b"{", b"x", b"[1] [2]", b"[" * 200_000, b'{"a":' * 200_000, b"1" * 10_000, "\ud800"]
)
def test_decode_raises_value_error_only(data: bytes | str) -> None:
    with pytest.raises(ValueError, match=r"."):
        fields.decode(data)


def test_strings() -> None:
    values: list[object] = ["a", "北", "\ud800", "\ud83d\ude42", None, 1, []]
    assert [fields.string(value) for value in values] == [
        "a",
        "北",
        "\ufffd",
        "\U0001f642",
        "",
        "",
        "",
    ]
    assert fields.first_string({"a": "", "b": 3, "c": "x", "d": "y"}, "a", "b", "c", "d") == "x"


def test_names() -> None:
    names = [fields.name(value) for value in ("a", " ", "", 7, True, 1.5, None, 2**80)]
    assert names == ["a", None, None, "7", None, None, None, None]


def test_containers() -> None:
    assert (fields.mapping({"a": 1}), fields.mapping([1])) == ({"a": 1}, {})
    assert (fields.sequence([1]), fields.sequence("ab")) == ([1], [])
    assert (fields.mappings([{"a": 1}, 2, None]), fields.mappings({"a": 1})) == ([{"a": 1}], [])


def test_counts() -> None:
    assert [fields.count(value) for value in (0, 5, -1, True, 1.0, "5", None, 2**70)] == [0, 5, *[None] * 6]


def test_compact() -> None:
    loop: list[object] = []
    loop.append(loop)
    values: tuple[object, ...] = ("{}", None, {"a": "北"}, {}, loop, {1: {2}}, float("nan"), "\ud800")
    assert [fields.compact(value) for value in values] == [
        "{}",
        "",
        '{"a": "北"}',
        "{}",
        "",
        '{"1": "{2}"}',
        "NaN",
        "\ufffd",
    ]
