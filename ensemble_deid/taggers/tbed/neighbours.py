"""Which (place, instance) pairs see a changed tag from beside it."""

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.taggers.tbed.cells import TAGS
from ensemble_deid.taggers.tbed.keys import ContextKeys
from ensemble_deid.taggers.tbed.layout import Integers


class Neighbours:
    """Finds, for changed places, the places around them whose contexts ask for a changed tag.

    Entry e says that instance `instance[e]` looks at the tag at `offset[e]`; `earlier[:, e]` are the offsets of
    the instance's entries before e (0 where there are fewer), by which a pair seen twice is kept once.
    """

    def __init__(self, keys: ContextKeys) -> None:
        entries: list[tuple[int, int, list[int]]] = []
        for j in range(keys.n_instances):
            t = int(keys.template[j])
            # An instance asks for the tags before its own in a window too: it is left out where one is the same.
            beside = {
                offset
                for row, window, last in zip(keys.window_rows[t], keys.windows[t], keys.offsets[j], strict=True)
                for offset in range(window.first, last + 1)
                if row == TAGS and offset != 0
            }
            offsets = sorted(beside)
            entries += [(j, offset, offsets[:i]) for i, offset in enumerate(offsets)]
        depth = max((len(earlier) for *_, earlier in entries), default=0)
        self.instance: NDArray[np.intp] = np.array([j for j, *_ in entries], np.intp)
        self._offset: Integers = np.array([offset for _, offset, _ in entries], np.int64)
        # A changed place itself is looked at anew by all instances, so it is nobody's neighbour: offset 0 first.
        self._earlier: Integers = np.zeros((1 + depth, len(entries)), np.int64)
        for e, (_, _, earlier) in enumerate(entries):
            self._earlier[1 : 1 + len(earlier), e] = earlier

    def of(
        self, places: Integers, changed: NDArray[np.bool_], real: NDArray[np.bool_]
    ) -> tuple[Integers, NDArray[np.intp]]:
        """Return places and instances, each pair once. `changed` marks all changed places, `real` all tokens."""
        near = places[:, None] - self._offset
        keep = real.take(near)
        for earlier in self._earlier:
            keep &= ~changed.take(near + earlier)
        rows, entries = keep.nonzero()
        return near[rows, entries], self.instance.take(entries)
