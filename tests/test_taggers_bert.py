"""Our own forward pass of BERT, against that of the library `transformers`."""

import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_encoder import tiny_encoder
from tiny_notes import SCHEME, tiny_batch, tiny_notes
from transformers import BertConfig, BertModel

from ensemble_deid.arrays import Flags
from ensemble_deid.compiled import SWITCH, has_core
from ensemble_deid.config import TransformerConfig
from ensemble_deid.reproducible import MARK
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.layers import Array, Weights, gelu
from ensemble_deid.taggers.quantisation import check_stored, dequantise, quantise
from ensemble_deid.taggers.transformer.arrays import (
    COMPILED,
    ROUNDED,
    ArrayClassifier,
    RoundedLinear,
    _Layer,
    classifier_shapes,
    is_plain_bert,
)
from ensemble_deid.taggers.transformer.compiled_layer import NORMS, CompiledLayer
from ensemble_deid.taggers.transformer.network import EncoderClassifier, TorchClassifier, build_encoder
from ensemble_deid.taggers.transformer.packing import pack, pack_layers, packed_shapes, unpack, unpack_layers
from ensemble_deid.taggers.transformer.scoring import Windows
from ensemble_deid.taggers.transformer.tagger import TransformerTagger

LEVELS: list[str] = []
if has_core():
    from ensemble_deid import _core

    LEVELS = _core.levels()
needs_core = pytest.mark.skipif(not LEVELS, reason="neither AVX-512 VNNI nor AVX2 here, or no core")
WORDS = "encoder.embeddings.word_embeddings.weight"
SIZES = {
    "vocab_size": 50,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 80,
    "max_position_embeddings": 30,
}


@pytest.fixture(scope="module")
def both() -> tuple[EncoderClassifier, dict[str, Any]]:
    """The library's model with random weights under a classifier, and its configuration."""
    torch.manual_seed(5)
    encoder = BertModel(BertConfig(**SIZES))
    network = EncoderClassifier(encoder, 7, [3, 4], dropout=0.1).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.uniform_(-0.5, 0.5)
    return network, encoder.config.to_dict()


