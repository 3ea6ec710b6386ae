"""The network's forward pass in numpy: what prediction computes with. `network.py` is the same, to be trained."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from ensemble_deid.arrays import Flags, Int64s
from ensemble_deid.config import NeuralConfig
from ensemble_deid.taggers.layers import (
    Array,
    LayerNorm,
    Linear,
    LstmPair,
    Weights,
    attention,
    look_up,
    lstm_is_compiled,
    single,
    under,
)
from ensemble_deid.taggers.neural.encoding import Encoded, Sizes
from ensemble_deid.taggers.quantisation import restored

SINGLE, COMPILED = "single precision", "single precision, LSTM compiled"
WORD_TABLES = ("words.weight", "pretrained.weight")
"""The vectors of words: those learned, and those that training started from."""
_EPS = 1e-5
_WORDS = 128
"""So few words' convolutions stay in the processor's cache."""


def network_shapes(sizes: Sizes, config: NeuralConfig) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of a network's weights."""
    found: dict[str, tuple[int, ...]] = {"words.weight": (sizes.words, config.word_dimension)}
    width = config.word_dimension + config.feature_dimension * len(sizes.features)
    if sizes.vectors:
        found["pretrained.weight"] = (sizes.vectors, config.word_dimension)
    if config.characters != "none":
        found["characters.embedding.weight"] = (sizes.characters, config.character_dimension)
    if config.characters == "cnn":
        for k, size in enumerate(config.kernel_sizes):
            found |= _affine(f"characters.convolutions.{k}", config.channels, config.character_dimension, size)
        width += config.channels * len(config.kernel_sizes)
    elif config.characters != "none":
        found |= _bilstm("characters.lstm", config.character_dimension, config.character_hidden)
        width += config.character_hidden
    found |= {f"features.{k}.weight": (n, config.feature_dimension) for k, n in enumerate(sizes.features)}
    hidden = config.hidden
    if config.encoder != "bilstm":
        found |= _affine("transformer.project", hidden, width)
        for k in range(config.transformer_layers):
            layer = f"transformer.layers.layers.{k}"
            found[f"{layer}.self_attn.in_proj_weight"] = (3 * hidden, hidden)
            found[f"{layer}.self_attn.in_proj_bias"] = (3 * hidden,)
            found |= _affine(f"{layer}.self_attn.out_proj", hidden, hidden)
            found |= _affine(f"{layer}.linear1", 4 * hidden, hidden) | _affine(f"{layer}.linear2", hidden, 4 * hidden)
            found |= _affine(f"{layer}.norm1", hidden) | _affine(f"{layer}.norm2", hidden)
        found |= _affine("transformer.layers.norm", hidden)
        width = hidden
    if config.encoder != "transformer":
        found |= _bilstm("lstm", width, hidden)
    found |= _affine("scores", sizes.tags, hidden)
    if config.decoder == "crf":
        found |= {f"crf.{name}_transitions": (sizes.tags,) for name in ("start", "end")}
        found["crf.transitions"] = (sizes.tags, sizes.tags)
    return found


