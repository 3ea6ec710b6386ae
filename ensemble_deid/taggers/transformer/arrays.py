"""The network's forward pass in numpy for a plain BERT (Devlin et al. 2019): what prediction computes with.

The weights have the names that the library `transformers` gives them; `network.py` trains them and reads
other encoders.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ensemble_deid.arrays import Flags
from ensemble_deid.taggers.layers import (
    Array,
    LayerNorm,
    Linear,
    Weights,
    attention,
    gelu,
    look_up,
    single,
    under,
)
from ensemble_deid.taggers.quantisation import SCALE, dequantise, in_eight_bits, restored
from ensemble_deid.taggers.transformer.compiled_layer import NORMS, CompiledLayer
from ensemble_deid.taggers.transformer.packing import PARTS, unpack_layer, unpack_layers
from ensemble_deid.taggers.transformer.pieces import CASES, GAPS
from ensemble_deid.taggers.transformer.scoring import Windows

MOST_LAYERS = 100
SINGLE, ROUNDED, COMPILED = "single precision", "8 by 15 bits", "8 by 15 bits, compiled"
_PLAIN: Mapping[str, Any] = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "is_decoder": False,
    "add_cross_attention": False,
    "chunk_size_feed_forward": 0,
    "position_embedding_type": "absolute",
}
_EMBEDDINGS = "encoder.embeddings"
_ROWS = 256
"""Pieces that go through a layer together: their activations stay in the processor's cache."""


def is_plain_bert(config: Mapping[str, Any]) -> bool:
    """Return whether the content of a `config.json` describes an encoder that `ArrayClassifier` computes."""
    return "model_type" in config and all(config.get(name, value) == value for name, value in _PLAIN.items())


def check_layers(config: Mapping[str, Any]) -> None:
    """Raise ValueError for too many layers."""
    if any(isinstance(value, int) and "layers" in key and value > MOST_LAYERS for key, value in config.items()):
        raise ValueError(f"more than {MOST_LAYERS} layers")


