"""The candidates: every distinct span proposed by any submodel, with each submodel's confidence, as columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Flags, Floats, Int32s, Int64s
from ensemble_deid.note.span import Span, SpanKey
from ensemble_deid.note.tokens import TokenTable
from ensemble_deid.taggers.base import Proposals


@dataclass(frozen=True, slots=True, eq=False)
class NamedColumns:
    """`values` float64 (n, names); a name is `kind:` and what it is about, such as `phi:crf`."""

    names: tuple[str, ...]
    values: Floats

    @classmethod
    def none(cls, n: int) -> "NamedColumns":
        return cls((), np.zeros((n, 0)))

    def of_kinds(self, *kinds: str) -> Floats:
        """Return the values of the columns of some kinds, (n, columns)."""
        return self.values[:, [k for k, name in enumerate(self.names) if name.partition(":")[0] in kinds]]

    def select(self, rows: Int64s) -> "NamedColumns":
        return NamedColumns(self.names, self.values[rows])

    def without(self, names: Sequence[str]) -> "NamedColumns":
        kept = [k for k, name in enumerate(self.names) if name not in names]
        return NamedColumns(tuple(self.names[k] for k in kept), self.values[:, kept])

    def without_submodels(self, submodels: Sequence[str]) -> "NamedColumns":
        """Return the columns without those about some of the submodels, of whatever kind."""
        return self.without([name for name in self.names if name.partition(":")[2] in submodels])

    def beside(self, others: "NamedColumns") -> "NamedColumns":
        return NamedColumns(self.names + others.names, np.concatenate([self.values, others.values], axis=1))


COLUMNS = ("document", "start", "end", "label", "confidence", "chosen")
"""The columns of a `CandidateTable`."""


@dataclass(frozen=True, slots=True, eq=False)
class CandidateTable:
    """Candidates of a batch, sorted by document, start, end and label; one row each.

    `document`, `start`, `end`, `label` int32 (n,): `label` indexes `labels`. `confidence` float64 (n, submodels) is 0
    where a submodel did not propose the span; `chosen` bool (n, submodels) tells whether it predicted the span.
    """

    labels: tuple[str, ...]
    submodels: tuple[str, ...]
    document: Int32s
    start: Int32s
    end: Int32s
    label: Int32s
    confidence: Floats
    chosen: Flags

    def __len__(self) -> int:
        return len(self.document)

    def select(self, rows: NDArray[np.intp] | Flags) -> "CandidateTable":
        return replace(self, **{name: getattr(self, name)[rows] for name in COLUMNS})

    def token_ranges(self, tokens: TokenTable) -> tuple[Int64s, Int64s]:
        """Return the row of each candidate's first token, and the row after its last, (n,) each."""
        # Places in the batch as if its notes were all of this length.
        length = np.int64(max(tokens.end.max(initial=0), self.end.max(initial=0)) + 1)
        first = np.searchsorted(tokens.document * length + tokens.end, self.document * length + self.start, "right")
        return first, np.searchsorted(tokens.document * length + tokens.start, self.document * length + self.end)

    def is_gold(self, gold: Sequence[Sequence[Span]]) -> Flags:
        """Return whether each candidate matches an annotated span exactly, (n,)."""
        keys = [{span.key for span in spans} for spans in gold]
        return np.array([key in keys[d] for d, key in zip(self.document.tolist(), self.keys(), strict=True)], bool)

    def is_phi(self, gold: Sequence[Sequence[Span]]) -> Flags:
        """Return whether annotated spans have at least half of each candidate's characters, (n,)."""
        found = np.zeros(len(self), dtype=bool)
        for d in np.unique(self.document).tolist():
            rows = np.flatnonzero(self.document == d)
            inside = np.zeros(
                max((span.end for span in gold[d]), default=0) + int(self.end[rows].max()), dtype=np.int64
            )
            for span in gold[d]:
                inside[span.start : span.end] = 1
            before = np.concatenate([[0], np.cumsum(inside)])
            found[rows] = 2 * (before[self.end[rows]] - before[self.start[rows]]) >= self.end[rows] - self.start[rows]
        return found

    def has_label(self, labels: Sequence[str]) -> Flags:
        """Return whether each candidate has one of the labels, (n,)."""
        return np.isin(self.label, [k for k, label in enumerate(self.labels) if label in labels])

    def highest_confidence(self) -> Floats:
        """Return the confidence of the submodel that is surest of each candidate, (n,), from 0 to 1."""
        return np.asarray(np.clip(self.confidence.max(axis=1, initial=0.0), 0.0, 1.0), dtype=np.float64)

    def keys(self) -> list[SpanKey]:
        rows = zip(self.start.tolist(), self.end.tolist(), self.label.tolist(), strict=True)
        return [(start, end, self.labels[label]) for start, end, label in rows]

    def spans(self, scores: Floats, keep: Flags, n_documents: int) -> list[list[Span]]:
        """Return the kept rows as spans with the given scores, a list for each document."""
        found: list[list[Span]] = [[] for _ in range(n_documents)]
        columns = (self.document, self.start, self.end, self.label, scores, self.chosen)
        for d, start, end, label, score, chose in zip(*(column[keep].tolist() for column in columns), strict=True):
            found[d].append(Span(start, end, self.labels[label], score, "+".join(compress(self.submodels, chose))))
        return found


