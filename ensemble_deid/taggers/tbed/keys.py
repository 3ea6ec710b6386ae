"""Every context a template can ask for, as one integer.

A *context* is a template, a present tag and a value for each window: what must hold where a rule fires. Its key
is a mixed-radix number; the templates' ranges of keys follow one another, so a key also names its template. A
template of windows is looked at as *instances*, one for each choice of an offset in each window.

Integers stay exact up to 2**63 (doubles would fail at 2**53). Where the values of a template do not fit, its
windows are merged: pairs of values are numbered as they are met, and the number takes their place in the key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.taggers.tbed.cells import ALWAYS, NEVER, TAGS, CellMatrix
from ensemble_deid.taggers.tbed.keyindex import KeyIndex, distinct
from ensemble_deid.taggers.tbed.layout import Cells, Integers
from ensemble_deid.taggers.tbed.templates import MAX_OFFSET, Template

Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]

_NO_KEY = np.int64(-1)
# How many different combinations of values a merged template can hold: far more than memory can.
_MERGED_SIZE = 1 << 30
# Templates of at most so many keys a place have all their contexts counted in a table.
_TABLE_CELLS = 2
# Keys are multiplied by the number of tags (the new tag of a rule), and must stay below 2**63.
_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class Contexts:
    """Contexts in codes: templates (n,), tags (n,) as codes, cells (widest template, n) as codes + 1.

    Where a template has fewer windows, the cells left over are 1, the value that row `ALWAYS` holds everywhere.
    """

    templates: Indices
    tags: Integers
    cells: Integers

    def __len__(self) -> int:
        return len(self.tags)

    def select(self, which: Integers | Flags) -> "Contexts":
        """Return some of the contexts."""
        return Contexts(self.templates[which], self.tags[which], self.cells[:, which])


class ContextKeys:
    """The keys of contexts at places of a matrix of cells.

    Instance j belongs to `template[j]` and looks at `offsets[j]`; those of template t are `first_instance[t]` to
    below `first_instance[t + 1]`. `rows[c, t]` is the row of window c of template t. Arrays by instance:
    `shift[c, j]` says where, from a place, the cell of window c - 1 lies in the flat matrix (0: the present tag);
    `weight[c, j]` is its weight in the key, `base[j]` the rest of the key; `unequal` pairs, in its two halves, cells
    that may not be equal, or an earlier choice of offsets shows the same context. `looks` holds all four.
    Template t has the keys from `bases[t]` to below `bases[t] + sizes[t]`; `order` is the order of their ranges.
    Raises ValueError when there are so many tags that no key can hold them.
    """

    def __init__(self, templates: Sequence[Template], matrix: CellMatrix) -> None:
        self.matrix = matrix
        self.n_tags = n_tags = matrix.sizes[TAGS]
        self.windows = [template.windows for template in templates]
        self.window_rows = [[matrix.rows[w.column] for w in windows] for windows in self.windows]
        self.width = max(map(len, self.windows), default=0)
        radices = [[matrix.sizes[row] for row in rows] for rows in self.window_rows]
        limit = _LIMIT // (n_tags * max(1, len(templates)))
        self._radices_of = radices
        self.merged = [prod(r) * n_tags > limit for r in radices]
        sizes = [_MERGED_SIZE if m else prod(r) for m, r in zip(self.merged, radices, strict=True)]
        self.sizes = [size * n_tags for size in sizes]
        if sum(self.sizes) > _LIMIT // n_tags:
            raise ValueError(f"{n_tags} tags and {len(templates)} templates are more than a key can hold")
        self._number_keys()
        self.rows: Indices = np.full((self.width, len(templates)), ALWAYS)
        self._radices: Integers = np.ones((self.width, len(templates)), np.int64)
        for t, rows in enumerate(self.window_rows):
            self.rows[: len(rows), t] = rows
            if not self.merged[t]:
                self._radices[: len(rows), t] = radices[t]
        # For each merge in a merged template: the numbers of the pairs met.
        self.pairs = {t: [KeyIndex() for _ in rows[1:]] for t, rows in self._merged_rows()}
        self._make_instances()

    def _number_keys(self) -> None:
        """Give each template its range of keys, templates of few keys first, so that tables can count those."""
        limit = _TABLE_CELLS * self.matrix.size
        small = [t for t, size in enumerate(self.sizes) if size <= limit]
        large = [t for t, size in enumerate(self.sizes) if size > limit]
        self.in_table: Flags = np.asarray([size <= limit for size in self.sizes], bool)
        self.order: Indices = np.asarray(small + large, np.intp)
        sizes = np.asarray(self.sizes, np.int64)[self.order]
        self._sorted_bases: Integers = sizes.cumsum() - sizes
        self.bases: Integers = np.empty(len(sizes), np.int64)
        self.bases[self.order] = self._sorted_bases
        # Keys below this belong to templates with tables.
        self.table_size = sum(self.sizes[t] for t in small)

    def _merged_rows(self) -> list[tuple[int, list[int]]]:
        return [(t, rows) for t, rows in enumerate(self.window_rows) if self.merged[t]]

    def _make_instances(self) -> None:
        choices = [list(product(*(window.offsets for window in windows))) for windows in self.windows]
        counts = [len(offsets) for offsets in choices]
        self.offsets = [offsets for of_template in choices for offsets in of_template]
        self.n_instances = len(self.offsets)
        self.template: Indices = np.repeat(np.arange(len(counts)), counts)
        self.first_instance: Indices = np.cumsum([0, *counts])
        size, width = self.matrix.size, 1 + self.width
        checks = [self._earlier_places(j) for j in range(self.n_instances)]
        depth = max(map(len, checks), default=0)
        self.shift: Integers = np.full((width, self.n_instances), ALWAYS * size)
        self.weight: Integers = np.zeros((width, self.n_instances), np.int64)
        # The first half of the rows: the cell looked at; the second: a cell that may not be equal to it.
        self.unequal: Integers = np.full((2 * depth, self.n_instances), ALWAYS * size)
        self.unequal[depth:] = NEVER * size
        for j in range(self.n_instances):
            terms = self._terms(j)
            self.shift[: len(terms), j] = [row * size + offset for row, offset, _ in terms]
            self.weight[: len(terms), j] = [weight for *_, weight in terms]
            for c, (own, earlier) in enumerate(checks[j]):
                self.unequal[c, j], self.unequal[depth + c, j] = own, earlier
        # Cells are code + 1: the base takes the ones away again.
        self.base: Integers = self.bases[self.template] - self.weight.sum(axis=0)
        self.looks: Integers = np.concatenate([self.shift, self.unequal, self.weight, self.base[None]])
        self._is_merged: Flags = np.asarray(self.merged, bool)
        # (rooms, instances), flat: whether all windows of the instance lie inside the sentence.
        sides = [(-min(0, *o), max(0, *o)) for o in self.offsets]
        rooms = [divmod(room, MAX_OFFSET + 1) for room in range((MAX_OFFSET + 1) ** 2)]
        self.fits: Flags = np.array([b >= lo and a >= hi for b, a in rooms for lo, hi in sides], bool)

    def _terms(self, j: int) -> list[tuple[int, int, int]]:
        """Return (row, offset, weight) of the present tag and of each window of an instance."""
        t = int(self.template[j])
        rows = [TAGS, *self.window_rows[t]]
        if self.merged[t]:
            # The windows of a merged template weigh nothing: `merge` adds their number.
            weights = [_MERGED_SIZE] + [0] * len(self.offsets[j])
        else:
            radices = self._radices[:, t].tolist()
            weights = [prod(radices[c:]) for c in range(len(rows))]
        return list(zip(rows, (0, *self.offsets[j]), weights, strict=True))

    def _earlier_places(self, j: int) -> list[tuple[int, int]]:
        t, size = int(self.template[j]), self.matrix.size
        return [
            (row * size + offset, row * size + earlier)
            for row, window, offset in zip(self.window_rows[t], self.windows[t], self.offsets[j], strict=True)
            for earlier in range(window.first, offset)
        ]

    def look(self, places: Integers, instances: Indices) -> "Looks":
        """Return the looks of instances at places, pair by pair."""
        return Looks(self, places, instances)

    def of_instance(self, j: int, places: Integers | slice, *, number_new: bool) -> Integers:
        """Return the keys of one instance at many places, -1 where a window leaves the sentence or shows a
        context that an earlier choice of offsets shows too. A slice is read without copying.

        `number_new` numbers combinations of a merged template not met before; else their key is -1.
        """

        def cells_at(shift: int) -> Cells:
            if isinstance(places, slice):
                return self.matrix.flat[places.start + shift : places.stop + shift]
            return self.matrix.flat.take(places + shift)

        t = int(self.template[j])
        width = 1 + len(self.windows[t])
        cells = [cells_at(shift) for shift in self.shift[:width, j].tolist()]
        keys: Integers = cells[0] * self.weight[0, j]
        keys += self.base[j]
        room = self.matrix.room[places] if isinstance(places, slice) else self.matrix.room.take(places)
        valid = self.fits[j :: self.n_instances].take(room)
        for weight, cell in zip(self.weight[1:width, j].tolist(), cells[1:], strict=True):
            if weight:
                keys += cell * np.int64(weight) if weight != 1 else cell
        for own, earlier in self._earlier_places(j):
            valid &= cells_at(own) != cells_at(earlier)
        if self.merged[t]:
            (mine,) = valid.nonzero()
            valid[mine] = self.merge(t, keys, mine, np.stack(cells[1:])[:, mine], number_new)
        keys[~valid] = -1
        return keys

    def merge(self, t: int, keys: Integers, mine: Integers, cells: Cells, number_new: bool) -> Flags:
        """Add to the keys at `mine` the number of the combination of their cells; return which have one."""
        number = cells[0].astype(np.int64)
        known: Flags = np.ones(len(mine), bool)
        for c, index in enumerate(self.pairs[t], 1):
            pair = number * (self.matrix.sizes[self.window_rows[t][c]] + 1) + cells[c]
            pair[~known] = -1
            if number_new:
                met = distinct(pair[known])
                index.add(met[index.find(met) < 0])
            number = index.find(pair).astype(np.int64)
            known &= number >= 0
        keys[mine] += number
        return known

    def templates_of(self, keys: Integers) -> Indices:
        """Return which template each key belongs to."""
        return self.order.take(self._sorted_bases.searchsorted(keys, side="right") - 1)

    def decode_one(self, t: int, key: int) -> tuple[int, list[int]]:
        """Return the present tag and the windows' cells of one key of template t."""
        if self.merged[t]:
            tags, cells = self._unmerge(t, np.array([key]) - self.bases[t])
            return int(tags[0]), cells[: len(self.windows[t]), 0].tolist()
        rest, digits = key - int(self.bases[t]), list[int]()
        for radix in reversed(self._radices_of[t]):
            rest, digit = divmod(rest, radix)
            digits.append(digit + 1)
        return rest, digits[::-1]

    def decode(self, keys: Integers) -> Contexts:
        """Return the contexts of keys."""
        templates = self.templates_of(keys)
        rest = keys - self.bases.take(templates)
        cells = np.empty((self.width, len(keys)), np.int64)
        radices = self._radices.take(templates, axis=1)
        for c in range(self.width - 1, -1, -1):
            # Division by 1 where the template is narrower, or merged: nothing is taken away.
            quotient = rest // radices[c]
            cells[c] = rest - quotient * radices[c] + 1
            rest = quotient
        for t in self.pairs:
            (mine,) = (templates == t).nonzero()
            rest[mine], cells[:, mine] = self._unmerge(t, rest[mine])
        return Contexts(templates, rest, cells)

    def _unmerge(self, t: int, keys: Integers) -> tuple[Integers, Integers]:
        tags, number = np.divmod(keys, _MERGED_SIZE)
        cells = np.ones((self.width, len(keys)), np.int64)
        for c in range(len(self.windows[t]) - 1, 0, -1):
            pair = self.pairs[t][c - 1].keys[number]
            number, cells[c] = np.divmod(pair, self.matrix.sizes[self.window_rows[t][c]] + 1)
        cells[0] = number
        return tags, cells