def classifier_shapes(config: Mapping[str, Any], n_tags: int, sizes: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of the weights; `sizes` gives the number of codes of each feature.

    Raises KeyError where the `config.json` lacks something, and ValueError for too many layers.
    """
    check_layers(config)
    width, inner = config["hidden_size"], config["intermediate_size"]
    found: dict[str, tuple[int, ...]] = {
        f"{_EMBEDDINGS}.word_embeddings.weight": (config["vocab_size"], width),
        f"{_EMBEDDINGS}.position_embeddings.weight": (config["max_position_embeddings"], width),
        f"{_EMBEDDINGS}.token_type_embeddings.weight": (config["type_vocab_size"], width),
        "case.weight": (len(CASES), width),
        "gap.weight": (len(GAPS), width),
        **{f"features.{k}.weight": (size, width) for k, size in enumerate(sizes)},
    }
    parts = {f"{_EMBEDDINGS}.LayerNorm": (width,), "encoder.pooler.dense": (width, width), "scores": (n_tags, width)}
    for k in range(config["num_hidden_layers"]):
        layer = f"encoder.encoder.layer.{k}"
        parts |= {f"{layer}.attention.self.{name}": (width, width) for name in ("query", "key", "value")}
        parts |= {f"{layer}.attention.output.dense": (width, width), f"{layer}.intermediate.dense": (inner, width)}
        parts[f"{layer}.output.dense"] = (width, inner)
        parts |= {f"{layer}.{name}.LayerNorm": (width,) for name in ("attention.output", "output")}
    for name, shape in parts.items():
        found |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return found


class ArrayClassifier:
    """A fine-tuned BERT that scores the tags of pieces. Weights stay as they were stored, packed or not."""

    device = "cpu"

    def __init__(self, weights: Weights, config: Mapping[str, Any]) -> None:
        self._stored = weights
        self._heads = int(config["num_attention_heads"])
        rows = (f"{_EMBEDDINGS}.word_embeddings.weight", "encoder.pooler.", "encoder.encoder.")
        whole = dequantise({name: value for name, value in weights.items() if not name.startswith(rows)})
        self._pieces = rows[0]
        self._small = {name: value for name, value in whole.items() if value.ndim == 2 and name.count(".") < 3}
        self._positions = whole[f"{_EMBEDDINGS}.position_embeddings.weight"]
        self._positions = self._positions + whole[f"{_EMBEDDINGS}.token_type_embeddings.weight"][0]
        eps = float(config["layer_norm_eps"])
        self._norm = LayerNorm(under(whole, f"{_EMBEDDINGS}.LayerNorm"), eps=eps)
        layers = [under(weights, f"encoder.encoder.layer.{k}") for k in range(int(config["num_hidden_layers"]))]
        kind = CompiledLayer if all(CompiledLayer.fits(layer, self._heads) for layer in layers) else _Layer
        self._layers = [kind(layer, self._heads, eps) for layer in layers]
        in_numpy = ROUNDED if all(map(in_eight_bits, layers)) else SINGLE
        self.arithmetic = in_numpy if kind is _Layer else COMPILED
        self._scores = Linear(under(whole, "scores"))

    @property
    def weights(self) -> Weights:
        """The weights by the names of the library, none packed."""
        return unpack_layers(self._stored)

    def score(self, windows: Windows) -> Array:
        """Return the score of every tag at every piece, (batch, pieces, tags)."""
        size, time = windows.ids.shape
        # (batch, pieces, width)
        state: Array = restored(self._stored, self._pieces, windows.ids)
        state += look_up(self._small["case.weight"], windows.case)
        state += look_up(self._small["gap.weight"], windows.gap)
        for k in range(windows.features.shape[2]):
            state += look_up(self._small[f"features.{k}.weight"], windows.features[:, :, k])
        state += self._positions[:time]
        state = self._norm(state)
        for layer in self._layers:
            layer(state, windows.mask)
        return self._scores(state.reshape(size * time, -1)).reshape(size, time, -1)


class RoundedLinear:
    """A product of a matrix in eight bits and vectors rounded to 15, and a bias: what the compiled core computes.

    Products and sums are whole numbers, and exact.
    """

    def __init__(self, weights: Weights) -> None:
        self.weight, self.scale, self.bias = (
            weights["weight"],
            single(weights["weight" + SCALE]),
            single(weights["bias"]),
        )

    def __call__(self, vectors: Array) -> Array:
        """Return (n, outputs) of vectors (n, inputs)."""
        largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), np.float32(1e-12))
        digits = np.rint(vectors * (_MOST_DIGITS / largest)).astype(np.float64)
        sums = single(digits @ self.weight.T.astype(np.float64))
        found: Array = sums * (largest / _MOST_DIGITS) * self.scale + self.bias
        return found


_MOST_DIGITS = np.float32(127 * 128)
"""The largest of a vector's numbers becomes this, as in the core."""


class _Layer:
    def __init__(self, weights: Weights, heads: int, eps: float) -> None:
        self._heads = heads
        rounds = in_eight_bits(weights)
        parts = _matrices(unpack_layer(weights) if rounds else dequantise(weights))
        self._looks, self._seen, self._inner, self._outer = (RoundedLinear(p) if rounds else Linear(p) for p in parts)
        self._first, self._second = (LayerNorm(under(weights, f"{name}.LayerNorm"), eps=eps) for name in NORMS)

    def __call__(self, state: Array, mask: Flags) -> None:
        """Write what the layer gives for windows over `state`, (batch, pieces, width)."""
        rows = state.reshape(-1, state.shape[2])
        blocks = [slice(low, low + _ROWS) for low in range(0, len(rows), _ROWS)]
        joined = np.concatenate([self._looks(rows[block]) for block in blocks]).reshape(*state.shape[:2], -1)
        seen = attention(joined, self._heads, None if mask.all() else mask).reshape(rows.shape)
        for block in blocks:
            between = self._seen(seen[block])
            between += rows[block]
            self._first(between)
            found = self._outer(gelu(self._inner(between)))
            found += between
            rows[block] = self._second(found)


def _matrices(layer: Weights) -> list[Weights]:
    """Return the four matrices of a layer with their biases and scales."""
    parts = [[under(layer, name) for name in names] for names in PARTS.values()]
    return [{end: np.concatenate([one[end] for one in joined]) for end in joined[0]} for joined in parts]
