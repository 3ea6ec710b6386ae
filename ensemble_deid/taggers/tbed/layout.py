"""The batch as one padded matrix, where every column is a row, and where in it each value occurs.

Empty cells (0), which no value equals, lie between the sentences: a window that reaches out of its sentence finds one,
so that no rule sees across a border and nothing needs to ask where the borders are.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ensemble_deid.arrays import Int32s, Int64s
from ensemble_deid.errors import RuleError
from ensemble_deid.features.table import Column
from ensemble_deid.taggers.tbed.places import PlaceLists, stable_order
from ensemble_deid.taggers.tbed.templates import MAX_OFFSET, TAG_COLUMN

CellCodes = Int32s
Strings = Sequence[str] | Column


def as_column(values: Strings) -> Column:
    """Return a column as it is, and strings encoded, codes in order of first appearance."""
    return values if isinstance(values, Column) else Column.from_strings(values)


def check_columns(columns: Mapping[str, Strings], n_tokens: int, needed: Sequence[str]) -> dict[str, Column]:
    """Encode the columns that templates or rules need, in that order.

    Raises RuleError when one is missing, and ValueError when one has not `n_tokens` tokens.
    """
    encoded: dict[str, Column] = {}
    for name in dict.fromkeys(needed):
        if name == TAG_COLUMN:
            continue
        if name not in columns:
            raise RuleError(f"no feature column {name!r}; there are: {', '.join(sorted(columns))}")
        if len(columns[name]) != n_tokens:
            raise ValueError(f"column {name!r} has {len(columns[name])} tokens, the tags have {n_tokens}")
        encoded[name] = as_column(columns[name])
    return encoded


class Layout:
    """Where each token stands in a flat array with `pad` empty cells before, between and after the sentences.

    Raises ValueError when the sentence starts do not rise from 0 to below `n_tokens`.
    """

    def __init__(self, sentence_starts: ArrayLike, n_tokens: int, *, pad: int) -> None:
        starts: Int64s = np.asarray(sentence_starts, dtype=np.int64).reshape(-1)
        if n_tokens and (len(starts) == 0 or starts[0] != 0):
            raise ValueError("the first sentence must start at token 0")
        if (np.diff(starts) <= 0).any() or (len(starts) and starts[-1] >= max(n_tokens, 1)):
            raise ValueError(f"sentence starts must rise, and lie below the number of tokens, {n_tokens}")
        self.pad = pad
        lengths = np.diff(starts, append=n_tokens) if n_tokens else starts[:0]
        before = np.repeat(np.arange(1, len(lengths) + 1) * pad, lengths)
        self.places: Int64s = np.arange(n_tokens) + before
        self._starts, self._lengths = starts, lengths
        self.size = n_tokens + pad * (len(lengths) + 1)

    def __len__(self) -> int:
        return len(self.places)

    def room(self, most: int) -> Int64s:
        """Return for each token (most + 1) * (tokens before it in its sentence) + tokens after, each up to `most`."""
        first = np.repeat(self._starts, self._lengths)
        before = np.arange(len(self)) - first
        after = np.repeat(self._lengths, self._lengths) - 1 - before
        rooms: Int64s = np.minimum(before, most) * (most + 1) + np.minimum(after, most)
        return rooms


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
        self.cells[TAGS, layout.places] = current + np.int32(1)
        self.cells[GOLD, layout.places] = gold + np.int32(1)
        for row, column in enumerate(columns.values(), GOLD + 1):
            self.cells[row, layout.places] = column.codes + np.int32(1)
        self.flat: CellCodes = self.cells.reshape(-1)
        self.room: NDArray[np.uint8] = np.zeros(layout.size, np.uint8)
        self.room[layout.places] = layout.room(MAX_OFFSET)
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
