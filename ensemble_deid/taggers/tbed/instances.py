"""Templates taken apart: an *instance* is a template with one offset chosen in each of its windows."""

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Flags, Int64s
from ensemble_deid.taggers.tbed.layout import ALWAYS, NEVER, TAGS, CellMatrix
from ensemble_deid.taggers.tbed.places import ranges
from ensemble_deid.taggers.tbed.templates import MAX_OFFSET, Template

Indices = NDArray[np.intp]


class Instances:
    """The instances of templates over a matrix of cells, template after template; instance j is `offsets[j]`.

    By template t: its `windows[t]`, and their rows of the matrix, `rows[t]`; `row_of[c, t]` is the same as an array
    (widest template, templates), `ALWAYS` where a template has fewer windows. By instance: its template,
    `template[j]`; where its cells lie in the flat matrix, from a place, `shift[c, j]` (0: the present tag; c: window
    c - 1); and in the two halves of `unequal[:, j]`, likewise, pairs of cells that may not be equal, or an earlier
    choice of offsets shows the same context. `fits` says, flat, for each room (see `CellMatrix`) and instance whether
    all windows lie inside the sentence.
    """

    def __init__(self, templates: Sequence[Template], matrix: CellMatrix) -> None:
        self._size = matrix.size
        self.windows = [template.windows for template in templates]
        self.rows = [[matrix.rows[window.column] for window in windows] for windows in self.windows]
        self.width = max(map(len, self.windows), default=0)
        self.row_of: Indices = np.full((self.width, len(templates)), ALWAYS)
        for t, rows in enumerate(self.rows):
            self.row_of[: len(rows), t] = rows
        choices = [list(product(*(window.offsets for window in windows))) for windows in self.windows]
        self.offsets = [offsets for of_template in choices for offsets in of_template]
        self.counts: Indices = np.asarray([len(of_template) for of_template in choices], np.intp)
        self.template: Indices = np.repeat(np.arange(len(templates)), self.counts)
        self.first: Indices = np.concatenate([[0], self.counts.cumsum()])
        self._find_cells()
        before, after = np.divmod(np.arange((MAX_OFFSET + 1) ** 2), MAX_OFFSET + 1)
        needs_before = np.array([-min(0, *offsets) for offsets in self.offsets], np.int64)
        needs_after = np.array([max(0, *offsets) for offsets in self.offsets], np.int64)
        fits = (before[:, None] >= needs_before) & (after[:, None] >= needs_after)
        self.fits: Flags = fits.ravel()

    def __len__(self) -> int:
        return len(self.offsets)

    def of_template(self, t: int) -> range:
        """Return the instances of a template."""
        return range(int(self.first[t]), int(self.first[t + 1]))

    def of_templates(self, templates: Indices) -> tuple[Indices, Indices]:
        """Return all pairs of an index into `templates` and an instance of the template there."""
        counts = self.counts.take(templates)
        index = np.arange(len(templates)).repeat(counts)
        return index, ranges(self.first.take(templates), counts)

    def earlier_places(self, j: int) -> list[tuple[int, int]]:
        """Return the pairs of cells of instance j that may not be equal: its own, and one of an earlier choice."""
        t = int(self.template[j])
        return [
            (row * self._size + offset, row * self._size + earlier)
            for row, window, offset in zip(self.rows[t], self.windows[t], self.offsets[j], strict=True)
            for earlier in range(window.first, offset)
        ]

    def _find_cells(self) -> None:
        checks = [self.earlier_places(j) for j in range(len(self))]
        depth = max(map(len, checks), default=0)
        self.shift: Int64s = np.full((1 + self.width, len(self)), ALWAYS * self._size)
        # The first half of the rows: the cell looked at; the second: a cell that may not be equal to it.
        self.unequal: Int64s = np.full((2 * depth, len(self)), ALWAYS * self._size)
        self.unequal[depth:] = NEVER * self._size
        for j, offsets in enumerate(self.offsets):
            rows = [TAGS, *self.rows[int(self.template[j])]]
            places = zip(rows, (0, *offsets), strict=True)
            self.shift[: len(rows), j] = [row * self._size + offset for row, offset in places]
            for c, (own, earlier) in enumerate(checks[j]):
                self.unequal[c, j], self.unequal[depth + c, j] = own, earlier
