"""The network: a pretrained encoder over word pieces, with embeddings of casing and gaps, and a tag classifier."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from ensemble_deid.taggers.transformer.bert import BertEncoder, is_plain_bert
from ensemble_deid.taggers.transformer.pieces import CASES, GAPS

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_MOST_LAYERS = 100


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Windows of pieces as tensors, padded: `ids`, `case`, `gap` int64 and `mask` bool (batch, pieces).

    `features` is int64 (batch, pieces, features).
    The first and the last valid piece of each window are the encoder's special ones.
    """

    ids: Tensor
    case: Tensor
    gap: Tensor
    features: Tensor
    mask: Tensor

    def to(self, device: torch.device) -> "Windows":
        """Return the same on a device."""
        parts = (self.ids, self.case, self.gap, self.features, self.mask)
        return Windows(*(part.to(device) for part in parts))


class EncoderClassifier(nn.Module):
    """Token classification over a pretrained encoder (Devlin et al. 2019; Johnson et al. 2020).

    What an uncased vocabulary loses (casing, line breaks) and what public lists say of a word are added to the pieces'
    embeddings. All these tables start at zero, so that training begins with what the encoder was pretrained on.
    `sizes` gives the number of codes of each feature.
    """

    def __init__(
        self, encoder: "PreTrainedModel | BertEncoder", n_tags: int, sizes: Sequence[int], *, dropout: float
    ) -> None:
        super().__init__()
        self.encoder = encoder
        width = encoder.width if isinstance(encoder, BertEncoder) else int(encoder.config.hidden_size)
        self.case = nn.Embedding(len(CASES), width)
        self.gap = nn.Embedding(len(GAPS), width)
        self.features = nn.ModuleList(nn.Embedding(size, width) for size in sizes)
        for table in (self.case, self.gap, *self.features):
            nn.init.zeros_(cast(nn.Embedding, table).weight)
        self.dropout = nn.Dropout(dropout)
        self.scores = nn.Linear(width, n_tags)

    def forward(self, windows: Windows) -> Tensor:
        """Return the score of every tag at every piece, (batch, pieces, tags)."""
        # (batch, pieces, width)
        embedded = self.encoder.get_input_embeddings()(windows.ids) + self.case(windows.case) + self.gap(windows.gap)
        for k, table in enumerate(self.features):
            embedded = embedded + table(windows.features[:, :, k])
        # Without padding there is nothing to mask, and attention is faster.
        mask = None if bool(windows.mask.all()) else windows.mask.long()
        output = self.encoder(inputs_embeds=embedded, attention_mask=mask)
        return cast(Tensor, self.scores(self.dropout(output.last_hidden_state)))


def encoder_to_read(config: dict[str, Any]) -> "PreTrainedModel | BertEncoder":
    """Make an encoder without weights that is not to be trained: our own where it is a plain BERT.

    Raises ValueError for too many layers, and KeyError where the `config.json` lacks something.
    """
    _check_layers(config)
    return BertEncoder(config) if is_plain_bert(config) else build_encoder(config)


def _check_layers(config: dict[str, Any]) -> None:
    if any(isinstance(value, int) and "layers" in key and value > _MOST_LAYERS for key, value in config.items()):
        raise ValueError(f"more than {_MOST_LAYERS} layers")


def build_encoder(config: dict[str, Any]) -> "PreTrainedModel":
    """Make an encoder without weights from the content of its `config.json`. Raises ValueError for too many layers."""
    from transformers import AutoConfig, AutoModel

    _check_layers(config)
    content = dict(config)
    settings = AutoConfig.for_model(content.pop("model_type"), **content)
    return cast("PreTrainedModel", AutoModel.from_config(settings))  # type: ignore[no-untyped-call]