@pytest.mark.parametrize("padding", [0, 4])
@pytest.mark.parametrize("size", [3, 40])
def test_it_computes_what_the_library_computes(
    both: tuple[EncoderClassifier, dict[str, Any]], padding: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, config = both
    theirs = TorchClassifier(network, torch.device("cpu"))
    check_stored(theirs.weights, classifier_shapes(config, 7, [3, 4]))
    random = np.random.default_rng(6)
    mask = np.ones((size, 17), dtype=bool)
    if padding:
        mask[1, -padding:] = False
    features = np.stack([random.integers(0, n, mask.shape) for n in (3, 4)], axis=2)
    ids, case, gap = (random.integers(0, n, mask.shape) for n in (50, 5, 5))
    windows = Windows(ids, case, gap, features, mask)
    found = ArrayClassifier(theirs.weights, config).score(windows)
    np.testing.assert_allclose(found[mask], theirs.score(windows)[mask], atol=1e-4, rtol=1e-4)
    # In eight bits the arithmetic is nearly that of the weights restored; with and without the core it rounds alike.
    stored = quantise(theirs.weights)
    restored = TorchClassifier.from_weights(stored, config, 7, [3, 4], device="cpu")
    check_stored(stored, classifier_shapes(config, 7, [3, 4]))
    in_eight = []
    for arithmetic in (COMPILED if LEVELS else ROUNDED, ROUNDED):
        network_in_eight = ArrayClassifier(stored, config)
        assert network_in_eight.arithmetic == arithmetic
        in_eight.append(network_in_eight.score(windows)[mask])
        np.testing.assert_allclose(in_eight[-1], restored.score(windows)[mask], atol=3e-3, rtol=3e-3)
        monkeypatch.setenv(SWITCH, "none")
    np.testing.assert_allclose(*in_eight, atol=1e-3, rtol=1e-3)


def test_a_rounded_product_is_that_of_whole_numbers() -> None:
    random = np.random.default_rng(0)
    vectors = random.normal(size=(5, 48)).astype(np.float32)
    vectors[4] = 0
    weight, scale = random.integers(-127, 128, (7, 48)).astype(np.int8), random.random(7).astype(np.float32)
    bias = random.normal(size=7).astype(np.float32)
    found = RoundedLinear({"weight": weight, "weight.scale": scale, "bias": bias})(vectors)
    for row, vector in zip(found, vectors, strict=True):
        largest = max(float(np.abs(vector).max()), 1e-12)
        digits = [round(float(value * np.float32(16256 / np.float32(largest)))) for value in vector]
        assert max(map(abs, digits)) in (16256, 0)
        sums = [sum(int(w) * digit for w, digit in zip(one, digits, strict=True)) for one in weight]
        expected = [total * largest / 16256 * s + b for total, s, b in zip(sums, scale, bias, strict=True)]
        np.testing.assert_allclose(row, expected, rtol=2e-6, atol=2e-6)


@needs_core
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("pieces", [1, 3, 16, 50, 97])
def test_the_core_computes_a_layer_for_each_window_by_itself(pieces: int, level: str) -> None:
    weights, state, mask = random_layer(pieces)
    found, expected = state.copy(), state.copy()
    layer = CompiledLayer(weights, 2, 1e-12, level=level)
    layer(found, mask)
    _Layer(weights, 2, 1e-12)(expected, mask)
    np.testing.assert_allclose(found[mask], expected[mask], atol=1e-3)
    alone = state[1:, : mask[1].sum()].copy()
    pickle.loads(pickle.dumps(layer))(alone, np.ones(alone.shape[:2], dtype=bool))
    assert np.array_equal(alone[0], found[1, : mask[1].sum()])


@needs_core
@pytest.mark.parametrize("pieces", [1, 15, 17, 49, 97])
def test_every_set_of_instructions_gives_the_same_bits(pieces: int) -> None:
    weights, state, mask = random_layer(pieces)
    found = []
    for level in LEVELS:
        found.append(state.copy())
        CompiledLayer(weights, 2, 1e-12, level=level)(found[-1], mask)
    assert all(np.array_equal(one[mask], found[0][mask]) for one in found)


@needs_core
def test_the_core_refuses_what_does_not_fit() -> None:
    weights, state, _ = random_layer(3)
    layer = CompiledLayer(weights, 2, 1e-12)
    for wrong in (state[0, :, :32], state[0].astype(np.float64), state[0].T, state):
        with pytest.raises(ValueError, match="array"):
            _core.run_layer(wrong, layer._weights, 2, 1e-12, LEVELS[0])
    for heads in (0, -2, 3, 8, 2**40):
        with pytest.raises(ValueError, match="of this size"):
            _core.run_layer(state[0], layer._weights, heads, 1e-12, LEVELS[0])
    for k, part in enumerate(layer._weights):
        for one in range(len(part)):
            less = (*part[:one], np.ascontiguousarray(part[one][..., :-16]), *part[one + 1 :])
            changed = (*layer._weights[:k], less, *layer._weights[k + 1 :])
            with pytest.raises(ValueError, match=r"array|of this size"):
                _core.run_layer(state[0], changed, 2, 1e-12, LEVELS[0])


@pytest.mark.parametrize("shape", [(16, 16), (64, 32), (80, 48), (192, 64)])
def test_packed_weights_lie_as_the_core_reads_them(shape: tuple[int, int]) -> None:
    matrix = np.random.default_rng(1).integers(-127, 128, shape).astype(np.int8)
    packed = pack(matrix)
    outputs, inputs = shape
    assert packed.shape == (-(-outputs // 64), 64 * inputs + 256)
    for output in range(outputs):
        group = packed[output // 64]
        for place in range(inputs):
            assert group[place // 4 * 256 + output % 64 * 4 + place % 4] == matrix[output, place]
        at = 64 * inputs + output % 64 * 4
        assert int.from_bytes(group[at : at + 4].tobytes(), "little", signed=True) == matrix[output].astype(int).sum()
    assert np.array_equal(unpack(packed, outputs), matrix)


def test_layers_are_packed_whole_or_not_at_all(both: tuple[EncoderClassifier, dict[str, Any]]) -> None:
    network, config = both
    stored = quantise(TorchClassifier(network, torch.device("cpu")).weights)
    packed, shapes = pack_layers(stored), classifier_shapes(config, 7, [3, 4])
    check_stored(packed, packed_shapes(shapes, packed))
    back = unpack_layers(packed)
    assert back.keys() == stored.keys()
    assert all(np.array_equal(back[name], one) for name, one in stored.items())
    assert pack_layers(packed).keys() == packed.keys() != stored.keys()
    assert np.array_equal(ArrayClassifier(packed, config).weights[WORDS], stored[WORDS])
    in_single = dequantise(stored)
    assert pack_layers(in_single).keys() == in_single.keys()
    for name in packed:
        if ".packed." in name:
            for wrong in ({**packed, name: packed[name][:, 1:]}, {k: one for k, one in packed.items() if k != name}):
                with pytest.raises(ValueError, match="another network"):
                    check_stored(wrong, packed_shapes(shapes, wrong))


@needs_core
def test_numpy_computes_what_the_core_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, *_ = random_layer(3)
    assert CompiledLayer.fits(weights, 2)
    assert not CompiledLayer.fits(weights, 8)
    assert not CompiledLayer.fits(dequantise(weights), 2)
    monkeypatch.setenv(MARK, "1")
    assert not CompiledLayer.fits(weights, 2), "--reproducible pins older instructions"
    monkeypatch.delenv(MARK)
    monkeypatch.setenv(SWITCH, "none")
    assert not CompiledLayer.fits(weights, 2)


def random_layer(pieces: int) -> tuple[Weights, Array, Flags]:
    """Return a layer's weights in eight bits, and two windows of which one is shorter."""
    random = np.random.default_rng(pieces)
    shapes = dict.fromkeys(
        (*(f"attention.self.{k}" for k in ("query", "key", "value")), "attention.output.dense"), (64, 64)
    )
    shapes |= {"intermediate.dense": (80, 64), "output.dense": (64, 80)}
    weights = {f"{name}.weight": random.normal(0, 0.3, shape) for name, shape in shapes.items()}
    weights |= {f"{name}.bias": random.normal(size=shape[0]) for name, shape in shapes.items()}
    weights |= {f"{name}.LayerNorm.{part}": random.normal(size=64) for name in NORMS for part in ("weight", "bias")}
    mask = np.arange(pieces) < np.array([[pieces], [max(1, pieces - 2)]])
    state = random.normal(size=(2, pieces, 64)).astype(np.float32)
    return quantise({name: value.astype(np.float32) for name, value in weights.items()}), state, mask


def test_gelu_is_exact_to_single_precision() -> None:
    values = np.concatenate([np.linspace(-9, 9, 40_001), [-1e30, 1e30, 0.0]]).astype(np.float32)
    expected = [0.5 * x * (1 + math.erf(x / math.sqrt(2))) for x in values.tolist()]
    np.testing.assert_allclose(gelu(values.copy()), expected, rtol=2e-6, atol=1e-6)


def test_only_a_plain_bert_is_read_by_it(both: tuple[EncoderClassifier, dict[str, Any]]) -> None:
    config = both[1]
    assert is_plain_bert(config)
    assert not is_plain_bert({})
    for change in ({"model_type": "roberta"}, {"hidden_act": "relu"}, {"is_decoder": True}):
        assert not is_plain_bert({**config, **change})
    assert isinstance(build_encoder({**config, "hidden_act": "relu"}), BertModel)
    for read in (build_encoder, lambda content: classifier_shapes(content, 3, [])):
        with pytest.raises(ValueError, match="more than 100 layers"):
            read({**config, "num_hidden_layers": 101})


def test_a_model_is_read_without_what_only_training_needs(tmp_path: Path) -> None:
    config = TransformerConfig(encoder=tiny_encoder(), window=40, overlap=8, epochs=1, batch_pieces=200)
    batch = tiny_batch(tiny_notes(4))
    TransformerTagger.fit(batch, None, FitOptions(SCHEME, config, seed=1)).save(tmp_path)
    code = (
        "import sys; from pathlib import Path\n"
        "from ensemble_deid.config import TransformerConfig\n"
        "from ensemble_deid.deidentify import deidentifier\nfrom ensemble_deid.model import directory\n"
        "from ensemble_deid.taggers.transformer.tagger import TransformerTagger\n"
        "from ensemble_deid.note.tags import TagScheme\n"
        f"TransformerTagger.load(Path({str(tmp_path)!r}), scheme=TagScheme({SCHEME.labels!r}),"
        f" config=TransformerConfig(encoder={config.encoder!r}), device='cpu')\n"
        "print([name for name in ('torch', 'transformers', 'sklearn', 'scipy.stats', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
