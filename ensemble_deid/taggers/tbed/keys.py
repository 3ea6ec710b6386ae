"""Every context a template can ask for, as one integer.

A *context* is a template, a present tag and a value for each window: what must hold where a rule fires. Its key
is a mixed-radix number; the templates' ranges of keys follow one another, so a key also names its template. A
template of windows is looked at as *instances*, one for each choice of an offset in each window.

Integers stay exact up to 2**63 (doubles would fail at 2**53). Where the values of a template do not fit, its
windows are merged: pairs of values are numbered as they are met, and the number takes their place in the key.
"""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.taggers.tbed.cells import ALWAYS, NEVER, TAGS, CellMatrix
from ensemble_deid.taggers.tbed.keyindex import KeyIndex
from ensemble_deid.taggers.tbed.layout import Cells, Integers
from ensemble_deid.taggers.tbed.templates import Template

# How many different combinations of values a merged template can hold: far more than memory can.
_MERGED_SIZE = 1 << 30
# Keys are multiplied by the number of tags (the new tag of a rule), and must stay below 2**63.
_LIMIT = 1 << 62

CellReader = Callable[[int, int], Cells]


class ContextKeys:
    """The keys of contexts at places of a matrix of cells.

    `template[j]`, `offsets[j]` describe instance j; `bases[t]` is the first key of template t and `sizes[t]` the
    number of its keys. Raises ValueError when there are so many tags that no key can hold them.
    """

    def __init__(self, templates: Sequence[Template], matrix: CellMatrix) -> None:
        self.matrix = matrix
        self.n_tags = n_tags = matrix.sizes[TAGS]
        self.window_rows = [[matrix.rows[w.column] for w in template.windows] for template in templates]
        self.windows = [template.windows for template in templates]
        radices = [[matrix.sizes[row] for row in rows] for rows in self.window_rows]
        limit = _LIMIT // (n_tags * max(1, len(templates)))
        self.merged = [_product(r) * n_tags > limit for r in radices]
        self.radices = [[_MERGED_SIZE] if merged else r for merged, r in zip(self.merged, radices, strict=True)]
        self.sizes = [_product(r) * n_tags for r in self.radices]
        if sum(self.sizes) > _LIMIT // n_tags:
            raise ValueError(f"{n_tags} tags and {len(templates)} templates are more than a key can hold")
        self.bases: Integers = np.cumsum([0, *self.sizes[:-1]], dtype=np.int64)
        # For each merge of a merged template: the numbers of the pairs met.
        self._pairs = [
            [KeyIndex() for _ in rows[1:]] if merged else []
            for merged, rows in zip(self.merged, self.window_rows, strict=True)
        ]
        self._make_instances()

    def _make_instances(self) -> None:
        self.offsets: list[tuple[int, ...]] = []
        template: list[int] = []
        for t, windows in enumerate(self.windows):
            for offsets in product(*(window.offsets for window in windows)):
                self.offsets.append(offsets)
                template.append(t)
        self.template: NDArray[np.intp] = np.asarray(template, np.intp)
        self.n_instances = len(template)
        width = 1 + max(map(len, self.offsets), default=0)
        checks = [self._earlier_places(j) for j in range(self.n_instances)]
        n_checks = max(map(len, checks), default=0)
        # (conditions or checks, instances): where the cell lies from the place in hand, and its weight in the key.
        self._shift: Integers = np.full((width, self.n_instances), ALWAYS * self.matrix.size, np.int64)
        self._weight: Integers = np.zeros((width, self.n_instances), np.int64)
        self._own: Integers = np.full((n_checks, self.n_instances), ALWAYS * self.matrix.size, np.int64)
        self._earlier: Integers = np.full((n_checks, self.n_instances), NEVER * self.matrix.size, np.int64)
        for j in range(self.n_instances):
            for c, (row, offset, weight) in enumerate(self._terms(j)):
                self._shift[c, j] = row * self.matrix.size + offset
                self._weight[c, j] = weight
            for c, (own, earlier) in enumerate(checks[j]):
                self._own[c, j], self._earlier[c, j] = own, earlier
        # Cells are code + 1: the base takes the ones away again.
        self._base: Integers = self.bases[self.template] - self._weight.sum(axis=0)
        self._any_merged = any(self.merged)
        self._merged_template: NDArray[np.bool_] = np.asarray(self.merged, bool)

    def _terms(self, j: int) -> list[tuple[int, int, int]]:
        """Return (row, offset, weight) of the present tag and of each window of an instance."""
        t = int(self.template[j])
        if self.merged[t]:
            # The weights of a merged template's windows are nought: `_merge` adds their number.
            weights = [self.radices[t][0]] + [0] * len(self.offsets[j])
        else:
            weights = [_product(self.radices[t][c:]) for c in range(len(self.radices[t]) + 1)]
        rows = [TAGS, *self.window_rows[t]]
        return list(zip(rows, (0, *self.offsets[j]), weights, strict=True))

    def _earlier_places(self, j: int) -> list[tuple[int, int]]:
        """Return the pairs of shifts that show the same context by an earlier choice of offsets, if equal."""
        t = int(self.template[j])
        return [
            (row * self.matrix.size + offset, row * self.matrix.size + earlier)
            for row, window, offset in zip(self.window_rows[t], self.windows[t], self.offsets[j], strict=True)
            for earlier in range(window.first, offset)
        ]

    def at(self, places: Integers, instances: NDArray[np.intp], *, number_new: bool) -> Integers:
        """Return the key of each (place, instance), -1 where a window leaves the sentence or repeats a context.

        `number_new` numbers combinations of a merged template not met before; else their key is -1.
        """
        cells = self.matrix.flat.take(self._shift.take(instances, axis=1) + places)
        keys: Integers = (cells * self._weight.take(instances, axis=1)).sum(axis=0)
        keys += self._base.take(instances)
        invalid = (cells == 0).any(axis=0)
        if len(self._own):
            own = self.matrix.flat.take(self._own.take(instances, axis=1) + places)
            earlier = self.matrix.flat.take(self._earlier.take(instances, axis=1) + places)
            invalid |= (own == earlier).any(axis=0)
        if self._any_merged:
            self._merge_at(keys, cells, invalid, self.template.take(instances), number_new)
        keys[invalid] = -1
        return keys

    def of_instance(self, j: int, places: Integers | slice, *, number_new: bool) -> Integers:
        """Return the keys of one instance at many places, -1 as in `at`. A slice is read without copying."""
        size = self.matrix.size

        def cells_at(shift: int) -> Cells:
            if isinstance(places, slice):
                return self.matrix.flat[places.start + shift : places.stop + shift]
            return self.matrix.flat.take(places + shift)

        width = 1 + len(self.offsets[j])
        cells = [cells_at(int(shift)) for shift in self._shift[:width, j]]
        keys: Integers = cells[0] * self._weight[0, j]
        keys += self._base[j]
        invalid = cells[0] == 0
        for c in range(1, width):
            if self._weight[c, j]:
                keys += cells[c] * self._weight[c, j]
            invalid |= cells[c] == 0
        for own, earlier in zip(self._own[:, j].tolist(), self._earlier[:, j].tolist(), strict=True):
            if earlier != NEVER * size:
                invalid |= cells_at(own) == cells_at(earlier)
        t = int(self.template[j])
        if self.merged[t]:
            self._merge(t, keys, cells[1:], invalid, number_new)
        keys[invalid] = -1
        return keys

    def _merge_at(
        self, keys: Integers, cells: Cells, invalid: NDArray[np.bool_], template: NDArray[np.intp], new: bool
    ) -> None:
        for t in np.flatnonzero(self._merged_template):
            (mine,) = (template == t).nonzero()
            part, unusable = keys[mine], invalid[mine]
            windows = [cells[1 + c, mine] for c in range(len(self.windows[t]))]
            self._merge(int(t), part, windows, unusable, new)
            keys[mine], invalid[mine] = part, unusable

    def _merge(
        self, t: int, keys: Integers, cells: Sequence[Cells], invalid: NDArray[np.bool_], number_new: bool
    ) -> None:
        """Add to the keys of template t the number of the combination of its windows' cells, in place."""
        (good,) = (~invalid).nonzero()
        number = cells[0][good].astype(np.int64)
        for c, index in enumerate(self._pairs[t], 1):
            pair = number * (self.matrix.sizes[self.window_rows[t][c]] + 1) + cells[c][good]
            if number_new:
                distinct = np.unique(pair)
                index.add(distinct[index.find(distinct) < 0])
            number = index.find(pair).astype(np.int64)
            invalid[good[number < 0]] = True
            good, number = good[number >= 0], number[number >= 0]
        keys[good] += number

    def templates_of(self, keys: Integers) -> NDArray[np.intp]:
        """Return which template each key belongs to."""
        return np.searchsorted(self.bases, keys, side="right") - 1

    def decode(self, t: int, keys: Integers) -> tuple[Integers, Integers]:
        """Return the present tags (n,) and the windows' cells (windows, n) of keys of template t."""
        rest = keys - self.bases[t]
        cells = np.empty((len(self.windows[t]), len(keys)), np.int64)
        if not self.merged[t]:
            for c in range(len(cells) - 1, -1, -1):
                rest, cells[c] = np.divmod(rest, self.radices[t][c])
            return rest, cells + 1
        tags, number = np.divmod(rest, _MERGED_SIZE)
        for c in range(len(cells) - 1, 0, -1):
            pair = self._pairs[t][c - 1].keys[number]
            number, cells[c] = np.divmod(pair, self.matrix.sizes[self.window_rows[t][c]] + 1)
        cells[0] = number
        return tags, cells


def _product(numbers: Sequence[int]) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result
