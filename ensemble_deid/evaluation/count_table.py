"""Counts of every document and label, from which every total, mean and resample is a sum."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ensemble_deid.evaluation.counts import Counts
from ensemble_deid.evaluation.matching import Key
from ensemble_deid.evaluation.pairs import Pair
from ensemble_deid.text.document import Document

KeysOf = Callable[[Document], Iterable[Key]]
Match = Callable[[Sequence[Key], Sequence[Key]], list[tuple[Key, Key]]]


@dataclass(frozen=True, slots=True)
class CountTable:
    """`counts` has the shape (documents, labels, 3): true positives, false positives, false negatives.

    Documents are in the order of their ids, labels in alphabetical order; `groups` names each document's patient.
    """

    document_ids: tuple[str, ...]
    groups: tuple[str, ...]
    labels: tuple[str, ...]
    counts: npt.NDArray[np.int64]

    @property
    def total(self) -> Counts:
        """Counts over all documents and labels (micro)."""
        return to_counts(self.counts.sum(axis=(0, 1)))

    @property
    def by_label(self) -> dict[str, Counts]:
        """Counts over all documents, label by label."""
        return {label: to_counts(row) for label, row in zip(self.labels, self.counts.sum(axis=0), strict=True)}

    @property
    def per_document(self) -> npt.NDArray[np.int64]:
        """Counts over all labels, document by document: (documents, 3)."""
        return np.asarray(self.counts.sum(axis=1), dtype=np.int64)

    def only(self, labels: Iterable[str]) -> "CountTable":
        """Return the table of those of its labels that are in `labels`."""
        wanted = frozenset(labels)
        kept = [index for index, label in enumerate(self.labels) if label in wanted]
        chosen = tuple(self.labels[index] for index in kept)
        return CountTable(self.document_ids, self.groups, chosen, self.counts[:, kept, :])


def to_counts(row: npt.NDArray[np.int64]) -> Counts:
    """Return the three numbers of `row`, (3,), as Counts."""
    return Counts(int(row[0]), int(row[1]), int(row[2]))


def tabulate(pairs: Sequence[Pair], keys_of: KeysOf, match: Match) -> CountTable:
    """Match the distinct keys of each note's two sides; a match counts under its gold key's label."""
    sides = [(sorted(set(keys_of(p.gold))), sorted(set(keys_of(p.system)))) for p in pairs]
    labels = tuple(sorted({key[2] for both in sides for keys in both for key in keys}))
    column = {label: index for index, label in enumerate(labels)}
    counts = np.zeros((len(pairs), len(labels), 3), dtype=np.int64)
    for row, (golds, systems) in enumerate(sides):
        for key in golds:
            counts[row, column[key[2]], 2] += 1
        for key in systems:
            counts[row, column[key[2]], 1] += 1
        for gold_key, system_key in match(golds, systems):
            counts[row, column[gold_key[2]], 0] += 1
            counts[row, column[gold_key[2]], 2] -= 1
            counts[row, column[system_key[2]], 1] -= 1
    return CountTable(tuple(p.id for p in pairs), tuple(p.group for p in pairs), labels, counts)
