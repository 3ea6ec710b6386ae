"""The learner's view of a batch: a matrix of cells, and where in it each value occurs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.features.table import Column
from ensemble_deid.taggers.tbed.layout import Cells, Integers, Layout
from ensemble_deid.taggers.tbed.templates import TAG_COLUMN

# Row 0 holds 1 everywhere (a condition that always holds), row 1 holds 0 (one that never does), row 2 the tags.
ALWAYS, NEVER, TAGS = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Occurrences:
    """The places of one row sorted by their value: those of cell value v are `order[starts[v]:starts[v + 1]]`."""

    order: Integers
    starts: Integers

    def counts(self) -> Integers:
        """Return how often each cell value occurs."""
        return np.diff(self.starts)


class CellMatrix:
    """Columns and current tags as rows of small integers: 0 an empty place between sentences, else code + 1.

    `codes` are the tokens' current tags, as indices into `tags`. `flat[row * size + place]` is the cell of a row at a
    place; `sizes[row]` is the number of distinct values and `values[row]` the values, that of cell v at v - 1.
    """

    def __init__(
        self, layout: Layout, columns: Mapping[str, Column], codes: NDArray[np.int32], tags: Sequence[str]
    ) -> None:
        self.layout = layout
        self.size = layout.size
        self.rows = {TAG_COLUMN: TAGS} | {name: TAGS + 1 + i for i, name in enumerate(columns)}
        self.sizes = [1, 1, len(tags)] + [len(column.values) for column in columns.values()]
        self.values: list[Sequence[str]] = [(), (), tags] + [column.values for column in columns.values()]
        self.cells: Cells = np.zeros((TAGS + 1 + len(columns), layout.size), np.int32)
        self.cells[ALWAYS] = 1
        layout.spread(codes + np.int32(1), self.cells[TAGS])
        for row, column in enumerate(columns.values(), TAGS + 1):
            layout.spread(column.codes + np.int32(1), self.cells[row])
        self.flat: Cells = self.cells.reshape(-1)
        self._occurrences: dict[int, Occurrences] = {}

    def occurrences(self, row: int) -> Occurrences:
        """Return where the values of a row occur; the row must be one that does not change (not the tags)."""
        if row not in self._occurrences:
            cells = self.cells[row]
            n_values = self.sizes[row] + 1
            if n_values < 1 << 16:
                # A stable sort of 16-bit integers is a radix sort.
                order = np.argsort(cells.astype(np.uint16), kind="stable")
            else:
                bits = self.size.bit_length()
                packed = np.sort((cells.astype(np.int64) << bits) | np.arange(self.size))
                order = packed & ((1 << bits) - 1)
            starts = np.zeros(n_values + 1, np.int64)
            np.cumsum(np.bincount(cells, minlength=n_values), out=starts[1:])
            self._occurrences[row] = Occurrences(order, starts)
        return self._occurrences[row]
