from __future__ import annotations

import csv
import io
import json

import pytest
from verdict_records import ANSWER, BLOCKED, EMPTY, NOT_CODED, counted, refused

from demur.audit.facework import Facework
from demur.audit.facework_files import interval, share, to_csv, to_dict, to_markdown
from demur.audit.layers import RATIONALES, STRATEGIES
from demur.audit.proportion import Proportion
from demur.classifier.verdict import FEATURES

EVIL = "=1+1|<b>*x*\x1b[2J"


@pytest.fixture
def report() -> Facework:
    known = [record | {"model": "m-日本", "language": "en"} for record in [refused("apology")] * 30 + [ANSWER] * 10]
    return counted(*known, {**EMPTY, "model": EVIL}, {**BLOCKED, "model": EVIL}, NOT_CODED, by=("model", "language"))


def rows(report: Facework) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(report))))


def test_json_holds_every_figure_and_the_words(report: Facework) -> None:
    out = json.loads(json.dumps(to_dict(report)))
    assert out["schema_version"] == 1
    assert out["interval"] == {"level": 0.95, "method": "Wilson score"}
    assert (out["records"], out["whole"]["responses"], out["whole"]["blocked"]) == (43, 43, 1)
    assert out["whole"]["rates"]["refusal"] == Proportion(32, 42).to_dict()
    assert out["whole"]["reading"].startswith("Of 42 judged responses 76 % are refusals.")
    assert [group["value"] for group in out["by"]["model"]] == ["m-日本", EVIL, None]
    assert [group["name"] for group in out["by"]["language"]] == ["en", "(not told)"]
    assert out["by"]["language"][0]["rates"]["feature"]["apology"]["hits"] == 30
    assert out["differences"] == {"model": [], "language": []}


def test_csv_says_what_json_says(report: Facework) -> None:
    table = {(row["by"], row["value"], row["figure"]): row for row in rows(report)}
    assert len(table) == len(rows(report))
    for name in ("responses", "judged", "coded", "not_coded", "answers"):
        assert int(table["all", "", name]["hits"]) == getattr(report.whole, name)
    assert table["all", "", "unjudged.empty"]["hits"] == "1"
    for name, rate in report.groups["model"][0].profile.rates().items():
        row = table["model", "m-日本", name]
        low, high = rate.interval() or (0, 0)
        assert (int(row["hits"]), int(row["of"])) == (rate.hits, rate.of)
        assert [float(row[key]) for key in ("rate", "low", "high")] == pytest.approx([rate.value, low, high], abs=1e-6)


def test_csv_leaves_a_rate_of_none_empty(report: Facework) -> None:
    (row,) = [row for row in rows(report) if row["value"] == "(not told)" and row["figure"] == "feature.apology"][:1]
    assert (row["of"], row["rate"], row["low"], row["high"]) == ("0", "", "", "")


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "＝", "＋", "－", "＠", "﹢", "\x00=", "\u200b=", "\x1b[2J="])
def test_no_cell_of_csv_begins_a_formula_or_holds_a_control_character(sign: str) -> None:
    text = to_csv(counted({**ANSWER, "model": f"{sign}1+1"}, by=("model",)))
    assert "".join(text.splitlines()).isprintable()
    values = {row["value"] for row in csv.DictReader(io.StringIO(text))} - {""}
    assert len(values) == 1
    assert all(value.startswith(("'", "\ufffd")) for value in values)


def test_markdown_has_words_and_whole_tables(report: Facework) -> None:
    text = to_markdown(report)
    assert text.startswith("# How it said no\n\n43 responses, 42 judged; not judged: 1 empty.\n\nOf 42 judged")
    assert "## By model" in text
    assert "* m-日本: Of 40 judged responses 75 % are refusals." in text
    assert "\x1b" not in text
    assert "<b>" not in text.replace("\\<", "")
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert len(tables) == 1 + 2 * 4
    for table in tables:
        assert len({line.replace("\\|", "").count("|") for line in table}) == 1


def test_markdown_has_every_rate_of_every_group_with_its_interval(report: Facework) -> None:
    text = to_markdown(report).partition("## By model")[2].partition("## By language")[0]
    found: dict[str, dict[str, str]] = {}
    for table in (block.splitlines() for block in text.split("\n\n") if block.startswith("|")):
        names = [cell.strip() for cell in table[0].split("|")[1:-1]]
        for line in table[2:]:
            cells = [cell.strip() for cell in line.replace("\\|", "").split("|")[1:-1]]
            found.setdefault(cells[0], {}).update(zip(names[1:], cells[1:], strict=True))
    known = found["m-日本"]
    assert {"refusal", "partial", "blocked", *RATIONALES, *STRATEGIES, *FEATURES} <= set(known)
    assert (known["judged"], known["coded"]) == ("40", "30")
    assert (known["refusal"], known["apology"], known["hedge"]) == ("75 % (60–86)", "100 % (89–100)", "0 % (0–11)")
    assert (found["(not told)"]["refusal"], found["(not told)"]["apology"]) == ("1/1", "–")


@pytest.mark.parametrize(
    ("hits", "of", "cell", "bounds"),
    [
        (0, 0, "–", "–"),
        (3, 7, "3/7", "–"),
        (10, 20, "50 %", "29.9–70.1 %"),
        (0, 20, "0 %", "0.0–16.1 %"),
        (1, 1000, "<1 %", "0.0–0.6 %"),
        (999, 1000, ">99 %", "99.4–100.0 %"),
    ],
)
def test_cells(hits: int, of: int, cell: str, bounds: str) -> None:
    assert (share(Proportion(hits, of)), interval(Proportion(hits, of))) == (cell, bounds)
