"""A layer of BERT in the compiled core: its weights stay in eight bits."""

import numpy as np

from ensemble_deid.arrays import Flags
from ensemble_deid.compiled import has_core
from ensemble_deid.taggers.layers import Array, Weights, single, under
from ensemble_deid.taggers.transformer.quantisation import SCALE

if has_core():
    from ensemble_deid import _core
NORMS = ("attention.output", "output")
_STEP = 16
"""The core computes this many numbers at once; widths must be multiples of it."""
_LINE = 64
"""Bytes that the processor reads together."""


def matrices(weights: Weights) -> list[Weights]:
    """Return the matrices of a layer, each with what belongs to it: attention's three in one, its output, two more."""
    three = [under(weights, f"attention.self.{name}") for name in ("query", "key", "value")]
    joined = {part: np.concatenate([one[part] for one in three]) for part in three[0]}
    return [joined, *(under(weights, f"{name}.dense") for name in ("attention.output", "intermediate", "output"))]


class CompiledLayer:
    """A layer whose weights are stored in eight bits, of widths for which `fits` is true."""

    def __init__(self, weights: Weights, heads: int, eps: float, *, level: str | None = None) -> None:
        norms = [under(weights, f"{name}.LayerNorm") for name in NORMS]
        self._weights = (
            *((_packed(one["weight"]), single(one["weight" + SCALE]), single(one["bias"])) for one in matrices(weights)),
            *((single(norm["weight"]), single(norm["bias"])) for norm in norms),
        )
        self._heads, self._eps, self._level = heads, eps, level or _core.levels()[0]

    @staticmethod
    def fits(weights: Weights, heads: int) -> bool:
        """Return whether the core is there and computes such a layer."""
        inner, width = weights["intermediate.dense.weight"].shape
        stored = "intermediate.dense.weight" + SCALE in weights
        return has_core() and stored and width % (_STEP * heads) == inner % _STEP == 0

    def __call__(self, state: Array, mask: Flags) -> None:
        """Write what the layer gives for windows over `state`, (batch, pieces, width); padding comes last."""
        for window, length in zip(state, mask.sum(axis=1).tolist(), strict=True):
            _core.run_layer(window[:length], self._weights, self._heads, self._eps, self._level)


def _packed(weights: Array) -> Array:
    """Return a matrix int8 as the core reads it, from the beginning of a line on."""
    shape = -(-len(weights) // _LINE) * _LINE // _STEP, weights.shape[1] * _STEP + _LINE
    room = np.empty(shape[0] * shape[1] + _LINE, dtype=np.int8)
    packed = room[-room.ctypes.data % _LINE :][: shape[0] * shape[1]].reshape(shape)
    _core.pack(weights, packed)
    return packed
