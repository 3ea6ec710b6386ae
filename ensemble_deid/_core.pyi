"""The compiled core. All arrays are contiguous; a wrong shape or type raises ValueError before anything is read."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Flags, Floats, Int32s, Int64s

_Any = NDArray[Any]
_Index = tuple[Int64s, Int32s, Int64s, int, int]
_Matrix = tuple[Int32s, NDArray[np.uint8], Flags, Int64s, int]
_Window = tuple[_Any, int, tuple[Int64s, ...], tuple[int, ...]]

def add_windows(
    scores: Floats, n_tags: int, weights: tuple[_Any, _Any, Int64s, _Any], windows: list[_Window], /
) -> None:
    """Add to `scores` (tokens, tags) what windows' values weigh.

    `weights` are where those of each attribute begin, and for each weight its label, the tag of each label and the
    weight; a window is its keys, the attribute of the first of them, and the tokens' values and their number by part.
    """

def context_keys(matrix: _Matrix, places: Int64s, instances: Int64s, keys: Int64s, /) -> None:
    """Fill `keys` with those of pairs of a place and an instance, as `ContextKeys.seen` does.

    `matrix` is `ContextKeys.compiled`: cells, rooms, fits, looks (a row an instance) and the cells in a key.
    """

def count_contexts(matrix: _Matrix, places: Int64s, instances: Int64s, counts: Int32s, /) -> None:
    """Add 1 to `counts[key]` for each context that an instance has at a place."""

def count_matches(
    matrix: _Matrix,
    lists: tuple[Flags, Int64s, Int64s],
    pairs: tuple[Int64s, Int64s, Int64s, Int64s],
    contexts: tuple[Int64s, Int64s],
    counts: Int32s,
    /,
) -> None:
    """Add to `counts` the right tags at which contexts, given by key and tag, hold.

    `lists` are the right tags, and the places and starts of `PlaceLists`; a pair is the number of its list, the offset
    at which the places of the list are seen, its instance and its context.
    """

def find_keys(index: _Index, keys: Int64s, numbers: Int64s, /) -> None:
    """Fill `numbers` as `KeyIndex.find` returns it; `index` is its table, numbers, used, spread and shift."""

def forward_backward(
    chances: tuple[Floats, Floats, Floats, Floats], lengths: Int32s, found: tuple[Floats, Floats, Floats], time: int, /
) -> None:
    """Fill the arrays of `taggers.chain.Marginals`: forward, backward and local, the last of which has exp(emissions).

    `chances` are moves, moves turned round, start and end.
    """

def likely_tags(values: Floats, found: Int64s, n_tags: int, n: int, /) -> None:
    """Fill `found` (rows, n) with the indexes of the n largest of each row of `values`, ascending."""

def n_best(
    chain: tuple[Floats, Floats, Floats],
    given: tuple[Floats, Int64s, Int32s],
    found: tuple[Int32s, Floats],
    sizes: tuple[int, int, int, int],
    /,
) -> None:
    """Fill `found` as `taggers.chain.n_best` returns it, `given` emissions, likely tags and lengths.

    `sizes` are the steps, tags, likely tags and n.
    """

def find_strings(
    text: NDArray[np.uint8], ends: NDArray[np.uint32], gap: int, wanted: list[bytes], places: Int64s, /
) -> None:
    """Fill `places` as `StringTable._search_in_numpy` does, for strings in order that end at `ends`, `gap` apart."""

def run_lstm(given: Any, weights: Any, lengths: Int64s, states: Any, /) -> None:
    """Fill `states` (tokens, 2 * hidden) for consecutive sequences of the given `lengths`; `given` is written over.

    `given` float32 (2, tokens, 4 * hidden) is what the inputs give both directions, `weights` (2, hidden, 4 * hidden)
    those of the states, as `LstmPair` has them.
    """

def strings_in_order(text: NDArray[np.uint8], ends: NDArray[np.uint32], gap: int, /) -> bool:
    """Return whether each string of such a table is greater than the one before it, and within the text."""

def levels() -> list[str]:
    """Return the instructions for `run_layer` that are here, of `amx`, `avx512vnni` and `avx2`, best first."""

def place_keys(index: _Index, keys: Int64s, first: int, /) -> bool:
    """Put keys numbered from `first` on into their buckets; False if one has no room."""

def run_layer(state: Any, weights: tuple[tuple[Any, ...], ...], heads: int, eps: float, level: str, /) -> None:
    """Write what a layer of BERT gives for one window over `state`, float32 (pieces, width).

    `weights` has the matrices of attention (queries, keys and values joined), its output, the inner and the outer one,
    each as `packing.py` packs it, scales and bias, and the scale and bias of the two normalisations.
    """
