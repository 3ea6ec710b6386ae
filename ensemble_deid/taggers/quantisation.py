"""Weights in eight bits: a matrix as whole numbers from -127 to 127, with one scale for each of its rows.

A quarter of the size of single precision, half of half precision (symmetric quantisation, as in Zafrir et al. 2019).
Prediction restores them to single precision, so that only the rounding remains.
"""

from collections.abc import Mapping

import numpy as np

from ensemble_deid.taggers.layers import Array, Weights, check_shapes, single

SCALE = ".scale"
"""What stands at the end of the name of a matrix's scales."""
_LARGEST = 127
_LEAST_SCALE = 1e-12


def as_stored(weights: Weights, *, eight_bits: bool, half: bool) -> dict[str, Array]:
    """Return the weights as a model stores them: in eight bits, in half precision, or in single precision."""
    if eight_bits:
        return quantise(weights)
    whole = dequantise(weights)
    return {
        name: value.astype(np.float16) if half and value.dtype.kind == "f" else value for name, value in whole.items()
    }


def quantise(weights: Weights) -> dict[str, Array]:
    """Return the weights with every matrix in eight bits beside its scales, and all else in half precision.

    Matrices already in eight bits are returned unchanged.
    """
    found: dict[str, Array] = {}
    for name, value in weights.items():
        if value.dtype.kind != "f" or is_scale(weights, name):
            found[name] = value
        elif value.ndim != 2:
            found[name] = value.astype(np.float16)
        else:
            found[name], found[name + SCALE] = round_rows(single(value))
    return found


def dequantise(weights: Weights) -> dict[str, Array]:
    """Return the weights in single precision, whether they were quantised or not."""
    return {name: restored(weights, name) for name in weights if not is_scale(weights, name)}


def in_eight_bits(weights: Weights) -> bool:
    """Return whether all matrices are in eight bits."""
    return all(value.dtype == np.int8 for value in weights.values() if value.ndim == 2)


def is_scale(weights: Weights, name: str) -> bool:
    """Return whether an array holds the scales of another one."""
    return name.endswith(SCALE) and name.removesuffix(SCALE) in weights


def check_stored(weights: Weights, expected: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ValueError unless stored weights, and the scales of those in eight bits, have the shapes expected."""
    scales = {name: expected[name.removesuffix(SCALE)][:1] for name in weights if is_scale(weights, name)}
    check_shapes(weights, {**expected, **scales})


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
