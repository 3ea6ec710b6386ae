"""The network's exchangeable parts, against slow references; each combination learns and survives the disk."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from test_taggers_neural import SMALL as SMALL_BILSTM
from tiny_notes import SCHEME, plain, tiny_batch, tiny_notes

from ensemble_deid.config import NeuralConfig
from ensemble_deid.errors import ConfigError, ModelError, RuleError
from ensemble_deid.features.batch import Batch, select_documents
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.neural.arrays import network_shapes, positional_encoding
from ensemble_deid.taggers.neural.encoding import UNKNOWN, SequenceBatch, Sizes, encode, learn_vocabularies
from ensemble_deid.taggers.neural.fitting import _loss
from ensemble_deid.taggers.neural.names import characters_of, read_names, train_on_names
from ensemble_deid.taggers.neural.network import (
    Bilstm,
    CharacterBilstm,
    CharacterCnn,
    CrfLayer,
    TaggingNetwork,
    TensorInputs,
    TorchNetwork,
    TransformerEncoder,
    character_encoder,
)
from ensemble_deid.taggers.neural.tagger import WEIGHTS, NeuralTagger, score_tokens
from ensemble_deid.taggers.quantisation import dequantise
from ensemble_deid.taggers.sequences import merge_lines

SMALL: dict[str, Any] = {
    **SMALL_BILSTM,
    "character_hidden": 8,
    "name_steps": 5,
    "transformer_layers": 1,
    "transformer_heads": 2,
}
PARTS: dict[str, dict[str, Any]] = {
    "BiLSTM-CNN-CRF": {},
    "BiLSTM": {"characters": "none", "decoder": "softmax"},
    "char-BiLSTM": {"characters": "bilstm"},
    "C2V-BiLSTM-CRF": {"characters": "names"},
    "Transformer": {"characters": "none", "encoder": "transformer", "decoder": "softmax"},
    "Transformer-BiLSTM": {"characters": "none", "encoder": "transformer-bilstm"},
}
TRAIN = tiny_notes(24)
OTHERS = tiny_notes(6, seed=1)
SIZES = Sizes(9, 7, (5, 3), 4)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("names") / "names.txt"
    path.write_text("# people\nAnn Lee\nBob\nCarla\nDora\nFrank\nGina\nHugo\nOrtiz\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def others() -> Batch:
    return tiny_batch(OTHERS, learned_from=TRAIN)


def settings(parts: str, names: str) -> NeuralConfig:
    return NeuralConfig(**{**SMALL, **PARTS[parts], "names": names})


def fit(config: NeuralConfig) -> NeuralTagger:
    return NeuralTagger.fit(tiny_batch(TRAIN), None, FitOptions(SCHEME, config, seed=13))


@pytest.mark.parametrize("parts", PARTS)
def test_each_combination_learns_and_survives_the_disk(parts: str, names: str, others: Batch, tmp_path: Path) -> None:
    config = settings(parts, names)
    tagger = fit(config)
    f1 = tagger.strict_f1(others)
    assert f1 is not None
    assert f1 > 0.6
    sizes = tagger.vocabularies.sizes(len(SCHEME.tags))
    module = TaggingNetwork(sizes, config)
    assert network_shapes(sizes, config) == {name: tuple(value.shape) for name, value in module.state_dict().items()}
    starts = merge_lines(others.tokens, max_tokens=12)
    encoded = encode(others, tagger.vocabularies)
    by_torch = TorchNetwork.from_weights(tagger.network.weights, sizes, config, device="cpu")
    found, expected = (
        score_tokens(network, encoded, starts, notes=None, n_tags=sizes.tags) for network in (tagger.network, by_torch)
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)
    tagger.save(tmp_path)
    again = NeuralTagger.load(tmp_path, scheme=SCHEME, config=config, device="cpu")
    together = again.propose(others, n_best=3)
    assert together == tagger.propose(others, n_best=3)
    alone = again.propose(select_documents(others, [2]), n_best=3)
    assert [span.key for span in alone.best[0]] == [span.key for span in together.best[2]]
    assert [s.score for s in alone.best[0]] == pytest.approx([s.score for s in together.best[2]], abs=1e-5)
    with pytest.raises(ModelError):
        NeuralTagger.load(tmp_path, scheme=SCHEME, config=NeuralConfig(**{**SMALL, "hidden": 26}), device="cpu")


def test_a_compact_network_has_its_words_in_eight_bits(others: Batch, tmp_path: Path) -> None:
    config = NeuralConfig(**SMALL)
    tagger = fit(config)
    tagger.save(tmp_path)
    NeuralTagger.compact_saved(tmp_path)
    small = NeuralTagger.load(tmp_path, scheme=SCHEME, config=config, device="cpu")
    stored, words = small.network.weights, tagger.network.weights["words.weight"]
    assert (stored["words.weight"].dtype, stored["words.weight.scale"].shape) == (np.int8, (len(words),))
    assert stored["scores.weight"].dtype == np.float16
    np.testing.assert_allclose(dequantise(stored)["words.weight"], words, atol=float(np.abs(words).max()) / 254 + 1e-6)
    sizes = small.vocabularies.sizes(len(SCHEME.tags))
    starts, encoded = merge_lines(others.tokens, max_tokens=12), encode(others, small.vocabularies)
    by_torch = TorchNetwork.from_weights(stored, sizes, config, device="cpu")
    found, expected = (
        score_tokens(network, encoded, starts, notes=None, n_tags=sizes.tags) for network in (small.network, by_torch)
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)
    further = NeuralTagger.fit(tiny_batch(TRAIN), None, FitOptions(SCHEME, config, seed=13, start=small))
    assert further.network.weights["words.weight"].shape == words.shape
    weights = load_file(tmp_path / WEIGHTS)
    save_file({**weights, "words.weight.scale": weights["words.weight.scale"][1:]}, tmp_path / WEIGHTS)
    with pytest.raises(ModelError):
        NeuralTagger.load(tmp_path, scheme=SCHEME, config=config, device="cpu")


def test_the_default_is_made_as_before_there_was_a_choice() -> None:
    config = NeuralConfig()
    torch.manual_seed(5)
    network = TaggingNetwork(SIZES, config)
    torch.manual_seed(5)
    width = 128 + 8 * 4 + 4 * 2
    parts: dict[str, torch.nn.Module] = {
        "words": torch.nn.Embedding(9, 128, padding_idx=0),
        "characters": CharacterCnn(7, 16, (2, 3, 4, 5), 8),
        "features": torch.nn.ModuleList(torch.nn.Embedding(n, 4) for n in (5, 3)),
        "lstm": Bilstm(width, 64),
        "scores": torch.nn.Linear(128, 4),
        "crf": CrfLayer(4, batch_first=True),
    }
    torch.nn.init.normal_(parts["words"].weight, std=0.1)  # type: ignore[arg-type]
    expected = {f"{name}.{key}": value for name, part in parts.items() for key, value in part.state_dict().items()}
    found = network.state_dict()
    assert list(found) == list(expected)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def inputs(*, mask: torch.Tensor) -> TensorInputs:
    size, time = mask.shape
    generator = torch.Generator().manual_seed(0)
    words = torch.randint(1, 9, (size, time), generator=generator) * mask
    spelling = torch.randint(1, 7, (3, 4), generator=generator)
    form = torch.randint(0, 3, (size, time), generator=generator)
    return TensorInputs(words, form, spelling, torch.zeros(size, time, 2, dtype=torch.int64), mask)


def test_softmax_takes_each_tag_for_itself() -> None:
    network = TaggingNetwork(SIZES, NeuralConfig(**{**SMALL, "decoder": "softmax"})).eval()
    mask = torch.tensor([[True, True, True], [True, False, False]])
    batch, tags = inputs(mask=mask), torch.tensor([[1, 0, 3], [2, 0, 0]])
    emissions = network.emissions(batch)
    places = [(0, 0), (0, 1), (0, 2), (1, 0)]
    expected = 0.0
    for row, step in places:
        odds = [math.exp(score) for score in emissions[row, step].tolist()]
        expected -= math.log(odds[int(tags[row, step])] / sum(odds)) / len(places)
    assert float(network.loss(batch, tags).detach()) == pytest.approx(expected, rel=1e-5)


def test_positions_are_encoded_by_sines_and_cosines() -> None:
    found = positional_encoding(7, 6)
    for position in range(7):
        for k in range(3):
            angle = position / 10_000 ** (2 * k / 6)
            assert found[position, 2 * k].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert found[position, 2 * k + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_a_transformer_tells_places_apart_and_does_not_read_padding() -> None:
    torch.manual_seed(0)
    encoder = TransformerEncoder(3, 8, layers=2, heads=2, dropout=0.1).eval()
    vectors = torch.randn(1, 5, 3)
    mask = torch.tensor([[True, True, True, False, False]])
    with torch.no_grad():
        found = encoder(vectors, mask)[:, :3]
        torch.testing.assert_close(found, encoder(vectors[:, :3], mask[:, :3]), atol=1e-5, rtol=1e-5)
        turned = encoder(vectors[:, [2, 1, 0]], mask[:, :3])[:, [2, 1, 0]]
    assert not torch.allclose(found, turned, atol=1e-3)


def test_a_character_bilstm_reads_each_word_to_its_own_end() -> None:
    torch.manual_seed(0)
    encoder = CharacterBilstm(7, 3, 8)
    words = torch.tensor([[2, 3, 0, 0], [4, 5, 6, 2]])
    together = encoder(words)
    torch.testing.assert_close(together[:1], encoder(words[:1, :2]))
    embedded = encoder.embedding(words[:1, :2])
    forwards, _ = encoder.lstm.forwards(embedded)
    backwards, _ = encoder.lstm.backwards(embedded.flip(1))
    torch.testing.assert_close(together[0], torch.cat([forwards[0, -1], backwards[0, -1]]))


def test_words_alone_have_no_character_encoder() -> None:
    assert character_encoder(5, NeuralConfig(characters="none")) is None


def test_vectors_of_names_bring_misspelt_names_near(names: str) -> None:
    torch.manual_seed(0)
    listed = read_names(names, longest=24)
    assert listed == ("ann", "bob", "carla", "dora", "frank", "gina", "hugo", "lee", "ortiz")
    indexed = {character: index for index, character in enumerate(sorted(characters_of(listed)), 2)}
    encoder = CharacterBilstm(len(indexed) + 2, 8, 16)
    train_on_names(encoder, listed, indexed, steps=80, longest=24, seed=1)

    def vectors(words: list[str]) -> torch.Tensor:
        codes = np.zeros((len(words), 24), dtype=np.int64)
        for row, word in enumerate(words):
            codes[row, : len(word)] = [indexed[c] for c in word]
        return torch.nn.functional.normalize(encoder(torch.from_numpy(codes)), dim=1)

    similar = vectors(["carlla", "FRNK", "Orti"]) @ vectors(list(listed)).T
    assert [listed[k] for k in similar.argmax(dim=1).tolist()] == ["carla", "frank", "ortiz"]
    assert not any(parameter.requires_grad for parameter in encoder.parameters())


def test_names_are_misspelt_with_characters_whose_capitals_are_unknown() -> None:
    """The characters of notes misspell names, too, and one of theirs may have a capital that is nowhere."""
    listed = ("ann", "bob", "hugo")
    assert {"µ".upper(), "ÿ".upper(), "я".upper()}.isdisjoint("µÿя")
    indexed = {character: index for index, character in enumerate(sorted({*characters_of(listed), *"µÿя"}), 2)}
    encoder = CharacterBilstm(len(indexed) + 2, 4, 4)
    train_on_names(encoder, listed, indexed, steps=60, longest=8, seed=1)
    assert all(torch.isfinite(parameter).all() for parameter in encoder.parameters())


def test_frozen_vectors_stay_as_names_made_them(names: str) -> None:
    weights = []
    for epochs in (1, 3):
        config = NeuralConfig(**{**SMALL, **PARTS["C2V-BiLSTM-CRF"], "names": names, "epochs": epochs})
        state = fit(config).network.weights
        weights.append({name: value for name, value in state.items() if name.startswith("characters.")})
    assert weights[0]
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_the_packaged_lists_have_names_and_others_are_refused(tmp_path: Path) -> None:
    assert {"maria", "smith"} <= set(read_names("en", longest=24))
    with pytest.raises(ConfigError, match=r"neural\.names: 'xx' is neither a set in rules/knowledge nor a file"):
        read_names("xx", longest=24)
    (tmp_path / "one.txt").write_text("Ann\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="fewer than two names"):
        read_names(str(tmp_path / "one.txt"), longest=24)
    (tmp_path / "bad.txt").write_bytes(b"\xff\n")
    with pytest.raises(RuleError, match="not UTF-8"):
        read_names(str(tmp_path / "bad.txt"), longest=24)


def test_heads_share_the_width() -> None:
    with pytest.raises(ConfigError, match=r"neural\.hidden: 10 must be a multiple of neural\.transformer_heads \(4\)"):
        NeuralConfig(hidden=10, encoder="transformer")
    assert NeuralConfig(hidden=10).hidden == 10


def test_words_are_dropped_alike_wherever_they_stand_and_the_corpus_is_not_changed() -> None:
    """A step takes its own rows alone: what it hides is hidden in each place, and only there."""
    batch = plain(tiny_notes(3))
    vocabularies = learn_vocabularies(batch, features=(), min_word_count=1)
    encoded = encode(batch, vocabularies)
    before = encoded.words.copy()
    rows = np.array([[0, 1, 2], [2, 1, 0]])
    config = NeuralConfig(word_dropout=0.5, characters="none", hidden=8)
    network = TaggingNetwork(vocabularies.sizes(len(SCHEME.tags)), config).eval()
    seen: list[TensorInputs] = []

    def loss(inputs: TensorInputs, tags: torch.Tensor) -> torch.Tensor:
        seen.append(inputs)
        return TaggingNetwork.loss(network, inputs, tags)

    network.loss = loss  # type: ignore[method-assign]
    sequences = SequenceBatch(rows, np.array([3, 3]))
    gold = batch.gold(SCHEME)
    losses = []
    for mixed in (False, True):
        random = np.random.default_rng(1)
        one = _loss(network, encoded, gold, sequences, dropped=config.word_dropout, random=random, mixed=mixed)
        losses.append(float(one.detach()))
        assert one.dtype == torch.float32
    words = seen[0].words.numpy()
    assert (words[0] == words[1][::-1]).all()
    draw = np.random.default_rng(1).random(3)
    hidden = draw < np.where(encoded.rare[:3], 0.5, 0.5)
    assert words[0].tolist() == np.where(hidden, UNKNOWN, before[:3]).tolist()
    assert (encoded.words == before).all()
    # Products in bfloat16 keep some three digits.
    assert losses[0] == pytest.approx(losses[1], rel=0.02)
