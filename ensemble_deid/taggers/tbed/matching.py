"""Where contexts hold: found from the places of their rarest value, or by a sweep over all places."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Flags, Int64s
from ensemble_deid.taggers.tbed.keys import ContextKeys, Contexts
from ensemble_deid.taggers.tbed.layout import GOLD, TAGS, CellCodes
from ensemble_deid.taggers.tbed.places import places_seeing, shortest_way


class RuleMatcher:
    """Finds the places of contexts in a matrix whose tags change; every change goes through `set_tag`."""

    def __init__(self, keys: ContextKeys) -> None:
        self.instances = keys.instances
        self.matrix = matrix = keys.matrix
        # A narrow copy of the row of tags (cell values), for sweeps to read.
        self._tag_bytes: NDArray[np.unsignedinteger] = matrix.cells[TAGS].astype(np.min_scalar_type(matrix.sizes[TAGS]))
        # Reading a list costs some 25 ns a place; a sweep 0.4 ns a place, and some calls.
        self.longest_list = 2000 + matrix.size // 50
        # Contexts of right tags have one condition more: the gold tag is the present one. By condition and template,
        # its row and the first list of the row; by condition and instance, where its cell lies from a place.
        instances = self.instances
        rows = np.concatenate([instances.row_of, np.full((1, instances.row_of.shape[1]), GOLD)])
        gold_shift = np.full((1, len(instances)), GOLD * matrix.size)
        self._shift: Int64s = np.concatenate([instances.shift[1:], gold_shift])
        self._offset: Int64s = self._shift - rows[:, instances.template] * matrix.size
        self._first_list: Int64s = np.asarray(matrix.first_list, np.int64)[rows]

    def set_tag(self, places: Int64s, tag: int) -> None:
        """Take note of the new tag of places."""
        self._tag_bytes[places] = tag + 1

    def places(self, template: int, tag: int, cells: Sequence[int]) -> Int64s:
        """Return the places, in rising order, where one context holds now."""
        rows, windows = self.instances.rows[template], self.instances.windows[template]
        listed = [c for c, row in enumerate(rows) if row != TAGS]
        if not listed:
            return self._sweep(template, tag, cells)
        lists, offsets = [self.matrix.listed(rows[c], cells[c]) for c in listed], [windows[c].offsets for c in listed]
        shortest, length = shortest_way(lists, offsets)
        if length >= self.longest_list:
            return self._sweep(template, tag, cells)
        places: Int64s = places_seeing(lists[shortest], offsets[shortest])
        places = places[self._tag_bytes.take(places) == tag + 1]
        for c, (row, window) in enumerate(zip(rows, windows, strict=True)):
            if c == listed[shortest] or not len(places):
                continue
            holds = self._cell(row, places, window.first) == cells[c]
            for offset in window.offsets[1:]:
                holds |= self._cell(row, places, offset) == cells[c]
            places = places[holds]
        return places

    def shortest_lists(self, contexts: Contexts) -> tuple[Int64s, Int64s]:
        """Return each context's condition with the shortest list of places, and how many are read by way of it."""
        first = self._first_list.take(contexts.templates, axis=1)
        source, lengths = self.matrix.lists.shortest(np.where(first < 0, -1, first + _with_gold(contexts)))
        return source, lengths * self.instances.counts.take(contexts.templates)

    def right_matches(self, contexts: Contexts, source: Int64s) -> Int64s:
        """Return the numbers of contexts, once for each right tag they hold at, found in the lists of `source`."""
        templates = contexts.templates
        wanted = _with_gold(contexts)
        # Pairs of a context and an instance of its template.
        context, instance = self.instances.of_templates(templates)
        condition = source.take(context)
        lists = self._first_list[condition, templates.take(context)] + wanted[condition, context]
        # Pairs times the places of their lists.
        places, pair = self.matrix.lists.gather(lists)
        places -= self._offset[condition, instance].take(pair)
        tag = (contexts.tags + 1).astype(self._tag_bytes.dtype).take(context)
        (kept,) = (self._tag_bytes.take(places) == tag.take(pair)).nonzero()
        pair, places = pair.take(kept), places.take(kept)
        instance, context = instance.take(pair), context.take(pair)
        holds: Flags = np.ones(len(places), bool)
        for shift, cells in zip(self._shift, wanted, strict=True):
            holds &= self.matrix.flat.take(shift.take(instance) + places) == cells.take(context)
        for own, earlier in self.instances.unequal_pairs():
            seen = self.matrix.flat.take(own.take(instance) + places)
            holds &= seen != self.matrix.flat.take(earlier.take(instance) + places)
        found: Int64s = context[holds]
        return found

    def _cell(self, row: int, places: Int64s, offset: int) -> CellCodes:
        return self.matrix.flat.take(places + (row * self.matrix.size + offset))

    def _sweep(self, template: int, tag: int, cells: Sequence[int]) -> Int64s:
        pad = self.matrix.layout.pad
        start, stop = pad, self.matrix.size - pad
        holds = self._tag_bytes[start:stop] == tag + 1
        rows, windows = self.instances.rows[template], self.instances.windows[template]
        for row, window, cell in zip(rows, windows, cells, strict=True):
            line = self._tag_bytes if row == TAGS else self.matrix.cells[row]
            seen = line[start + window.first : stop + window.first] == cell
            for offset in window.offsets[1:]:
                seen |= line[start + offset : stop + offset] == cell
            holds &= seen
        return np.flatnonzero(holds) + start


def _with_gold(contexts: Contexts) -> Int64s:
    """Return the cells that the conditions ask for, that of the gold tag last."""
    cells: Int64s = np.concatenate([contexts.cells, contexts.tags[None]])
    cells[-1] += 1
    return cells
