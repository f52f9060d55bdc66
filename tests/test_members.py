from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.classifier import fields
from demur.classifier.members import MAX_SEARCHED, MAX_STEPS, members

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "b", "\u00e9", '"']), JSON), st.booleans(), st.sampled_from([None, 1]))
def test_it_finds_what_a_parser_finds(value: dict[str, Any], escaped: bool, indent: int | None) -> None:
    body = json.dumps(value, ensure_ascii=escaped, indent=indent).encode()
    wanted = {"a", "\u00e9", '"'}
    assert members(body, wanted) == {name: item for name, item in value.items() if name in wanted}


@pytest.mark.parametrize(
    "body",
    [b"", b"[1]", b'"a"', b'{"a":1', b'{"a":1,"b":[', b'{"a":1,"b":"', b'{"a":1,"b":["}', b'{"a":1 "b":2}', b"{a:1}"],
)
def test_what_is_no_whole_object_has_none(body: bytes) -> None:
    assert members(body, {"a"}) == {}


def test_it_is_given_up_where_it_would_take_long() -> None:
    nested = b"[[1],[[2]]]"
    assert members(b'{"b":[%b1],"a":1}' % (nested * 100), {"a"}) == {"a": 1}
    assert members(b'{"b":[%b1],"a":1}' % (nested * MAX_STEPS), {"a"}) == {}
    assert members(b'{%b"a":1}' % (b'"b":0,' * MAX_STEPS), {"a"}) == {}
    assert members(b'{"a":1,"b":"%b"}' % (b"x" * MAX_SEARCHED), {"a"}) == {}


def test_of_many_of_one_name_only_the_last_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded, decode = list[bytes](), fields.decode

    def counted(raw: bytes) -> Any:
        decoded.append(raw)
        return decode(raw)

    monkeypatch.setattr(fields, "decode", counted)
    odd = b'"\\ud800"'
    assert members(b'{%b"a":%b,"\\u0061":2,"z":NaN}' % (b'"a":%b,%b:1,' % (odd, odd) * 1000, odd), {"a"}) == {"a": 2}
    assert len(decoded) == 1
