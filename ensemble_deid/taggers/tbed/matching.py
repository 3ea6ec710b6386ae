"""Where contexts hold: found from the places of their rarest value, or by a sweep over all places."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Flags, Int32s, Int64s
from ensemble_deid.compiled import has_core
from ensemble_deid.taggers.tbed.keys import ContextKeys, Contexts
from ensemble_deid.taggers.tbed.layout import GOLD, TAGS, CellCodes
from ensemble_deid.taggers.tbed.places import places_seeing, shortest_way


class RuleMatcher:
    """Finds the places of contexts in a matrix whose tags change; every change goes through `set_tag`."""

    def __init__(self, keys: ContextKeys) -> None:
        self.keys = keys
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
        shift = np.concatenate([instances.shift[1:], gold_shift])
        self._offset: Int64s = shift - rows[:, instances.template] * matrix.size
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

    def count_right(self, keys: Int64s, contexts: Contexts, source: Int64s, right: Flags) -> Int32s:
        """Return how many right tags each context applies to; `source` is its condition whose places are looked at."""
        # Pairs of a context and an instance of its template.
        context, instance = self.instances.of_templates(contexts.templates)
        condition, templates = source.take(context), contexts.templates.take(context)
        lists = self._first_list[condition, templates] + _with_gold(contexts)[condition, context]
        offset = self._offset[condition, instance]
        if has_core() and not self.keys.merges:
            from ensemble_deid import _core

            counts: Int32s = np.zeros(len(contexts), np.int32)
            listed = (right, self.matrix.lists.places, self.matrix.lists.starts)
            _core.count_matches(
                self.keys.compiled, listed, (lists, offset, instance, context), (keys, contexts.tags), counts
            )
            return counts
        # Pairs times the places of their lists.
        places, pair = self.matrix.lists.gather(lists)
        places -= offset.take(pair)
        tag = (contexts.tags + 1).astype(self._tag_bytes.dtype).take(context)
        holds = self._tag_bytes.take(places) == tag.take(pair)
        holds &= right.take(places)
        pair, places = pair[holds], places[holds]
        found = self.keys.seen(places, instance.take(pair), number_new=False)
        context = context.take(pair)
        return np.bincount(context[found == keys.take(context)], minlength=len(contexts)).astype(np.int32)

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
