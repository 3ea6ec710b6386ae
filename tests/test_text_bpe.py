"""Byte-pair pieces: offsets stay true for any text, and the model that learned them keeps them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_notes import PATTERNS, SCHEME, no_progress, tiny_notes, write_patterns

from ensemble_deid.config import Config, make_config
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.features.batch import plain_batch, select_documents
from ensemble_deid.model.directory import BPE, save_model
from ensemble_deid.model.feature_extractor import fit_feature_extractor
from ensemble_deid.model.loading import load_model
from ensemble_deid.note.bpe import Bpe
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme, spans_to_tags, tags_to_spans
from ensemble_deid.note.tokens import TokenTable, tokenize
from ensemble_deid.training.train import train

WORDS = ["Hospital", "hospitales", "hospitalario", "Alberto", "Alberta", "Álvaro", "12345", "123"]
TRAIN = [Document("t", " ".join(WORDS * 3))]
BPE_MODEL = Bpe.learn(TRAIN, tokenize(TRAIN), vocabulary=60)
TEXTS = st.lists(
    st.one_of(
        st.sampled_from([*WORDS, " ", "\n", ".", "e\u0301", "𝔸𝔹c", "\u2581", "\u2585", "<unk>", "<s>", "½"]),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    ),
    max_size=8,
).map("".join)


def places(tokens: TokenTable) -> list[tuple[int, int]]:
    return list(zip(tokens.start.tolist(), tokens.end.tolist(), strict=True))


@settings(max_examples=60)
@given(st.lists(TEXTS, max_size=3))
def test_pieces_tile_their_tokens(texts: list[str]) -> None:
    documents = [Document(str(i), text) for i, text in enumerate(texts)]
    tokens = tokenize(documents, split_lines=True)
    pieces = BPE_MODEL.refine(documents, tokens)
    at = 0
    for row, (start, end) in enumerate(places(tokens)):
        here = start
        while here < end:
            assert pieces.start[at] == here < pieces.end[at] <= end
            for column in ("document", "line", "sentence"):
                assert getattr(pieces, column)[at] == getattr(tokens, column)[row]
            here = int(pieces.end[at])
            at += 1
    assert at == len(pieces)
    for d, (low, high) in enumerate(zip(pieces.document_starts, pieces.document_starts[1:], strict=False)):
        assert (pieces.document[low:high] == d).all()
    assert pieces.document_starts[-1] == len(pieces)
    for column in ("start", "end", "document", "line", "sentence", "document_starts"):
        assert getattr(pieces, column).dtype == np.int32


@settings(max_examples=40)
@given(TEXTS.filter(str.strip), st.data())
def test_whatever_spans_tokens_carry_pieces_carry_too(text: str, data: st.DataObject) -> None:
    documents = [Document("a", text)]
    tokens = tokenize(documents)
    first = data.draw(st.integers(0, len(tokens) - 1))
    last = data.draw(st.integers(first, len(tokens) - 1))
    span = Span(int(tokens.start[first]), int(tokens.end[last]), "NAME")
    scheme, pieces = TagScheme(("NAME",)), BPE_MODEL.refine(documents, tokens)
    encoded = spans_to_tags([[span]], pieces, scheme)
    assert (encoded.cut, encoded.lost) == (0, 0)
    assert tags_to_spans(encoded.codes, pieces, scheme) == [(span,)]


def test_frequent_pieces_stay_whole_and_learning_repeats_itself() -> None:
    assert BPE_MODEL.piece_ends("Hospital") == [8]
    assert BPE_MODEL.piece_ends("Hospitalx")[:1] == [8]
    assert len(BPE_MODEL.piece_ends("Alvhosp")) > 1
    assert BPE_MODEL.piece_ends("") == [0]
    assert Bpe.learn(TRAIN, tokenize(TRAIN), vocabulary=60).data == BPE_MODEL.data
    assert Bpe.from_bytes(BPE_MODEL.data).piece_ends("hospitalero") == BPE_MODEL.piece_ends("hospitalero")
    # A text with fewer pieces than asked for gives those it has.
    assert Bpe.learn(TRAIN, tokenize(TRAIN), vocabulary=5000).piece_ends("hospitalario") == [12]


@pytest.mark.parametrize(("text", "message"), [("abcdef gh", "at least 11"), (". a 5 -", "has no words")])
def test_a_vocabulary_too_small_is_refused(text: str, message: str) -> None:
    documents = [Document("a", text)]
    with pytest.raises(ConfigError, match=rf"text\.bpe_vocabulary is 10: .*{message}"):
        Bpe.learn(documents, tokenize(documents), vocabulary=10)


def test_damaged_bytes_are_a_model_error() -> None:
    for damaged in (b"", b"garbage", BPE_MODEL.data[: len(BPE_MODEL.data) // 2], BPE_MODEL.data[:-1]):
        with pytest.raises(ModelError, match="BPE is damaged"):
            Bpe.from_bytes(damaged)


def test_no_text_in_reprs() -> None:
    assert "Hospital" not in repr(BPE_MODEL)


def test_a_batch_of_pieces_is_that_of_its_documents() -> None:
    documents = tiny_notes(4)
    batch = plain_batch(documents, patterns=PATTERNS, split_lines=True, bpe=BPE_MODEL)
    assert len(batch.tokens) > len(tokenize(documents))
    part = select_documents(batch, [2, 0])
    expected = plain_batch([documents[2], documents[0]], patterns=PATTERNS, split_lines=True, bpe=BPE_MODEL)
    for name in batch.table.names:
        assert part.table[name].strings() == expected.table[name].strings()


def test_it_is_off_by_default(tmp_path: Path) -> None:
    patterns = write_patterns(tmp_path)
    assert Config().text.bpe_vocabulary == 0
    config = make_config({"regex": {"patterns": patterns}})
    assert fit_feature_extractor(tiny_notes(4), SCHEME.labels, config=config)[1].bpe is None


def test_a_model_is_trained_kept_and_used_with_pieces(tmp_path: Path) -> None:
    options = {"submodels": ["crf"], "folds": 2, "jobs": 1, "text": {"bpe_vocabulary": 90}}
    options |= {"regex": {"patterns": write_patterns(tmp_path)}}
    options |= {"crf": {"max_iterations": 8}, "stack": {"c_grid": [1.0], "gamma_grid": [0.01], "weight_grid": [1.0]}}
    notes = [*tiny_notes(12), Document("blank", " \n", (), "nobody")]
    trained = train(notes, (), config=make_config(options), report=lambda step: no_progress(step.message))
    save_model(trained.ensemble, trained.stacking_dataset, trained.manifest, tmp_path / "model")
    assert trained.ensemble.feature_extractor.bpe is not None
    assert (tmp_path / "model" / BPE).read_bytes() == trained.ensemble.feature_extractor.bpe.data
    loaded, _ = load_model(tmp_path / "model")
    others = tiny_notes(4, seed=1)
    found = loaded.predict(others)
    assert found == trained.ensemble.predict(others)
    gold = {(document.id, span.key) for document in others for span in document.spans}
    right = {(d.id, span.key) for d, spans in zip(others, found, strict=True) for span in spans} & gold
    assert len(right) > len(gold) / 2
    (tmp_path / "model" / BPE).unlink()
    with pytest.raises(ModelError, match=r"bpe\.model: missing"):
        load_model(tmp_path / "model")