def _affine(name: str, *shape: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def _bilstm(name: str, width: int, hidden: int) -> dict[str, tuple[int, ...]]:
    half = hidden // 2
    found: dict[str, tuple[int, ...]] = {}
    for part in (f"{name}.{direction}" for direction in ("forwards", "backwards")):
        found |= {f"{part}.weight_ih_l0": (4 * half, width), f"{part}.weight_hh_l0": (4 * half, half)}
        found |= {f"{part}.bias_ih_l0": (4 * half,), f"{part}.bias_hh_l0": (4 * half,)}
    return found


class ArrayNetwork:
    """A trained network that scores tags. `weights` stay as they were stored."""

    device = "cpu"

    def __init__(self, weights: Mapping[str, Array], config: NeuralConfig) -> None:
        self.weights = weights
        self._config = config
        tables = [single(weights[f"features.{k}.weight"]) for k in range(_count(weights, "features"))]
        # (values of all features, dimension), and the first row of each feature
        self._features = np.concatenate([np.zeros((0, config.feature_dimension), np.float32), *tables])
        self._first = np.cumsum([0, *map(len, tables)])[:-1]
        self._convolutions = _convolutions(weights) if config.characters == "cnn" else ()
        self._spelling = None
        if config.characters not in ("none", "cnn"):
            self._spelling = LstmPair(under(weights, "characters.lstm"))
        self._transformer = None
        if config.encoder != "bilstm":
            self._transformer = _Transformer(under(weights, "transformer"), heads=config.transformer_heads)
        self._lstm = None if config.encoder == "transformer" else LstmPair(under(weights, "lstm"))
        self._scores = Linear(under(weights, "scores"))
        has_lstm = self._lstm is not None or self._spelling is not None
        self.arithmetic = COMPILED if has_lstm and lstm_is_compiled() else SINGLE

    def vectors(self, encoded: Encoded, notes: Sequence[int]) -> Array:
        """Return the vector of each token, (n_tokens, width); `notes` are the bounds of each note's tokens."""
        words = restored(self.weights, WORD_TABLES[0], encoded.words)
        if encoded.vectors is not None:
            words = words + restored(self.weights, WORD_TABLES[1], encoded.vectors)
        parts = [words]
        if self._config.characters != "none":
            # The last digits of an LSTM's states depend on the words read with them, those of a convolution do not.
            bounds = notes if self._spelling is not None else [0, len(words)]
            parts += [np.concatenate([self._spelled(encoded, *between) for between in pairwise(bounds)])]
        features = self._features.take(encoded.features + self._first, axis=0)
        return np.concatenate([*parts, features.reshape(len(words), -1)], axis=1)

    def _spelled(self, encoded: Encoded, low: int, high: int) -> Array:
        distinct, form = np.unique(encoded.form[low:high], return_inverse=True)
        return self.characters(encoded.spelling[distinct])[form]

    def score(self, vectors: Array, mask: Flags) -> Array:
        """Return the score of every tag at every token, (batch, time, tags), of vectors (batch, time, width)."""
        if self._transformer is not None:
            vectors = self._transformer(vectors, mask)
        if self._lstm is not None:
            vectors = self._lstm(vectors, mask)
        size, time, width = vectors.shape
        return self._scores(vectors.reshape(size * time, width)).reshape(size, time, -1)

    def characters(self, spelling: Int64s) -> Array:
        """Return the vectors of words (words, width) from their characters (words, characters)."""
        if self._spelling is None:
            return _convolved(spelling, *self._convolutions)
        spelling = spelling[:, : int((spelling > 0).sum(axis=1).max(initial=1))]
        mask = spelling > 0
        states = self._spelling(look_up(self.weights["characters.embedding.weight"], spelling), mask)
        half = self._spelling.hidden
        last = np.maximum(mask.sum(axis=1) - 1, 0)
        # Forwards the last character has seen the whole word, backwards the first one has.
        return np.concatenate([states[np.arange(len(states)), last, :half], states[:, 0, half:]], axis=1)


def _count(weights: Weights, part: str) -> int:
    return sum(name.startswith(f"{part}.") for name in weights)


def _convolutions(weights: Weights) -> tuple[Array, ...]:
    """Return what each character adds at each place of the longest kernel, and the bias, for all channels together.

    (kernel, characters + 1, channels): the last character stands beyond the word's ends, and adds nothing.
    """
    embedding = single(weights["characters.embedding.weight"])
    parts = [
        under(weights, f"characters.convolutions.{k}") for k in range(_count(weights, "characters.convolutions") // 2)
    ]
    tables = [embedding[None] @ single(part["weight"]).transpose(2, 1, 0) for part in parts]
    longest = max(map(len, tables))
    padded = [np.pad(table, ((0, longest - len(table)), (0, 1), (0, 0))) for table in tables]
    return np.concatenate(padded, axis=2), np.concatenate([single(part["bias"]) for part in parts])


def _convolved(spelling: Int64s, table: Array, bias: Array) -> Array:
    """Return the convolutions of words, with the largest value of each channel, (words, channels)."""
    reach, beyond = len(table) - 1, table.shape[1] - 1
    found = np.empty((len(spelling), len(bias)), dtype=np.float32)
    sizes = (spelling > 0).sum(axis=1)
    order = np.argsort(sizes, kind="stable")
    for block in np.split(order, range(_WORDS, len(order), _WORDS)):
        # One place of padding is kept, so that every word has a window of padding only: otherwise its vector would
        # depend on the words beside it.
        places = int(sizes[block].max(initial=0)) + 1
        codes = np.pad(spelling[block, :places], ((0, 0), (reach, reach)), constant_values=beyond)
        total = table[0].take(codes[:, : places + reach], axis=0)
        for k in range(1, reach + 1):
            total += table[k].take(codes[:, k : k + places + reach], axis=0)
        found[block] = np.maximum(total.max(axis=1) + bias, np.float32(0))
    return found


class _Transformer:
    """Self-attention with sinusoidal positions and normalisation before each layer, as `network.py` describes it."""

    def __init__(self, weights: Weights, *, heads: int) -> None:
        self._heads = heads
        self._project = Linear(under(weights, "project"))
        self._norm = LayerNorm(under(weights, "layers.norm"), eps=_EPS)
        numbers = range(1 + max(int(name.split(".")[0]) for name in under(weights, "layers.layers")))
        self._layers = [self._layer(under(weights, f"layers.layers.{k}")) for k in numbers]

    @staticmethod
    def _layer(weights: Weights) -> dict[str, Linear | LayerNorm]:
        names = {"weight": weights["self_attn.in_proj_weight"], "bias": weights["self_attn.in_proj_bias"]}
        return {
            "looks": Linear(names),
            **{name: LayerNorm(under(weights, name), eps=_EPS) for name in ("norm1", "norm2")},
            **{name: Linear(under(weights, name)) for name in ("self_attn.out_proj", "linear1", "linear2")},
        }

    def __call__(self, vectors: Array, mask: Flags) -> Array:
        size, time, width = vectors.shape
        state = self._project(vectors.reshape(size * time, width))
        state += np.tile(positional_encoding(time, state.shape[1]), (size, 1))
        for layer in self._layers:
            joined = layer["looks"](layer["norm1"](state.copy())).reshape(size, time, -1)
            state += layer["self_attn.out_proj"](attention(joined, self._heads, mask).reshape(state.shape))
            inner = layer["linear1"](layer["norm2"](state.copy()))
            state += layer["linear2"](np.maximum(inner, np.float32(0), out=inner))
        return self._norm(state).reshape(size, time, -1)


def positional_encoding(length: int, width: int) -> Array:
    """Return sines at even and cosines at odd columns, (length, width): Vaswani et al. 2017, section 3.5."""
    frequencies = np.exp(np.arange(0, width, 2, dtype=np.float32) * np.float32(-np.log(10_000) / width))
    # (length, width / 2)
    angles = np.arange(length, dtype=np.float32)[:, None] * frequencies
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(length, -1)[:, :width]
