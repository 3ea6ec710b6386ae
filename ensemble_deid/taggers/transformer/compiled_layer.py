"""A layer of BERT in the compiled core: its weights stay in eight bits.

What they are multiplied with is rounded to 15 bits, which moves probabilities by some 1e-5. Products are whole numbers
and exact, so that a window's result does not depend on other windows.
"""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from ensemble_deid.arrays import Flags
from ensemble_deid.compiled import has_core
from ensemble_deid.reproducible import is_pinned
from ensemble_deid.taggers.layers import Array, Weights, single, under
from ensemble_deid.taggers.quantisation import SCALE
from ensemble_deid.taggers.transformer.packing import PARTS, can_be_packed, layer_widths, pack_layer

with suppress(ImportError):
    from ensemble_deid import _core
NORMS = ("attention.output", "output")
_LANES, _ALIGNED = 16, 64


class CompiledLayer:
    """A layer for which `fits` is true."""

    def __init__(self, weights: Weights, heads: int, eps: float, *, level: str | None = None) -> None:
        packed = pack_layer(weights)
        norms = [under(packed, f"{name}.LayerNorm") for name in NORMS]
        self._weights = (
            *(
                (_aligned(packed[part]), *(_joined(packed, names, end) for end in (".weight" + SCALE, ".bias")))
                for part, names in PARTS.items()
            ),
            *((single(norm["weight"]), single(norm["bias"])) for norm in norms),
        )
        self._heads, self._eps, self._level = heads, eps, level or _core.levels()[0]

    @staticmethod
    def fits(weights: Weights, heads: int) -> bool:
        """Return whether the core computes such a layer here; not where arithmetic is pinned to older processors."""
        width, _ = layer_widths(weights)
        whole = width % (_LANES * heads) == 0 and can_be_packed(weights)
        return whole and has_core() and bool(_core.levels()) and not is_pinned()

    def __call__(self, state: Array, mask: Flags) -> None:
        """Write what the layer gives for windows over `state`, (batch, pieces, width); padding comes last."""
        for window, length in zip(state, mask.sum(axis=1).tolist(), strict=True):
            _core.run_layer(window[:length], self._weights, self._heads, self._eps, self._level)


def _joined(weights: Weights, names: Sequence[str], end: str) -> Array:
    return single(np.concatenate([weights[name + end] for name in names]))


def _aligned(packed: Array) -> Array:
    """Return an array int8 that begins at a multiple of 64 bytes, which is faster; that of a file does."""
    if packed.ctypes.data % _ALIGNED == 0:
        return packed
    room = np.empty(packed.size + _ALIGNED, dtype=np.int8)
    found: Array = room[-room.ctypes.data % _ALIGNED :][: packed.size].reshape(packed.shape)
    found[:] = packed
    return found
