"""Any file that a person may have lying around becomes traces or one clear error; of JSON Lines no line is lost."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.cli import traces
from demur.cli.traces import InputError, Item, line_batches, read_items, sniff

SSE = 'data: {"choices":[{"delta":{"content":"Plums."}}]}\n\ndata: [DONE]\n\n'


def lines(path: Path) -> list[Item]:
    return [item for batch in line_batches(str(path)) for item in batch]


@pytest.mark.parametrize(
    ("data", "objects"),
    [
        (b'{"prompt":"p","response":"r"}', [{"prompt": "p", "response": "r"}]),
        (b'\xef\xbb\xbf{"response":"r"}', [{"response": "r"}]),
        (b'"a bare string"', ["a bare string"]),
        (b'[{"response":"a"},"b"]', [{"response": "a"}, "b"]),
        (b'{"response":"a"}\n\n{"response":"b"}\r\n', [{"response": "a"}, {"response": "b"}]),
        (b'"a"\n"b"\n', ["a", "b"]),
        (b"A plain answer.\nIn two lines.\n", ["A plain answer.\nIn two lines.\n"]),
        (b"42", ["42"]),
        (b"[1, 2, 3]", ["[1, 2, 3]"]),
        (b'"Sorry," she said.', ['"Sorry," she said.']),
        (b"[Note] A plain answer.", ["[Note] A plain answer."]),
        (b"Data: what you asked for.", ["Data: what you asked for."]),
        (b"data: in a plain sentence", ["data: in a plain sentence"]),
        ("“Quoted”".encode("utf-16"), ["“Quoted”"]),
        (SSE.encode(), [{"stream": SSE}]),
        (b": ping\r\n\r\n" + SSE.encode(), [{"stream": ": ping\r\n\r\n" + SSE}]),
        (b'event: message_start\ndata: {"type":"x"}\n\n', [{"stream": 'event: message_start\ndata: {"type":"x"}\n\n'}]),
    ],
)
def test_content_tells_the_form(data: bytes, objects: list[object]) -> None:
    assert [item.obj for item in sniff(data, "f")] == objects


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "f: is empty"),
        (b" \n", "f: is empty"),
        (b"[]", "f: an empty JSON list"),
        (b'{"prompt": "p",\n "response": }', "f: not JSON: .* line 2 column"),
        (b'{"response": "cut', "f: not JSON"),
        (b"\xff\xfa\x00", "f: not UTF-8 text"),
        (b"[" * 100_000, "f: nested too deeply"),
    ],
)
def test_what_is_no_trace_is_an_error_that_says_where(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        sniff(data, "f")


def test_a_json_file_by_name_is_never_taken_for_text() -> None:
    with pytest.raises(InputError, match=r"a\.json: not JSON"):
        sniff(b'"half a string', "a.json")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        read_items(str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=tmp_path.name):
        read_items(str(tmp_path))
    with pytest.raises(InputError, match="nowhere"):
        lines(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("line", "id"),
    [
        (b'{"id":"a","response":"r"}', "a"),
        (b'{"id":7,"response":"r"}', 7),
        (b'{"id":"","response":"r"}', ""),
        (b'{"response":"r"}', "f:1"),
        (b'{"id":null,"response":"r"}', "f:1"),
        (b'{"id":true}', "f:1"),
        (b'{"id":{"no":"id"}}', "f:1"),
        (b'{"response":{"id":"inner"}}', "f:1"),
        (b'{"id":"kept","response":"cut o', "kept"),
        (b'{"x":{"id":"inner"},"id":8,"response":nonsense}', 8),
        (b'{"response":{"id":"inner","cut', "f:1"),
        (b"no json at all", "f:1"),
    ],
)
def test_the_id_is_the_top_level_one_even_of_a_broken_line(
    line: bytes, id: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(line))
    monkeypatch.setattr("sys.stdin", stdin)
    monkeypatch.setattr(traces, "display_name", lambda path: "f")
    (batch,) = line_batches("-")
    assert [item.id for item in batch] == [id]


def test_no_line_is_lost_and_blank_ones_keep_the_count(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"id":"a"}\r\n\n   \n{broken\n{"id":"b"}')
    found = lines(file)
    assert [item.id for item in found] == ["a", f"{file}:4", "b"]
    assert [item.problem is None for item in found] == [True, False, True]
    assert "column" in str(found[1].problem)


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    text = "one\u2028two\x0bthree\u0085four"
    file.write_text(json.dumps({"response": text}, ensure_ascii=False) + "\n", encoding="utf-8")
    assert [item.obj for item in lines(file)] == [{"response": text}]


def test_python_json_with_nan_and_half_a_surrogate_pair_is_read(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text(json.dumps({"response": "\ud83d", "score": float("nan")}) + "\n")
    (item,) = lines(file)
    assert item.problem is None


def test_a_line_beyond_the_limit_is_reported_and_the_next_one_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "MAX_LINE", 1 << 20)
    file = tmp_path / "t.jsonl"
    file.write_bytes(b'"' + b"x" * (3 << 20) + b'"\n"short"\n"' + b"y" * (2 << 20))
    first, second, third = lines(file)
    assert (first.problem, first.id) == ("line longer than 1 MiB", f"{file}:1")
    assert second.obj == "short"
    assert third.problem == "line longer than 1 MiB"


def test_a_file_too_large_to_be_read_as_a_whole_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MAX_FILE", 2**20)
    (tmp_path / "big.txt").write_bytes(b"a" * (2**20 + 1))
    with pytest.raises(InputError, match=r"big\.txt: is larger than 1 MiB; .*--jsonl"):
        read_items(str(tmp_path / "big.txt"))


def test_a_live_pipe_is_read_line_by_line() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stream, os.fdopen(write, "wb", buffering=0) as source:
        batches = traces._batches(stream, "f")
        for number in range(3):
            source.write(b"%d\n" % number)
            assert [item.obj for item in next(batches)] == [number]


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_items_or_an_input_error(data: bytes) -> None:
    try:
        items = sniff(data, "f")
    except InputError as error:
        items, message = [], str(error)
    else:
        message = ""
    assert bool(items) != message.startswith("f: ")


@given(st.lists(st.binary(max_size=30)), st.integers(1, 7))
def test_the_lines_do_not_depend_on_how_the_bytes_arrive(parts: list[bytes], size: int) -> None:
    class Slow(io.BytesIO):
        def read1(self, _: int | None = -1) -> bytes:
            return self.read(size)

    data = b"\n".join(parts)
    whole = [item for batch in traces._batches(io.BytesIO(data), "f") for item in batch]
    assert [repr(item) for batch in traces._batches(Slow(data), "f") for item in batch] == list(map(repr, whole))
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    assert [item.source for item in whole] == [f"f:{n}" for n, line in enumerate(lines, 1) if line.strip()]
