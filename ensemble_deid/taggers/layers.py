"""The layers of trained networks in numpy, in single precision: prediction needs no library that can train."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Flags, Int64s
from ensemble_deid.compiled import has_core
from ensemble_deid.mapped import MappedArrays
from ensemble_deid.reproducible import is_pinned

with suppress(ImportError):
    from ensemble_deid import _core

Array = NDArray[Any]
"""Weights or activations: float32; where weights are stored smaller, float16 or int8."""
Weights = Mapping[str, Array]
"""Arrays by their names in the file."""

_NEVER, _HALF = np.float32(-1e30), np.float32(0.5)
# erf by a ratio of polynomials in x * x, in Horner's order (as Eigen and XLA compute it), exact to 2e-7.
_ERF_ABOVE = (
    -2.72614225801306e-10,
    2.77068142495902e-08,
    -2.10102402082508e-06,
    -5.69250639462346e-05,
    -7.34990630326855e-04,
    -2.95459980854025e-03,
    -1.60960333262415e-02,
)
_ERF_BELOW = (
    -1.45660718464996e-05,
    -2.13374055278905e-04,
    -1.68282697438203e-03,
    -7.37332916720468e-03,
    -1.42647390514189e-02,
)
_ERF_LARGEST = 4.0


def read_weights(path: Path) -> dict[str, Array]:
    """Return the mapped arrays of a safetensors file. Raises ValueError if it is damaged or a number is not finite."""
    weights: dict[str, Array] = dict(MappedArrays.of_file(path).arrays)
    for value in weights.values():
        # A sum is not finite where a number is not, and no copy is made of the numbers.
        if value.dtype.kind == "f" and not np.isfinite(np.add.reduce(value, axis=None, dtype=np.float64)):
            raise ValueError("a weight is not a number")
    return weights


def check_shapes(weights: Weights, expected: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ValueError unless the weights have the names and shapes expected."""
    if {name: value.shape for name, value in weights.items()} != expected:
        raise ValueError("the weights are those of another network")


def under(weights: Weights, part: str) -> dict[str, Array]:
    """Return the weights of a part of a network, named from there on."""
    return {name.removeprefix(f"{part}."): value for name, value in weights.items() if name.startswith(f"{part}.")}


def single(array: Array) -> Array:
    """Return an array in single precision, itself where it is."""
    return np.asarray(array, dtype=np.float32)


def look_up(table: Array, codes: Int64s) -> Array:
    """Return rows of a table in single precision, (..., width)."""
    return single(table[codes])


class Linear:
    """A matrix product and a bias."""

    def __init__(self, weights: Weights) -> None:
        self.weight, self.bias = single(weights["weight"]), single(weights["bias"])

    def __call__(self, vectors: Array) -> Array:
        """Return (n, outputs) of vectors (n, inputs)."""
        found: Array = vectors @ self.weight.T
        found += self.bias
        return found


class LayerNorm:
    """Vectors of mean 0 and deviation 1, scaled and moved."""

    def __init__(self, weights: Weights, *, eps: float) -> None:
        self.weight, self.bias, self.eps = single(weights["weight"]), single(weights["bias"]), np.float32(eps)

    def __call__(self, vectors: Array) -> Array:
        """Return the same shape, (..., width); `vectors` is written over."""
        vectors -= vectors.mean(axis=-1, keepdims=True)
        square = np.einsum("...i,...i->...", vectors, vectors)[..., None] / np.float32(vectors.shape[-1])
        vectors /= np.sqrt(square + self.eps)
        vectors *= self.weight
        vectors += self.bias
        return vectors


def gelu(values: Array) -> Array:
    """Return x * P(N(0, 1) < x) of each value, in blocks that stay in the processor's cache."""
    flat = values.reshape(-1)
    for low in range(0, len(flat), 1 << 14):
        part = flat[low : low + (1 << 14)]
        x = np.clip(part * np.float32(np.sqrt(0.5)), -_ERF_LARGEST, _ERF_LARGEST)
        square = x * x
        above, below = np.full_like(x, _ERF_ABOVE[0]), np.full_like(x, _ERF_BELOW[0])
        for polynomial, coefficients in ((above, _ERF_ABOVE), (below, _ERF_BELOW)):
            for coefficient in coefficients[1:]:
                polynomial *= square
                polynomial += np.float32(coefficient)
        above *= x
        above /= below
        above += np.float32(1)
        part *= above
        part *= np.float32(0.5)
    return values


