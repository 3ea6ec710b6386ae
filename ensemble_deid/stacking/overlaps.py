"""Competing candidates: pairs that overlap in the same document, and how they overlap."""

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.stacking.candidates import CandidateTable

RELATIONS = ("same", "inside", "around", "crossing")


def overlapping_candidates(table: CandidateTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all ordered pairs (i, j), i != j, of rows that overlap; rows are sorted by document and start."""
    left: list[int] = []
    right: list[int] = []
    active: list[int] = []
    document, start, end = table.document.tolist(), table.start.tolist(), table.end.tolist()
    for row in range(len(table)):
        active = [i for i in active if document[i] == document[row] and end[i] > start[row]]
        for i in active:
            left += [i, row]
            right += [row, i]
        active.append(row)
    return np.array(left, dtype=np.int64), np.array(right, dtype=np.int64)


def relation(table: CandidateTable, i: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how j overlaps i, as an index into `RELATIONS`: same offsets, inside i, around i, or crossing it."""
    same = (table.start[i] == table.start[j]) & (table.end[i] == table.end[j])
    inside = (table.start[i] <= table.start[j]) & (table.end[j] <= table.end[i])
    around = (table.start[j] <= table.start[i]) & (table.end[i] <= table.end[j])
    return np.select([same, inside, around], [0, 1, 2], 3)


def maxima(values: NDArray[np.float64], owners: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Return the largest of the values (pairs, ...) of each owner, 0 where it has none."""
    out = np.zeros((size, *values.shape[1:]))
    np.maximum.at(out, owners, values)
    return out
