"""A growing map from 64-bit keys to 0, 1, 2, ... that looks many keys up at once."""

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]
# Not -1: a key of -1 may be asked for, and is never found.
_EMPTY = np.int64(-2)
_NONE = np.int64(-1)
# Fibonacci hashing: the odd number nearest to 2**64 / golden ratio spreads consecutive keys.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class KeyIndex:
    """Keys (each >= 0) numbered from `first` on in the order in which they were added.

    Open addressing with linear probing, done for whole arrays; keys are compared in full, so two keys never
    share a number. `keys[i]` is key number `first + i`.
    """

    def __init__(self, capacity: int = 256, *, first: int = 0) -> None:
        self._first = first
        self._bits = 4
        self._slot_keys: Keys = np.empty(0, np.int64)
        self._slot_numbers: Keys = np.empty(0, np.int64)
        self._keys: Keys = np.empty(capacity, np.int64)
        self._count = 0
        self._resize(capacity)

    def __len__(self) -> int:
        return self._count

    @property
    def keys(self) -> Keys:
        """All keys, in order of their numbers."""
        return self._keys[: self._count]

    def find(self, keys: Keys) -> Keys:
        """Return each key's number, -1 where it has none."""
        slots = self._first_slots(keys)
        found = self._slot_keys.take(slots)
        hit = found == keys
        numbers = np.where(hit, self._slot_numbers.take(slots), _NONE)
        hit |= found == _EMPTY
        if not hit.all():
            self._probe(keys, slots, numbers, (~hit).nonzero()[0])
        return numbers

    def _probe(self, keys: Keys, slots: Keys, numbers: Keys, open_: Keys) -> None:
        """Look in the following slots for the keys at `open_`, whose first slot holds another key."""
        mask = len(self._slot_keys) - 1
        while len(open_):
            slots[open_] = (slots[open_] + 1) & mask
            found = self._slot_keys[slots[open_]]
            hit = found == keys[open_]
            numbers[open_[hit]] = self._slot_numbers[slots[open_[hit]]]
            open_ = open_[~hit & (found != _EMPTY)]

    def add(self, keys: Keys) -> None:
        """Number keys that are distinct and not yet in the index, in their order."""
        first, self._count = self._count, self._count + len(keys)
        if self._count > len(self._keys):
            grown = np.empty(max(2 * len(self._keys), self._count), np.int64)
            grown[:first] = self._keys[:first]
            self._keys = grown
        self._keys[first : self._count] = keys
        if self._count * 4 > len(self._slot_keys):
            self._resize(2 * self._count)
        else:
            self._place(keys, np.arange(first, self._count) + self._first)

    def _resize(self, capacity: int) -> None:
        self._bits = max(8, (4 * capacity - 1).bit_length())
        self._shift = np.uint64(64 - self._bits)
        self._slot_keys = np.full(1 << self._bits, _EMPTY)
        self._slot_numbers = np.zeros(1 << self._bits, np.int64)
        self._place(self.keys, np.arange(self._count) + self._first)

    def _place(self, keys: Keys, numbers: Keys) -> None:
        slots = self._first_slots(keys)
        mask = len(self._slot_keys) - 1
        while len(keys):
            free = self._slot_keys[slots] == _EMPTY
            # Of several keys that want one free slot the last written stays; the others see it taken and go on.
            self._slot_keys[slots[free]] = keys[free]
            self._slot_numbers[slots[free]] = numbers[free]
            left = self._slot_keys[slots] != keys
            keys, numbers, slots = keys[left], numbers[left], (slots[left] + 1) & mask

    def _first_slots(self, keys: Keys) -> Keys:
        spread = keys.view(np.uint64) * _SPREAD
        spread >>= self._shift
        return spread.view(np.int64)
