"""The kinds of numpy arrays that functions take and return."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Flags = NDArray[np.bool_]

_TILE = 24


def row_products(rows: Floats, matrix: Floats) -> Floats:
    """Return `rows @ matrix`, (n, k) by (k, m), each row the same bits whatever rows stand beside it.

    BLAS computes what is left over of a tile by other kernels. In double precision the rows of whole tiles are computed
    alike; in single precision they are not (OpenBLAS on AVX2), so networks score each note by itself.
    """
    spare = -len(rows) % _TILE
    if not spare:
        return rows @ matrix
    return np.asarray((np.concatenate([rows, np.zeros((spare, rows.shape[1]))]) @ matrix)[: len(rows)])


def range_sums(values: NDArray[Any], first: Int64s, after: Int64s) -> Floats:
    """Return the sum of the rows `first` to `after` of each range, (n, ...), of its own rows alone.

    A difference of running sums would depend, in its last digits, on the rows before.
    """
    padded = np.concatenate([values, np.zeros((2, *values.shape[1:]))]).astype(np.float64)
    sums = np.zeros((len(first), *values.shape[1:]))
    if len(first):
        bounds = np.stack([first, np.maximum(after, first + 1)], axis=1).ravel()
        sums = np.add.reduceat(padded, bounds, axis=0)[::2]
        sums[after <= first] = 0.0
    return sums
