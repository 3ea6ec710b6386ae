"""The model as a user of the library holds it."""

from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
import tiny_stack

import ensemble_deid
from ensemble_deid import DeidentificationResult, Deidentifier, Document, Span
from ensemble_deid.errors import ConfigError, CorpusError, ModelError
from ensemble_deid.experiments.train import Trained
from ensemble_deid.pipeline.directory import load_model
from ensemble_deid.stacking.dataset import StackingDataset

NOTE = tiny_stack.notes(700, patients=1)[0]


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Deidentifier:
    return Deidentifier.load(str(tiny_model))


def test_what_is_found_is_taken_out(model: Deidentifier) -> None:
    result = model.deidentify(NOTE.text)
    assert isinstance(result, DeidentificationResult)
    assert [span.key for span in result.spans] == [span.key for span in NOTE.spans]
    assert all(0 < span.score <= 1 for span in result.spans)
    assert result.text == (
        "Patient: [PATIENT]\nDate: [DATE]\nCity: [CITY]\n\nSeen by Dr. [DOCTOR] for chest pain. BP 120/80.\n"
        "Back on [DATE].\n"
    )


def test_styles(model: Deidentifier) -> None:
    assert len(model.deidentify(NOTE.text, style="mask").text) == len(NOTE.text)
    assert "Date: \nCity: \n" in model.deidentify(NOTE.text, style="remove").text
    with pytest.raises(ValueError, match="tag, mask, remove"):
        model.deidentify(NOTE.text, style="surprise")


@pytest.mark.parametrize("text", ["", " \n", "x", "\r\n\r"])
def test_texts_of_next_to_nothing(model: Deidentifier, text: str) -> None:
    assert model.deidentify(text) == DeidentificationResult(text, ())


@pytest.mark.parametrize("text", ["Anna\0Bell", "Anna \ud800", "\udfff"])
def test_texts_that_were_not_decoded_rightly_are_refused(model: Deidentifier, text: str) -> None:
    with pytest.raises(CorpusError, match="not decoded rightly") as raised:
        model.deidentify(text)
    assert "Anna" not in str(raised.value)


def test_predicting_keeps_the_documents_and_leaves_their_own_spans(model: Deidentifier) -> None:
    stray = Document("a", NOTE.text, (Span(0, 7, "DATE"),), patient_id="p", metadata={"kind": "letter"})
    (found,) = model.predict([stray])
    assert (found.id, found.text, found.patient_id, found.metadata) == ("a", NOTE.text, "p", {"kind": "letter"})
    assert [span.key for span in found.spans] == [span.key for span in NOTE.spans]
    assert model.predict([]) == []
    assert model.predict([found])[0].spans == found.spans


def test_submodels_and_thresholds(model: Deidentifier) -> None:
    dates = [span for span in NOTE.spans if span.label == "DATE"]
    (by_regex,) = model.predict([NOTE], submodel="regex")
    assert [span.key for span in by_regex.spans] == [span.key for span in dates]
    (everything,) = model.predict([NOTE], threshold=0.0)
    (nothing,) = model.predict([NOTE], threshold=1.0)
    assert len(everything.spans) > len(NOTE.spans)
    assert nothing.spans == ()
    with pytest.raises(ConfigError, match="no submodel 'rgx'"):
        model.predict([NOTE], submodel="rgx")


def test_loading_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such model directory"):
        Deidentifier.load(tmp_path / "nowhere")


def test_nothing_shows_text_or_words(tiny_model: Path, model: Deidentifier) -> None:
    """Words of notes live in documents, the lexicon, vocabularies, rules and statistics: no repr shows them."""
    ensemble, manifest = load_model(tiny_model)
    result, (found,) = model.deidentify(NOTE.text), model.predict([NOTE])
    trained = Trained(ensemble, StackingDataset.load(tiny_model / "private"), manifest, {})
    batch = ensemble.feature_extractor.extract([NOTE])
    shown = [
        model,
        ensemble,
        result,
        found,
        trained,
        trained.stacking_dataset,
        batch,
        ensemble.feature_extractor,
        ensemble.stacker,
    ]
    shown += [ensemble.feature_extractor.lexicon, ensemble.stacker.statistics, ensemble.stacker.svm, batch.table]
    shown += [ensemble.taggers[name] for name in ("regex", "crf", "neural")]
    words = {"anna", "bell", "lyndale", "gale", "chest", "pain", "frost", "marbury"}
    for thing in shown:
        assert not words & set(repr(thing).lower().replace("'", " ").split()), type(thing)


def test_what_is_public_can_be_had() -> None:
    for name in ensemble_deid.__all__:
        assert getattr(ensemble_deid, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Surrogates'"):
        _ = ensemble_deid.Surrogates
    assert is_dataclass(DeidentificationResult)
    assert [field.name for field in fields(DeidentificationResult)] == ["text", "spans"]
