"""Entity-level counts: which annotated stretches were found, under four notions of "the same"."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ensemble_deid.evaluation.counts import Counts
from ensemble_deid.evaluation.matching import Key, match_blind, match_overlapping, match_relaxed, match_strict
from ensemble_deid.evaluation.pairs import EvaluationError, pair_documents
from ensemble_deid.text.document import Document

Matching = Literal["strict", "relaxed", "overlap", "type-blind"]
MATCHINGS: tuple[Matching, ...] = get_args(Matching)
_MATCHERS: Mapping[str, Callable[[Sequence[Key], Sequence[Key]], list[tuple[Key, Key]]]] = MappingProxyType(
    {
        "strict": match_strict,
        "relaxed": match_relaxed,
        "overlap": match_overlapping,
        "type-blind": match_blind,
    }
)


@dataclass(frozen=True, slots=True)
class CountTable:
    """Counts of every document and label, from which every total, mean and resample is a sum.

    `counts` has the shape (documents, labels, 3): true positives, false positives, false negatives. Documents are
    in the order of their ids, labels in alphabetical order; `groups` names each document's patient.
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

    def only(self, labels: frozenset[str]) -> "CountTable":
        """Return the table of those of its labels that are in `labels`."""
        kept = [index for index, label in enumerate(self.labels) if label in labels]
        chosen = tuple(self.labels[index] for index in kept)
        return CountTable(self.document_ids, self.groups, chosen, self.counts[:, kept, :])


@dataclass(frozen=True, slots=True)
class EntityCounts:
    """Counts over everything, and for each label that either side uses."""

    total: Counts
    by_label: Mapping[str, Counts]


def to_counts(row: npt.NDArray[np.int64]) -> Counts:
    """Return the three numbers of `row`, (3,), as Counts."""
    return Counts(int(row[0]), int(row[1]), int(row[2]))


def strict_counts(gold: Sequence[Document], system: Sequence[Document]) -> EntityCounts:
    """Count exact matches of start, end and label (Zhao et al. 2020, "strict entity matching").

    An annotation that a side gives twice counts once. Raises EvaluationError when the documents do not match.
    """
    table = count_entities(gold, system)
    return EntityCounts(table.total, MappingProxyType(table.by_label))


def count_entities(
    gold: Sequence[Document], system: Sequence[Document], *, matching: Matching = "strict"
) -> CountTable:
    """Count found, spurious and missed entities per document and label; annotations given twice count once.

    - `strict`: same start, end and label. - `relaxed`: same start and label, ends at most 2 characters apart (the
    2014 i2b2 script). - `overlap`: same label, at least one character shared. - `type-blind`: same start and end,
    any label; a match counts under its gold label. Each annotation takes part in at most one match, and as many
    are matched as can be. Raises EvaluationError when the documents do not match.
    """
    if matching not in _MATCHERS:
        raise EvaluationError(f"there is no matching {matching!r}; there are: {', '.join(MATCHINGS)}")
    match = _MATCHERS[matching]
    pairs = pair_documents(gold, system)
    labels = tuple(sorted({s.label for pair in pairs for d in (pair.gold, pair.system) for s in d.spans}))
    column = {label: index for index, label in enumerate(labels)}
    counts = np.zeros((len(pairs), len(labels), 3), dtype=np.int64)
    for row, pair in enumerate(pairs):
        golds = sorted({span.key for span in pair.gold.spans})
        systems = sorted({span.key for span in pair.system.spans})
        matched = match(golds, systems)
        for key in golds:
            counts[row, column[key[2]], 2] += 1
        for key in systems:
            counts[row, column[key[2]], 1] += 1
        for gold_key, system_key in matched:
            counts[row, column[gold_key[2]], 0] += 1
            counts[row, column[gold_key[2]], 2] -= 1
            counts[row, column[system_key[2]], 1] -= 1
    return CountTable(tuple(p.id for p in pairs), tuple(p.group for p in pairs), labels, counts)
