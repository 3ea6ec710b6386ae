"""Weights in eight bits: a matrix as whole numbers from -127 to 127, with one scale for each of its rows.

A quarter of the size of single precision, half of half precision (symmetric quantisation, as in Zafrir et al. 2019).
In a layer, what they are multiplied with is rounded, too: each vector to whole numbers of its own scale.
"""

import numpy as np

from ensemble_deid.taggers.layers import Array, Weights, single

SCALE = ".scale"
"""What stands at the end of the name of a matrix's scales."""
_LARGEST = 127
_LEAST_SCALE = 1e-12
_STEPS = np.float32(255)


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
    scale = np.maximum(np.abs(rows).max(axis=1, initial=0), np.float32(_LEAST_SCALE)) / np.float32(_LARGEST)
    return np.rint(rows / scale[:, None]).astype(np.int8), scale


def round_vectors(vectors: Array) -> tuple[Array, Array]:
    """Return vectors (n, width) as whole numbers, 256 steps from their least to their largest, and the steps (n, 1).

    0 stays 0, so that the least is at most 0 and the largest at least.
    """
    low = np.minimum(vectors.min(axis=1, keepdims=True, initial=0), np.float32(0))
    high = np.maximum(vectors.max(axis=1, keepdims=True, initial=0), np.float32(0))
    spread = np.maximum(high - low, np.float32(_LEAST_SCALE))
    factor = _STEPS / spread
    zero = np.rint(-low * factor)
    return np.minimum(np.rint(vectors * factor), _STEPS - zero), spread / _STEPS


class EightBitLinear:
    """A product of vectors with weights in eight bits, and a bias, as the compiled core computes it."""

    def __init__(self, weights: Weights) -> None:
        self.weight, self.scale, self.bias = (single(weights[name]) for name in ("weight", "weight" + SCALE, "bias"))

    def __call__(self, vectors: Array) -> Array:
        """Return (n, outputs) of vectors (n, inputs)."""
        numbers, steps = round_vectors(vectors)
        # Sums of whole numbers, exact up to 2 ** 24.
        found: Array = numbers @ self.weight.T
        found *= steps
        found *= self.scale
        found += self.bias
        return found
