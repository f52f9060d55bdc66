"""No case of the wire without its test: a test is named by the numbers of the cases that it shows."""

from __future__ import annotations

import re
from pathlib import Path

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


def test_every_case_has_a_test() -> None:
    names = [
        name
        for file in TESTS.rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_w\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    tested = {number for name in names for number in case_numbers(name)}
    assert [number for number in CASES if number not in tested] == []
