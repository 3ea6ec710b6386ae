"""Types of numpy arrays, and sums that do not depend on other rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Flags = NDArray[np.bool_]

_TILE = 24


def row_products(rows: Floats, matrix: Floats) -> Floats:
    """Return `rows @ matrix`, (n, k) by (k, m); the bits of a row do not depend on the other rows.

    BLAS computes an incomplete tile with other kernels. In double precision the rows of whole tiles are computed
    alike; in single precision they are not (OpenBLAS on AVX2), so networks score each note by itself.
    """
    spare = -len(rows) % _TILE
    if not spare:
        return rows @ matrix
    return np.asarray((np.concatenate([rows, np.zeros((spare, rows.shape[1]))]) @ matrix)[: len(rows)])


def range_sums(values: NDArray[Any], first: Int64s, after: Int64s) -> Floats:
    """Return the sum of rows `first` to `after` (exclusive) for each range, (n, ...).

    No difference of running sums: its last digits would depend on earlier rows.
    """
    padded = np.concatenate([values, np.zeros((2, *values.shape[1:]))]).astype(np.float64)
    sums = np.zeros((len(first), *values.shape[1:]))
    if len(first):
        bounds = np.stack([first, np.maximum(after, first + 1)], axis=1).ravel()
        sums = np.add.reduceat(padded, bounds, axis=0)[::2]
        sums[after <= first] = 0.0
    return sums


def log_odds(probability: Floats, *, bound: float) -> Floats:
    """Return the log odds of probabilities, clipped to at least `bound` and at most 1 - `bound`."""
    within = np.clip(probability, bound, 1 - bound)
    return np.asarray(np.log(within / (1 - within)), dtype=np.float64)