def collect(
    proposals: Mapping[str, Proposals], *, labels: tuple[str, ...], min_confidence: float = 0.0
) -> CandidateTable:
    """Merge the submodels' proposals for the same documents.

    A span that no submodel predicts is dropped unless one gives it a confidence of at least `min_confidence`.
    """
    submodels = tuple(proposals)
    index = {label: k for k, label in enumerate(labels)}
    # Of each place and label the submodels' confidences, and then whether they predicted it.
    found: dict[tuple[int, int, int, int], list[float]] = {}
    for column, proposed in enumerate(proposals.values()):
        for d, (chosen, spans) in enumerate(zip(proposed.best, proposed.candidates, strict=True)):
            for number, span in enumerate((*chosen, *spans)):
                key = (d, span.start, span.end, index[span.label])
                if (row := found.get(key)) is None:
                    row = found[key] = [0.0] * (2 * len(submodels))
                row[column] = max(row[column], span.score)
                if number < len(chosen):
                    row[len(submodels) + column] = 1.0
    keys = sorted(found)
    values = np.array([found[key] for key in keys], dtype=np.float64).reshape(len(keys), 2 * len(submodels))
    confidence, chosen_by = values[:, : len(submodels)], values[:, len(submodels) :] > 0
    document, start, end, label = np.array(keys, dtype=np.int32).reshape(len(keys), 4).T
    table = CandidateTable(
        labels, submodels, document, start, end=end, label=label, confidence=confidence, chosen=chosen_by
    )
    return table.select(chosen_by.any(axis=1) | (confidence.max(axis=1, initial=0.0) >= min_confidence))


def merge_rows(
    table: CandidateTable, added: Sequence[tuple[int, int, int, int]]
) -> tuple[CandidateTable, NDArray[np.intp]]:
    """Return the table with candidates that no submodel proposed: document, start, end and label index of each.

    With it comes the order, (n,): the row that each candidate had when the added ones stood at the end.
    """
    places = np.array(added, dtype=np.int32).reshape(len(added), 4)
    document, start, end, label = (
        np.concatenate([old, new])
        for old, new in zip((table.document, table.start, table.end, table.label), places.T, strict=True)
    )
    blank = np.zeros((len(added), len(table.submodels)))
    order = np.lexsort((label, end, start, document))
    confidence = np.concatenate([table.confidence, blank])
    chosen = np.concatenate([table.chosen, blank.astype(bool)])
    longer = replace(table, document=document, start=start, end=end, label=label, confidence=confidence, chosen=chosen)
    return longer.select(order), order


def maxima(values: Floats, owners: Int64s, size: int) -> Floats:
    """Return the largest of the values (pairs, ...) of each owner, 0 where it has none."""
    out = np.zeros((size, *values.shape[1:]))
    np.maximum.at(out, owners, values)
    return out
