"""Fits the numbers of the classifier anew: `python -m demur.audit.fit CORPUS… --own DIR` (`make fit`).

1. The learned signal (`fit_wording`).
2. What each named feature weighs: a logistic regression in which a signal may only speak for its own side; once without
   the learned signal (for languages that it does not know) and once with it. There it is seen as it is on texts of
   unseen prompts and, to a smaller part, of unseen sources, so that it is trusted no more than it deserves.
3. What tells a response that delivers a part from one that delivers nothing.
4. How sure a score makes: scores of unseen prompts against what is right.

A source weighs by the root of its size, everyday traffic more, so that no rule hangs on one corpus. The table that is
printed is of verdicts by numbers that never saw the row's prompt. Writes `fitted.toml` and
`wording.txt` with their origin. Only give it rows whose licence allows that; no text of them is written.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import numpy as np
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import GroupKFold

from demur.audit import fit_wording
from demur.audit.corpus import CorpusError, Gold, read_corpus
from demur.classifier.features import LEARNED, NAMES, features
from demur.classifier.judge import Classifier
from demur.classifier.lexicon import LANGUAGES, signal_kinds
from demur.classifier.shapes import normalize
from demur.classifier.trace import Trace
from demur.classifier.verdict import REFUSALS
from demur.classifier.weights import Knots, Weights, load_weights
from demur.classifier.wording import Wording

FOLDS = 5
#: Prompts without which there is nothing to learn.
LEAST = 100
#: Languages with enough rows for the learned signal.
WORDED = ("en", "ko", "fr")
#: Sources that share their prompts are one family.
FAMILIES = {"xstest_response": "xstest_v2"}
#: Strength of the L2 penalty on the points, in rows.
PENALTY = 1.0
#: How much the view of unseen sources counts beside that of unseen prompts: more makes the learned signal weigh less.
STRANGERS = 0.15
#: How much each of our own examples weighs beside the rows of a source, that weigh 1 on average.
OWN_WEIGHT = 0.5
#: A source in which a smaller share declines is like everyday traffic; its rows weigh more: there a false alarm is what
#: a user meets.
EVERYDAY, EVERYDAY_WEIGHT = 0.1, 4.0
#: Features that are no signals: what they may speak for (1 a refusal, -1 an answer).
_SIDES = {
    "pivot": -1,
    "reserved_share": 1,
    "reserved_first": 1,
    "unreserved": -1,
    "matter": -1,
    "limit_bare": 1,
    "listed": -1,
    "judged": -1,
    "kinds": 1,
    "capability_denial": 0,
    LEARNED: 1,
}
_KNOTS = (-8.0, -5.0, -3.5, -2.5, -1.5, -0.75, 0.0, 0.75, 1.5, 2.5, 3.5, 5.0, 8.0)


@dataclass(frozen=True, slots=True)
class Sample:
    """One labelled response; `own` of an example of ours, which is of any language."""

    trace: Trace
    gold: Gold
    source: str
    language: str
    own: bool

    @property
    def prompt(self) -> int:
        return crc32(self.trace.ask.prompt.encode())

    @property
    def text(self) -> str:
        return self.trace.choices[0].text


@dataclass(frozen=True, slots=True)
class Table:
    """The samples as arrays, one row each: `inputs` a column for each of `NAMES`."""

    samples: Sequence[Sample]
    inputs: np.ndarray
    declined: np.ndarray
    shaped: np.ndarray
    weight: np.ndarray
    prompt: np.ndarray
    worded: np.ndarray
    texts: fit_wording.Texts

    def take(self, rows: np.ndarray) -> Table:
        return Table(
            [self.samples[row] for row in rows],
            self.inputs[rows],
            self.declined[rows],
            self.shaped[rows],
            self.weight[rows],
            self.prompt[rows],
            self.worded[rows],
            self.texts.take(rows),
        )


def read(files: Sequence[Path], own: Sequence[Path]) -> list[Sample]:
    """The rows of `files` and our own examples that are one text each, empty ones left out."""
    samples = []
    for file in (*files, *own):
        try:
            lines = enumerate(file.read_text("utf-8-sig").split("\n"), 1)
        except UnicodeDecodeError as error:
            raise CorpusError(f"{file}: is not UTF-8 text, at byte {error.start}") from error
        rows = ((f"{file}:{n}", _loads(line, f"{file}:{n}")) for n, line in lines if line.strip())
        corpus = read_corpus(file.stem, rows)
        for row in corpus.rows:
            trace = normalize(row.obj)
            if len(trace.choices) == 1 and trace.choices[0].text.strip() and not trace.choices[0].blocked_by:
                language = row.language or (file.stem if file.stem in LANGUAGES else "en")
                samples.append(Sample(trace, row.gold, file.stem, language, file in own))
    return samples


def _files(folders: Sequence[Path]) -> list[Path]:
    files = {folder: sorted(folder.glob("*.jsonl")) for folder in folders}
    if empty := [folder for folder, found in files.items() if not found]:
        raise CorpusError(f"{empty[0]}: holds no .jsonl file")
    return [file for found in files.values() for file in found]


def _loads(line: str, place: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{place}: not JSON: {error}") from error


def tabulate(samples: Sequence[Sample], classifier: Classifier) -> Table:
    """What the rules find in the samples. Each source weighs by the root of its size, so that none outweighs all."""
    inputs, worded = np.zeros((len(samples), len(NAMES))), np.zeros(len(samples), dtype=bool)
    for row, sample in enumerate(samples):
        session = classifier.session(sample.trace.ask)
        session.feed(sample.text)
        evidence = session.evidence()
        found = features(evidence)
        inputs[row] = [found.get(name, 0.0) for name in NAMES]
        worded[row] = evidence.language in WORDED
    sizes = Counter(sample.source for sample in samples)
    weight = np.array([OWN_WEIGHT if sample.own else sizes[sample.source] ** -0.5 for sample in samples])
    theirs = np.array([not sample.own for sample in samples])
    if theirs.any():
        weight[theirs] /= weight[theirs].mean()
    declines = Counter(sample.source for sample in samples if sample.gold != "answer")
    for row, sample in enumerate(samples):  # where only our own speak, of which most decline, both sides weigh the same
        if sample.own and sample.gold == "answer" and sample.language not in WORDED:
            weight[row] *= declines[sample.source] / (sizes[sample.source] - declines[sample.source])
    everyday = {source for source, size in sizes.items() if declines[source] < EVERYDAY * size}
    weight[[sample.source in everyday for sample in samples]] *= EVERYDAY_WEIGHT
    families = {name: number for number, name in enumerate(sorted({_family(sample) for sample in samples}))}
    by_language = {language: {_family(s) for s in samples if s.language == language} for language in WORDED}
    declined = np.array([sample.gold != "answer" for sample in samples])
    prompt = np.array([sample.prompt for sample in samples])
    texts = fit_wording.count(
        [sample.text if sample.language in WORDED else "" for sample in samples],
        declined.tolist(),
        weight.tolist(),
        prompt.tolist(),
        [families[_family(sample)] for sample in samples],
        frozenset(families[name] for language in ("ko", "fr") for name in by_language[language]),
    )
    shaped = np.array([sample.gold == "shaped" for sample in samples])
    return Table(samples, inputs, declined, shaped, weight, prompt, worded, texts)


def _family(sample: Sample) -> str:
    return "own" if sample.own else FAMILIES.get(sample.source, sample.source)


def fit_points(inputs: np.ndarray, right: np.ndarray, weight: np.ndarray, sides: Sequence[int]) -> np.ndarray:
    """Bias and points of a logistic regression with an L2 penalty on the points; `sides`: 1 for a feature that may only
    speak for it, -1 only against, 0 either."""
    columns = np.c_[np.ones(len(inputs)), inputs]
    sign = np.where(right, 1.0, -1.0)

    def loss(points: np.ndarray) -> tuple[float, np.ndarray]:
        margin = sign * (columns @ points)
        value = float(weight @ np.logaddexp(0, -margin) + PENALTY / 2 * (points[1:] @ points[1:]))
        slope = -columns.T @ (weight * sign / (1 + np.exp(margin)))
        slope[1:] += PENALTY * points[1:]
        return value, slope

    bounds = [(None, None), *((0 if side > 0 else None, 0 if side < 0 else None) for side in sides)]
    found = minimize(loss, np.zeros(columns.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(found.x)


def sides() -> list[int]:
    """For each of `NAMES` the side that it may speak for."""
    return [_SIDES[name] if name in _SIDES else _side(name.removesuffix(".later")) for name in NAMES]


def _side(signal: str) -> int:
    return -1 if signal_kinds()[signal].target == "answer" else 1


def fit(table: Table, shipped: Weights) -> tuple[Weights, Wording]:
    """The numbers for the samples of `table`; limits and meanings are those of `shipped`."""
    learned = NAMES.index(LEARNED)
    added = fit_wording.fit(table.texts)
    wording = Wording(fit_wording.numbers(table.texts.hashes, added), WORDED)

    plain = table.inputs.copy()
    plain[:, learned] = 0
    points = fit_points(plain, table.declined, table.weight, sides())

    seen = np.flatnonzero(table.worded)
    by_prompt, by_family = plain.copy(), plain.copy()
    by_prompt[:, learned] = np.clip(fit_wording.unseen_by_prompt(table.texts), -6, 6)
    by_family[:, learned] = np.clip(fit_wording.unseen_by_family(table.texts), -6, 6)
    both = np.r_[by_prompt[seen], by_family[seen]]
    weight = np.r_[table.weight[seen] * (1 - STRANGERS), table.weight[seen] * STRANGERS]
    worded = fit_points(both, np.tile(table.declined[seen], 2), weight, sides())

    declined = np.flatnonzero(table.declined)
    balance = np.where(table.shaped, (~table.shaped & table.declined).sum() / max(1, table.shaped.sum()) / 2, 1.0)
    weight = (table.weight * balance)[declined]
    shape = fit_points(by_prompt[declined], table.shaped[declined], weight, [0] * len(NAMES))

    scores = np.where(table.worded, worded[0] + by_prompt @ worded[1:], points[0] + plain @ points[1:])
    quiet = table.inputs[:, NAMES.index("unreserved")] == 1
    curves = [_curve(scores[rows], table.declined[rows], table.weight[rows]) for rows in (~quiet, quiet)]
    weights = replace(
        shipped, points=_named(points), worded=_named(worded), shape=_named(shape), sure=curves[0], quiet=curves[1]
    )
    return weights, wording


def _curve(scores: np.ndarray, declined: np.ndarray, weight: np.ndarray) -> Knots:
    """Score → probability, at the knots: an isotonic curve whose steps are averaged around each."""
    curve = IsotonicRegression(y_min=0.005, y_max=0.995, out_of_bounds="clip")
    curve.fit(scores, declined, sample_weight=weight)
    near = [curve.predict(np.linspace(knot - 0.4, knot + 0.4, 9)).mean() for knot in _KNOTS]
    return tuple((knot, round(float(value), 3)) for knot, value in zip(_KNOTS, near, strict=True))


def _named(points: np.ndarray) -> dict[str, float]:
    return {name: round(float(value), 2) for name, value in zip(("bias", *NAMES), points, strict=True)}


def check(table: Table, weights: Weights, classifier: Classifier) -> dict[str, Counter[str]]:
    """Verdicts on every sample by numbers that were fitted without its prompt: counts by source."""
    counts: dict[str, Counter[str]] = {}
    for seen, held in GroupKFold(FOLDS).split(table.inputs, table.declined, table.prompt):
        judge = classifier.with_numbers(*fit(table.take(seen), weights))
        for row in held:
            sample = table.samples[row]
            verdict = judge.classify(sample.trace)
            flagged = verdict.label in REFUSALS
            kind = ("t" if flagged == (sample.gold != "answer") else "f") + ("p" if flagged else "n")
            count = counts.setdefault(f"own {sample.source}" if sample.own else sample.source, Counter())
            count[kind] += 1
            count["shaped right"] += sample.gold == "shaped" and verdict.label == "shaped"
            count["shaped"] += sample.gold == "shaped"
            count["shaped wrong"] += sample.gold != "shaped" and verdict.label == "shaped"
    return counts


def write(weights: Weights, wording: Wording, samples: Sequence[Sample], folder: Path) -> None:
    """`fitted.toml` and `wording.txt` in `folder`."""
    origin = _origin(samples)
    lines = ["# What the decision weighs, fitted by `make fit`; do not edit by hand.", *origin]
    for name, title in _TITLES.items():
        lines += ["", f"[{name}]", f"# {title}"]
        lines += [f'"{key}" = {value}' for key, value in getattr(weights, name).items()]
    lines += ["", "[sure]", "# log odds of the score → probability that the text declines, straight lines between;"]
    lines += ["# quiet: where no rule says so"]
    lines += [f"{name} = {_shown(getattr(weights, name))}" for name in ("sure", "quiet")]
    (folder / "fitted.toml").write_text("\n".join(lines) + "\n", "utf-8")
    what = "# The learned signal: the hash of an n-gram of words, and what it adds in 1/256 of log odds."
    rows = [f"{hash:x} {number}" for hash, number in sorted(wording.numbers.items())]
    head = [f"# languages: {' '.join(WORDED)}", what, *origin]
    (folder / "wording.txt").write_text("\n".join(head + rows) + "\n", "ascii")


def _origin(samples: Sequence[Sample]) -> list[str]:
    """The sources, their licences as far as they are known here, and their rows, as lines of remarks."""
    rows = Counter(_OWN if sample.own else sample.source for sample in samples)
    told = "; ".join(f"{_ORIGINS.get(name, name)}: {count} rows" for name, count in sorted(rows.items()))
    return textwrap.wrap(f"Fitted on {told}.", 118, initial_indent="# ", subsequent_indent="# ")


def _shown(knots: Knots) -> str:
    return f"[{', '.join(f'[{odds}, {probability}]' for odds, probability in knots)}]"


_OWN = "examples of our own (tests/data)"
#: Where the sources that shipped numbers were fitted on come from, and under which licence.
_ORIGINS = {
    "xstest_v2": "XSTest v2 (paul-rottger/exaggerated-safety, CC-BY-4.0)",
    "xstest_response": "XSTest-response (allenai/xstest-response, ODC-BY as far as known)",
    "chatgpt_refusals": "chatgpt-refusals (maxwellreuter/chatgpt-refusals, MIT)",
    "current_models": "Dual-RoBERTa-Classifiers (ramyalsaffar, MIT)",
    "korean": "K-OverRefusal (Marker-Inc-Korea, MIT)",
    "french": "criminal-law questions in French (Reliable-Information-Lab-HEVS)",
    "coconot_answers": "CoCoNot, contrast set (allenai/noncompliance)",
    "alpaca_eval_answers": "AlpacaEval answers (tatsu-lab/alpaca_eval)",
    "tool_calls": "glaive function calling",
}
_TITLES = {
    "points": "log odds of a refusal per feature, for languages that the learned signal does not know",
    "worded": "the same where it does",
    "shape": "log odds that a flagged response delivers a part",
}


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m demur.audit.fit", description="fits the numbers of the classifier")
    parser.add_argument("corpora", nargs="+", type=Path, metavar="CORPUS", help="labelled JSON Lines")
    parser.add_argument("--own", nargs="+", type=Path, default=[], help="folders of our own examples, <language>.jsonl")
    parser.add_argument("--folder", type=Path, default=Path("classifier"), help="where the numbers are written")
    parser.add_argument("--check", action="store_true", help="only judge each row by numbers that never saw its prompt")
    options = parser.parse_args(arguments)
    try:
        samples = read(options.corpora, _files(options.own))
        if len({sample.prompt for sample in samples}) < LEAST:
            raise CorpusError(f"there are too few rows to fit on: at least {LEAST} prompts")
    except (CorpusError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    classifier = Classifier()
    table = tabulate(samples, classifier)
    _say(f"{len(samples)} rows, {len(table.texts.hashes)} n-grams")
    for source, count in check(table, load_weights(), classifier).items():
        f1 = 2 * count["tp"] / max(1, 2 * count["tp"] + count["fp"] + count["fn"])
        _say(
            f"{source:24} unseen prompts: F1 {f1:.3f}, false alarms {count['fp']}/{count['fp'] + count['tn']}, "
            f"missed {count['fn']}, shaped {count['shaped right']}/{count['shaped']} (+{count['shaped wrong']})"
        )
    if not options.check:
        write(*fit(table, load_weights()), samples, options.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
