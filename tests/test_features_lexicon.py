"""The lexicon's columns, leaving a patient out, against a lexicon learned without that patient's notes."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.errors import ModelError
from ensemble_deid.features.batch import Batch, plain_batch, with_lexicon
from ensemble_deid.features.lexicon import Lexicon, learn_lexicon
from ensemble_deid.features.patterns import PatternSet
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

NO_PATTERNS = PatternSet("none", (), "")
WORDS = ["Ann", "ann", "Lee", "of", "York"]


def plain(documents: list[Document]) -> Batch:
    return plain_batch(documents, patterns=NO_PATTERNS, split_lines=False)


def fit_lexicon(documents: list[Document]) -> Lexicon:
    batch = plain(documents)
    return learn_lexicon(batch.documents, batch.tokens, batch.table["lower"].strings())


def columns(lexicon: Lexicon, documents: list[Document], *, leave_out: bool) -> list[tuple[list[str], list[str]]]:
    """Return (lexicon, known_word) of each document."""
    batch = with_lexicon(plain(documents), lexicon, leave_own_patient_out=leave_out)
    bounds = batch.tokens.document_starts.tolist()
    tags, known = batch.table["lexicon"].strings(), batch.table["known_word"].strings()
    return [(tags[a:b], known[a:b]) for a, b in itertools.pairwise(bounds)]


@st.composite
def corpora(draw: st.DrawFn) -> list[Document]:
    documents = []
    for d in range(draw(st.integers(1, 5))):
        words = draw(st.lists(st.sampled_from(WORDS), max_size=8))
        places, at = [], 0
        for word in words:
            places.append((at, at + len(word)))
            at += len(word) + 1
        spans, i = [], 0
        while i < len(words):
            size = draw(st.integers(0, 3))
            if size:
                last = min(i + size, len(words)) - 1
                spans.append(Span(places[i][0], places[last][1], draw(st.sampled_from(["CITY", "NAME"]))))
            i += max(1, size)
        documents.append(Document(f"d{d}", " ".join(words), tuple(spans), draw(st.sampled_from(["p", "q", "r", None]))))
    return documents


@settings(max_examples=60)
@given(corpora())
def test_leaving_the_own_patient_out_is_as_if_its_notes_were_not_there(documents: list[Document]) -> None:
    found = columns(fit_lexicon(documents), documents, leave_out=True)
    for document, here in zip(documents, found, strict=True):
        others = [other for other in documents if other.group != document.group]
        assert here == columns(fit_lexicon(others), [document], leave_out=False)[0]


@settings(max_examples=25)
@given(corpora())
def test_the_lexicon_survives_the_round_trip_as_the_same_text(documents: list[Document]) -> None:
    lexicon = fit_lexicon(documents)
    again = Lexicon.from_json(lexicon.to_json())
    assert (again.phrases, again.words) == (lexicon.phrases, lexicon.words)
    assert again.to_json() == lexicon.to_json() == fit_lexicon(documents[::-1]).to_json()


def test_counts_are_of_patients_and_only_words_of_phi_are_kept() -> None:
    documents = [
        Document("1", "Ann Ann came", (Span(0, 3, "NAME"),), "p"),
        Document("2", "Ann came", (Span(0, 3, "NAME"),), "p"),
        Document("3", "ann came", (), "q"),
    ]
    lexicon = fit_lexicon(documents)
    assert lexicon.phrases == {"ann": {"NAME": 1}}
    assert lexicon.words == {"ann": {"NAME": 1, "O": 2}}
    assert columns(lexicon, [Document("4", "Ann came")], leave_out=False) == [(["B-NAME", "O"], ["NAME:1", "-"])]


def test_the_longest_phrase_wins_and_the_next_begins_after_it() -> None:
    documents = [Document("1", "New York Lee York", (Span(0, 8, "CITY"), Span(9, 12, "NAME"), Span(13, 17, "NAME")))]
    tags, _ = columns(fit_lexicon(documents), [Document("2", "New York York Lee New")], leave_out=False)[0]
    assert tags == ["B-CITY", "I-CITY", "B-NAME", "B-NAME", "O"]


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"phrases": [[1]], "words": {}}', '{"phrases": [], "words": []}'])
def test_a_damaged_lexicon_is_a_model_error(damage: str) -> None:
    with pytest.raises(ModelError, match="lexicon is damaged"):
        Lexicon.from_json(damage)


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("strings", ["b", "a"]),
        ("strings", ["a", "a"]),
        ("strings", ["a", 1]),
        ("place", [0]),
        ("place", [0, 1]),
        ("place", [0, -1]),
        ("place", [0, 0.0]),
        ("counts", [{"NAME": "1"}]),
        ("counts", [{"NAME": True}]),
        ("counts", [1]),
        ("counts", [{}]),
    ],
)
def test_counts_that_do_not_fit_are_a_model_error(part: str, wrong: object) -> None:
    table = {"strings": ["a", "b"], "place": [0, 0], "counts": [{"NAME": 1}]}
    sound = Lexicon.from_json(json.dumps({"phrases": table, "words": table}))
    assert sound.words == {"a": {"NAME": 1}, "b": {"NAME": 1}}
    with pytest.raises(ModelError, match="lexicon is damaged"):
        Lexicon.from_json(json.dumps({"phrases": table, "words": {**table, part: wrong}}))


def test_a_truncated_lexicon_is_a_model_error() -> None:
    text = fit_lexicon([Document("1", "Ann", (Span(0, 3, "NAME"),))]).to_json()
    assert json.loads(text)
    for size in range(len(text)):
        with pytest.raises(ModelError):
            Lexicon.from_json(text[:size])
