"""Encoders of five families, tokenizers of three kinds: each learns tiny notes, and its spans have right offsets."""

import json
from pathlib import Path

import numpy as np
import pytest
from every_command import main
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_encoder import ENCODERS, learned_tokenizer, write_tiny_encoder
from tiny_notes import SCHEME, plain, tiny_batch, tiny_notes

from ensemble_deid.config import TransformerConfig
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.note.document import Document
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.transformer.pieces import cut_into_pieces, cut_of, windows
from ensemble_deid.taggers.transformer.tagger import SETTINGS, TransformerTagger

NOTES = tiny_notes(12)
TEXTS = [note.text for note in NOTES]
RUNNING = [kind for kind in ENCODERS if kind != "bert"]
TOKENIZERS = {kind: learned_tokenizer(kind, TEXTS) for kind in RUNNING}


def fitted(folder: Path, kind: str, *, window: int = 40, epochs: int = 20) -> TransformerTagger:
    write_tiny_encoder(folder / "encoder", kind, TEXTS)
    config = TransformerConfig(
        encoder=str(folder / "encoder"), window=window, overlap=8, epochs=epochs, batch_pieces=200, learning_rate=3e-3
    )
    return TransformerTagger.fit(tiny_batch(NOTES), None, FitOptions(SCHEME, config, seed=1))


@pytest.mark.parametrize("kind", ENCODERS)
def test_every_family_learns_and_finds_names_at_their_places(tmp_path: Path, kind: str) -> None:
    tagger, batch = fitted(tmp_path, kind), tiny_batch(NOTES)
    found = tagger.propose(batch, n_best=1).best
    gold = {(note.id, *span.key) for note in NOTES for span in note.spans}
    spans = {(note.id, *span.key) for note, mine in zip(NOTES, found, strict=True) for span in mine}
    assert len(gold & spans) > 0.8 * len(gold)
    assert len(spans - gold) < 0.2 * len(gold)
    tagger.save(tmp_path)
    again = TransformerTagger.load(tmp_path, scheme=SCHEME, config=tagger.config, device="cpu")
    assert again.cut == tagger.cut == ("words" if kind == "bert" else "running text")
    np.testing.assert_allclose(again.emissions(batch), tagger.emissions(batch), atol=1e-5)


@pytest.mark.parametrize("kind", RUNNING)
def test_pieces_of_running_text_are_those_of_the_whole_text(kind: str) -> None:
    text = "Name: Ann Lee\n(seen by  Dr.Moss)  on 12/11, x-ray"
    batch, tokenizer = plain([Document("a", text)]), TOKENIZERS[kind]
    pieces = cut_into_pieces(batch, tokenizer, {}, unknown=1, cut="running text")
    whole = tokenizer.encode(text, add_special_tokens=False)
    for t, (start, end) in enumerate(zip(batch.tokens.start, batch.tokens.end, strict=True)):
        mine = [k for k, (low, high) in enumerate(whole.offsets) if low < end and high > start]
        got = pieces.ids[pieces.first[t] : pieces.first[t + 1]].tolist()
        assert got[: len(mine)] == [whole.ids[k] for k in mine]
        blank = [whole.ids[k] for k, (low, high) in enumerate(whole.offsets) if low < high and text[low:high].isspace()]
        assert set(got[len(mine) :]) <= set(blank)
    # Blanks are seen: a name after one has another piece than after a bracket.
    after_blank, after_bracket = (
        cut_into_pieces(plain([Document("b", note)]), tokenizer, {}, unknown=1, cut="running text")
        for note in ("( Lee", "(Lee")
    )
    assert after_blank.ids.tolist() != after_bracket.ids.tolist()


@pytest.mark.parametrize("kind", RUNNING)
@settings(max_examples=40)
@given(st.lists(st.text("aLe1. \n-(é½\u200b漢", max_size=40), max_size=4))
def test_every_token_has_pieces_in_any_text(kind: str, texts: list[str]) -> None:
    batch = plain([Document(str(k), text) for k, text in enumerate(texts)])
    pieces = cut_into_pieces(batch, TOKENIZERS[kind], {}, unknown=1, cut="running text")
    sizes = np.diff(pieces.first)
    assert len(sizes) == len(batch.tokens)
    assert ((sizes >= 1) & (sizes <= 8)).all()
    assert len(pieces.ids) == len(pieces.case) == len(pieces.gap) == pieces.first[-1]
    seen = np.zeros(len(batch.tokens), dtype=int)
    for start, after in windows(batch.tokens, pieces, size=16, overlap=0):
        seen[start:after] += 1
    assert (seen == 1).all()


def test_a_model_that_names_no_cut_cuts_words_and_one_that_names_another_is_damaged(tmp_path: Path) -> None:
    tagger = fitted(tmp_path, "roberta", epochs=1)
    assert cut_of(tagger.tokenizer) == "running text"
    tagger.save(tmp_path)
    path = tmp_path / SETTINGS
    settings = json.loads(path.read_text(encoding="utf-8"))
    del settings["cut"]
    path.write_text(json.dumps(settings), encoding="utf-8")
    assert TransformerTagger.load(tmp_path, scheme=SCHEME, config=tagger.config, device="cpu").cut == "words"
    path.write_text(json.dumps({**settings, "cut": "letters"}), encoding="utf-8")
    with pytest.raises(ModelError, match="damaged"):
        TransformerTagger.load(tmp_path, scheme=SCHEME, config=tagger.config, device="cpu")


@pytest.mark.parametrize(("kind", "most"), [("bert", 62), ("roberta", 61)])
def test_a_window_longer_than_the_encoder_reads_is_refused(tmp_path: Path, kind: str, most: int) -> None:
    fitted(tmp_path, kind, window=most, epochs=1)
    with pytest.raises(ConfigError, match=f"at most {most} pieces"):
        fitted(tmp_path, kind, window=most + 1, epochs=1)


@pytest.mark.parametrize(
    ("submodels", "error"), [("transformer", "'no-such-encoder' cannot be loaded"), ("crf", "trains no encoder")]
)
def test_the_option_names_the_encoder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], submodels: str, error: str
) -> None:
    write_corpus(NOTES, tmp_path / "notes", "jsonl")
    command = ["train", str(tmp_path / "notes"), "--out", str(tmp_path / "made"), "--submodels", submodels, "--quiet"]
    assert main([*command, "--encoder", "no-such-encoder"]) == 2
    assert error in capsys.readouterr().err
