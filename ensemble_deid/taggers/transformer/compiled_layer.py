"""A layer of BERT in the compiled core: its weights stay in eight bits.

What they are multiplied with is rounded to 15 bits, which moves probabilities by some 1e-5. Products are whole numbers
and exact, so that a window's result does not depend on other windows.
"""

import numpy as np

from ensemble_deid.arrays import Flags
from ensemble_deid.compiled import has_core
from ensemble_deid.reproducible import is_pinned
from ensemble_deid.taggers.layers import Array, Weights, single, under
from ensemble_deid.taggers.transformer.quantisation import SCALE, in_eight_bits

if has_core():
    from ensemble_deid import _core
NORMS = ("attention.output", "output")
_LANES, _GROUP = 16, 64


def matrices(weights: Weights) -> list[Weights]:
    """Return the matrices of a layer with their biases and scales: attention's three in one, its output, two more."""
    three = [under(weights, f"attention.self.{name}") for name in ("query", "key", "value")]
    joined = {part: np.concatenate([one[part] for one in three]) for part in three[0]}
    return [joined, *(under(weights, f"{name}.dense") for name in ("attention.output", "intermediate", "output"))]


class CompiledLayer:
    """A layer for which `fits` is true."""

    def __init__(self, weights: Weights, heads: int, eps: float, *, level: str | None = None) -> None:
        norms = [under(weights, f"{name}.LayerNorm") for name in NORMS]
        self._weights = (
            *(
                (_packed(one["weight"]), single(one["weight" + SCALE]), single(one["bias"]))
                for one in matrices(weights)
            ),
            *((single(norm["weight"]), single(norm["bias"])) for norm in norms),
        )
        self._heads, self._eps, self._level = heads, eps, level or _core.levels()[0]

    @staticmethod
    def fits(weights: Weights, heads: int) -> bool:
        """Return whether the core computes such a layer here; not where arithmetic is pinned to older processors."""
        inner, width = weights["intermediate.dense.weight"].shape
        sizes = width % (_LANES * heads) == inner % _LANES == 0
        return in_eight_bits(weights) and sizes and has_core() and bool(_core.levels()) and not is_pinned()

    def __call__(self, state: Array, mask: Flags) -> None:
        """Write what the layer gives for windows over `state`, (batch, pieces, width); padding comes last."""
        for window, length in zip(state, mask.sum(axis=1).tolist(), strict=True):
            _core.run_layer(window[:length], self._weights, self._heads, self._eps, self._level)


def _packed(weights: Array) -> Array:
    """Return a matrix int8 as the core reads it, from a multiple of 64 bytes on, which is faster."""
    shape = -(-len(weights) // _GROUP), (weights.shape[1] + 4) * _GROUP
    room = np.empty(shape[0] * shape[1] + _GROUP, dtype=np.int8)
    packed = room[-room.ctypes.data % _GROUP :][: shape[0] * shape[1]].reshape(shape)
    _core.pack(weights, packed)
    return packed
