"""Weights in eight bits: a matrix as whole numbers from -127 to 127, with one scale for each of its rows.

A quarter of the size of single precision, half of half precision. The weights are restored to single precision when a
model is loaded, so that only the rounding remains (symmetric weight-only quantisation, as in Zafrir et al. 2019).
"""

from collections.abc import Mapping

import torch

SCALE = ".scale"
"""What stands at the end of the name of a matrix's scales."""
_LARGEST = 127


def quantise(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the weights with every matrix in eight bits beside its scales, and all else in half precision."""
    found: dict[str, torch.Tensor] = {}
    for name, value in weights.items():
        if not value.is_floating_point():
            found[name] = value
        elif value.dim() != 2:
            found[name] = value.half()
        else:
            scale = value.float().abs().amax(dim=1).clamp(min=1e-12) / _LARGEST
            found[name] = torch.round(value.float() / scale[:, None]).to(torch.int8)
            found[name + SCALE] = scale
    return found


def dequantise(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the weights in single precision, whether they were quantised or not."""
    found: dict[str, torch.Tensor] = {}
    for name, value in weights.items():
        scale = weights.get(name + SCALE)
        if scale is not None:
            found[name] = value.float() * scale.float()[:, None]
        elif not (name.endswith(SCALE) and name.removesuffix(SCALE) in weights):
            found[name] = value.float() if value.is_floating_point() else value
    return found
