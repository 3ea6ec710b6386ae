"""Lists of the places where values occur, and which of several lists is the shortest way to a conjunction of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Int64s
from ensemble_deid.taggers.tbed.keyindex import distinct

# The length of a list that there is not.
NO_LIST = 1 << 40


class PlaceLists:
    """For each of some values, by number, the places where it occurs, in rising order.

    List n is `places[starts[n]:starts[n + 1]]`.
    """

    def __init__(self, places: Int64s, starts: Int64s) -> None:
        self.places = places
        self.starts = starts

    def __getitem__(self, number: int) -> Int64s:
        return self.places[self.starts[number] : self.starts[number + 1]]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def gather(self, numbers: Int64s) -> tuple[Int64s, Int64s]:
        """Return all places of several lists, one list after the other, and for each place which list it is of."""
        starts = self.starts.take(numbers)
        lengths = self.starts.take(numbers + 1) - starts
        return self.places.take(ranges(starts, lengths)), np.arange(len(numbers)).repeat(lengths)

    def shortest(self, numbers: Int64s) -> tuple[Int64s, Int64s]:
        """Return for each column of numbers (conditions, n) the condition with the shortest list, and its length.

        A number of -1 is a condition without a list, of length `NO_LIST`.
        """
        missing = numbers < 0
        lengths = self.starts.take(numbers + 1) - self.starts.take(numbers)
        lengths[missing] = NO_LIST
        return lengths.argmin(axis=0), lengths.min(axis=0)


def shortest_way(lists: Sequence[Int64s], offsets: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Return which of several lists leads to the fewest places, each seen at `offsets` of it, and to how many."""
    reads = [len(places) * len(seen_at) for places, seen_at in zip(lists, offsets, strict=True)]
    fewest = min(reads)
    return reads.index(fewest), fewest


def places_seeing(places: Int64s, offsets: Sequence[int]) -> Int64s:
    """Return the places that see one of some places at one of the offsets, in rising order, each once."""
    seeing = [places - offset for offset in offsets]
    return seeing[0] if len(seeing) == 1 else distinct(np.concatenate(seeing))


def list_places(numbers: NDArray[np.integer[Any]], n_numbers: int, places: Int64s) -> PlaceLists:
    """Return the places of each number below `n_numbers`; those of higher numbers are skipped."""
    counts = np.bincount(numbers, minlength=n_numbers)[:n_numbers]
    if counts.sum() < len(numbers):
        (kept,) = (numbers < n_numbers).nonzero()
        numbers, places = numbers.take(kept), places.take(kept)
    return PlaceLists(places.take(stable_order(numbers, n_numbers)), np.concatenate([[0], counts.cumsum()]))


def stable_order(numbers: NDArray[np.integer[Any]], largest: int) -> Int64s:
    """Return the indices that put numbers from 0 to `largest` in rising order, equal ones in the order given."""
    if largest < 1 << 16:
        # A stable sort of integers of at most 16 bits is a radix sort.
        narrow = numbers if numbers.dtype.itemsize <= 2 else numbers.astype(np.uint16)
        return narrow.argsort(kind="stable")
    bits = len(numbers).bit_length()
    if largest.bit_length() + bits > 63:
        return numbers.argsort(kind="stable")
    # A number and its index fit one integer: one sort does everything.
    packed = np.sort((numbers.astype(np.int64) << bits) | np.arange(len(numbers)))
    return packed & ((1 << bits) - 1)


def ranges(starts: Int64s, lengths: Int64s) -> Int64s:
    """Return start, start + 1, ... for `length` numbers, one range after the other."""
    ends = lengths.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    numbers: Int64s = np.arange(total)
    shift: Int64s = starts + lengths - ends
    numbers += shift.repeat(lengths)
    return numbers
