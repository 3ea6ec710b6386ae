"""Every context a template can ask for, as one integer.

A *context* is a template, a present tag and a value for each window: what must hold where a rule fires. Its key
is a mixed-radix number; the templates' ranges of keys follow one another, so a key also names its template.

Integers stay exact up to 2**63 (doubles would fail at 2**53). Where the values of a template do not fit, its
windows are merged: pairs of values are numbered as they are met, and the number takes their place in the key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ensemble_deid.arrays import Flags, Int64s
from ensemble_deid.compiled import has_core
from ensemble_deid.taggers.tbed.instances import Indices, Instances
from ensemble_deid.taggers.tbed.keyindex import KeyIndex, distinct
from ensemble_deid.taggers.tbed.layout import TAGS, CellCodes, CellMatrix
from ensemble_deid.taggers.tbed.templates import Template

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
    tags: Int64s
    cells: Int64s

    def __len__(self) -> int:
        return len(self.tags)

    def select(self, which: Int64s | Flags) -> "Contexts":
        """Return some of the contexts."""
        return Contexts(self.templates[which], self.tags[which], self.cells[:, which])


class ContextKeys:
    """The keys of contexts at places of a matrix of cells.

    The keys of template t are `range_of(t)`, and those of templates that have a table of all their contexts come
    first, below `table_size`. Raises ValueError when there are so many tags that no key can hold them.
    """

    def __init__(self, templates: Sequence[Template], matrix: CellMatrix) -> None:
        self.matrix = matrix
        self.instances = Instances(templates, matrix)
        self.n_tags = n_tags = matrix.sizes[TAGS]
        self._radices_of = [[matrix.sizes[row] for row in rows] for rows in self.instances.rows]
        limit = _LIMIT // (n_tags * max(1, len(templates)))
        self._merged = [prod(radices) * n_tags > limit for radices in self._radices_of]
        combinations = zip(self._merged, self._radices_of, strict=True)
        self._per_tag = [_MERGED_SIZE if merged else prod(radices) for merged, radices in combinations]
        if sum(self._per_tag) * n_tags > _LIMIT // n_tags:
            raise ValueError(f"{n_tags} tags and {len(templates)} templates are more than a key can hold")
        self._number_keys()
        self._radices: Int64s = np.ones((self.instances.width, len(templates)), np.int64)
        for t, radices in enumerate(self._radices_of):
            if not self._merged[t]:
                self._radices[: len(radices), t] = radices
        # For each merge in a merged template: the numbers of the pairs met.
        self._pairs = {
            t: [KeyIndex() for _ in rows[1:]] for t, rows in enumerate(self.instances.rows) if self._merged[t]
        }
        self._weigh()

    def _number_keys(self) -> None:
        """Give each template its range of keys, templates of few keys first, so that tables can count those."""
        limit = _TABLE_CELLS * self.matrix.size
        n_keys = [per_tag * self.n_tags for per_tag in self._per_tag]
        self._has_table = [size <= limit for size in n_keys]
        small = [t for t, has_table in enumerate(self._has_table) if has_table]
        large = [t for t, has_table in enumerate(self._has_table) if not has_table]
        # The templates in the order of their keys.
        self._order: Indices = np.asarray(small + large, np.intp)
        sizes = np.asarray(n_keys, np.int64)[self._order]
        self._sorted_bases: Int64s = sizes.cumsum() - sizes
        self._bases: Int64s = np.empty(len(sizes), np.int64)
        self._bases[self._order] = self._sorted_bases
        self.table_size = sum(n_keys[t] for t in small)

    def _weigh(self) -> None:
        """Set by instance the weight of each cell in the key, and the rest of the key."""
        instances = self.instances
        self._weight: Int64s = np.zeros((1 + instances.width, len(instances)), np.int64)
        for t, radices in enumerate(self._radices_of):
            mine = instances.of_template(t)
            # The windows of a merged template weigh nothing: `_merge` adds their number.
            weights = [_MERGED_SIZE] if self._merged[t] else [prod(radices[c:]) for c in range(len(radices) + 1)]
            self._weight[: len(weights), mine.start : mine.stop] = np.asarray(weights, np.int64)[:, None]
        # Cells are code + 1: the base takes the ones away again.
        self._base: Int64s = self._bases[instances.template] - self._weight.sum(axis=0)
        # For each instance, all that its key needs: the offsets of its cells and of those that must differ, the
        # weights of the cells, and the rest of the key.
        self._looks: Int64s = np.concatenate([instances.shift, instances.unequal, self._weight, self._base[None]])
        looks = np.ascontiguousarray(self._looks.T)
        self.compiled = (self.matrix.flat, self.matrix.room, instances.fits, looks, len(instances.shift))

    @property
    def merges(self) -> bool:
        """Whether any template is merged, so that `compiled` alone does not give its keys."""
        return bool(self._pairs)

    def range_of(self, t: int) -> range:
        """Return the keys of a template."""
        base = int(self._bases[t])
        return range(base, base + self._per_tag[t] * self.n_tags)

    def has_table(self, t: int) -> bool:
        """Whether a template has so few keys that all its contexts are counted in a table."""
        return self._has_table[t]

    def templates_in_order(self) -> list[int]:
        """Return the templates in the order of their keys."""
        order: list[int] = self._order.tolist()
        return order

    def templates_of(self, keys: Int64s) -> Indices:
        """Return which template each key belongs to."""
        return self._order.take(self._sorted_bases.searchsorted(keys, side="right") - 1)

    def tags_of(self, t: int, keys: Int64s) -> Int64s:
        """Return the present tags of keys of one template."""
        tags: Int64s = (keys - self._bases[t]) // self._per_tag[t]
        return tags

    def at(self, j: int, places: Int64s | slice, *, number_new: bool) -> Int64s:
        """Return the keys of one instance at many places, -1 where a window leaves the sentence or shows a
        context that an earlier choice of offsets shows too. A slice is read without copying.

        `number_new` numbers combinations of a merged template not met before; else their key is -1.
        """

        def cells_at(shift: int) -> CellCodes:
            if isinstance(places, slice):
                return self.matrix.flat[places.start + shift : places.stop + shift]
            return self.matrix.flat.take(places + shift)

        if has_core() and not isinstance(places, slice):
            return self.seen(places, np.full(len(places), j), number_new=number_new)
        t = int(self.instances.template[j])
        width = 1 + len(self.instances.windows[t])
        cells = [cells_at(shift) for shift in self.instances.shift[:width, j].tolist()]
        keys: Int64s = cells[0] * self._weight[0, j]
        keys += self._base[j]
        room = self.matrix.room[places] if isinstance(places, slice) else self.matrix.room.take(places)
        valid = self.instances.fits[j :: len(self.instances)].take(room)
        for weight, cell in zip(self._weight[1:width, j].tolist(), cells[1:], strict=True):
            if weight:
                keys += cell * np.int64(weight) if weight != 1 else cell
        for own, earlier in self.instances.earlier_places(j):
            valid &= cells_at(own) != cells_at(earlier)
        keys[~valid] = -1
        if self._merged[t]:
            (mine,) = valid.nonzero()
            self._merge(t, keys, mine, np.stack(cells[1:])[:, mine], number_new)
        return keys

    def seen(self, places: Int64s, instances: Indices, *, number_new: bool) -> Int64s:
        """Return the keys of pairs of a place and an instance, with -1 and `number_new` as in `at`."""
        if has_core():
            from ensemble_deid import _core

            keys: Int64s = np.empty(len(places), np.int64)
            _core.context_keys(self.compiled, places, instances, keys)
        else:
            keys = self._seen(places, instances)
        for t in self._pairs:
            (mine,) = ((keys >= 0) & (self.instances.template.take(instances) == t)).nonzero()
            shifts = self.instances.shift[1:].take(instances[mine], axis=1)
            self._merge(t, keys, mine, self.matrix.flat.take(shifts + places[mine]), number_new)
        return keys

    def _seen(self, places: Int64s, instances: Indices) -> Int64s:
        """Return the keys of `seen`, but without the windows of merged templates, which `_merge` adds."""
        width, depth = len(self.instances.shift), len(self.instances.unequal) // 2
        looks: Int64s = self._looks.take(instances, axis=1)
        at = looks[: width + 2 * depth]
        at += places
        cells = self.matrix.flat.take(at)
        keys: Int64s = (cells[:width] * looks[-width - 1 : -1]).sum(axis=0)
        keys += looks[-1]
        room = self.matrix.room.take(places).astype(np.int64)
        room *= len(self.instances)
        room += instances
        valid = self.instances.fits.take(room)
        if depth:
            valid &= (cells[width:-depth] != cells[width + depth :]).all(axis=0)
        return np.where(valid, keys, _NO_KEY)

    def decode_one(self, t: int, key: int) -> tuple[int, list[int]]:
        """Return the present tag and the windows' cells of one key of template t."""
        if self._merged[t]:
            tags, cells = self._unmerge(t, np.array([key]) - self._bases[t])
            return int(tags[0]), cells[: len(self._radices_of[t]), 0].tolist()
        rest, digits = key - int(self._bases[t]), list[int]()
        for radix in reversed(self._radices_of[t]):
            rest, digit = divmod(rest, radix)
            digits.append(digit + 1)
        return rest, digits[::-1]

    def decode(self, keys: Int64s) -> Contexts:
        """Return the contexts of keys."""
        templates = self.templates_of(keys)
        rest = keys - self._bases.take(templates)
        cells = np.empty((self.instances.width, len(keys)), np.int64)
        radices = self._radices.take(templates, axis=1)
        for c in range(self.instances.width - 1, -1, -1):
            # Division by 1 where the template is narrower, or merged: nothing is taken away.
            quotient = rest // radices[c]
            cells[c] = rest - quotient * radices[c] + 1
            rest = quotient
        for t in self._pairs:
            (mine,) = (templates == t).nonzero()
            rest[mine], cells[:, mine] = self._unmerge(t, rest[mine])
        return Contexts(templates, rest, cells)

    def _merge(self, t: int, keys: Int64s, mine: Int64s, cells: CellCodes, number_new: bool) -> None:
        """Add the number of its cells' combination to each key at `mine`; keys without such a number become -1.

        With `number_new`, new combinations get numbers.
        """
        number = cells[0].astype(np.int64)
        known: Flags = np.ones(len(mine), bool)
        for c, index in enumerate(self._pairs[t], 1):
            pair = number * (self._radices_of[t][c] + 1) + cells[c]
            pair[~known] = -1
            if number_new:
                met = distinct(pair[known])
                index.add(met[index.find(met) < 0])
            number = index.find(pair).astype(np.int64)
            known &= number >= 0
        keys[mine] = np.where(known, keys[mine] + number, _NO_KEY)

    def _unmerge(self, t: int, keys: Int64s) -> tuple[Int64s, Int64s]:
        tags, number = np.divmod(keys, _MERGED_SIZE)
        cells = np.ones((self.instances.width, len(keys)), np.int64)
        for c in range(len(self._radices_of[t]) - 1, 0, -1):
            pair = self._pairs[t][c - 1].keys[number]
            number, cells[c] = np.divmod(pair, self._radices_of[t][c] + 1)
        cells[0] = number
        return tags, cells
