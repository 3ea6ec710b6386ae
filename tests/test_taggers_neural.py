"""The network: its parts against slow ones, and that it learns, repeats itself and survives the disk."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_notes import SCHEME, no_progress, tiny_batch, tiny_notes

from ensemble_deid.config import NeuralConfig
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.features.batch import Batch, select_documents
from ensemble_deid.features.table import Column
from ensemble_deid.note.document import Document
from ensemble_deid.taggers.base import FitOptions, Progress
from ensemble_deid.taggers.neural.arrays import ArrayNetwork
from ensemble_deid.taggers.neural.encoding import UNKNOWN, Vocabularies, WordIndexes, bucket, encode, learn_vocabularies
from ensemble_deid.taggers.neural.network import Bilstm, SequenceDropout
from ensemble_deid.taggers.neural.tagger import VOCABULARY, WEIGHTS, NeuralTagger, score_tokens
from ensemble_deid.taggers.sequences import merge_lines

SMALL: dict[str, Any] = {
    "word_dimension": 12,
    "character_dimension": 4,
    "kernel_sizes": [2, 3],
    "channels": 4,
    "feature_dimension": 3,
    "hidden": 24,
    "epochs": 6,
    "batch_tokens": 40,
    "learning_rate": 0.02,
    "max_sequence": 12,
}
CONFIG = NeuralConfig(**SMALL)
TRAIN = tiny_notes(24)
OTHERS = tiny_notes(6, seed=1)


def fit(
    batch: Batch,
    dev: Batch | None = None,
    *,
    config: NeuralConfig = CONFIG,
    seed: int = 13,
    device: str = "cpu",
    progress: Progress = no_progress,
) -> NeuralTagger:
    return NeuralTagger.fit(batch, dev, FitOptions(SCHEME, config, seed=seed, device=device, progress=progress))


def load(folder: Path, *, config: NeuralConfig = CONFIG, device: str = "cpu") -> NeuralTagger:
    return NeuralTagger.load(folder, scheme=SCHEME, config=config, device=device)


def with_epochs(epochs: int) -> NeuralConfig:
    return NeuralConfig(**{**SMALL, "epochs": epochs})


def emissions(tagger: NeuralTagger, batch: Batch) -> np.ndarray:
    starts = merge_lines(batch.tokens, max_tokens=12)
    encoded = encode(batch, tagger.vocabularies)
    return score_tokens(tagger.network, encoded, starts, notes=None, n_tags=len(SCHEME.tags))


@pytest.fixture(scope="module")
def others() -> Batch:
    return tiny_batch(OTHERS, learned_from=TRAIN)


@pytest.fixture(scope="module")
def tagger() -> NeuralTagger:
    return fit(tiny_batch(TRAIN))


def test_it_learns_new_notes(tagger: NeuralTagger, others: Batch) -> None:
    assert tagger.epochs == 6
    assert tagger.strict_f1(others) > 0.8
    proposals = tagger.propose(others, n_best=5)
    assert {span.source for spans in proposals.candidates for span in spans} == {"neural"}


def test_two_fits_with_one_seed_are_the_same_and_leave_torch_as_it_was(others: Batch) -> None:
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    first, second = fit(tiny_batch(TRAIN), config=with_epochs(1)), fit(tiny_batch(TRAIN), config=with_epochs(1))
    assert (emissions(first, others) == emissions(second, others)).all()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    other_seed = fit(tiny_batch(TRAIN), config=with_epochs(1), seed=14)
    assert (emissions(first, others) != emissions(other_seed, others)).any()


def test_the_best_epoch_by_dev_is_kept(others: Batch) -> None:
    said: list[str] = []
    kept = fit(tiny_batch(TRAIN), others, config=with_epochs(4), progress=said.append)
    scores = {epoch: float(line.rsplit(" ", 1)[1]) for epoch, line in enumerate(said, 1) if "dev F1" in line}
    assert sorted(scores) == [3, 4]
    assert kept.epochs == min(scores, key=lambda epoch: (-scores[epoch], epoch))
    assert 100 * kept.strict_f1(others) == pytest.approx(scores[kept.epochs], abs=0.01)


def test_an_undefined_dev_f1_is_said_and_chooses_as_0_does(others: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, said = [], []
    for figure in (None, 0.0):
        monkeypatch.setattr(NeuralTagger, "strict_f1", lambda self, batch, figure=figure: figure)
        fitted = NeuralTagger.fit(
            tiny_batch(TRAIN), others, FitOptions(SCHEME, with_epochs(4), seed=13, progress=said.append)
        )
        kept.append(fitted.epochs)
    assert kept == [3, 3]
    assert [line.rpartition(", ")[2] for line in said].count("dev F1 undefined") == 2


def test_it_survives_the_disk(tagger: NeuralTagger, others: Batch, tmp_path: Path) -> None:
    tagger.save(tmp_path)
    again = load(tmp_path)
    assert (emissions(again, others) == emissions(tagger, others)).all()
    assert again.propose(others, n_best=3) == tagger.propose(others, n_best=3)
    assert again.epochs == tagger.epochs


@pytest.mark.parametrize("name", [WEIGHTS, VOCABULARY])
def test_damaged_files_are_model_errors(tagger: NeuralTagger, tmp_path: Path, name: str) -> None:
    tagger.save(tmp_path)
    data = (tmp_path / name).read_bytes()
    for damaged in (b"", data[:7], data[: len(data) // 2], data[:-1], b"[]", b"{}", b"\xff" * len(data)):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(ModelError):
            load(tmp_path)


def test_weights_of_another_shape_are_a_model_error(tagger: NeuralTagger, tmp_path: Path) -> None:
    tagger.save(tmp_path)
    wider = NeuralConfig(**{**SMALL, "hidden": 26})
    with pytest.raises(ModelError, match="the network's files are damaged"):
        load(tmp_path, config=wider)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_cuda_without_a_gpu_is_refused(tagger: NeuralTagger, others: Batch, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="torch sees no GPU"):
        fit(tiny_batch(TRAIN), device="cuda")
    tagger.save(tmp_path)
    with pytest.raises(ConfigError, match="use auto or cpu"):
        load(tmp_path, device="cuda").propose(others, n_best=1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")
def test_a_gpu_gives_what_the_cpu_gives(tagger: NeuralTagger, others: Batch, tmp_path: Path) -> None:
    tagger.save(tmp_path)
    there = load(tmp_path, device="cuda")
    keys = [[span.key for span in spans] for spans in there.propose(others, n_best=1).best]
    assert keys == [[span.key for span in spans] for spans in tagger.propose(others, n_best=1).best]


def test_words_and_characters_never_seen_are_no_trouble(tagger: NeuralTagger) -> None:
    note = Document("x", "Ünbekannt " + "x" * 60 + " 𝔸\u0301 " + "\u4e2d" * 30)
    tagger.propose(tiny_batch([note], learned_from=TRAIN), n_best=5)


def test_an_unknown_feature_is_named() -> None:
    config = NeuralConfig(**{**SMALL, "features": ["shape", "colour"]})
    with pytest.raises(ConfigError, match=r"neural\.features: there is no feature 'colour'; there are: .*, word"):
        fit(tiny_batch(TRAIN[:4]), config=config)


@pytest.mark.parametrize("lengths", [[1], [4, 4], [5, 1, 3]])
def test_turned_sequences_give_what_packed_ones_give(lengths: list[int]) -> None:
    torch.manual_seed(0)
    ours = Bilstm(3, 4)
    theirs = torch.nn.LSTM(3, 4, batch_first=True, bidirectional=True)
    parts = dict(ours.forwards.state_dict())
    parts |= {f"{name}_reverse": value for name, value in ours.backwards.state_dict().items()}
    theirs.load_state_dict(parts)
    mask = torch.arange(max(lengths))[None, :] < torch.tensor(lengths)[:, None]
    vectors = torch.randn(len(lengths), max(lengths), 3)
    found = ours(vectors, mask)
    packed = torch.nn.utils.rnn.pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)
    torch.testing.assert_close(found[mask], expected[mask])


def test_dropout_hides_whole_columns_of_a_sequence_in_training_only() -> None:
    torch.manual_seed(0)
    dropout = SequenceDropout(0.5)
    vectors = torch.ones(3, 5, 40)
    shown = dropout(vectors)
    assert (shown == shown[:, :1]).all()
    assert set(shown.unique().tolist()) == {0.0, 2.0}
    assert dropout.eval()(vectors) is vectors


def test_emissions_of_a_note_do_not_depend_on_its_company(tagger: NeuralTagger, others: Batch) -> None:
    together = emissions(tagger, others)
    bounds = others.tokens.document_starts.tolist()
    for d, (low, high) in enumerate(itertools.pairwise(bounds)):
        np.testing.assert_allclose(emissions(tagger, select_documents(others, [d])), together[low:high], atol=1e-4)


@pytest.mark.parametrize("longer", ["otorhinolaryngologist", "x" * 24, "x" * 40])
def test_a_word_is_the_same_beside_a_longer_one(longer: str) -> None:
    tagger = fit(tiny_batch(TRAIN[:4]), config=with_epochs(1))
    # Weights with which a window of padding alone is more than any with a character in it.
    changed = dict(tagger.network.weights)
    changed["characters.embedding.weight"] = np.abs(changed["characters.embedding.weight"])
    for name in [name for name in changed if name.startswith("characters.convolutions.")]:
        changed[name] = np.full_like(changed[name], -0.1 if name.endswith(".weight") else 1.0)
    network = ArrayNetwork(changed, with_epochs(1))
    vectors = []
    for text in ("Age", f"Age\n{longer}", longer):
        batch = tiny_batch([Document("a", text)], learned_from=TRAIN)
        encoded = encode(batch, tagger.vocabularies)
        rows = np.arange(len(batch.tokens))[:, None]
        inputs = encoded.inputs(rows, np.ones(len(rows), dtype=np.int64), encoded.words[rows])
        vectors.append(network.characters(inputs.spelling)[inputs.form][:, 0])
    np.testing.assert_allclose(vectors[1], np.concatenate([vectors[0], vectors[2]]), rtol=1e-6)


def test_characters_of_notes_left_out_are_not_learned() -> None:
    both = tiny_batch([*OTHERS[:2], Document("new", "\u03a9mega")], learned_from=TRAIN)
    part = select_documents(both, [0, 1])
    assert "\u03a9" not in learn_vocabularies(part, features=(), min_word_count=1).characters


def test_values_are_looked_up_and_rare_words_marked(others: Batch) -> None:
    vocabularies = learn_vocabularies(others, features=["case"], min_word_count=2)
    assert Vocabularies.from_json(vocabularies.to_json()) is not None
    encoded = encode(others, vocabularies)
    lower, word = others.table["lower"].strings(), others.table["word"].strings()
    indexed = {index: value for value, index in vocabularies.words.items()}
    spelled = {index: value for value, index in vocabularies.characters.items()}
    for row, value in enumerate(lower):
        assert indexed.get(encoded.words[row], value) == value
        assert (encoded.words[row] == UNKNOWN) == (lower.count(value) < 2)
        assert encoded.rare[row] == (lower.count(value) == 1)
        assert "".join(spelled[c] for c in encoded.spelling[encoded.form[row]] if c) == word[row][:24]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 20), st.booleans())
def test_every_token_is_in_one_batch_once(lengths: list[int], most: int, shuffled: bool) -> None:
    starts = np.cumsum([0, *lengths[:-1]]).astype(np.int32)
    random = np.random.default_rng(0) if shuffled else None
    batches = list(bucket(starts, sum(lengths), batch_tokens=most, random=random))
    seen = []
    for batch in batches:
        for rows, length in zip(batch.rows.tolist(), batch.lengths.tolist(), strict=True):
            assert rows[0] in starts
            assert rows[:length] == list(range(rows[0], rows[0] + length))
            assert set(rows[length:]) <= {rows[length - 1]}
            seen += rows[:length]
        assert batch.rows.size <= max(most, batch.rows.shape[1])
    assert sorted(seen) == list(range(sum(lengths)))


def test_words_have_indexes_in_the_order_given() -> None:
    found = WordIndexes.of(["the", "ann", "of"])
    assert dict(found) == {"the": 2, "ann": 3, "of": 4}
    assert list(found) == ["the", "ann", "of"]
    assert found.of_column(Column.from_strings(["of", "x", "the", "of"])).tolist() == [4, UNKNOWN, 2, 4]
    assert WordIndexes.of([]).of_column(Column.from_strings(["x"])).tolist() == [UNKNOWN]
    assert len(found.of_column(Column.from_strings([]))) == 0
    content = {"words": ["a", "a"], "characters": [], "features": {}}
    with pytest.raises(ModelError, match="vocabulary is damaged"):
        Vocabularies.from_json(content)
