"""The German notes of `docs/new-language.md`, and what a model of German notes takes from the code."""

from pathlib import Path

import pytest

from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.deidentify.gate import Gate
from ensemble_deid.features.columns import load_stemmer
from ensemble_deid.features.pattern_text import failed_examples
from ensemble_deid.features.patterns import find_all, read_patterns
from ensemble_deid.note.completion import RULES, complete, rules_for
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import I2B2_TYPES
from ensemble_deid.note.language import languages_of
from ensemble_deid.note.span import Span
from ensemble_deid.note.tokens import tokenize
from tools.reserved_values import unreserved_value
from tools.unmarked import unmarked_forms, unmarked_repeats

FOLDER = Path(__file__).parents[1] / "data" / "german"
NOTES = {part: read_corpus(FOLDER / f"{part}.jsonl", gold=True).documents for part in ("train", "dev", "test")}
ALL = [note for notes in NOTES.values() for note in notes]
# Words that are a name and something else in one note.
EXCUSED = ("Brandt", "Morgen", "Winter", "Kurz", "Li", "Klein", "Sommer", "Lang")


def test_parts_share_no_patient_and_test_notes_are_of_sites_without_training_notes() -> None:
    assert {part: len(notes) for part, notes in NOTES.items()} == {"train": 32, "dev": 8, "test": 8}
    patients = [{note.group for note in notes} for notes in NOTES.values()]
    assert sum(map(len, patients)) == len(set.union(*patients))
    sites = {part: {note.site for note in notes} for part, notes in NOTES.items()}
    assert sites["test"].isdisjoint(sites["train"])
    assert {name: sum(note.site == name for note in ALL) for name in set.union(*sites.values())} == {
        f"G0{k}": 6 for k in range(1, 9)
    }


@pytest.mark.parametrize("note", ALL, ids=lambda note: note.id)
def test_a_note_is_marked_as_the_guide_says(note: Document) -> None:
    assert 10 <= len(note.text.splitlines()) <= 25
    for span in note.spans:
        surface = note.text[span.start : span.end]
        assert span.label in I2B2_TYPES
        assert surface == surface.strip()
        assert unreserved_value(span.label, surface) is None
    assert not list(unmarked_repeats(note.text, note.spans, excused=EXCUSED))
    assert not list(unmarked_forms(note.text, note.spans, excused=()))


def test_the_weak_patterns_find_their_examples() -> None:
    patterns = read_patterns(FOLDER / "patterns.toml")
    assert len(patterns.patterns) == 15
    note = Document("a", "Frau Dr. med. Maike Kerner am 03.02.2074, Tel. 030 23125 480")
    assert [problem for pattern in patterns.patterns for problem in failed_examples(pattern)] == []
    found = [(note.text[span.start : span.end], span.label) for span in sorted(find_all(patterns, note))]
    assert found == [("Maike Kerner", "DOCTOR"), ("03.02.2074", "DATE"), ("030 23125 480", "PHONE")]


def test_a_german_model_takes_german_notes() -> None:
    languages = languages_of(ALL)
    assert languages == ("de",)
    assert [note.id for note in ALL if Gate(languages, None).check(note.text)] == []
    assert load_stemmer("german")("Befunde") == load_stemmer("german")("Befund")


def test_umlauts_are_letters() -> None:
    note = Document("a", "Frau Sönnichsen, 3. März")
    assert tokenize([note]).words([note]) == ["Frau", "Sönnichsen", ",", "3", ".", "März"]


@pytest.mark.parametrize(
    "text", ["Frau [Abdallah] von der Grundschule", "Mutter von [Noam]", "sah der [Schorschi] den Arzt"]
)
def test_articles_and_prepositions_stay_outside_german_names(text: str) -> None:
    start, end = text.index("["), text.index("]") - 1
    note = text.replace("[", "").replace("]", "")
    spans = (Span(start, end, "PATIENT"),)
    assert complete(note, spans, ["PATIENT"], rules_for(("de",))) == spans
    assert complete(note, spans, ["PATIENT"], rules_for(("en",))) != spans


def test_models_of_other_languages_keep_all_rules() -> None:
    assert rules_for(()) == rules_for(("en",)) == rules_for(("es", "en")) == RULES
