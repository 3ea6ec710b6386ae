"""Weights in eight bits: a matrix as whole numbers from -127 to 127, with one scale for each of its rows.

A quarter of the size of single precision, half of half precision (symmetric quantisation, as in Zafrir et al. 2019).
Prediction rounds what it multiplies them with in the same way: sums of products of whole numbers are exact, and so do
not depend on the processor, the library, or the rows beside.
"""

import numpy as np

from ensemble_deid.taggers.layers import Array, Weights, single

SCALE = ".scale"
"""What stands at the end of the name of a matrix's scales."""
_LARGEST = 127
_LEAST = 1e-12
_EXACT = 1024
"""So many products of two rounded numbers add up exactly in single precision."""


def quantise(weights: Weights) -> dict[str, Array]:
    """Return the weights with every matrix in eight bits beside its scales, and all else in half precision."""
    found: dict[str, Array] = {}
    for name, value in weights.items():
        if value.dtype.kind != "f":
            found[name] = value
        elif value.ndim != 2:
            found[name] = value.astype(np.float16)
        else:
            found[name], found[name + SCALE] = round_rows(single(value))
    return found


def dequantise(weights: Weights) -> dict[str, Array]:
    """Return the weights in single precision, whether they were quantised or not."""
    return {name: restored(weights, name) for name in weights if not is_scale(weights, name)}


def is_scale(weights: Weights, name: str) -> bool:
    """Return whether an array holds the scales of another one."""
    return name.endswith(SCALE) and name.removesuffix(SCALE) in weights


def restored(weights: Weights, name: str, rows: Array | slice = slice(None)) -> Array:
    """Return an array, or some of its rows, in single precision; whole numbers without scales as they are."""
    value = weights[name][rows]
    if (scale := weights.get(name + SCALE)) is not None:
        return single(value) * single(scale)[rows][..., None]
    return single(value) if value.dtype.kind == "f" else value


def round_rows(rows: Array) -> tuple[Array, Array]:
    """Return a matrix as int8, and the scale of each row, (rows,)."""
    largest = np.maximum(np.abs(rows).max(axis=1, initial=0), np.float32(_LEAST))
    rounded = np.rint(rows * (np.float32(_LARGEST) / largest)[:, None]).astype(np.int8)
    return rounded, largest / np.float32(_LARGEST)


class RoundedLinear:
    """`Linear` with a matrix in eight bits, by vectors that are rounded to eight bits."""

    def __init__(self, weights: Weights) -> None:
        self.weight, self.scale, self.bias = (single(weights[name]) for name in ("weight", "weight" + SCALE, "bias"))

    def __call__(self, vectors: Array) -> Array:
        """Return (n, outputs) of vectors (n, inputs)."""
        rounded, scale = round_rows(vectors)
        factors = single(rounded)
        parts = (slice(low, low + _EXACT) for low in range(0, factors.shape[1], _EXACT))
        found = single(sum(np.float64(factors[:, part] @ self.weight[:, part].T) for part in parts))
        found *= scale[:, None]
        found *= self.scale
        found += self.bias
        return found
