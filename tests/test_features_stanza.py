"""Columns from stanza's own documents, made by hand: nothing is downloaded."""

import os
from pathlib import Path
from typing import Any

import pytest
from tiny_notes import PATTERNS, SCHEME, no_progress, tiny_notes, write_patterns

from ensemble_deid.cli.main import main
from ensemble_deid.config import CrfConfig, NeuralConfig, TbedConfig, make_config
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.features.batch import Batch, plain_batch, with_lexicon
from ensemble_deid.features.lexicon import LabelCounts, Lexicon
from ensemble_deid.features.stanza_tags import (
    VARIABLE,
    Annotator,
    StanzaModels,
    TagStore,
    load_pipeline,
    models_hash,
    models_version,
    stanza_columns,
    tag_store,
    tags_of,
)
from ensemble_deid.model import feature_extractor
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.note.tokens import tokenize
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.crf.tagger import CrfTagger
from ensemble_deid.taggers.neural.tagger import NeuralTagger
from ensemble_deid.taggers.tbed.tagger import TbedTagger

MODELS = StanzaModels("en", "a", "1.0")
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
    return with_lexicon(plain, Lexicon(LabelCounts.of({}), LabelCounts.of({})), leave_own_patient_out=False)


def test_the_learners_read_them_where_they_are() -> None:
    small = {"epochs": 1, "hidden": 8, "word_dimension": 4, "channels": 2}
    crf_config, neural_config = CrfConfig(max_iterations=5), NeuralConfig(**small)
    common: dict[str, Any] = {"scheme": SCHEME, "seed": 13, "device": "cpu", "progress": no_progress}
    notes = tiny_notes(6)
    tagged = batch_of(notes, annotate=by_spaces)
    crf = CrfTagger.fit(tagged, None, FitOptions(config=crf_config, **common))
    assert {"pos[0]=PROPN", "ner[0]=S-PER"} <= set(crf.weights.attributes())
    network = NeuralTagger.fit(tagged, None, FitOptions(config=neural_config, **common))
    assert list(network.vocabularies.features)[-2:] == ["pos", "ner"]
    network.propose(tagged, n_best=2)
    without = CrfTagger.fit(batch_of(notes, annotate=None), None, FitOptions(config=crf_config, **common))
    assert not any(name.startswith(("pos[", "ner[")) for name in without.weights.attributes())


def test_rules_ask_for_the_part_of_speech_whatever_their_templates(tmp_path: Path) -> None:
    templates = tmp_path / "few.toml"
    templates.write_text('name = "few"\ntemplates = ["word[0] & word[1]"]\n', encoding="utf-8")
    config = TbedConfig(initial="none", templates=str(templates), min_patients=2, cv_folds=0)
    common: dict[str, Any] = {"scheme": SCHEME, "config": config, "seed": 1, "device": "cpu", "progress": no_progress}
    names = ("Ann", "Bob", "Carla", "Hugo")
    notes = [Document(name, f"{name} saw it", (Span(0, len(name), "NAME"),), name) for name in names]
    tagger = TbedTagger.fit(batch_of(notes, annotate=by_spaces), None, FitOptions(**common))
    asked = {condition.window.column for rule in tagger.rules.rules for condition in rule.conditions}
    assert asked & {"pos", "ner"}
    assert [len(spans) for spans in tagger.propose(batch_of(notes, annotate=by_spaces), n_best=1).best] == [1] * 4
    # No two notes share a name, and without stanza the templates are what they are.
    assert not TbedTagger.fit(batch_of(notes, annotate=None), None, FitOptions(**common)).rules.rules