def log_softmax(scores: Array) -> Array:
    """Return the log probabilities of scores along the last axis."""
    shifted: Array = scores - scores.max(axis=-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted


def attention(joined: Array, heads: int, mask: Flags | None) -> Array:
    """Return what each place reads, (batch, time, width); `joined` (batch, time, 3 * width) asks, answers and tells.

    `mask` (batch, time) is false on padding, which nothing reads; None where there is none.
    """
    size, time, width = joined.shape[0], joined.shape[1], joined.shape[2] // 3
    # (3, batch, heads, time, width of a head)
    query, key, value = joined.reshape(size, time, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
    scores: Array = (query * np.float32((width // heads) ** -0.5)) @ key.swapaxes(2, 3)
    if mask is not None:
        scores += np.where(mask, np.float32(0), _NEVER)[:, None, None, :]
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    total = scores.sum(axis=-1, keepdims=True)
    found: Array = (scores @ value) / total
    return found.transpose(0, 2, 1, 3).reshape(size, time, width)


def lstm_is_compiled() -> bool:
    """Return whether the core steps LSTMs; not where arithmetic is pinned, as it must be the same without the core."""
    return has_core() and not is_pinned()


class LstmPair:
    """An LSTM in each direction (Hochreiter and Schmidhuber 1997), both stepped together."""

    def __init__(self, weights: Weights) -> None:
        both = [under(weights, direction) for direction in ("forwards", "backwards")]
        hidden = both[0]["weight_hh_l0"].shape[1]
        # Files have the gates in, forget, cell, out; here the cell comes last, since the others are sigmoids. These are
        # computed as (1 + tanh(x / 2)) / 2, the half within taken into the weights.
        order = np.r_[0 : 2 * hidden, 3 * hidden : 4 * hidden, 2 * hidden : 3 * hidden]
        half = np.where(np.arange(4 * hidden) < 3 * hidden, np.float32(0.5), np.float32(1))[:, None]

        def gates(part: Weights, name: str) -> Array:
            return single(part[name])[order] * (half if part[name].ndim > 1 else half[:, 0])

        self.hidden = hidden
        # (2, inputs, 4 * hidden), (2, hidden, 4 * hidden), (2, 1, 4 * hidden)
        self.inputs = np.stack([gates(part, "weight_ih_l0").T for part in both])
        self.states = np.ascontiguousarray(np.stack([gates(part, "weight_hh_l0").T for part in both]))
        self.bias = np.stack([gates(part, "bias_ih_l0") + gates(part, "bias_hh_l0") for part in both])[:, None]

    def __call__(self, vectors: Array, mask: Flags) -> Array:
        """Return states (batch, time, 2 * hidden) of vectors (batch, time, width), 0 at padding, which comes last."""
        found = np.zeros((*mask.shape, 2 * self.hidden), dtype=np.float32)
        if not lstm_is_compiled():
            if mask.any():
                found[mask] = self._in_numpy(vectors, mask)[mask]
            return found
        given = single(vectors[mask]) @ self.inputs
        given += self.bias
        states = np.empty((given.shape[1], 2 * self.hidden), dtype=np.float32)
        _core.run_lstm(given, self.states, mask.sum(axis=1, dtype=np.int64), states)
        found[mask] = states
        return found

    def _in_numpy(self, vectors: Array, mask: Flags) -> Array:
        size, time, width = vectors.shape
        steps = np.arange(time)[None, :]
        # (batch, time, 1): the place of each token counted from the end of its sequence; padding stays in place
        turned = np.where(mask, mask.sum(axis=1, keepdims=True) - 1 - steps, steps)[:, :, None]
        both = np.stack([vectors, np.take_along_axis(vectors, turned, axis=1)])
        rows = both.transpose(0, 2, 1, 3).reshape(2, time * size, width)
        # (2, time, batch, 4 * hidden)
        given = (rows @ self.inputs + self.bias).reshape(2, time, size, 4 * self.hidden)
        out = np.empty((time, 2, size, self.hidden), dtype=np.float32)
        gates = np.empty((2, size, 4 * self.hidden), dtype=np.float32)
        state, cell, new = np.zeros_like(out[0]), np.zeros_like(out[0]), np.empty_like(out[0])
        n = self.hidden
        sigmoids, values = gates[..., : 3 * n], gates[..., 3 * n :]
        inward, forget, outward = (sigmoids[..., low : low + n] for low in (0, n, 2 * n))
        for step in range(time):
            np.matmul(state, self.states, out=gates)
            gates += given[:, step]
            np.tanh(gates, out=gates)
            sigmoids *= _HALF
            sigmoids += _HALF
            cell *= forget
            cell += np.multiply(inward, values, out=new)
            state = np.multiply(outward, np.tanh(cell, out=new), out=out[step])
        left, right = out.transpose(1, 2, 0, 3)
        return np.concatenate([left, np.take_along_axis(right, turned, axis=1)], axis=2)