class Looks:
    """What instances see at places, pair by pair: made once, and asked for its keys before and after tags change."""

    def __init__(self, contexts: ContextKeys, places: Integers, instances: Indices) -> None:
        self._contexts = contexts
        self._instances = instances
        looks: Integers = contexts.looks.take(instances, axis=1)
        n_cells = len(contexts.shift) + len(contexts.unequal)
        self._cells = looks[:n_cells]
        self._cells += places
        self._weight, self._base = looks[n_cells:-1], looks[-1]
        room = contexts.matrix.room.take(places)
        room *= contexts.n_instances
        room += instances
        self._valid: Flags = contexts.fits.take(room)

    def keys(self, *, number_new: bool) -> Integers:
        """Return the keys with the tags as they are now, with -1 and `number_new` as in `of_instance`."""
        contexts = self._contexts
        width, depth = len(self._weight), len(contexts.unequal) // 2
        cells = contexts.matrix.flat.take(self._cells)
        keys: Integers = (cells[:width] * self._weight).sum(axis=0)
        keys += self._base
        valid = self._valid
        if depth:
            valid = (cells[width:-depth] != cells[width + depth :]).all(axis=0)
            valid &= self._valid
        for t in contexts.pairs:
            (mine,) = (valid & (contexts.template.take(self._instances) == t)).nonzero()
            valid = valid.copy()
            valid[mine] = contexts.merge(t, keys, mine, cells[1:width, mine], number_new)
        return np.where(valid, keys, _NO_KEY)
