"""Columns from stanza's own documents, made by hand: nothing is downloaded."""

from pathlib import Path
from typing import Any

import pytest
from tiny_notes import PATTERNS, SCHEME, no_progress, tiny_notes, write_patterns

from ensemble_deid.config import CrfConfig, NeuralConfig, make_config
from ensemble_deid.errors import ConfigError
from ensemble_deid.features.batch import Batch, plain_batch, with_lexicon
from ensemble_deid.features.lexicon import Lexicon
from ensemble_deid.features.stanza_tags import load_pipeline, stanza_columns, tags_of
from ensemble_deid.pipeline import feature_extractor
from ensemble_deid.taggers.crf.tagger import CrfTagger
from ensemble_deid.taggers.neural.tagger import NeuralTagger
from ensemble_deid.text.document import Document
from ensemble_deid.text.tokens import tokenize

doc = pytest.importorskip("stanza.models.common.doc", reason="stanza (the extra nlp) is not installed")


def word(number: int, text: str, start: int, upos: str | None, ner: str | None) -> dict[str, Any]:
    said = {"id": number, "text": text, "start_char": start, "end_char": start + len(text)}
    return said | ({"upos": upos} if upos else {}) | ({"ner": ner} if ner else {})


def by_spaces(text: str) -> Any:
    """Return a stanza document of one sentence a line: capitals are names of persons, all else is a noun."""
    sentences, at = [], 0
    for line in text.splitlines(keepends=True):
        words, place = [], at
        for number, part in enumerate(line.split(), 1):
            place = text.index(part, place)
            name = part[0].isupper()
            words.append(word(number, part, place, "PROPN" if name else "NOUN", "S-PER" if name else "O"))
            place += len(part)
        if words:
            sentences.append(words)
        at += len(line)
    return tags_of(doc.Document(sentences, text=text))


def columns(text: str, document: Any) -> tuple[list[str], list[str], list[str]]:
    documents = [Document("a", text)]
    tokens = tokenize(documents)
    found = stanza_columns(documents, tokens, lambda asked: tags_of(document) if asked == text else ())
    return tokens.words(documents), found["pos"].strings(), found["ner"].strings()


def test_tokens_take_the_tags_of_the_stanza_token_that_holds_them() -> None:
    text = "McCoy del  x."
    sentence = [
        word(1, "McCoy", 0, "PROPN", "S-PER"),
        {"id": (2, 3), "text": "del", "start_char": 6, "end_char": 9, "ner": "O"},
        {"id": 2, "text": "de", "upos": "ADP"},
        {"id": 3, "text": "el", "upos": "DET"},
        word(4, "x", 11, None, None),
    ]
    assert columns(text, doc.Document([sentence], text=text)) == (
        ["Mc", "Coy", "del", "x", "."],
        ["PROPN", "PROPN", "ADP+DET", "-", "-"],
        ["S-PER", "S-PER", "O", "-", "-"],
    )


def test_a_note_in_which_stanza_sees_nothing_has_no_tags() -> None:
    assert columns("a b", doc.Document([], text="a b")) == (["a", "b"], ["-", "-"], ["-", "-"])
    assert columns(" ", None) == ([], [], [])


def test_sentences_and_documents_keep_apart() -> None:
    documents = [Document("a", "Ann saw\nBob"), Document("b", " "), Document("c", "he Ann")]
    found = stanza_columns(documents, tokenize(documents), by_spaces)
    assert found["pos"].strings() == ["PROPN", "NOUN", "PROPN", "NOUN", "PROPN"]


def batch_of(documents: list[Document], *, annotate: Any) -> Batch:
    plain = plain_batch(documents, patterns=PATTERNS, split_lines=True, annotate=annotate)
    return with_lexicon(plain, Lexicon({}, {}), leave_own_patient_out=False)


def test_the_learners_read_them_where_they_are() -> None:
    small = {"epochs": 1, "hidden": 8, "word_dimension": 4, "channels": 2}
    crf_config, neural_config = CrfConfig(max_iterations=5), NeuralConfig(**small)
    common: dict[str, Any] = {"scheme": SCHEME, "seed": 13, "device": "cpu", "progress": no_progress}
    notes = tiny_notes(6)
    tagged = batch_of(notes, annotate=by_spaces)
    crf = CrfTagger.fit(tagged, None, config=crf_config, **common)
    assert {"pos[0]=PROPN", "ner[0]=S-PER"} <= set(crf.row_of)
    network = NeuralTagger.fit(tagged, None, config=neural_config, **common)
    assert list(network.vocabularies.features)[-2:] == ["pos", "ner"]
    network.propose(tagged, n_best=2)
    without = CrfTagger.fit(batch_of(notes, annotate=None), None, config=crf_config, **common)
    assert not any(name.startswith(("pos[", "ner[")) for name in without.row_of)


def test_the_configuration_names_the_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    regex = {"patterns": write_patterns(tmp_path)}
    asked = []

    def pipeline(name: str) -> Any:
        asked.append(name)
        return by_spaces

    monkeypatch.setattr(feature_extractor, "load_pipeline", pipeline)
    notes = tiny_notes(2)
    plain, extractor = feature_extractor.fit_feature_extractor(
        notes, SCHEME.labels, config=make_config({"text": {"stanza": "es"}})
    )
    assert asked == ["es"]
    assert extractor.extract(notes).table["pos"].strings() == plain.table["pos"].strings()
    plain, extractor = feature_extractor.fit_feature_extractor(
        notes, SCHEME.labels, config=make_config({"regex": regex})
    )
    assert extractor.annotate is None
    assert "pos" not in plain.table.names


def test_models_that_are_not_there_are_an_error_and_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"text\.stanza: no usable models 'xx/none' on this machine"):
        load_pipeline("xx/none")
    monkeypatch.setitem(__import__("sys").modules, "stanza", None)
    with pytest.raises(ConfigError, match=r"stanza is not installed; it comes with the extra ensemble_deid\[nlp\]"):
        load_pipeline("en")
