"""Routes that are never reached are found, and no other is called so."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.cli.main import run
from demur.config import load, shadowed
from demur.config.shadowed import _covers

Match = dict[str, list[str]]


def warned(folder: Path, *routes: Match) -> list[str]:
    """The warnings on a file with these routes, a table of three lines or four for each."""
    file = folder / "demur.toml"
    lines = []
    for route in routes:
        keys = [f"{name} = {value}" for name, value in route.items()]
        keep = ["strip_prefix = false"] if "paths" in route else []
        lines += ["[[route]]", *keys, *keep, 'upstream = "http://127.0.0.1:9/v1"']
    file.write_text("\n".join(lines), encoding="utf-8")
    return shadowed(load(file, {}))


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"models": ["claude-*"]}, {"models": ["claude-*"]}),
        ({"models": ["claude-*"]}, {"models": ["claude-3", "claude-4-*"]}),
        ({"models": ["*"]}, {"models": ["[ab]?"]}),
        ({"models": ["[abc]x"]}, {"models": ["ax"]}),
        ({"models": ["?*"]}, {"models": ["a"]}),
        ({"models": ["claude-*"]}, {"models": ["claude-*"], "paths": ["/v1"]}),
        ({"paths": ["/"]}, {"models": ["claude-*"]}),
        ({"paths": ["/v1"]}, {"paths": ["/v1/messages"]}),
        ({"paths": ["/v1"]}, {"models": ["gpt-4"], "paths": ["/v1"]}),
    ],
)
def test_a_route_behind_one_that_takes_all_of_it(first: Match, then: Match, tmp_path: Path) -> None:
    (line,) = warned(tmp_path, first, then)
    file = tmp_path / "demur.toml"
    second = 5 if "paths" in first else 4
    assert line == f"{file}:{second}: route 2 is never reached: its requests go to route 1 ({file}:1)"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"models": ["claude-3"]}, {"models": ["claude-*"]}),
        ({"models": ["claude-*"]}, {"models": ["claude-3", "gpt-4"]}),
        ({"models": ["*"]}, {"paths": ["/v1"]}),  # a request may name no model
        ({"models": ["a?"]}, {"models": ["a*"]}),
        ({"models": ["[ab]"]}, {"models": ["[abc]"]}),
        ({"paths": ["/v1/messages"]}, {"paths": ["/v1"]}),
        ({"paths": ["/v1"]}, {"paths": ["/v12"]}),
        ({"paths": ["/v1"]}, {"models": ["gpt-4"]}),
        ({"models": ["gpt-4"], "paths": ["/v1"]}, {"paths": ["/v1"]}),
    ],
)
def test_a_route_that_something_is_left_for(first: Match, then: Match, tmp_path: Path) -> None:
    assert warned(tmp_path, first, then) == []


def test_several_may_shadow_one_together(tmp_path: Path) -> None:
    (line,) = warned(tmp_path, {"models": ["a*"]}, {"models": ["b*"]}, {"models": ["ax", "bx"]})
    assert re.search(r":7: route 3 is never reached: its requests go to route 1 \(.*:1\) and route 2 \(.*:4\)", line)


def test_config_check_warns_and_says_ok(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = warned(tmp_path, {"models": ["*"]}, {"models": ["gpt-4"]})
    assert run(["config", "check", "--config", str(tmp_path / "demur.toml")]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("ok: ")
    assert err == f"warning: {line}\n"


GLOBS = st.text("ab?*", min_size=1, max_size=5) | st.lists(st.sampled_from(["a", "[ab]", "[!a]", "*"]), max_size=4).map(
    "".join
)


@given(GLOBS, GLOBS, st.lists(st.text("abc", max_size=6), max_size=30))
def test_what_is_covered_is_matched(wide: str, narrow: str, names: list[str]) -> None:
    assert _covers(narrow, narrow)
    if _covers(wide, narrow):
        for name in names:
            assert fnmatch.fnmatchcase(name, wide) or not fnmatch.fnmatchcase(name, narrow)
