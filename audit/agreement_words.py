"""The agreement of two coders for people: what is shown of it, in which order and words, on any surface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from demur.audit.agreement import FREQUENT, Agreement, Below, Compared, Means
from demur.audit.layers import STRATEGIES
from demur.classifier.verdict import FEATURES


class Coders(NamedTuple):
    """What the two coders are called: the reference in the rows of a table, the other in its columns."""

    reference: str
    other: str


LABELS_AND_RULES = Coders("labels", "rules")


class Line(NamedTuple):
    """One line of the summary: a layer, on which rows."""

    layer: str
    rows: int
    figures: Compared | Means


def tables(agreement: Agreement, coders: Coders) -> list[tuple[str, Below]]:
    """The rows on which the layers below the action are compared; the second where it is neither the first nor none."""
    refused, both = agreement.refused, agreement.both
    refusals = "refusal" if refused.rows == 1 else "refusals"
    out = [(f"{refused.rows} {refusals} by the {coders.reference}", refused)] if refused.rows else []
    if 0 < both.rows < refused.rows:
        out.append((f"{both.rows} of them that the {coders.other} coded too", both))
    return out


def summary(agreement: Agreement, coders: Coders) -> list[Line]:
    """The layers from the action down, as far as they are coded, on each of the tables' rows."""
    lines = [Line("action", agreement.action.rows, agreement.action)]
    for layer in ("rationale", "strategy", "means"):
        name = f"mean of {len(agreement.refused.means.features)} features" if layer == "means" else layer
        for number, (_, table) in enumerate(tables(agreement, coders)):
            figures: Compared | Means = getattr(table, layer)
            lines.append(Line("  where both coded" if number else name, figures.rows, figures))
    return [line for line in lines if line.figures.value("accuracy") is not None]


def side_by_side(agreements: Sequence[Agreement]) -> list[tuple[str, list[Compared | Means]]]:
    """Layer by layer and code by code, what several agreements say of it. The codes are compared on the refusals by
    each one's reference. Left out is what none of them says anything of, and a second line that is no other."""
    lines: list[tuple[str, list[Compared | Means]]] = [("action", [agreement.action for agreement in agreements])]
    for layer in ("rationale", "strategy", "means"):
        name = "mean of features" if layer == "means" else layer
        refused, both = ([getattr(getattr(a, rows), layer) for a in agreements] for rows in ("refused", "both"))
        lines.append((name, refused))
        if [one.rows for one in both] != [one.rows for one in refused]:
            lines.append(("  where both coded", both))
    lines += [(name, [agreement.refused.codes[name] for agreement in agreements]) for name in (*STRATEGIES, *FEATURES)]
    return [(name, figures) for name, figures in lines if any(one.value("accuracy") is not None for one in figures)]


def codes(below: Below) -> list[tuple[str, Compared]]:
    """The strategies and features that are compared on some rows."""
    return [(name, below.codes[name]) for name in (*STRATEGIES, *FEATURES) if below.codes[name].rows]


def used(compared: Compared) -> tuple[list[int], list[int]]:
    """The numbers of the classes to show: all that one of the two used, in the rows as far as the reference could."""
    columns = [n for n, row in enumerate(compared.cells) if sum(row) + sum(other[n] for other in compared.cells)]
    return [n for n in columns if compared.classes[n] != "none" or any(compared.cells[n])], columns


def mean_note(below: Below) -> str:
    """Over which features the mean kappa is taken."""
    return f"mean kappa over the {len(below.means.frequent)} features with {FREQUENT} or more positives"
