"""The model as a user of the library holds it."""

from pathlib import Path
from typing import Any

import pytest
import tiny_stack

from ensemble_deid import DeidentificationResult, Deidentifier, Document, Span
from ensemble_deid.deidentify.one_pass import finish_together
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.replacement import Replacement, Replacer
from ensemble_deid.errors import ConfigError, CorpusError, DeidError, ModelError
from ensemble_deid.evaluation.curve import trace_curve
from ensemble_deid.model.loading import load_model
from ensemble_deid.stacking.dataset import StackingDataset
from ensemble_deid.training.train import Trained
from ensemble_deid.training.training_points import TrainingPoints

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
    with pytest.raises(ConfigError, match="tag, numbered, mask, remove"):
        model.deidentify(NOTE.text, style="surprise")
    with pytest.raises(ConfigError, match="tag, numbered, mask, remove"):
        model.pipe([NOTE.text], style="surprise")


@pytest.mark.parametrize("text", ["", " \n", "x", "\r\n\r"])
def test_texts_of_next_to_nothing(model: Deidentifier, text: str) -> None:
    assert model.deidentify(text) == DeidentificationResult(text, ())


NO_TEXTS = {
    "Anna\0Bell": "character 4 of the text is NUL, which no note may hold",
    "Anna \ud800": "character 5 of the text is half of a surrogate pair",
    None: "the text must be a string, not NoneType",
    float("nan"): "the text is NaN, a missing value: leave such notes out",
    b"Anna": "the text must be a string, not bytes",
    7: "the text must be a string, not int",
}


@pytest.mark.parametrize("text", NO_TEXTS, ids=ascii)
def test_what_is_no_text_is_refused_alike(model: Deidentifier, text: Any) -> None:
    said = NO_TEXTS[text]
    with pytest.raises(CorpusError) as raised:
        model.deidentify(text)
    assert str(raised.value) == f"the text: {said}"
    with pytest.raises(CorpusError) as raised:
        model.predict([NOTE, Document("a", text)])
    assert str(raised.value) == f"a: {said}"
    before, bad, after = model.pipe([NOTE.text, text, NOTE.text])
    assert bad == DeidentificationResult(None, (), f"texts[1]: {said}")
    assert before == after == model.deidentify(NOTE.text)


def test_what_is_no_list_of_texts_is_refused(model: Deidentifier) -> None:
    with pytest.raises(CorpusError, match="pipe takes several texts, not one string"):
        model.pipe(NOTE.text)
    with pytest.raises(CorpusError, match="a note must be a Document, not str"):
        model.predict(NOTE.text)  # type: ignore[arg-type]


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan"), float("inf"), "0.5"])
def test_a_threshold_that_is_no_probability_is_refused_alike(model: Deidentifier, threshold: Any) -> None:
    said = "a threshold must be a number from 0 to 1"
    for call, given in ((model.predict, [NOTE]), (model.deidentify, NOTE.text), (model.pipe, [NOTE.text])):
        with pytest.raises(ConfigError, match=said):
            call(given, threshold=threshold)
    with pytest.raises(ConfigError, match=said):
        model.predict([NOTE], submodel="regex", threshold=threshold)


@pytest.mark.parametrize("options", [{}, {"batch_size": 5}, {"batch_size": 5, "jobs": 2}], ids=str)
def test_results_come_in_order_whatever_the_batches(model: Deidentifier, options: dict[str, int]) -> None:
    texts = [f"Date: 0{k % 9 + 1}/04/2019\nNote {k}.\n" for k in range(20)]
    texts[3] = texts[17] = "\0"
    results = list(model.pipe(iter(texts), **options))
    assert [result.text for result in results] == [
        None if text == "\0" else f"Date: [DATE]\nNote {k}.\n" for k, text in enumerate(texts)
    ]
    assert [k for k, result in enumerate(results) if result.error] == [3, 17]
    assert list(model.pipe([], **options)) == []


def test_a_text_that_fails_is_withheld_and_not_quoted(model: Deidentifier, monkeypatch: pytest.MonkeyPatch) -> None:
    def bad(_: Replacer, document: Document, **_options: object) -> Replacement:
        if "Lyndale" in document.text:
            raise ValueError(document.text)
        return Replacement("clean")

    monkeypatch.setattr(Replacer, "replace", bad)
    results = list(model.pipe([NOTE.text, "fine"]))
    failure = "texts[0]: replacement failed (ValueError)"
    assert results == [DeidentificationResult(None, (), failure), DeidentificationResult("clean", ())]
    with pytest.raises(CorpusError, match="the text: replacement failed") as raised:
        model.deidentify(NOTE.text)
    assert "Lyndale" not in str(raised.value)


@pytest.mark.parametrize("error", [ConfigError, CorpusError])
def test_any_error_of_a_replacement_withholds_that_text_alone(
    model: Deidentifier, monkeypatch: pytest.MonkeyPatch, error: type[DeidError]
) -> None:
    def bad(_: Replacer, document: Document, **_options: object) -> Replacement:
        if "Lyndale" in document.text:
            raise error("names.txt: cannot be read")
        return Replacement("clean")

    monkeypatch.setattr(Replacer, "replace", bad)
    first, second = model.pipe([NOTE.text, "fine"])
    assert first == DeidentificationResult(None, (), "texts[0]: replacement failed: names.txt: cannot be read")
    assert second.text == "clean"
    (outcome,) = finish_together([NOTE], RunOptions(), None)
    assert outcome.error == f"{NOTE.id}: replacement failed: names.txt: cannot be read"


@pytest.mark.parametrize(("patients", "message"), [(["7"], "has no patient"), (["7", "8", "9"], "more patients")])
def test_every_text_has_its_patient(model: Deidentifier, patients: list[str], message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        list(model.pipe(["Well.", "Fine."], patients=patients))
    assert len(list(model.pipe(["Well.", "Fine."], patients=["7", "7"]))) == 2


def test_thresholds_change_what_is_taken_out(model: Deidentifier) -> None:
    assert model.deidentify(NOTE.text, threshold=1.0, accept_unfit=True).spans == ()
    (everything,) = model.pipe([NOTE.text], threshold=0.0)
    (predicted,) = model.predict([NOTE], threshold=0.0)
    # Repeats of single words are found, too.
    assert all(any(s.start <= p.start and p.end <= s.end for s in everything.spans) for p in predicted.spans)


def test_a_gpu_that_is_not_there_is_said_at_once(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="torch sees no GPU here; use auto or cpu"):
        Deidentifier.load(tiny_model, device="cuda")
    with pytest.raises(ConfigError, match="device"):
        Deidentifier.load(tiny_model, device="gpu")


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
    dataset = StackingDataset.load(tiny_model / "private")
    trained = Trained(ensemble, dataset, manifest, {}, TrainingPoints((), "f1", 15, False, trace_curve([NOTE], [NOTE])))
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
