"""Where a context holds: found from the places of its rarest value, or by a sweep over all places."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.taggers.tbed.cells import TAGS
from ensemble_deid.taggers.tbed.keys import ContextKeys
from ensemble_deid.taggers.tbed.layout import Cells, Integers

# Below one place in so many, reading a list of places costs less than comparing all of them.
_LIST_FACTOR = 12


@dataclass(frozen=True, slots=True)
class Contexts:
    """Several contexts of one template: tags (n,) are codes, cells (windows, n) are codes + 1."""

    template: int
    tags: Integers
    cells: Integers


class Matcher:
    """Finds the places of contexts in a matrix whose tags change.

    `tag_bytes` is a narrow copy of the row of tags (cell values), which sweeps read; the owner of the matrix
    keeps it up to date.
    """

    def __init__(self, keys: ContextKeys, tag_bytes: NDArray[np.unsignedinteger]) -> None:
        self.keys = keys
        self.matrix = keys.matrix
        self.tag_bytes = tag_bytes

    def places(self, template: int, tag: int, cells: list[int]) -> Integers:
        """Return the places, in rising order, where one context holds now."""
        rows, windows = self.keys.window_rows[template], self.keys.windows[template]
        source = self._rarest(template, cells)
        if source is None:
            return self._sweep(template, tag, cells)
        listed = self._listed(rows[source], cells[source])
        found = [listed - offset for offset in windows[source].offsets]
        places: Integers = found[0] if len(found) == 1 else np.unique(np.concatenate(found))
        places = places[self.tag_bytes.take(places) == tag + 1]
        for c, (row, window) in enumerate(zip(rows, windows, strict=True)):
            if c == source or not len(places):
                continue
            holds = self._cell(row, places, window.first) == cells[c]
            for offset in window.offsets[1:]:
                holds |= self._cell(row, places, offset) == cells[c]
            places = places[holds]
        return places

    def matches(self, contexts: Contexts) -> Iterator[tuple[Integers, Integers]]:
        """Yield pairs (numbers of contexts, places): every match once. Only for templates with a static window."""
        source = self._sources(contexts)
        for c in np.unique(source).tolist():
            (numbers,) = (source == c).nonzero()
            yield from self._matches_from(contexts, numbers, c)

    def list_lengths(self, contexts: Contexts) -> Integers | None:
        """Return how many places `matches` reads for each context, None if the template has only tags."""
        costs = self._list_costs(contexts)
        return None if costs is None else costs.min(axis=0)

    def _matches_from(self, contexts: Contexts, numbers: Integers, source: int) -> Iterator[tuple[Integers, Integers]]:
        t = contexts.template
        rows, windows = self.keys.window_rows[t], self.keys.windows[t]
        occurrences = self.matrix.occurrences(rows[source])
        wanted = contexts.cells[source, numbers]
        starts = occurrences.starts[wanted]
        lengths = occurrences.starts[wanted + 1] - starts
        owners = np.repeat(numbers, lengths)
        ends = lengths.cumsum()
        listed = occurrences.order[np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths)]
        for offset in windows[source].offsets:
            places = listed - offset
            (kept,) = (self.tag_bytes[places] == contexts.tags[owners] + 1).nonzero()
            for earlier in range(windows[source].first, offset):
                cells = self._cell(rows[source], places[kept], earlier)
                kept = kept[cells != contexts.cells[source][owners[kept]]]
            for c, (row, window) in enumerate(zip(rows, windows, strict=True)):
                if c == source:
                    continue
                cells_wanted = contexts.cells[c][owners[kept]]
                holds = self._cell(row, places[kept], window.first) == cells_wanted
                for other in window.offsets[1:]:
                    holds |= self._cell(row, places[kept], other) == cells_wanted
                kept = kept[holds]
            yield owners[kept], places[kept]

    def _sources(self, contexts: Contexts) -> Integers:
        costs = self._list_costs(contexts)
        if costs is None:
            raise ValueError("a template of tags alone has no list of places")
        cheapest: Integers = costs.argmin(axis=0)
        return cheapest

    def _list_costs(self, contexts: Contexts) -> Integers | None:
        """Return how many places the list of each window's value holds, (windows, n); very many for tags."""
        t = contexts.template
        rows, windows = self.keys.window_rows[t], self.keys.windows[t]
        if all(row == TAGS for row in rows):
            return None
        costs = np.full(contexts.cells.shape, np.iinfo(np.int64).max)
        for c, (row, window) in enumerate(zip(rows, windows, strict=True)):
            if row != TAGS:
                counts = self.matrix.occurrences(row).counts()
                costs[c] = counts[contexts.cells[c]] * len(window.offsets)
        return costs

    def _rarest(self, template: int, cells: list[int]) -> int | None:
        """Return the window whose value has the shortest list, None where a sweep is cheaper."""
        best, best_cost = None, self.matrix.size // _LIST_FACTOR
        for c, (row, window) in enumerate(
            zip(self.keys.window_rows[template], self.keys.windows[template], strict=True)
        ):
            if row == TAGS:
                continue
            starts = self.matrix.occurrences(row).starts
            cost = int(starts[cells[c] + 1] - starts[cells[c]]) * len(window.offsets)
            if cost < best_cost:
                best, best_cost = c, cost
        return best

    def _listed(self, row: int, cell: int) -> Integers:
        occurrences = self.matrix.occurrences(row)
        return occurrences.order[occurrences.starts[cell] : occurrences.starts[cell + 1]]

    def _cell(self, row: int, places: Integers, offset: int) -> Cells:
        return self.matrix.flat.take(places + (row * self.matrix.size + offset))

    def _sweep(self, template: int, tag: int, cells: list[int]) -> Integers:
        pad = self.matrix.layout.pad
        start, stop = pad, self.matrix.size - pad
        holds = self.tag_bytes[start:stop] == tag + 1
        for row, window, cell in zip(self.keys.window_rows[template], self.keys.windows[template], cells, strict=True):
            line = self.tag_bytes if row == TAGS else self.matrix.cells[row]
            any_ = line[start + window.first : stop + window.first] == cell
            for offset in window.offsets[1:]:
                any_ |= line[start + offset : stop + offset] == cell
            holds &= any_
        return np.flatnonzero(holds) + start
