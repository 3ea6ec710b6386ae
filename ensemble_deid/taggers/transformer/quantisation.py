"""Weights in eight bits: a matrix as whole numbers from -127 to 127, with one scale for each of its rows.

A quarter of the size of single precision, half of half precision (symmetric quantisation, as in Zafrir et al. 2019).
The weights are restored to single precision when a model is loaded, so that only the rounding remains. Where the
processor multiplies whole numbers faster, they are also used as they are: what a layer reads is then rounded in the
same way, with one scale for each piece, so that the notes beside a note do not make its rounding coarser. They still
change the last digits of sums in single precision and, where these are rounded to eight bits, a score by a per cent or
so.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ensemble_deid.reproducible import is_pinned

SCALE = ".scale"
"""What stands at the end of the name of a matrix's scales."""
_LARGEST = 127
_LEAST_SCALE = 1e-12


def quantise(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights with every matrix in eight bits beside its scales, and all else in half precision."""
    found: dict[str, Tensor] = {}
    for name, value in weights.items():
        if not value.is_floating_point():
            found[name] = value
        elif value.dim() != 2:
            found[name] = value.half()
        else:
            found[name], found[name + SCALE] = round_rows(value.float())
    return found


def dequantise(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights in single precision, whether they were quantised or not."""
    found: dict[str, Tensor] = {}
    for name, value in weights.items():
        scale = weights.get(name + SCALE)
        if scale is not None:
            found[name] = value.float() * scale.float()[:, None]
        elif not (name.endswith(SCALE) and name.removesuffix(SCALE) in weights):
            found[name] = value.float() if value.is_floating_point() else value
    return found


def round_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return a matrix as int8, and the scale of each row, (rows,)."""
    scale = rows.abs().amax(dim=1).clamp_(min=_LEAST_SCALE).div_(_LARGEST)
    return rows.div(scale[:, None]).round_().to(torch.int8), scale


class EightBitLinear(nn.Linear):
    """A linear layer that multiplies whole numbers of eight bits, and adds them up exactly, in 32 bits.

    It keeps the weights in single precision, too: those are what its state consists of.
    """

    whole: Tensor
    scale: Tensor

    def __init__(self, layer: nn.Linear, whole: Tensor, scale: Tensor) -> None:
        super().__init__(layer.in_features, layer.out_features, device="meta")
        self.weight = layer.weight
        self.bias = layer.bias
        # (inputs, outputs)
        self.register_buffer("whole", whole.t().contiguous(), persistent=False)
        self.register_buffer("scale", scale.float(), persistent=False)

    def forward(self, input: Tensor) -> Tensor:
        """Return the layer's output for (..., inputs)."""
        found = self.multiply(*round_rows(input.reshape(-1, self.in_features)))
        return found.view(*input.shape[:-1], self.out_features)

    def multiply(self, rows: Tensor, scale: Tensor) -> Tensor:
        """Return the output for rows of whole numbers (n, inputs), each with its scale (n,)."""
        product = torch._int_mm(rows, self.whole).float().mul_(scale[:, None])
        return torch.addcmul(self.bias, product, self.scale)


def eight_bits_help(device: torch.device) -> bool:
    """Return whether a processor has instructions for products of eight bits, and the process may use them."""
    return device.type == "cpu" and not is_pinned() and bool(torch.cpu._is_vnni_supported())


def use_eight_bits(network: nn.Module, stored: Mapping[str, Tensor]) -> int:
    """Let the layers whose weights were stored in eight bits compute with these; return how many there are."""
    found = [
        (name, layer)
        for name, layer in network.named_modules()
        if type(layer) is nn.Linear and layer.bias is not None and f"{name}.weight{SCALE}" in stored
    ]
    for name, layer in found:
        parent, _, own = name.rpartition(".")
        whole, scale = stored[f"{name}.weight"], stored[f"{name}.weight{SCALE}"]
        setattr(network.get_submodule(parent), own, EightBitLinear(layer, whole, scale))
    return len(found)
