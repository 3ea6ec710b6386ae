"""The compiled core. Arrays are contiguous; a wrong shape or type raises ValueError before anything is read."""

from typing import Any

def levels() -> list[str]:
    """Return the instructions for `run_layer` that this processor has, of `avx512vnni` and `avx2`, best first."""

def pack(weights: Any, packed: Any, /) -> None:
    """Write a matrix int8 (outputs, inputs) into `packed`, int8 (outputs / 64 rounded up, 64 * inputs + 256).

    Outputs and inputs must be multiples of 16.
    """

def run_layer(state: Any, weights: tuple[tuple[Any, ...], ...], heads: int, eps: float, level: str, /) -> None:
    """Write what a layer of BERT gives for one window over `state`, float32 (pieces, width).

    `weights` has the matrices of attention (queries, keys and values joined), its output, the inner and the outer one,
    each as packed, scales and bias, and the scale and bias of the two normalisations.
    """
