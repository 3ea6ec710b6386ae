"""Where contexts hold: found from the places of their rarest value, or by a sweep over all places."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.taggers.tbed.cells import GOLD, TAGS
from ensemble_deid.taggers.tbed.keyindex import distinct
from ensemble_deid.taggers.tbed.keys import ContextKeys, Contexts, Flags
from ensemble_deid.taggers.tbed.layout import Cells, Integers

_NO_LIST = 1 << 40


class Matcher:
    """Finds the places of contexts in a matrix whose tags change.

    `tag_bytes` is a narrow copy of the row of tags (cell values), which sweeps read; the owner of the matrix
    keeps it up to date.
    """

    def __init__(self, keys: ContextKeys, tag_bytes: NDArray[np.unsignedinteger]) -> None:
        self.keys = keys
        self.matrix = keys.matrix
        self.tag_bytes = tag_bytes
        # Reading a list costs some 25 ns a place; a sweep 0.4 ns a place, and some calls.
        self.longest_list = 2000 + self.matrix.size // 50
        # Contexts of right tags have one condition more: the gold tag is the present one. By condition and template,
        # its row; by condition and instance, where its cell lies from a place.
        rows = np.concatenate([keys.rows, np.full((1, keys.rows.shape[1]), GOLD)])
        gold_shift = np.full((1, keys.n_instances), GOLD * self.matrix.size)
        self._shift: Integers = np.concatenate([keys.shift[1:], gold_shift])
        self._offset: Integers = self._shift - rows[:, keys.template] * self.matrix.size
        self._no_list: Flags = rows < GOLD
        self._first_start: Integers = np.asarray(self.matrix.first_start, np.int64)[rows]
        self._n_instances: Integers = np.diff(keys.first_instance)

    def places(self, template: int, tag: int, cells: Sequence[int]) -> Integers:
        """Return the places, in rising order, where one context holds now."""
        rows, windows = self.keys.window_rows[template], self.keys.windows[template]
        source, listed = self._rarest(template, cells)
        if source is None:
            return self._sweep(template, tag, cells)
        found = [listed - offset for offset in windows[source].offsets]
        places: Integers = found[0] if len(found) == 1 else np.concatenate(found)
        places = places[self.tag_bytes.take(places) == tag + 1]
        for c, (row, window) in enumerate(zip(rows, windows, strict=True)):
            if c == source or not len(places):
                continue
            holds = self._cell(row, places, window.first) == cells[c]
            for offset in window.offsets[1:]:
                holds |= self._cell(row, places, offset) == cells[c]
            places = places[holds]
        return places if len(found) == 1 else distinct(places)

    def shortest_lists(self, contexts: Contexts) -> tuple[Integers, Integers]:
        """Return each context's condition with the shortest list of places, and how many are read by way of it."""
        at = self._first_start.take(contexts.templates, axis=1)
        at += _with_gold(contexts)
        missing = self._no_list.take(contexts.templates, axis=1)
        at[missing] = 0
        lengths = self.matrix.starts.take(at + 1)
        lengths -= self.matrix.starts.take(at)
        lengths[missing] = _NO_LIST
        source = lengths.argmin(axis=0)
        return source, lengths.min(axis=0) * self._n_instances.take(contexts.templates)

    def right_matches(self, contexts: Contexts, source: Integers) -> Integers:
        """Return the numbers of contexts, once for each right tag they hold at, found in the lists of `source`."""
        keys, templates = self.keys, contexts.templates
        wanted = _with_gold(contexts)
        many = self._n_instances.take(templates)
        # Pairs of a context and an instance of its template.
        context = np.arange(len(contexts)).repeat(many)
        instance = _ranges(keys.first_instance.take(templates), many)
        condition = source.take(context)
        at = self._first_start[condition, templates.take(context)] + wanted[condition, context]
        starts = self.matrix.starts.take(at)
        lengths = self.matrix.starts.take(at + 1) - starts
        # Pairs times the places of their lists.
        pair = np.arange(len(context)).repeat(lengths)
        places = self.matrix.order.take(_ranges(starts, lengths))
        places -= self._offset[condition, instance].take(pair)
        tag = (contexts.tags + 1).astype(self.tag_bytes.dtype).take(context)
        (kept,) = (self.tag_bytes.take(places) == tag.take(pair)).nonzero()
        pair, places = pair.take(kept), places.take(kept)
        instance, context = instance.take(pair), context.take(pair)
        holds: Flags = np.ones(len(places), bool)
        for shift, cells in zip(self._shift, wanted, strict=True):
            holds &= self.matrix.flat.take(shift.take(instance) + places) == cells.take(context)
        depth = len(keys.unequal) // 2
        for own, earlier in zip(keys.unequal[:depth], keys.unequal[depth:], strict=True):
            seen = self.matrix.flat.take(own.take(instance) + places)
            holds &= seen != self.matrix.flat.take(earlier.take(instance) + places)
        found: Integers = context[holds]
        return found

    def _rarest(self, template: int, cells: Sequence[int]) -> tuple[int | None, Integers]:
        """Return the window whose value has the shortest list, and the list; None where a sweep is cheaper."""
        best, listed = None, self.matrix.order[:0]
        most = self.longest_list
        for c, (row, window) in enumerate(
            zip(self.keys.window_rows[template], self.keys.windows[template], strict=True)
        ):
            if row == TAGS:
                continue
            places = self.matrix.listed(row, cells[c])
            if len(places) * len(window.offsets) < most:
                best, listed, most = c, places, len(places) * len(window.offsets)
        return best, listed

    def _cell(self, row: int, places: Integers, offset: int) -> Cells:
        return self.matrix.flat.take(places + (row * self.matrix.size + offset))

    def _sweep(self, template: int, tag: int, cells: Sequence[int]) -> Integers:
        pad = self.matrix.layout.pad
        start, stop = pad, self.matrix.size - pad
        holds = self.tag_bytes[start:stop] == tag + 1
        for row, window, cell in zip(self.keys.window_rows[template], self.keys.windows[template], cells, strict=True):
            line = self.tag_bytes if row == TAGS else self.matrix.cells[row]
            seen = line[start + window.first : stop + window.first] == cell
            for offset in window.offsets[1:]:
                seen |= line[start + offset : stop + offset] == cell
            holds &= seen
        return np.flatnonzero(holds) + start


def _with_gold(contexts: Contexts) -> Integers:
    """Return the cells that the conditions ask for, that of the gold tag last."""
    cells: Integers = np.concatenate([contexts.cells, contexts.tags[None]])
    cells[-1] += 1
    return cells


def _ranges(starts: Integers, lengths: Integers) -> Integers:
    """Return start, start + 1, ... for `length` numbers, one range after the other."""
    ends = lengths.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    numbers: Integers = np.arange(total)
    shift: Integers = starts + lengths - ends
    numbers += shift.repeat(lengths)
    return numbers