class CountingPipeline:
    """Tags as `by_spaces`, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, text: str) -> Any:
        self.asked += 1
        return doc.Document([[word(1, text, 0, "NOUN", "O")]], text=text)


def test_a_text_is_tagged_once_where_a_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert tag_store("v1") is None
    monkeypatch.setenv(VARIABLE, str(tmp_path / "tags"))
    pipeline = CountingPipeline()
    annotate = Annotator(pipeline, MODELS, tag_store("v1"))
    assert annotate("Ann") == annotate("Ann") == ((0, 3, "NOUN", "O"),)
    assert annotate("Bo\ud800") == annotate("Bo\ud800")
    assert pipeline.asked == 2
    files = sorted((tmp_path / "tags").rglob("*.json"))
    assert len(files) == 2
    assert not any("Ann" in path.read_text(encoding="utf-8") for path in files)
    if os.name == "posix":
        assert (tmp_path / "tags").stat().st_mode & 0o077 == 0
    Annotator(pipeline, MODELS, tag_store("v2"))("Ann")
    assert pipeline.asked == 3


@pytest.mark.parametrize(
    "content",
    ["", "3", "[[0, 1]]", '[[0, 9, "X", "O"]]', '[[1, 2, "X", "O"], [0, 1, "X", "O"]]', '[[0, 1, 5, "O"]]', "[" * 9999],
)
def test_damaged_tags_are_refused(content: str, tmp_path: Path) -> None:
    annotate = Annotator(CountingPipeline(), MODELS, TagStore(tmp_path))
    annotate("Ann")
    (path,) = tmp_path.rglob("*.json")
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"{path.name}: damaged; delete it"):
        annotate("Ann")


def test_the_version_is_that_of_every_file_of_the_models(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text(name, encoding="utf-8")
    config = {"pos_model_path": str(tmp_path / "a"), "ner_model_path": [str(tmp_path / "b")]}
    config["ner_dependencies"] = [{"charlm": str(tmp_path / "c"), "none": None}]
    seen = {models_version(models_hash(config), library) for library in ("1.0", "1.1")}
    assert len(seen) == 2
    for name in "abc":
        (tmp_path / name).write_text("other", encoding="utf-8")
        seen.add(models_version(models_hash(config), "1.0"))
    assert len(seen) == 5
    assert models_version(models_hash(config), "1.0") in seen


def test_a_model_knows_the_models_again_that_made_its_columns() -> None:
    StanzaModels("en", "a", "9.9").refuse_others(MODELS.to_record())
    said = r"stanza's models 'en' .* not the ones that the model was trained with \(by stanza 1.0; here is 9.9\)"
    with pytest.raises(ModelError, match=said):
        StanzaModels("en", "b", "9.9").refuse_others(MODELS.to_record())


def test_models_that_cannot_be_fetched_are_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A proxy that nobody runs: stanza's own download fails as it does without a network."""
    monkeypatch.setenv("STANZA_RESOURCES_DIR", str(tmp_path / "models"))
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    assert main(["research", "download", "stanza", "en"]) == 2
    said = capsys.readouterr().err
    assert "stanza's models 'en' cannot be fetched: the server cannot be reached" in said
    assert "Traceback" not in said
    assert not list(tmp_path.rglob("*.pt"))


def test_fetched_models_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setenv("STANZA_RESOURCES_DIR", str(tmp_path))
    monkeypatch.setattr("stanza.download", lambda language, **options: asked.update(language=language, **options))
    assert main(["research", "download", "stanza", "es/ancora"]) == 0
    assert (asked["language"], asked["package"], asked["model_dir"]) == ("es", "ancora", str(tmp_path))
    assert "--set text.stanza=es/ancora" in capsys.readouterr().out
    monkeypatch.setattr("stanza.download", lambda language, **options: {}["xx"])
    assert main(["research", "download", "stanza", "xx"]) == 2
    assert "there are none of that name" in capsys.readouterr().err
    assert main(["research", "download", "stanza", "../x"]) == 2
    assert "expected a language, or language/package" in capsys.readouterr().err


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
    with pytest.raises(ConfigError, match=r"text.stanza needs stanza, which is not installed: .*\[nlp\]"):
        load_pipeline("en")
