"""The matrices of BERT's layers in the order in which the compiled core reads them: a file of them is only mapped.

A layer has four, called `packed`, of which the first joins those of attention. Outputs come in groups of 64: four
inputs of each output in turn, and after all inputs the sums of the outputs' weights, in 32 bits.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ensemble_deid.taggers.layers import Array, Weights, under
from ensemble_deid.taggers.quantisation import SCALE, in_eight_bits

PACKED = "packed"
PARTS: Mapping[str, Sequence[str]] = {
    f"{PACKED}.attention.self": ("attention.self.query", "attention.self.key", "attention.self.value"),
    f"{PACKED}.attention.output": ("attention.output.dense",),
    f"{PACKED}.intermediate": ("intermediate.dense",),
    f"{PACKED}.output": ("output.dense",),
}
# As in `core/layer.h`.
_GROUP, _STEP, _BESIDE, _LARGEST = 64, 16, 4, 65536
_BIAS = ".attention.self.query.bias"


def pack(matrix: Array) -> Array:
    """Return a matrix int8 (outputs, inputs) as int8 (outputs / 64 rounded up, 64 * inputs + 256).

    `inputs` is a multiple of 4.
    """
    outputs, inputs = matrix.shape
    groups = -(-outputs // _GROUP)
    padded = np.zeros((groups * _GROUP, inputs), dtype=np.int8)
    padded[:outputs] = matrix
    sums = padded.sum(axis=1, dtype="<i4").reshape(groups, _GROUP).view(np.int8)
    beside = padded.reshape(groups, _GROUP, inputs // _BESIDE, _BESIDE).transpose(0, 2, 1, 3)
    return np.concatenate([beside.reshape(groups, -1), sums], axis=1)


def unpack(packed: Array, outputs: int) -> Array:
    """Return the matrix that `pack` was given."""
    groups, inputs = len(packed), packed.shape[1] // _GROUP - 4
    beside = packed[:, : inputs * _GROUP].reshape(groups, inputs // _BESIDE, _GROUP, _BESIDE)
    return np.ascontiguousarray(beside.transpose(0, 2, 1, 3).reshape(-1, inputs)[:outputs])


def layer_widths(layer: Weights) -> tuple[int, int]:
    """Return the hidden and the intermediate width of a layer."""
    return len(layer["output.dense.bias"]), len(layer["intermediate.dense.bias"])


def can_be_packed(layer: Weights) -> bool:
    """Return whether the matrices of a layer are in eight bits and of sizes that the core reads."""
    return in_eight_bits(layer) and all(size <= _LARGEST and size % _STEP == 0 for size in layer_widths(layer))


def pack_layer(layer: Weights) -> dict[str, Array]:
    """Return a layer with its matrices packed, which they may be already."""
    found = dict(layer)
    for part, names in PARTS.items():
        if part not in found:
            found[part] = pack(np.concatenate([found.pop(f"{name}.weight") for name in names]))
    return found


def unpack_layer(layer: Weights) -> dict[str, Array]:
    """Return a layer with its matrices as they were before, which they may be still."""
    found = dict(layer)
    for part, names in PARTS.items():
        if part in found:
            outputs = len(found[f"{names[0]}.bias"])
            matrices = np.split(unpack(found.pop(part), outputs * len(names)), len(names))
            found.update((f"{name}.weight", matrix) for name, matrix in zip(names, matrices, strict=True))
    return found


def layers_of(names: Iterable[str]) -> list[str]:
    """Return the names of the layers, of those of all weights."""
    return [name.removesuffix(_BIAS) for name in names if name.endswith(_BIAS)]


def pack_layers(weights: Weights) -> dict[str, Array]:
    """Return a network's weights with every layer packed that can be."""
    return _with_layers(weights, {k: pack_layer(layer) for k, layer in _layers(weights) if can_be_packed(layer)})


def unpack_layers(weights: Weights) -> dict[str, Array]:
    """Return the weights of a network with no layer packed."""
    return _with_layers(weights, {k: unpack_layer(layer) for k, layer in _layers(weights)})


def packed_shapes(shapes: Mapping[str, tuple[int, ...]], weights: Weights) -> dict[str, tuple[int, ...]]:
    """Return the shapes that stored weights must have: `shapes`, but packed matrices and their scales where packed."""
    found = dict(shapes)
    for layer in layers_of(shapes):
        for part, names in PARTS.items():
            if f"{layer}.{part}" in weights:
                given = [found.pop(f"{layer}.{name}.weight") for name in names]
                outputs, inputs = sum(one[0] for one in given), given[0][1]
                found[f"{layer}.{part}"] = -(-outputs // _GROUP), (inputs + 4) * _GROUP
                found |= {f"{layer}.{name}.weight{SCALE}": one[:1] for name, one in zip(names, given, strict=True)}
    return found


def _layers(weights: Weights) -> list[tuple[str, dict[str, Array]]]:
    return [(name, under(weights, name)) for name in layers_of(weights)]


def _with_layers(weights: Weights, layers: Mapping[str, Weights]) -> dict[str, Array]:
    other = {name: one for name, one in weights.items() if not name.startswith(tuple(f"{k}." for k in layers))}
    return other | {f"{k}.{name}": one for k, layer in layers.items() for name, one in layer.items()}
