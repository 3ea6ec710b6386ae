"""Our recognizer in Presidio's own analyzer engine, alone and beside one of Presidio's."""

from pathlib import Path

import pytest
import tiny_stack

from ensemble_deid import CorpusError, Deidentifier

pytest.importorskip("presidio_analyzer", reason="presidio-analyzer is not installed (extra presidio)")
from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
from presidio_analyzer.nlp_engine import NoOpNlpEngine
from presidio_analyzer.predefined_recognizers import EmailRecognizer

from ensemble_deid.deidentify.recognizers import Recognizer
from ensemble_deid.integrations.presidio import EnsembleRecognizer

NOTE = tiny_stack.notes(700, patients=1)[0]
PRESIDIO = {"PATIENT": "PERSON", "DOCTOR": "PERSON", "CITY": "LOCATION", "DATE": "DATE_TIME"}


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Deidentifier:
    return Deidentifier.load(tiny_model)


def engine(*recognizers: object) -> AnalyzerEngine:
    registry = RecognizerRegistry(recognizers=list(recognizers), supported_languages=["en"])
    nlp_engine = NoOpNlpEngine([{"lang_code": "en", "model_name": ""}])
    return AnalyzerEngine(registry=registry, nlp_engine=nlp_engine, supported_languages=["en"])


def test_entity_types_and_offsets(model: Deidentifier) -> None:
    results = engine(EnsembleRecognizer(model)).analyze(NOTE.text, "en")
    found = sorted((result.start, result.end, result.entity_type) for result in results)
    assert found == [(span.start, span.end, PRESIDIO[span.label]) for span in NOTE.spans]
    scores = {span.start: span.score for span in model.predict([NOTE])[0].spans}
    assert {result.start: result.score for result in results} == scores


def test_only_what_is_asked_for(model: Deidentifier, tiny_model: Path) -> None:
    recognizer = EnsembleRecognizer(str(tiny_model), label_map={"CITY": "TOWN"})
    analyzer = engine(recognizer)
    assert sorted(analyzer.get_supported_entities("en")) == ["DATE_TIME", "PERSON", "TOWN"]
    (town,) = analyzer.analyze(NOTE.text, "en", entities=["TOWN"])
    assert NOTE.text[town.start : town.end] == "Lyndale"
    assert town.recognition_metadata["recognizer_name"] == "EnsembleRecognizer"
    strict = engine(EnsembleRecognizer(model, threshold=1.0, accept_unfit=True))
    assert strict.analyze(NOTE.text, "en") == []


def test_data_in_rtf_is_always_returned(model: Deidentifier) -> None:
    data = "{\\*\\themedata " + "504b0304" * 20 + "}"
    text = "{\\rtf1 " + NOTE.text + data + "}"
    for entities in (None, ["PERSON"]):
        found = engine(EnsembleRecognizer(model)).analyze(text, "en", entities=entities)
        places = [text[result.start : result.end] for result in found if result.entity_type == "RTF-DATA"]
        assert places == [data]


def test_renamed_labels_and_those_of_recognizers_are_supported(model: Deidentifier) -> None:
    def badges(text: str) -> list[tuple[int, int, str]]:
        return [(0, 9, "BADGE")]

    of_site = Recognizer(name="badges", find=badges, labels=frozenset({"BADGE"}))
    recognizer = EnsembleRecognizer(model, rename={"CITY": "TOWN"}, recognizers=[of_site])
    found = {result.entity_type for result in engine(recognizer).analyze(f"UPX-55555 {NOTE.text}", "en")}
    assert {"TOWN", "BADGE"} <= found


def test_the_decision_process_is_our_explanation(model: Deidentifier) -> None:
    analyzer = engine(EnsembleRecognizer(model, explanations=True))
    results = analyzer.analyze(NOTE.text, "en", return_decision_process=True)
    date = next(result.analysis_explanation for result in results if result.entity_type == "DATE_TIME")
    assert date.pattern_name == "slashed date"
    assert date.textual_explanation.startswith("label DATE, predicted by ")
    assert "pattern slashed date" in date.textual_explanation
    assert "regex: confidence " in date.textual_explanation
    assert date.score == date.original_score
    surfaces = {NOTE.text[span.start : span.end] for span in NOTE.spans}
    said = "\n".join(result.analysis_explanation.textual_explanation for result in results)
    assert not any(surface in said for surface in surfaces)
    short = engine(EnsembleRecognizer(model)).analyze(NOTE.text, "en", return_decision_process=True)
    assert "confidence" not in short[0].analysis_explanation.textual_explanation
    assert analyzer.analyze(NOTE.text, "en")[0].analysis_explanation is None


def test_beside_a_recognizer_of_presidio(model: Deidentifier) -> None:
    analyzer = engine(EnsembleRecognizer(model), EmailRecognizer())
    text = "Date: 03/04/2019, anna.bell@example.com"
    found = {(result.entity_type, text[result.start : result.end]) for result in analyzer.analyze(text, "en")}
    assert {("DATE_TIME", "03/04/2019"), ("EMAIL_ADDRESS", "anna.bell@example.com")} <= found


def test_a_text_that_cannot_be_processed_is_an_error(model: Deidentifier) -> None:
    with pytest.raises(CorpusError, match="character 4 of the text is NUL"):
        engine(EnsembleRecognizer(model)).analyze("Anna\0Bell", "en")
