"""A growing map from 64-bit keys to consecutive numbers that looks many keys up at once."""

import numpy as np

from ensemble_deid.arrays import Int32s, Int64s
from ensemble_deid.compiled import has_core

Keys = Int64s

# Not -1: a key of -1 may be asked for, and is never found.
_EMPTY = np.int64(-2)
# Eight keys are one line of the processor's cache.
_WIDTH = 8
# Fibonacci hashing: an odd number near to 2**64 / golden ratio spreads consecutive keys over the buckets.
_SPREAD = 0x9E3779B97F4A7C15


class KeyIndex:
    """Keys (each >= 0) numbered from `first` on in the order in which they were added.

    A hash table of buckets of eight keys, so that a look-up is one gather and one comparison for all keys asked
    for, without probing. Keys are compared in full: two keys never share a number. Where a bucket would overflow,
    the table is made anew with other buckets. `keys[i]` is key number `first + i`.
    """

    def __init__(self, *, first: int = 0) -> None:
        self._first = first
        self._keys: Keys = np.empty(1024, np.int64)
        self._count = 0
        self._spread = np.uint64(_SPREAD)
        self._build(8)

    def __len__(self) -> int:
        return self._count

    @property
    def keys(self) -> Keys:
        """All keys, in order of their numbers."""
        return self._keys[: self._count]

    def find(self, keys: Keys) -> Keys:
        """Return each key's number, -1 where it has none."""
        numbers: Keys = np.empty(len(keys), np.int64)
        if has_core():
            from ensemble_deid import _core

            _core.find_keys(self._compiled, keys, numbers)
            return numbers
        buckets = self._buckets(keys)
        equal = self._table.take(buckets, axis=0) == keys[:, None]
        (hits,) = equal.ravel().nonzero()
        numbers.fill(-1)
        rows = hits // _WIDTH
        hits -= rows * _WIDTH
        hits += buckets.take(rows) * _WIDTH
        numbers[rows] = self._numbers.take(hits)
        return numbers

    def add(self, keys: Keys) -> None:
        """Number keys that are distinct and not yet in the index, in their order."""
        first, self._count = self._count, self._count + len(keys)
        if self._count > len(self._keys):
            grown = np.empty(2 * self._count, np.int64)
            grown[:first] = self._keys[:first]
            self._keys = grown
        self._keys[first : self._count] = keys
        if self._count > len(self._table) or not self._place(first):
            self._build(self._count.bit_length())

    def _build(self, bits: int) -> None:
        """Make a table of 2**bits buckets that holds all keys."""
        while True:
            self._shift = np.uint64(64 - bits)
            self._table: Keys = np.full((1 << bits, _WIDTH), _EMPTY)
            self._numbers: Int32s = np.empty(_WIDTH << bits, np.int32)
            self._used: Int64s = np.zeros(1 << bits, np.int64)
            self._compiled = (self._table, self._numbers, self._used, int(self._spread), int(self._shift))
            if self._place(0):
                return
            # Other buckets for all keys: any odd number will do.
            self._spread = np.uint64(int(self._spread) * _SPREAD % (1 << 64))

    def _place(self, first: int) -> bool:
        """Put the keys from number `first` on into their buckets; False if one has no room."""
        if has_core():
            from ensemble_deid import _core

            return _core.place_keys(self._compiled, self._keys[first : self._count], first + self._first)
        buckets = self._buckets(self._keys[first : self._count])
        order = buckets.argsort(kind="stable")
        ordered = buckets.take(order)
        begins = ordered.searchsorted(ordered)
        slots = self._used.take(ordered) + np.arange(len(ordered)) - begins
        if len(slots) and slots.max() >= _WIDTH:
            return False
        slots += ordered * _WIDTH
        self._table.reshape(-1)[slots] = self._keys[first : self._count].take(order)
        self._numbers[slots] = order + (first + self._first)
        np.add.at(self._used, buckets, 1)
        return True

    def _buckets(self, keys: Keys) -> Keys:
        spread = keys.view(np.uint64) * self._spread
        spread >>= self._shift
        return spread.view(np.int64)


def distinct(keys: Keys) -> Keys:
    """Return the distinct keys in rising order; the keys given are put in order in place."""
    keys.sort()
    keep = np.empty(len(keys), bool)
    keep[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=keep[1:])
    return keys[keep]
