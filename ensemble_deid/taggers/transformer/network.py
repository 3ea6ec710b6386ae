"""The network: a pretrained encoder over word pieces, with embeddings of casing and gaps, and a tag classifier.

Training uses the library `transformers`, which takes seconds to load. A model that is only read does without it where
its encoder is a plain BERT (Devlin et al. 2019): the layers here have the names, and so the weights, of that library's
`BertModel`, and compute the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from ensemble_deid.taggers.transformer.pieces import CASES, GAPS
from ensemble_deid.taggers.transformer.quantisation import EightBitLinear, round_rows

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_PLAIN: Mapping[str, Any] = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "is_decoder": False,
    "add_cross_attention": False,
    "chunk_size_feed_forward": 0,
    "position_embedding_type": "absolute",
}


class EncoderOutput(NamedTuple):
    """What an encoder returns: `last_hidden_state` (batch, pieces, width)."""

    last_hidden_state: Tensor


def is_plain_bert(config: Mapping[str, Any]) -> bool:
    """Return whether the content of a `config.json` describes an encoder that `BertEncoder` computes."""
    return "model_type" in config and all(config.get(name, value) == value for name, value in _PLAIN.items())


class BertEncoder(nn.Module):
    """BERT without dropout and without the head of its pretraining (the pooler has weights, and no use)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        width, inner, eps = int(config["hidden_size"]), config["intermediate_size"], config["layer_norm_eps"]
        self.width, self.heads = width, int(config["num_attention_heads"])
        self.embeddings = nn.ModuleDict(
            {
                "word_embeddings": nn.Embedding(config["vocab_size"], width),
                "position_embeddings": nn.Embedding(config["max_position_embeddings"], width),
                "token_type_embeddings": nn.Embedding(config["type_vocab_size"], width),
                "LayerNorm": nn.LayerNorm(width, eps=eps),
            }
        )
        layers = (_layer(width, inner, eps) for _ in range(config["num_hidden_layers"]))
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(layers)})
        self.pooler = nn.ModuleDict({"dense": nn.Linear(width, width)})

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the table of pieces."""
        return cast(nn.Embedding, self.embeddings["word_embeddings"])

    def forward(self, inputs_embeds: Tensor, attention_mask: Tensor | None = None) -> EncoderOutput:
        """Encode embedded pieces (batch, pieces, width); `attention_mask` (batch, pieces) is 0 where there is none."""
        positions = cast(nn.Embedding, self.embeddings["position_embeddings"]).weight[: inputs_embeds.shape[1]]
        kind = cast(nn.Embedding, self.embeddings["token_type_embeddings"]).weight[0]
        state = self.embeddings["LayerNorm"](inputs_embeds + kind + positions)
        mask = None if attention_mask is None else attention_mask.bool()[:, None, None, :]
        for layer in cast(nn.ModuleList, self.encoder["layer"]):
            state = self._through(cast(nn.ModuleDict, layer), state, mask)
        return EncoderOutput(state)

    def _through(self, layer: nn.ModuleDict, state: Tensor, mask: Tensor | None) -> Tensor:
        attention = cast(nn.ModuleDict, layer["attention"])
        looks = cast(nn.ModuleDict, attention["self"])
        # (batch, heads, pieces, width of a head)
        query, key, value = (
            part.view(*part.shape[:-1], self.heads, -1).transpose(1, 2)
            for part in _of_one_input([looks[name] for name in ("query", "key", "value")], state)
        )
        seen = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        state = _add_and_norm(attention["output"], seen.transpose(1, 2).flatten(2), state)
        inner = nn.functional.gelu(cast(nn.ModuleDict, layer["intermediate"])["dense"](state))
        return _add_and_norm(layer["output"], inner, state)


def _layer(width: int, inner: int, eps: float) -> nn.ModuleDict:
    def output(size: int) -> nn.ModuleDict:
        return nn.ModuleDict({"dense": nn.Linear(size, width), "LayerNorm": nn.LayerNorm(width, eps=eps)})

    looks = nn.ModuleDict({name: nn.Linear(width, width) for name in ("query", "key", "value")})
    return nn.ModuleDict(
        {
            "attention": nn.ModuleDict({"self": looks, "output": output(width)}),
            "intermediate": nn.ModuleDict({"dense": nn.Linear(width, inner)}),
            "output": output(inner),
        }
    )


def _of_one_input(layers: Sequence[nn.Module], state: Tensor) -> list[Tensor]:
    """Return the outputs of linear layers for the same input, which is rounded once for all of them."""
    eight_bits = [layer for layer in layers if isinstance(layer, EightBitLinear)]
    if len(eight_bits) < len(layers):
        return [layer(state) for layer in layers]
    rows, scale = round_rows(state.flatten(0, -2))
    return [layer.multiply(rows, scale).view(*state.shape[:-1], -1) for layer in eight_bits]


def _add_and_norm(output: nn.Module, state: Tensor, before: Tensor) -> Tensor:
    parts = cast(nn.ModuleDict, output)
    return cast(Tensor, parts["LayerNorm"](parts["dense"](state).add_(before)))


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
        # Some encoders read narrower embeddings than they return.
        narrow = cast(nn.Embedding, encoder.get_input_embeddings()).embedding_dim
        self.case = nn.Embedding(len(CASES), narrow)
        self.gap = nn.Embedding(len(GAPS), narrow)
        self.features = nn.ModuleList(nn.Embedding(size, narrow) for size in sizes)
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


def longest_window(encoder: "PreTrainedModel") -> int | None:
    """Return how many pieces an encoder reads at a time besides its two special ones; None where any number."""
    positions = getattr(encoder.config, "max_position_embeddings", None)
    table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    # RoBERTa counts positions from behind that of padding.
    padding = getattr(table, "padding_idx", None)
    return None if positions is None else int(positions) - 2 - (0 if padding is None else padding + 1)


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
