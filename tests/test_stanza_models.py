"""Stanza's pipeline run for real, on tiny models that its own trainers make here: tags, their store, a whole stack."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_stack
from tiny_notes import no_progress

from ensemble_deid.config import load_config
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.features.stanza_tags import VARIABLE, Annotator, load_pipeline, stanza_columns
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.note.document import Document
from ensemble_deid.note.tokens import tokenize
from ensemble_deid.training.train import train

stanza = pytest.importorskip("stanza", reason="stanza (the extra nlp) is not installed")
pytestmark = pytest.mark.long

TEXT = "Bob saw the nurse .\nthe clinic called Carla ."
POS = ["PROPN", "VERB", "DET", "NOUN", "PUNCT", "DET", "NOUN", "VERB", "PROPN", "PUNCT"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of stanza's resources with the package `tiny` of `en`."""
    folder = tmp_path_factory.mktemp("stanza")
    # In a process of its own: stanza's trainers leave files open, which is an error here.
    script = Path(__file__).with_name("tiny_stanza.py")
    subprocess.run([sys.executable, str(script), str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture
def pipeline(models: Path, monkeypatch: pytest.MonkeyPatch) -> Annotator:
    monkeypatch.setenv("STANZA_RESOURCES_DIR", str(models))
    return load_pipeline("en/tiny")


def stored(folder: Path) -> Iterator[Path]:
    return folder.rglob("*.json")


def test_its_tags_are_columns(pipeline: Annotator) -> None:
    documents = [Document("a", TEXT)]
    found = stanza_columns(documents, tokenize(documents), pipeline)
    assert found["pos"].strings() == POS
    assert len(found["ner"]) == len(POS)


def test_a_text_is_tagged_once_for_each_version_of_the_models(
    pipeline: Annotator, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "tags"))
    first = load_pipeline("en/tiny")
    assert first(TEXT) == pipeline(TEXT)
    (path,) = stored(tmp_path / "tags")
    assert not any(name in path.read_text(encoding="utf-8") for name in ("Bob", "Carla"))

    def never(text: str) -> Any:
        raise AssertionError("the text was tagged again")

    assert Annotator(never, first.models, first.store)(TEXT) == first(TEXT)
    assert load_pipeline("en/tiny").store == first.store
    # Other models have another store: their tags are never mixed.
    model = models / "en" / "ner" / "tiny.pt"
    whole = model.read_bytes()
    try:
        model.write_bytes(whole + b"\0")
        other = load_pipeline("en/tiny").store
    finally:
        model.write_bytes(whole)
    assert other is not None
    assert other != first.store
    path.write_text(json.dumps([[0, 99, "X", "O"]]), encoding="utf-8")
    with pytest.raises(ConfigError, match="damaged; delete it"):
        first(TEXT)


def test_rules_the_crf_and_the_network_learn_from_them_and_the_model_finds_them_again(
    pipeline: Annotator, models: Path, tmp_path: Path
) -> None:
    notes = tiny_stack.notes()
    patterns = tmp_path / "tiny.toml"
    patterns.write_text(tiny_stack.PATTERNS, encoding="utf-8")
    overrides = [f"{key}={value}" for key, value in tiny_stack.SETTINGS.items()]
    overrides += [f"regex.patterns='{patterns}'", "text.stanza='en/tiny'"]
    config = load_config(None, overrides=overrides, submodels=["regex", "tbed", "crf", "neural"], folds=2, jobs=1)
    trained = train(notes, config=config, notify=no_progress)
    taggers: dict[str, Any] = dict(trained.ensemble.taggers)
    assert any(name.startswith("pos[0]=") for name in taggers["crf"].weights.attributes())
    assert list(taggers["neural"].vocabularies.features)[-2:] == ["pos", "ner"]
    trained.save(tmp_path / "model")
    record = read_manifest(tmp_path / "model").choices["stanza"]
    assert record == {"name": "en/tiny", "models": pipeline.models.hash, "stanza": stanza.__version__}
    others = tiny_stack.notes(400, patients=2)
    again = Deidentifier.load(tmp_path / "model")
    assert list(again.predict(others)) == list(trained.deidentifier.predict(others))
    # Other models of the same name are not taken in their place.
    tagger = models / "en" / "pos" / "tiny.pt"
    whole = tagger.read_bytes()
    try:
        tagger.write_bytes(whole + b"\0")
        with pytest.raises(ModelError, match=r"model: stanza's models 'en/tiny' .* not the ones that the model was"):
            Deidentifier.load(tmp_path / "model")
    finally:
        tagger.write_bytes(whole)
