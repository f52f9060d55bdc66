"""A judge's codings in a file: kept one by one, found again by what was coded, and never mixed with another judge's."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from demur.audit.coding import Coding, Usage
from demur.audit.judge_file import Codings, JudgeFile, JudgeFileError, content_hash, read_codings
from demur.classifier import Choice, Trace
from demur.classifier.trace import Ask, ToolCall
from demur.classifier.verdict import FEATURES

FEATURELESS = dict.fromkeys(FEATURES, False)
CODED = Coding(
    "coded", "hard_refusal", 0.9, "bare", "explicit", FEATURELESS, {"label": ("No.",)}, "so", Usage(10, 2, 1)
)
FAILED = Coding("failed", reason="no answer \ud83d")
DECLINED = Coding("declined", reason="rather not")


def write(path: Path, *codings: tuple[str, Coding], judge: str = "m", version: str = "v1") -> None:
    with JudgeFile(path, judge, version) as file:
        for digest, coding in codings:
            file.add(f"row-{digest}", digest, coding)


def found(path: Path) -> dict[str, Coding]:
    codings = read_codings(path)
    assert codings is not None
    return dict(codings.by_hash)


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    write(path, ("a", CODED), ("b", FAILED))
    assert read_codings(path) == Codings("m", "v1", {"a": CODED, "b": FAILED})
    first = json.loads(path.read_text().splitlines()[0])
    assert {key: first[key] for key in ("id", "hash", "judge", "prompt_version")} == {
        "id": "row-a",
        "hash": "a",
        "judge": "m",
        "prompt_version": "v1",
    }
    write(path, ("b", DECLINED))
    assert found(path) == {"a": CODED, "b": DECLINED}
    assert len(path.read_text().splitlines()) == 3


def test_every_coding_is_in_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with JudgeFile(path, "m", "v1") as file:
        assert path.read_bytes() == b""
        file.add(1, "a", CODED)
        assert found(path) == {"a": CODED}


def test_what_is_settled_and_what_is_still_to_do(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    over = Coding("over_budget", reason="spent")
    write(path, ("a", CODED), ("b", FAILED), ("c", DECLINED), ("d", over))
    assert "d" not in found(path)
    with JudgeFile(path, "m", "v1") as file:
        assert [file.settled(digest) for digest in "abcde"] == [True, False, True, False, False]


@pytest.mark.parametrize("left", [1, 7, 80, 200])
def test_half_a_line_at_the_end_counts_for_nothing_and_is_written_over(tmp_path: Path, left: int) -> None:
    path = tmp_path / "j.jsonl"
    write(path, ("a", CODED), ("b", CODED))
    whole, half = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(whole + half[:left])
    assert found(path) == {"a": CODED}
    write(path, ("c", DECLINED))
    assert found(path) == {"a": CODED, "c": DECLINED}
    assert path.read_bytes().startswith(whole)


def test_a_whole_line_without_its_end_counts(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    write(path, ("a", CODED))
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    write(path, ("b", CODED))
    assert list(found(path)) == ["a", "b"]


@pytest.mark.parametrize("data", [b"", b"\n\n", b'{"id": 1, "hash": "5'])
def test_a_file_without_a_coding(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(data)
    assert read_codings(path) is None
    write(path, ("a", CODED))
    assert list(found(path)) == ["a"]


@pytest.mark.parametrize(
    "data",
    [
        b"a note of mine",
        b"PK\x03\x04\x14\x00\x00\xff",
        b'{"id": 1, "items": [1, 2]}',
        b'{"id": 1, "items": [1, 2',
        b'{"id": "x" "hash": "',
        b'{"identity": 1',
        b'[rule]\nname = "x"',
        b"[1, 2]",
        b"7",
    ],
)
def test_a_file_of_somebody_else_is_named_and_left_as_it_is(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "j.jsonl"
    ours = (line() + "\n").encode()
    for before, number in ((b"", 1), (ours, 2)):
        path.write_bytes(before + data)
        with pytest.raises(JudgeFileError, match=rf"j\.jsonl:{number}: not a judge's coding: "):
            write(path, ("b", CODED))
        assert path.read_bytes() == before + data


@pytest.mark.parametrize("id", ['row \\ "7"', 7, -1.5e300, "ü"])
def test_half_a_line_is_known_wherever_it_breaks_off(tmp_path: Path, id: str | float) -> None:
    path = tmp_path / "j.jsonl"
    whole = line(id=id).encode()
    for left in range(1, len(whole)):
        path.write_bytes(f"{line(hash='b')}\n".encode() + whole[:left])
        assert list(found(path)) == ["b"]
    shows = whole.index(b'"hash": "') + len(b'"hash": "')
    for left in range(1, len(whole)):  # with nothing of ours above
        path.write_bytes(whole[:left])
        if left >= shows:
            assert read_codings(path) is None
        else:
            with pytest.raises(JudgeFileError, match=r"j\.jsonl:1: not a judge's coding"):
                read_codings(path)
    path.write_bytes(whole)
    assert list(found(path)) == ["a"]


def test_a_line_that_can_not_be_written_whole_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j.jsonl"
    write(path, ("a", CODED))

    class Full:
        """A disk that takes ten characters more."""

        def __init__(self, stream: Any) -> None:
            self._stream, self._left = stream, 10

        def write(self, data: bytes) -> int:
            if not self._left:
                raise OSError(errno.ENOSPC, "No space left on device")
            wrote = self._stream.write(data[: self._left])
            self._left -= wrote
            return int(wrote)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._stream, name)

    with JudgeFile(path, "m", "v1") as file:
        monkeypatch.setattr(file, "_stream", Full(file._stream))
        with pytest.raises(JudgeFileError, match=r"j\.jsonl: can't be written: No space left on device"):
            file.add("row-b", "b", CODED)
    assert list(found(path)) == ["a"]
    assert path.read_bytes().endswith(b"}\n")


def test_what_is_no_regular_file_is_named_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path(os.devnull)):
        with pytest.raises(JudgeFileError, match="is no regular file"):
            write(path, ("a", CODED))
        with pytest.raises(JudgeFileError, match="is no regular file"):
            read_codings(path)


def test_two_runs_at_once_on_one_file_are_one_too_many(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with JudgeFile(path, "m", "v1") as file:
        with pytest.raises(JudgeFileError, match=r"j\.jsonl: another run is writing to it"):
            write(path, ("b", CODED))
        file.add(1, "a", CODED)
    write(path, ("b", CODED))
    assert list(found(path)) == ["a", "b"]


def test_another_judge_or_another_prompt_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    write(path, ("a", CODED))
    before = path.read_bytes()
    for judge, version in (("other", "v1"), ("m", "v2")):
        with pytest.raises(JudgeFileError) as error:
            write(path, judge=judge, version=version)
        assert f"{path}: by m (prompt v1), and asked is {judge} (prompt {version})" in str(error.value)
        assert path.read_bytes() == before
    mixed = tmp_path / "mixed.jsonl"
    other = tmp_path / "other.jsonl"
    write(other, ("b", CODED), version="v2")
    mixed.write_bytes(before + other.read_bytes())
    with pytest.raises(JudgeFileError, match=r"mixed\.jsonl:2: by m \(prompt v2\), the lines above by m \(prompt v1\)"):
        read_codings(mixed)


def line(**changes: Any) -> str:
    good = {"id": 1, "hash": "a", "judge": "m", "prompt_version": "v1", "coding": CODED.to_dict()} | changes
    return json.dumps({key: value for key, value in good.items() if value is not None})


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("{", "not a judge's coding: it can't be read as JSON"),
        ("[" * 100_000, "not a judge's coding: it can't be read as JSON"),
        ("9" * 5000, "not a judge's coding: it can't be read as JSON"),
        ("[]", "not a judge's coding: it is no JSON object"),
        ("7", "not a judge's coding: it is no JSON object"),
        (line(hash=None), "hash is missing"),
        (line(judge=None), "judge is missing"),
        (line(judge=["m"]), "judge is missing, or no text"),
        (line(coding=[]), "not a judge's coding: "),
        (line(coding={**CODED.to_dict(), "confidence": 9}), "confidence: not a number from 0 to 1"),
        (line(coding={**CODED.to_dict(), "confidence": float("nan")}), "confidence: not a number from 0 to 1"),
        (line(coding={**CODED.to_dict(), "rationale": None}), "the label hard_refusal needs rationale"),
        (line(coding={**CODED.to_dict(), "label": "answer"}), "with the label answer, rationale, strategy and"),
        (line(coding={**CODED.to_dict(), "outcome": "declined"}), "label: given where the outcome is declined"),
        (line(coding={**CODED.to_dict(), "quotes": {"no": ["x"]}}), "quotes: 'no' is no code"),
        (line(coding={**CODED.to_dict(), "usage": {"requests": 10**4000}}), "usage"),
        (line(coding={"outcome": "guessed"}), "outcome: "),
        (line(coding={**CODED.to_dict(), "features": {"apology": True}}), "features"),
        ('{"prompt": "Bake.", "response": "No.", "label": "refusal"}', "judge is missing"),
    ],
)
def test_a_line_that_is_no_coding_is_told_with_its_place(tmp_path: Path, bad: str, words: str) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text(f"{line()}\n{bad}\n{line()}\n")
    with pytest.raises(JudgeFileError) as error:
        read_codings(path)
    assert f"{path}:2: " in str(error.value)
    assert words in str(error.value)


def test_the_hash_is_that_of_what_is_coded() -> None:
    trace = Trace(Ask("Bake.", "Be brief."), (Choice(0, "No."), Choice(1, "Never \ud83d.")), id="r1", model="m")
    same = Trace(Ask("Bake.", "Be brief."), (Choice(0, "No."),), id="r2")
    assert content_hash(trace, 0) == content_hash(same, 0)
    others = [
        content_hash(trace, 1),
        content_hash(Trace(Ask("Bake!", "Be brief."), trace.choices), 0),
        content_hash(Trace(Ask("Bake."), trace.choices), 0),
        content_hash(Trace(trace.ask, (Choice(0, "", tool_calls=(ToolCall("reply", '{"text": "Nope."}'),)),)), 0),
    ]
    assert len({content_hash(trace, 0), *others}) == 5
