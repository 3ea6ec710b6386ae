"""Counts of every document and label, from which every total, mean and resample is a sum."""

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass

import numpy as np

from ensemble_deid.arrays import Int64s
from ensemble_deid.evaluation.pairs import Pair
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.span import SpanKey

Sides = tuple[Set[SpanKey], Set[SpanKey]]
"""The distinct keys of one note: gold's and the system's."""
MatchKeys = Callable[[Set[SpanKey], Set[SpanKey]], list[tuple[SpanKey, SpanKey]]]


@dataclass(frozen=True, slots=True)
class CountTable:
    """`counts` has the shape (documents, labels, 3): true positives, false positives, false negatives.

    Documents are in the order of their ids, labels in alphabetical order; `groups` names each document's patient.
    """

    document_ids: tuple[str, ...]
    groups: tuple[str, ...]
    labels: tuple[str, ...]
    counts: Int64s

    @property
    def total(self) -> Counts:
        """Counts over all documents and labels (micro)."""
        return to_counts(self.counts.sum(axis=(0, 1)))

    @property
    def by_label(self) -> dict[str, Counts]:
        """Counts over all documents, label by label."""
        return {label: to_counts(row) for label, row in zip(self.labels, self.counts.sum(axis=0), strict=True)}

    @property
    def per_document(self) -> Int64s:
        """Counts over all labels, document by document: (documents, 3)."""
        return np.asarray(self.counts.sum(axis=1), dtype=np.int64)

    def only(self, labels: Iterable[str]) -> "CountTable":
        """Return the table of those of its labels that are in `labels`."""
        wanted = frozenset(labels)
        kept = [index for index, label in enumerate(self.labels) if label in wanted]
        chosen = tuple(self.labels[index] for index in kept)
        return CountTable(self.document_ids, self.groups, chosen, self.counts[:, kept, :])


def to_counts(row: Int64s) -> Counts:
    """Return the three numbers of `row`, (3,), as Counts."""
    return Counts(int(row[0]), int(row[1]), int(row[2]))


def tabulate(pairs: Sequence[Pair], sides: Sequence[Sides], match: MatchKeys) -> CountTable:
    """Match each note's two sets of keys; a match counts under its gold key's label."""
    labels = tuple(sorted({key[2] for both in sides for keys in both for key in keys}))
    width = 3 * len(labels)
    column = {label: 3 * index for index, label in enumerate(labels)}
    # Filled as a plain list: one addition to an array costs as much as ten to a list.
    flat = [0] * (len(sides) * width)
    for row, (golds, systems) in enumerate(sides):
        at = row * width
        for key in golds:
            flat[at + column[key[2]] + 2] += 1
        for key in systems:
            flat[at + column[key[2]] + 1] += 1
        for gold_key, system_key in match(golds, systems):
            flat[at + column[gold_key[2]]] += 1
            flat[at + column[gold_key[2]] + 2] -= 1
            flat[at + column[system_key[2]] + 1] -= 1
    counts = np.array(flat, dtype=np.int64).reshape(len(sides), len(labels), 3)
    return CountTable(tuple(p.id for p in pairs), tuple(p.group for p in pairs), labels, counts)
