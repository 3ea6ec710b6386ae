"""The compiled core. Arrays are contiguous; a wrong shape or type raises ValueError before anything is read."""

from typing import Any

def levels() -> list[str]:
    """Return the sets of instructions that this processor has, of `avx512vnni`, `avx2` and `plain`, best first."""

def pack(weights: Any, packed: Any, /) -> None:
    """Write a matrix int8 (outputs, inputs) into `packed`, int8 (blocks, 16 * inputs + 64), for `run_layer`.

    A block has 16 outputs, and the number of blocks is a multiple of four.

    Raises ValueError where a weight is -128, or a size not a multiple of 16.
    """

def run_layer(state: Any, weights: tuple[tuple[Any, ...], ...], heads: int, eps: float, level: str, /) -> None:
    """Write what a layer of BERT gives for one window over `state`, float32 (pieces, width).

    `weights` has the matrices of attention (queries, keys and values joined), its output, the inner and the outer one,
    each as packed, scales and bias, and the scale and bias of the two normalisations.
    """
