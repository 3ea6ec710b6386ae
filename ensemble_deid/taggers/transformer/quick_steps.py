"""Quicker steps of fine-tuning on a processor; what is computed is the same.

Half of a step was spent on the random bits of dropout, on attention with dropout, and on the vectors of pieces that no
training note has.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from ensemble_deid.arrays import Int64s

_ATTENTION = "ensemble_deid"
_POOL = 1 << 22


class DropoutMasks:
    """Masks of dropout with the probability `p`: windows at random places of one random string, which is drawn once."""

    def __init__(self, p: float) -> None:
        self.p = p
        self._pools: dict[torch.dtype, Tensor] = {}

    def like(self, values: Tensor) -> Tensor:
        """Return ones, and zeros with the probability `p`, of the shape and type of the values."""
        size = values.numel()
        pool = self._pools.get(values.dtype, torch.zeros(0))
        if len(pool) < 2 * size:
            pool = (torch.rand(max(_POOL, 2 * size)) >= self.p).to(values.dtype)
            self._pools[values.dtype] = pool
        start = int(torch.randint(len(pool) - size + 1, ()))
        return pool[start : start + size].view(values.shape)


class PooledDropout(nn.Module):
    """Dropout that takes its masks from a pool."""

    def __init__(self, masks: DropoutMasks) -> None:
        super().__init__()
        self.masks, self.p = masks, masks.p

    def forward(self, values: Tensor) -> Tensor:
        """Return the values; in training each is 0 with the probability `p`, and otherwise divided by 1 - p."""
        return values * self.masks.like(values) / (1 - self.p) if self.training and self.p else values


def quicken(network: nn.Module, encoder: PreTrainedModel) -> None:
    """Give a network with a BERT the dropout and the attention of this file, in place."""
    pools: dict[float, DropoutMasks] = {}
    for module in list(network.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Dropout):
                masks = pools.setdefault(child.p, DropoutMasks(child.p))
                setattr(module, name, PooledDropout(masks).train(child.training))
    encoder.set_attn_implementation(_ATTENTION)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    **_: object,
) -> tuple[Tensor, None]:
    """Return attention, (batch, pieces, heads, width of a head), computed in the type of the query.

    `query`, `key` and `value` are (batch, heads, pieces, width of a head).
    """
    dropout = cast(PooledDropout, module.dropout)
    with torch.autocast(query.device.type, enabled=False):
        scores = torch.matmul(query * scaling, key.transpose(2, 3))
        if attention_mask is not None:
            scores = scores + attention_mask.to(scores.dtype)
        shares, scale = torch.softmax(scores, dim=-1), 1.0
        if dropout.training and dropout.p:
            # Scaled in the product, which is smaller, and where no rounding of the scale counts.
            shares, scale = shares * dropout.masks.like(shares), 1 / (1 - dropout.p)
        found = torch.matmul(shares, value) * scale
    return found.transpose(1, 2).contiguous(), None


AttentionInterface.register(_ATTENTION, _attention)
AttentionMaskInterface.register(_ATTENTION, eager_mask)


@contextmanager
def only_rows(encoder: PreTrainedModel, used: Int64s) -> Iterator[None]:
    """Let an encoder's table of pieces have the rows `used` alone, in this order; then put them back."""
    whole = cast(nn.Embedding, encoder.get_input_embeddings())
    rows = torch.from_numpy(used).to(whole.weight.device)
    part = nn.Embedding(len(used), whole.embedding_dim, _weight=whole.weight.detach()[rows])
    encoder.set_input_embeddings(part)
    try:
        yield
    finally:
        encoder.set_input_embeddings(whole)
        with torch.no_grad():
            whole.weight[rows] = part.weight
