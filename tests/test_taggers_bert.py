"""Our own forward pass of BERT, against that of the library `transformers`."""

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_encoder import tiny_encoder
from tiny_notes import SCHEME, no_progress, tiny_batch, tiny_notes
from transformers import BertConfig, BertModel

from ensemble_deid.config import TransformerConfig
from ensemble_deid.taggers.layers import gelu
from ensemble_deid.taggers.transformer.arrays import ArrayClassifier, check_stored, classifier_shapes, is_plain_bert
from ensemble_deid.taggers.transformer.network import EncoderClassifier, TorchClassifier, build_encoder
from ensemble_deid.taggers.transformer.quantisation import quantise
from ensemble_deid.taggers.transformer.scoring import Windows
from ensemble_deid.taggers.transformer.tagger import TransformerTagger

SIZES = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
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
    both: tuple[EncoderClassifier, dict[str, Any]], padding: int, size: int
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
    # In eight bits, too, the arithmetic is that of the weights restored.
    stored = quantise(theirs.weights)
    restored = TorchClassifier.from_weights(stored, config, 7, [3, 4], device="cpu")
    check_stored(stored, classifier_shapes(config, 7, [3, 4]))
    found = ArrayClassifier(stored, config).score(windows)
    np.testing.assert_allclose(found[mask], restored.score(windows)[mask], atol=1e-4, rtol=1e-4)


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
    TransformerTagger.fit(batch, None, scheme=SCHEME, config=config, seed=1, device="cpu", progress=no_progress).save(
        tmp_path
    )
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
