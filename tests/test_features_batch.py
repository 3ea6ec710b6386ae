"""A batch's columns against slow and obvious ones, and a part of a batch against the batch of that part."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.features.batch import Batch, plain_batch, select_documents
from ensemble_deid.features.columns import (
    case_class,
    digit_class,
    length_class,
    position_columns,
    shape,
    short_shape,
    word_columns,
)
from ensemble_deid.features.patterns import PatternSet, parse_patterns
from ensemble_deid.features.table import Column, FeatureTable
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.note.tokens import tokenize

PATTERNS = parse_patterns(
    """
    name = "tiny"
    [[pattern]]
    name = "doctor"
    label = "NAME"
    regex = 'Dr\\. (\\w+)'
    group = 1
    [[pattern]]
    name = "number"
    label = "ID"
    regex = '\\d+'
    [[pattern]]
    name = "at"
    label = "PLACE"
    regex = 'at (\\w+)'
    group = 1
    """
)
TEXTS = st.lists(
    st.sampled_from(["Dr. Ann", "Ann", "ANN", "at Ann", "Name:", "42", "Bob", "saw", ".", "\n", "Dr. 42", "at Bob"]),
    max_size=10,
).map(" ".join)


def batch_of(*texts: str, patterns: PatternSet = PATTERNS, split_lines: bool = True) -> Batch:
    documents = [Document(f"d{i}", text) for i, text in enumerate(texts)]
    return plain_batch(documents, patterns=patterns, split_lines=split_lines)


def strings(batch: Batch) -> dict[str, list[str]]:
    return {name: batch.table[name].strings() for name in batch.table.names}


@settings(max_examples=40)
@given(st.lists(TEXTS, min_size=1, max_size=4), st.data())
def test_some_documents_of_a_batch_are_the_batch_of_those_documents(texts: list[str], data: st.DataObject) -> None:
    batch = batch_of(*texts)
    chosen = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=5))
    part = select_documents(batch, chosen)
    expected = plain_batch([batch.documents[d] for d in chosen], patterns=PATTERNS, split_lines=True)
    assert (part.documents, part.initial) == (expected.documents, expected.initial)
    for name in ("start", "end", "document", "line", "sentence", "document_starts"):
        mine, wanted = getattr(part.tokens, name), getattr(expected.tokens, name)
        assert mine.dtype == wanted.dtype == np.int32
        assert mine.tolist() == wanted.tolist()
    assert strings(part) == strings(expected)


@settings(max_examples=40)
@given(st.lists(TEXTS, max_size=3))
def test_the_same_word_elsewhere_in_the_note_tells_its_commonest_label(texts: list[str]) -> None:
    batch = batch_of(*texts)
    words, initial, documents = batch.table["word"].strings(), batch.table["initial"].strings(), batch.tokens.document
    expected = []
    for i, word in enumerate(words):
        counts = Counter(
            initial[j][2:]
            for j, other in enumerate(words)
            if documents[j] == documents[i] and other.lower() == word.lower() and initial[j] != "O"
            if case_class(other) in ("title", "upper", "mixed")
        )
        named = len(word) >= 3 and case_class(word) in ("title", "upper", "mixed")
        best = min(counts, key=lambda label: (-counts[label], label)) if named and counts else "-"
        expected.append(best)
    assert batch.table["in_note"].strings() == expected


def test_patterns_give_initial_tags_and_names() -> None:
    batch = batch_of("Dr. 42 at home", "x")
    assert batch.table["word"].strings() == ["Dr", ".", "42", "at", "home", "x"]
    assert batch.table["initial"].strings() == ["O", "O", "B-NAME", "O", "B-PLACE", "O"]
    # The first pattern wins where two match, as it does among the initial spans.
    assert batch.table["pattern"].strings() == ["-", "-", "doctor", "-", "at", "-"]
    assert batch.initial == ((Span(4, 6, "NAME", 1.0, "doctor"), Span(10, 14, "PLACE", 1.0, "at")), ())


def test_a_match_of_white_space_alone_is_none() -> None:
    patterns = parse_patterns('[[pattern]]\nname = "gap"\nlabel = "NAME"\nregex = "\\\\s+"\n')
    assert batch_of("a b \n", patterns=patterns).initial == ((),)


@pytest.mark.parametrize("texts", [(), ("",), (" \n", "")])
def test_nothing_to_read_makes_empty_columns(texts: tuple[str, ...]) -> None:
    batch = batch_of(*texts)
    assert {len(batch.table[name]) for name in batch.table.names} == {0}
    assert select_documents(batch, range(len(texts))).documents == batch.documents
    assert batch.gold(TagScheme(("NAME",))).tolist() == []


def test_no_text_in_reprs() -> None:
    assert "Ann" not in repr(batch_of("Dr. Ann"))
    assert "Ann" not in repr(batch_of("Dr. Ann").table)


def test_places_in_sentence_and_line() -> None:
    documents = [Document("a", "He came. She-1 left\nName: x")]
    columns = position_columns(documents, tokenize(documents, split_lines=True))
    assert columns["position_in_line"].strings() == ["0", "1", "2", "3", "4-5", "4-5", "6-8", "0", "1", "2"]
    assert columns["sentence_length"].strings() == ["3"] * 3 + ["4-5"] * 4 + ["3"] * 3
    spaced = ["spaced", "spaced", "glued", "spaced", "glued", "glued", "spaced", "spaced", "glued", "spaced"]
    assert columns["spaced"].strings() == spaced
    assert columns["field"].strings()[-1] == columns["line_prefix"].strings()[-1] == "name"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("McCoy", ("XxXxx", "XxXx", "5", "none", "mixed")),
        ("ANN", ("XXX", "X", "3", "none", "upper")),
        ("A", ("X", "X", "1", "none", "initial")),
        ("Álvaro", ("Xxxxxx", "Xx", "6", "none", "title")),
        ("2019", ("dddd", "d", "4", "year", "none")),
        ("1066", ("dddd", "d", "4", "digits4", "none")),
        ("31", ("dd", "d", "2", "day", "none")),
        ("32", ("dd", "d", "2", "digits2", "none")),
        ("123456789012", ("d" * 12, "d", "10+", "digits10", "none")),
        ("-", ("-", "-", "1", "none", "none")),
    ],
)
def test_word_features(word: str, expected: tuple[str, ...]) -> None:
    assert (shape(word), short_shape(word), length_class(word), digit_class(word), case_class(word)) == expected


@given(st.lists(st.sampled_from(["Ann", "ANN", "ann", "annabel", "42", "x"]), max_size=8))
def test_word_columns_are_computed_per_word_and_gathered(words: list[str]) -> None:
    columns = word_columns(Column.from_strings(words))
    for n in (2, 3, 4):
        assert columns[f"prefix{n}"].strings() == [word[:n].lower() for word in words]
        assert columns[f"suffix{n}"].strings() == [word[-n:].lower() for word in words]
    for column in columns.values():
        assert len(set(column.values)) == len(column.values)
        assert len(column) == len(words)


def test_columns_look_up_a_models_own_vocabulary() -> None:
    column = Column.from_strings(["b", "a", "b", "c"])
    assert column.lookup({"a": 7, "b": 9}, unknown=1).tolist() == [9, 7, 9, 1]
    assert Column.from_strings([]).lookup({"a": 7}, unknown=1).tolist() == []
    assert column.map_values(lambda value: "x" if value < "c" else "y").values == ("x", "y")


def test_a_missing_feature_names_those_there_are() -> None:
    with pytest.raises(KeyError, match="no feature 'b'; there are: a"):
        FeatureTable({"a": Column.from_strings("xy")})["b"]
