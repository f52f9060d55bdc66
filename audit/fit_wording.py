"""Fits the learned signal: a logistic regression over hashed word n-grams, small and strongly regularised on purpose.

It should know what many sources say, not the rows it saw: an n-gram counts only if it stands in the responses to many
prompts and, where a language has several sources, in more than one of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from demur.classifier.voice import answer_start, find_voice
from demur.classifier.wording import UNIT, ngrams

#: Prompts in whose responses an n-gram must stand.
LEAST_PROMPTS = 12
#: Inverse strength of the L2 penalty: with it the fit on seen and on unseen prompts differ by about two points of F1.
STRENGTH = 0.03
FOLDS = 4


@dataclass(frozen=True, slots=True)
class Texts:
    """Responses with what is known of them, one entry each: `declined` (bool), `weight`, `prompt` and `family` (of
    sources that share prompts) as numbers; `counts` of n-grams, a column for each of `hashes`."""

    counts: csr_matrix
    hashes: list[int]
    declined: np.ndarray
    weight: np.ndarray
    prompt: np.ndarray
    family: np.ndarray

    def take(self, rows: np.ndarray) -> Texts:
        return Texts(
            self.counts[rows],
            self.hashes,
            self.declined[rows],
            self.weight[rows],
            self.prompt[rows],
            self.family[rows],
        )


def count(
    responses: Sequence[str],
    declined: Sequence[bool],
    weight: Sequence[float],
    prompt: Sequence[int],
    family: Sequence[int],
    alone: frozenset[int],
) -> Texts:
    """The n-grams of `responses` that are frequent enough; families in `alone` are the only one of their language."""
    found = [_hashes(response) for response in responses]
    prompts, families = defaultdict[int, set[int]](set), defaultdict[int, set[int]](set)
    for hashes, one, source in zip(found, prompt, family, strict=True):
        for hash in hashes:
            prompts[hash].add(one)
            families[hash].add(source)
    kept = sorted(
        hash
        for hash, seen in prompts.items()
        if len(seen) >= LEAST_PROMPTS and (len(families[hash]) > 1 or families[hash] & alone)
    )
    column = {hash: number for number, hash in enumerate(kept)}
    rows = [row for row, hashes in enumerate(found) for hash in hashes if hash in column]
    columns = [column[hash] for hashes in found for hash in hashes if hash in column]
    counts = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(found), len(kept)))
    return Texts(counts, kept, np.array(declined), np.array(weight), np.array(prompt), np.array(family))


def _hashes(response: str) -> list[int]:
    voice = find_voice(response, answer_start(response, final=True))
    return [hash for hash, _, _ in ngrams(response, voice.start, voice.end)]


def fit(texts: Texts) -> np.ndarray:
    """What each n-gram adds, in log odds."""
    model = LogisticRegression(C=STRENGTH, solver="liblinear", max_iter=300)
    model.fit(texts.counts, texts.declined, sample_weight=texts.weight)
    return np.asarray(model.coef_[0])


def unseen_by_prompt(texts: Texts) -> np.ndarray:
    """What the signal says of each text when it was fitted without its prompt."""
    scores = np.zeros(texts.counts.shape[0])
    for seen, held in GroupKFold(FOLDS).split(texts.counts, texts.declined, texts.prompt):
        scores[held] = texts.counts[held] @ fit(texts.take(seen))
    return scores


def unseen_by_family(texts: Texts) -> np.ndarray:
    """What the signal says of each text when it was fitted without any text of its source."""
    scores = np.zeros(texts.counts.shape[0])
    for family in np.unique(texts.family):
        held = np.flatnonzero(texts.family == family)
        seen = np.flatnonzero(texts.family != family)
        scores[held] = texts.counts[held] @ fit(texts.take(seen))
    return scores


def numbers(hashes: Sequence[int], added: np.ndarray) -> dict[int, int]:
    """As `Wording` takes them, in its unit; also those that are 0, so that what goes on from them is found."""
    return dict(zip(hashes, np.rint(added / UNIT).astype(int).tolist(), strict=True))
