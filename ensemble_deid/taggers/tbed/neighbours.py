"""Which pairs of a place and an instance see a changed tag."""

import numpy as np

from ensemble_deid.taggers.tbed.cells import TAGS
from ensemble_deid.taggers.tbed.instances import Flags, Indices, Instances
from ensemble_deid.taggers.tbed.layout import Integers


class Neighbours:
    """Finds, for changed places, all pairs of a place and an instance whose context asks for a changed tag.

    Entry e says that instance `instance[e]` looks at the tag at `offset[e]`; `earlier[:, e]` are the offsets of
    the instance's entries before e (0 where there are fewer), by which a pair seen twice is kept once.
    """

    def __init__(self, instances: Instances) -> None:
        entries: list[tuple[int, int, list[int]]] = []
        for j in range(len(instances)):
            t = int(instances.template[j])
            # An instance asks for the tags before its own in a window too: it is left out where one is the same.
            beside = {
                offset
                for row, window, last in zip(instances.rows[t], instances.windows[t], instances.offsets[j], strict=True)
                for offset in range(window.first, last + 1)
                if row == TAGS and offset != 0
            }
            offsets = sorted(beside)
            entries += [(j, offset, offsets[:i]) for i, offset in enumerate(offsets)]
        depth = max((len(earlier) for *_, earlier in entries), default=0)
        self.instance: Indices = np.array([j for j, *_ in entries], np.intp)
        self._offset: Integers = np.array([offset for _, offset, _ in entries], np.int64)
        # A changed place itself is looked at anew by all instances, so it is nobody's neighbour: offset 0 first.
        self._earlier: Integers = np.zeros((1 + depth, 1, len(entries)), np.int64)
        for e, (_, _, earlier) in enumerate(entries):
            self._earlier[1 : 1 + len(earlier), 0, e] = earlier

        self._all: Indices = np.arange(len(instances))
        self._rows: Indices = self._all

    def pairs(self, places: Integers, changed: Flags, real: Flags) -> tuple[Integers, Indices]:
        """Return the places by all instances, and the pairs of places and instances beside them, each pair once.

        `changed` marks all changed places, `real` all places of tokens.
        """
        n = len(self._all)
        if len(places) == 1:
            near = places - self._offset
            keep = real.take(near)
            return (
                np.concatenate([places.repeat(n), near.compress(keep)]),
                np.concatenate([self._all, self.instance.compress(keep)]),
            )
        if len(self._rows) < n * len(places):
            self._rows = np.tile(self._all, len(places))
        near = places[:, None] - self._offset
        keep = real.take(near)
        # A neighbour by one entry may be changed itself, or a neighbour by an earlier entry.
        keep &= ~changed.take(near + self._earlier).any(axis=0)
        (kept,) = keep.ravel().nonzero()
        return (
            np.concatenate([places.repeat(n), near.take(kept)]),
            np.concatenate([self._rows[: n * len(places)], self.instance.take(kept % len(self.instance))]),
        )
