"""No case of the wire without its test: a test is named by the numbers of the cases that it shows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from wire.notation import case_numbers

TESTS = Path(__file__).parent.parent

#: The cases in which a proxy in front of model APIs broke somebody's product. Numbers have gaps.
CASES = re.findall(
    r"W\d\d",
    """
    W01 W02 W03 W04 W05 W06 W08 W09 W10 W12 W13 W14 W16 W18 W19 W20 W22 W23 W24 W25 W27 W28 W29
    W30 W31 W32 W33 W34 W35 W37 W38 W39
    W40 W41 W42 W44 W45 W46 W47 W49
    W50 W51 W52 W53 W54 W55 W56 W58 W61 W62 W63
    W70 W71 W73 W74 W76 W77 W78 W79 W80 W81 W82 W83 W85 W86 W87
    """,
)


#: What a test may be left out for, on a machine of somebody's; on CI nothing is.
MACHINES = {'pytest.skip("no IPv6 on this machine")'}


def named() -> dict[tuple[Path, str], str]:
    """The tests that are named after cases, by file and name: their source."""
    found: dict[tuple[Path, str], str] = {}
    for file in TESTS.rglob("test_*.py"):
        source = file.read_text(encoding="utf-8")
        if re.search(r"def test_w\d\d_", source):
            lines = source.splitlines()
            for node in ast.parse(source).body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and case_numbers(node.name):
                    found[file, node.name] = "\n".join(lines[node.lineno - 1 : node.end_lineno])
    return found


def left_out(item: pytest.Item) -> bool:
    """Whether a mark keeps it from running, or from failing."""
    conditions = [condition for mark in item.iter_markers("skipif") for condition in mark.args]
    return any(item.get_closest_marker(name) for name in ("skip", "xfail")) or any(conditions)


def test_every_case_has_a_test_that_runs(request: pytest.FixtureRequest) -> None:
    tests = named()
    tested = {number for _, name in tests for number in case_numbers(name)}
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    # Where all are chosen, as `make test` does, what pytest makes of the names counts.
    if {file for file, _ in tests} <= {item.path for item in items} and not request.config.getoption("keyword"):
        collected = {(item.path, item.originalname): item for item in items if not left_out(item)}
        assert [name for file, name in tests if (file, name) not in collected] == []
    assert [number for number in CASES if number not in tested] == []


def test_no_case_is_left_out_or_asserts_nothing() -> None:
    for (file, name), source in named().items():
        assert re.search(r"\bassert |\braises\(", source), f"{file.name}: {name} asserts nothing"
        assert set(re.findall(r"pytest\.(?:skip|xfail|importorskip)\(.*\)", source)) <= MACHINES, f"{file.name}: {name}"
