"""The closed vocabulary: against a slow count, and what a name that few patients have can change (nothing)."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_notes import PATTERNS
from tiny_stack import note

from ensemble_deid.errors import ModelError
from ensemble_deid.features.batch import Batch, plain_batch
from ensemble_deid.features.knowledge import read_knowledge
from ensemble_deid.features.lexicon import Lexicon, learn_lexicon
from ensemble_deid.features.vocabulary import (
    AFFIXES,
    HEADINGS,
    WORDS,
    Vocabulary,
    is_class,
    learn_vocabulary,
    patient_of_token,
    patients_by_value,
)
from ensemble_deid.note.document import Document

LEAST = 3
ENGLISH = "fever\t7\ngrace\t5\nhope\t6\nhospital\t7\n"


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lists")
    for name, text in (("english", ENGLISH), ("given", "grace\t4\nhope\t6\nanna\t9\n")):
        (folder / f"{name}.words").write_bytes(text.encode())
    return folder


def batch_of(documents: list[Document], lists: Path) -> Batch:
    return plain_batch(documents, patterns=PATTERNS, split_lines=True, knowledge=read_knowledge(lists))


def learned(batch: Batch) -> Vocabulary:
    return learn_vocabulary(batch.documents, batch.tokens, batch.table, min_patients=LEAST)


def everybody(*parts: str | tuple[str, str], patients: int = LEAST) -> list[Document]:
    return [note(f"{p}", *parts, patient=f"{p}") for p in range(patients)]


@pytest.mark.parametrize(
    ("parts", "word", "patients", "kept"),
    [
        (["zorb said"], "zorb", 3, True),
        (["zorb said"], "zorb", 2, False),
        ([("Zorb", "NAME"), " said"], "zorb", 3, False),
        # However public a word is, it does not count where it stands inside PHI.
        ([("Hospital", "PLACE"), " said"], "hospital", 3, False),
        (["the hospital and ", ("Hospital", "PLACE")], "hospital", 3, True),
        ([("Grace", "NAME"), " said"], "grace", 3, False),
        ([("Anna", "NAME"), " said"], "anna", 3, False),
        # More often a name than a word.
        ([("Hope", "NAME"), " said"], "hope", 3, False),
        (["in hope, he said"], "hope", 3, True),
        (["fever, he said"], "fever", 2, False),
        (["on ", ("3 March 2019", "DATE")], "march", 3, True),
        (["on ", ("3 March 2019", "DATE")], "march", 2, False),
        (["on ", ("3 March 2019", "DATE")], "2019", 3, False),
        (["on ", ("3 March 2019", "DATE")], "3", 3, False),
        (["since 2019, in ", ("March 2019", "DATE")], "2019", 3, True),
        (["call ", ("555-0143", "PHONE")], "0143", 3, False),
        (["call ", ("555-0143", "PHONE")], "-", 3, True),
    ],
)
def test_which_words_are_kept(
    lists: Path, parts: list[str | tuple[str, str]], word: str, patients: int, kept: bool
) -> None:
    batch = batch_of(everybody(*parts, patients=patients), lists)
    vocabulary = learned(batch)
    assert (word in vocabulary.values["lower"]) == kept
    closed = vocabulary.close(batch.table)["lower"].strings()
    original = batch.table["lower"].strings()
    assert all(
        (value == before) == (before in vocabulary.values["lower"])
        for value, before in zip(closed, original, strict=True)
    )
    assert all(is_class(value) for value, before in zip(closed, original, strict=True) if value != before)


def test_what_is_rare_keeps_its_shape_and_whether_it_is_listed(lists: Path) -> None:
    batch = batch_of([note("1", "Anna FEVER 4471923 x-Zorb")], lists)
    table = learned(batch).close(batch.table)
    expected = ["<rare:Xx>", "<listed:X>", "<rare:d>", "<rare:x>", "<listed:->", "<rare:Xx>"]
    assert table["word"].strings() == table["lower"].strings() == expected
    assert set(table["prefix3"].values) == set(table["suffix4"].values) == {"<rare>"}


def test_headings_are_kept_where_their_words_are(lists: Path) -> None:
    batch = batch_of(
        everybody("Fever: none\nZorb ", ("Anna", "NAME"), ": ill\n", ("Anna", "NAME"), ": ", ("Anna", "NAME")), lists
    )
    assert learned(batch).values["field"] == {"-", "fever"}
    assert set(learned(batch).close(batch.table)["field"].strings()) == {"-", "fever", "<rare>"}


WORDS_OF_NOTES = ("zorb", "Zorb", "quill", "grace", "Grace", "anna", "12", "4471923", ",")


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.lists(st.tuples(st.sampled_from(WORDS_OF_NOTES), st.booleans()), max_size=6)),
        max_size=8,
    )
)
def test_the_vocabulary_is_that_of_a_slow_count(lists: Path, drawn: list[tuple[int, list[tuple[str, bool]]]]) -> None:
    documents = []
    for number, (patient, words) in enumerate(drawn):
        parts = [part for word, inside in words for part in ((word, "NAME") if inside else word, " ")]
        documents.append(note(f"{number}", *parts, patient=f"p{patient}"))
    seen: dict[str, set[int]] = defaultdict(set)
    for patient, words in drawn:
        for word, inside in words:
            if not inside or word == ",":
                seen[word.lower()].add(patient)
    batch = batch_of(documents, lists)
    assert learned(batch).values["lower"] == {word for word, owners in seen.items() if len(owners) >= LEAST}


def test_patients_are_counted_once_for_each_value() -> None:
    codes, patient = np.array([0, 0, 1, 1, 2], np.int32), np.array([0, 0, 0, 1, 1])
    assert patients_by_value(codes, patient, n_values=4).tolist() == [1, 2, 1, 0]


def test_notes_of_unknown_patients_are_patients_of_their_own(lists: Path) -> None:
    batch = batch_of([note("a", "x"), note("b", "y", patient="p"), note("c", "z", patient="p")], lists)
    assert patient_of_token(batch.documents, batch.tokens).tolist() == [0, 1, 1]


def test_a_rare_name_changes_no_column_that_a_learner_reads(lists: Path) -> None:
    """Two names of one shape and length are the same to every learner: none can learn one rather than the other."""

    def table_with(name: str) -> dict[str, list[str]]:
        documents = [*everybody("he had fever"), note("x", "Mr. ", (name, "NAME"), " had fever", patient="x")]
        batch = batch_of(documents, lists)
        closed = learned(batch).close(batch.table)
        return {column: closed[column].strings() for column in closed.names}

    assert table_with("Zorbulak") == table_with("Wexiprod")


def lexicon_of(documents: list[Document], lists: Path) -> Lexicon:
    batch = batch_of(documents, lists)
    vocabulary = learned(batch)
    lower = vocabulary.close(batch.table)["lower"].strings()
    return learn_lexicon(batch.documents, batch.tokens, lower, vocabulary=vocabulary, min_patients=LEAST)


def test_the_lexicon_has_only_what_enough_patients_have(lists: Path) -> None:
    shared = everybody(("Grace Hospital", "PLACE"), " has grace and fever in hospital")
    own = note("x", ("Grace", "NAME"), " ", ("Fever Hospital", "PLACE"), " ", ("Anna", "NAME"), patient="x")
    lexicon = lexicon_of([*shared, own], lists)
    assert lexicon.phrases == {"grace hospital": {"PLACE": 3}}
    assert lexicon.words == {"grace": {"O": 3, "PLACE": 3}, "hospital": {"O": 3, "PLACE": 4}}
    again = Lexicon.from_json(lexicon.to_json())
    assert again.to_json() == lexicon.to_json()


def test_the_vocabulary_survives_the_disk(lists: Path) -> None:
    vocabulary = learned(batch_of(everybody("he had fever"), lists))
    assert Vocabulary.from_json(vocabulary.to_json()).values == vocabulary.values
    assert vocabulary.allows("lower", "fever")
    assert vocabulary.allows("lower", "<rare:Xx>")
    assert vocabulary.allows("short_shape", "Xx")
    assert not vocabulary.allows("lower", "zorb")


NUMBERS = {name: [1] for name in (*WORDS, *AFFIXES, *HEADINGS)}


@pytest.mark.parametrize("content", [None, [], {}, NUMBERS, {"word": ["a"]}])
def test_a_damaged_vocabulary_is_refused(content: object) -> None:
    with pytest.raises(ModelError, match="the vocabulary is damaged"):
        Vocabulary.from_json(content)
