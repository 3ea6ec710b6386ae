"""The learner's view of a batch: a matrix of cells, and where in it each value occurs."""

from collections.abc import Mapping, Sequence

import numpy as np

from ensemble_deid.arrays import Int32s, Int64s
from ensemble_deid.features.table import Column
from ensemble_deid.taggers.tbed.layout import CellCodes, Layout
from ensemble_deid.taggers.tbed.places import PlaceLists, stable_order
from ensemble_deid.taggers.tbed.templates import MAX_OFFSET, TAG_COLUMN

# Row 0 holds 1 everywhere (a condition that always holds), row 1 holds 0 (one that never does), row 2 the current
# tags, row 3 the gold tags; the feature columns follow.
ALWAYS, NEVER, TAGS, GOLD = range(4)


class CellMatrix:
    """Tags and columns as rows of small integers: 0 an empty place between sentences, else code + 1.

    `current` and `gold` are the tokens' tags, as indices into `tags`. `flat[row * size + place]` is the cell of a row
    at a place; `sizes[row]` is the number of distinct values, and `values[row]` the values, that of cell v at v - 1.
    The places of cell v of a row are list `first_list[row] + v` of `lists`; the tags, which change, have no lists.
    `room[place]` is 5 * (tokens before it in its sentence) + tokens after it, each counted up to 4.
    """

    def __init__(
        self,
        layout: Layout,
        columns: Mapping[str, Column],
        tags: Sequence[str],
        current: Int32s,
        gold: Int32s,
    ) -> None:
        self.layout = layout
        self.size = layout.size
        self.rows = {TAG_COLUMN: TAGS} | {name: GOLD + 1 + i for i, name in enumerate(columns)}
        self.values: list[Sequence[str]] = [("",), (), tags, tags]
        self.values += [column.values for column in columns.values()]
        self.sizes = [len(values) for values in self.values]
        self.cells: CellCodes = np.zeros((len(self.values), layout.size), np.int32)
        self.cells[ALWAYS] = 1
        layout.spread(current + np.int32(1), self.cells[TAGS])
        layout.spread(gold + np.int32(1), self.cells[GOLD])
        for row, column in enumerate(columns.values(), GOLD + 1):
            layout.spread(column.codes + np.int32(1), self.cells[row])
        self.flat: CellCodes = self.cells.reshape(-1)
        self.room: Int64s = np.zeros(layout.size, np.int64)
        layout.spread(layout.room(MAX_OFFSET), self.room)
        self._list_places()

    def _list_places(self) -> None:
        """Sort the places of every row that never changes by value, one row after the other."""
        orders: list[Int64s] = []
        counts: list[Int64s] = []
        # By row: the number of its first list, that of the empty places; -1 where the row has no lists.
        self.first_list: list[int] = [-1] * len(self.values)
        for row in range(GOLD, len(self.values)):
            self.first_list[row] = sum(map(len, counts))
            counts.append(np.bincount(self.cells[row], minlength=self.sizes[row] + 1))
            orders.append(stable_order(self.cells[row], self.sizes[row]))
        # Every row lists all places, so that the end of one row's lists is the start of the next one's.
        self.lists = PlaceLists(np.concatenate(orders), np.concatenate([[0], *counts]).cumsum())

    def listed(self, row: int, cell: int) -> Int64s:
        """Return the places, in rising order, where a row (not the tags) has a value."""
        return self.lists[self.first_list[row] + cell]
