"""How many right tags each context would break, counted when first asked for and kept exact from then on."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.taggers.tbed.cells import TAGS
from ensemble_deid.taggers.tbed.keyindex import KeyIndex
from ensemble_deid.taggers.tbed.layout import Integers
from ensemble_deid.taggers.tbed.matching import Contexts, Matcher

# A sweep over one place costs about as much as reading this many places of lists.
_SWEEP_COST = 0.3
# A template of tags alone is swept once for all its contexts, unless so few are asked for.
_FEW_CONTEXTS = 12


class BrokenCounts:
    """The number of right tags in each context asked for. The last count is for places in no such context."""

    def __init__(self, matcher: Matcher, right: NDArray[np.bool_]) -> None:
        self.matcher = matcher
        self.keys = matcher.keys
        self._right = right
        self._index = KeyIndex(1024)
        self.counts: NDArray[np.int32] = np.zeros(1024, np.int32)

    def numbers_of(self, keys: Integers) -> NDArray[np.int32]:
        """Return the numbers of contexts, counting those not asked for before. Keys may repeat."""
        numbers = self._index.find(keys)
        if (numbers < 0).any():
            new = np.unique(keys[numbers < 0])
            templates = self.keys.templates_of(new)
            for t in np.unique(templates).tolist():
                self._register(t, new[templates == t])
            numbers = self._index.find(keys)
        return numbers

    def shift(self, keys: Integers, by: int) -> None:
        """Add `by` to the counts of the contexts of right tags; keys not asked for, and -1, count for nothing."""
        np.add.at(self.counts, self._index.find(keys), np.int32(by))

    def _register(self, t: int, keys: Integers) -> None:
        if all(row == TAGS for row in self.keys.window_rows[t]) and len(keys) > _FEW_CONTEXTS:
            keys, counts = self._count_all(t, keys)
        else:
            counts = self._count(t, keys)
        first = len(self._index)
        self._index.add(keys)
        if len(self._index) >= len(self.counts):
            grown = np.zeros(2 * len(self._index), np.int32)
            grown[:first] = self.counts[:first]
            self.counts = grown
        self.counts[first : len(self._index)] = counts

    def _count(self, t: int, keys: Integers) -> Integers:
        """Count the right tags in each of these contexts of template t."""
        contexts = Contexts(t, *self.keys.decode(t, keys))
        lengths = self.matcher.list_lengths(contexts)
        if lengths is None:
            one_by_one = (
                self.matcher.places(t, int(tag), cells.tolist())
                for tag, cells in zip(contexts.tags, contexts.cells.T, strict=True)
            )
            return np.asarray([int(self._right[p].sum()) for p in one_by_one], np.int64)
        instances = self._instances(t)
        if lengths.sum() > _SWEEP_COST * self.keys.matrix.size * len(instances):
            index = KeyIndex(len(keys))
            index.add(keys)
            counts = np.zeros(len(keys), np.int64)
            for j in instances:
                found = index.find(self._right_keys(j))
                counts += np.bincount(found[found >= 0], minlength=len(keys))
            return counts
        counts = np.zeros(len(keys), np.int64)
        for numbers, places in self.matcher.matches(contexts):
            counts += np.bincount(numbers[self._right[places]], minlength=len(keys))
        return counts

    def _count_all(self, t: int, asked: Integers) -> tuple[Integers, Integers]:
        """Count every context of template t that occurs, and those asked for; only ones not yet known."""
        found = [self._right_keys(j) for j in self._instances(t)]
        keys, counts = np.unique(np.concatenate([asked, *found]), return_counts=True)
        counts[np.searchsorted(keys, asked)] -= 1
        new = self._index.find(keys) < 0
        return keys[new], counts[new]

    def _right_keys(self, j: int) -> Integers:
        """Return the keys of one instance at all right tags, where it has one."""
        pad = self.keys.matrix.layout.pad
        inside = slice(pad, self.keys.matrix.size - pad)
        keys = self.keys.of_instance(j, inside, number_new=False)
        return keys[self._right[inside] & (keys >= 0)]

    def _instances(self, t: int) -> Sequence[int]:
        return np.flatnonzero(self.keys.template == t).tolist()
