"""Candidates in plain-text tables: the other cells of a column tell what a cell is. Headings do not count.

In a bed board the initials of one nurse may be found because they are a word nowhere else; then the two letters below
are a nurse's, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ensemble_deid.arrays import Flags, Floats, Int64s
from ensemble_deid.features.batch import Batch
from ensemble_deid.note.text_tables import cells_of_tokens
from ensemble_deid.note.tokens import TokenTable
from ensemble_deid.stacking.candidates import CandidateTable, NamedColumns, maxima

COLUMN = "column"
"""The kind of these columns, and of the net's candidates from tables."""
_LEAST_BELIEF = 0.4
"""Mean confidence in a label over the other cells of a column from which on a cell is a candidate."""
_MOST_TOKENS = 6


@dataclass(frozen=True, slots=True, eq=False)
class BatchCells:
    """The cells of a batch's tables: first token, token after the last, column, and whether data, (cells,) each.

    `of_token` (n_tokens,) is the cell of each token, -1 outside tables. Cells that are not data are headings.
    """

    of_token: Int64s
    first: Int64s
    after: Int64s
    column: Int64s
    is_data: Flags

    @classmethod
    def of(cls, batch: Batch) -> "BatchCells":
        of_token, cells = cells_of_tokens(batch.documents, batch.tokens)
        numbers = np.arange(len(cells))
        # A token lies in one cell at most, and the cells' tokens are adjacent.
        inside = np.flatnonzero(of_token >= 0)
        first = inside[np.searchsorted(of_token[inside], numbers, side="left")]
        after = inside[np.searchsorted(of_token[inside], numbers, side="right") - 1] + 1
        column = np.array([cell.column for cell in cells], dtype=np.int64)
        return cls(of_token, first, after, column, ~np.array([cell.is_heading for cell in cells], dtype=bool))

    def of_candidates(self, table: CandidateTable, tokens: TokenTable) -> Int64s:
        """Return the cell in which each candidate begins, (n,), -1 outside tables."""
        first, _ = table.token_ranges(tokens)
        return np.append(self.of_token, -1)[first]

    def others(self) -> Int64s:
        """Return how many other cells with data the column of each cell has, (cells,)."""
        return np.asarray(np.bincount(self.column, self.is_data)[self.column] - self.is_data, dtype=np.int64)

    def mean_of_others(self, values: Floats) -> Floats:
        """Return the mean of the values (cells, k) over the other cells of each cell's column, 0 where it is alone."""
        values = values * self.is_data[:, None]
        total = np.zeros((int(self.column.max(initial=-1)) + 1, values.shape[1]))
        np.add.at(total, self.column, values)
        return np.asarray((total[self.column] - values) / np.maximum(self.others(), 1)[:, None], dtype=np.float64)

    def belief_in_labels(self, table: CandidateTable, own: Int64s) -> Floats:
        """Return a submodel's highest confidence in each label for each cell, (cells, labels); `own` (n,) as above."""
        rows = np.flatnonzero(own >= 0)
        out = np.zeros((len(self.column), len(table.labels)))
        np.maximum.at(out, (own[rows], table.label[rows]), table.confidence[rows].max(axis=1, initial=0.0))
        return out


def text_table_columns(table: CandidateTable, tokens: TokenTable, cells: BatchCells, odds: Floats) -> NamedColumns:
    """Return what the submodels think of the other cells of each candidate's column; 0 outside tables.

    `column:phi` is the mean over these cells of the highest probability of PHI, given each candidate's log `odds` (n,);
    `column:same` that of the highest confidence in the candidate's label; `column:cells` the log of their number.
    """
    own = cells.of_candidates(table, tokens)
    belief = cells.mean_of_others(cells.belief_in_labels(table, own))
    rows = np.flatnonzero(own >= 0)
    own = own[rows]
    phi = maxima(1 / (1 + np.exp(-odds[rows])), own, len(cells.column))
    found = {"phi": cells.mean_of_others(phi[:, None])[own, 0], "same": belief[own, table.label[rows]]}
    found["cells"] = np.log1p(cells.others()[own])
    out = np.zeros((len(table), len(found)))
    out[rows] = np.stack(list(found.values()), axis=1)
    return NamedColumns(tuple(f"{COLUMN}:{name}" for name in found), out)


def cells_like_others(
    table: CandidateTable, tokens: TokenTable, cells: BatchCells, free: Flags
) -> Iterator[tuple[float, int, int, int]]:
    """Yield cells without a candidate in columns that the submodels believe to be of one label.

    Each is the mean confidence in the other cells, the first token, that after the last, and the label. `free` bool
    (n_tokens,) tells where no candidate lies.
    """
    if not len(cells.column) or not len(table):
        return
    mean = cells.mean_of_others(cells.belief_in_labels(table, cells.of_candidates(table, tokens)))
    label, belief = mean.argmax(axis=1), mean.max(axis=1)
    short = cells.is_data & (cells.after - cells.first <= _MOST_TOKENS)
    for k in np.flatnonzero(short & (belief >= _LEAST_BELIEF)).tolist():
        first, after = int(cells.first[k]), int(cells.after[k])
        if free[first:after].all():
            yield float(belief[k]), first, after, int(label[k])
