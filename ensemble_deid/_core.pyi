"""The compiled core. All arrays are contiguous; a wrong shape or type raises ValueError before anything is read."""

from typing import Any

from numpy.typing import NDArray

from ensemble_deid.arrays import Floats, Int32s, Int64s

_Any = NDArray[Any]
_Window = tuple[_Any, int, tuple[Int64s, ...], tuple[int, ...]]

def level() -> str:
    """Return the instructions in use: `avx512vnni`, `avx2` or `plain`."""

def add_windows(
    scores: Floats, n_tags: int, weights: tuple[_Any, _Any, Int64s, _Any], windows: list[_Window], /
) -> None:
    """Add to `scores` (tokens, tags) what windows' values weigh.

    `weights` are where those of each attribute begin, and for each weight its label, the tag of each label and the
    weight; a window is its keys, the attribute of the first of them, and the tokens' values and their number by part.
    """

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
