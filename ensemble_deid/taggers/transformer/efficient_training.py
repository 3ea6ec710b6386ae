"""Cheaper dropout, attention and embeddings for fine-tuning; the function that is trained stays the same.

PyTorch spent half of a step on a CPU on random bits for dropout, on attention with dropout, and on the embeddings of
word pieces that do not occur in training.
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
    """Dropout masks with probability `p`: slices, at random offsets, of random bits that are drawn once."""

    def __init__(self, p: float) -> None:
        self.p = p
        self._pools: dict[torch.dtype, Tensor] = {}

    def like(self, values: Tensor) -> Tensor:
        """Return a mask of the shape and type of the values: 0 with probability `p`, otherwise 1."""
        size = values.numel()
        pool = self._pools.get(values.dtype, torch.zeros(0))
        if len(pool) < 2 * size:
            pool = (torch.rand(max(_POOL, 2 * size)) >= self.p).to(values.dtype)
            self._pools[values.dtype] = pool
        start = int(torch.randint(len(pool) - size + 1, ()))
        return pool[start : start + size].view(values.shape)


class PooledDropout(nn.Module):
    """Dropout with masks from a pool."""

    def __init__(self, masks: DropoutMasks) -> None:
        super().__init__()
        self.masks, self.p = masks, masks.p

    def forward(self, values: Tensor) -> Tensor:
        """Return the values; in training, zero each with probability `p` and divide the others by 1 - p."""
        return values * self.masks.like(values) / (1 - self.p) if self.training and self.p else values


def speed_up_bert(network: nn.Module, encoder: PreTrainedModel) -> None:
    """Replace dropout and attention in a network with a BERT encoder, in place, by those of this module."""
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
    """Compute attention in the query's type; return (batch, pieces, heads, width of a head).

    `query`, `key` and `value` are (batch, heads, pieces, width of a head).
    """
    dropout = cast(PooledDropout, module.dropout)
    with torch.autocast(query.device.type, enabled=False):
        scores = torch.matmul(query * scaling, key.transpose(2, 3))
        if attention_mask is not None:
            scores = scores + attention_mask.to(scores.dtype)
        shares, scale = torch.softmax(scores, dim=-1), 1.0
        if dropout.training and dropout.p:
            # Scale the product instead: it is smaller, and bfloat16 would round the scale itself.
            shares, scale = shares * dropout.masks.like(shares), 1 / (1 - dropout.p)
        found = torch.matmul(shares, value) * scale
    return found.transpose(1, 2).contiguous(), None


AttentionInterface.register(_ATTENTION, _attention)
AttentionMaskInterface.register(_ATTENTION, eager_mask)


@contextmanager
def embeddings_in_use(encoder: PreTrainedModel, used: Int64s) -> Iterator[None]:
    """Reduce an encoder's piece embeddings to the rows `used`, in this order; afterwards, write them back."""
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
