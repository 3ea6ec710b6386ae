"""Candidates in tables: what the submodels think of the other cells of a column tells what a cell is. Headings do not
count.

In a bed board the initials of one nurse may be found because they are a word nowhere else; then the two letters below
are a nurse's, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ensemble_deid.arrays import Flags, Floats, Int64s
from ensemble_deid.features.batch import Batch
from ensemble_deid.note.grid import cells_of_tokens
from ensemble_deid.stacking.candidates import CandidateTable, NamedColumns, maxima

COLUMNS = ("column:phi", "column:same", "column:cells")
_SHARE = 0.4
"""Least mean confidence in a label over the other cells of a column for a cell to be a candidate."""
_MOST_TOKENS = 6


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """The cells of a batch: the first token of each and that after its last, and its column, (cells,) each.

    `counts` bool (cells,) tells which are no headings. `own` (n,) is the cell in which each candidate begins, -1
    outside tables.
    """

    first: Int64s
    after: Int64s
    column: Int64s
    counts: Flags
    own: Int64s

    @classmethod
    def of(cls, table: CandidateTable, batch: Batch) -> "_Cells":
        which, cells = cells_of_tokens(batch.documents, batch.tokens)
        numbers = np.arange(len(cells))
        # A token lies in one cell at most, and the cells' tokens are adjacent.
        inside = np.flatnonzero(which >= 0)
        first = inside[np.searchsorted(which[inside], numbers, side="left")]
        after = inside[np.searchsorted(which[inside], numbers, side="right") - 1] + 1
        begins = table.token_ranges(batch.tokens)[0]
        own = which[np.minimum(begins, max(0, len(which) - 1))] if len(which) else np.full(len(table), -1)
        column = np.array([cell.column for cell in cells], dtype=np.int64)
        return cls(first, after, column, ~np.array([cell.is_heading for cell in cells], dtype=bool), own)

    def by_label(self, table: CandidateTable) -> Floats:
        """Return the highest confidence of a submodel in each label for each cell, (cells, labels)."""
        rows = np.flatnonzero(self.own >= 0)
        out = np.zeros((len(self.column), len(table.labels)))
        np.maximum.at(out, (self.own[rows], table.label[rows]), table.confidence[rows].max(axis=1, initial=0.0))
        return out

    def others(self) -> Int64s:
        """Return how many other cells the column of each cell has, (cells,)."""
        return np.asarray(np.bincount(self.column, self.counts)[self.column] - self.counts, dtype=np.int64)

    def mean_of_others(self, values: Floats) -> Floats:
        """Return the mean of the values (cells, k) over the other cells of each cell's column, 0 where it is alone."""
        values = values * self.counts[:, None]
        total = np.zeros((int(self.column.max(initial=-1)) + 1, values.shape[1]))
        np.add.at(total, self.column, values)
        return np.asarray((total[self.column] - values) / np.maximum(self.others(), 1)[:, None], dtype=np.float64)


def table_columns(table: CandidateTable, batch: Batch, odds: Floats) -> NamedColumns:
    """Return what the submodels think of the other cells of each candidate's column; 0 outside tables.

    `column:phi` is the mean over these cells of the highest probability of PHI, given each candidate's log `odds` (n,);
    `column:same` that of the highest confidence in the candidate's label; `column:cells` the log of their number.
    """
    cells = _Cells.of(table, batch)
    rows = np.flatnonzero(cells.own >= 0)
    own = cells.own[rows]
    phi = maxima(1 / (1 + np.exp(-odds[rows])), own, len(cells.column))
    out = np.zeros((len(table), len(COLUMNS)))
    out[rows, 0] = cells.mean_of_others(phi[:, None])[own, 0]
    out[rows, 1] = cells.mean_of_others(cells.by_label(table))[own, table.label[rows]]
    out[rows, 2] = np.log1p(cells.others()[own])
    return NamedColumns(COLUMNS, out)


def cells_like_others(table: CandidateTable, batch: Batch, free: Flags) -> Iterator[tuple[float, int, int, int]]:
    """Yield cells without a candidate in columns that the submodels believe to be of one label.

    Each is the mean confidence in the other cells, the first token, that after the last, and the label. `free` bool
    (n_tokens,) tells where no candidate lies.
    """
    cells = _Cells.of(table, batch)
    if not len(cells.column) or not len(table):
        return
    mean = cells.mean_of_others(cells.by_label(table))
    label, belief = mean.argmax(axis=1), mean.max(axis=1)
    short = cells.counts & (cells.after - cells.first <= _MOST_TOKENS)
    for k in np.flatnonzero(short & (belief >= _SHARE)).tolist():
        first, after = int(cells.first[k]), int(cells.after[k])
        if free[first:after].all():
            yield float(belief[k]), first, after, int(label[k])
