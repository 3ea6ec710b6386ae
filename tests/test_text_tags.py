"""Spans to tags and back."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import drop_overlaps
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagLoss, TagScheme, entity_rows, spans_to_tags, tag_loss, tags_to_spans
from ensemble_deid.note.tokens import tokenize

SCHEME = TagScheme.from_labels(["NAME", "DATE", "NAME"])


def test_codes_are_the_places_of_the_tags() -> None:
    assert SCHEME.labels == ("DATE", "NAME")
    assert SCHEME.tags == ("O", "B-DATE", "I-DATE", "B-NAME", "I-NAME")
    for k, label in enumerate(SCHEME.labels):
        assert SCHEME.tags[SCHEME.begin(k)] == f"B-{label}"
        assert SCHEME.tags[SCHEME.inside(k)] == f"I-{label}"
        assert SCHEME.label_of(SCHEME.begin(k)) == SCHEME.label_of(SCHEME.inside(k)) == k
    labels = np.array([[0, 1], [1, 0]], dtype=np.int32)
    assert SCHEME.begin(labels).tolist() == [[1, 3], [3, 1]]
    assert SCHEME.inside(labels).tolist() == [[2, 4], [4, 2]]
    codes = np.arange(5, dtype=np.int32)
    assert SCHEME.label_of(codes).tolist() == [-1, 0, 0, 1, 1]
    assert SCHEME.begin(labels).dtype == SCHEME.label_of(codes).dtype == np.int32


@st.composite
def annotated(draw: st.DrawFn) -> list[Document]:
    """Documents whose spans begin and end with tokens and do not overlap."""
    documents = []
    for d in range(draw(st.integers(0, 3))):
        text = draw(st.text("aB1 .\n", max_size=25))
        tokens = tokenize([Document("x", text)])
        edges = sorted(draw(st.sets(st.integers(0, len(tokens)), max_size=6)))
        spans = [
            Span(int(tokens.start[a]), int(tokens.end[b - 1]), draw(st.sampled_from(SCHEME.labels)))
            for a, b in itertools.pairwise(edges)
            if draw(st.booleans())
        ]
        documents.append(Document(str(d), text, tuple(spans)))
    return documents


@given(annotated())
def test_spans_survive_the_round_trip(documents: list[Document]) -> None:
    tokens = tokenize(documents)
    encoded = spans_to_tags([document.spans for document in documents], tokens, SCHEME)
    assert (encoded.cut, encoded.lost) == (0, 0)
    assert tags_to_spans(encoded.codes, tokens, SCHEME) == [document.spans for document in documents]


@given(st.lists(st.text("ab \n", max_size=8), max_size=3), st.data())
def test_any_tags_read_as_spans_say_the_same_when_written_again(texts: list[str], data: st.DataObject) -> None:
    documents = [Document(str(i), text) for i, text in enumerate(texts)]
    tokens = tokenize(documents)
    codes = np.array([data.draw(st.integers(0, 4)) for _ in range(len(tokens))], dtype=np.int32)
    spans = tags_to_spans(codes, tokens, SCHEME)
    again = spans_to_tags(spans, tokens, SCHEME)
    assert tags_to_spans(again.codes, tokens, SCHEME) == spans
    # Whatever a tag calls PHI stays PHI, an orphan `I-` too.
    assert ((again.codes > 0) == (codes > 0)).all()


def test_an_orphan_inside_tag_opens_an_entity_and_none_crosses_a_document() -> None:
    documents = [Document("a", "a b c d"), Document("b", "e f")]
    tokens = tokenize(documents)
    codes = np.array([0, 2, 2, 4, 4, 2], dtype=np.int32)
    first, after, label = entity_rows(codes, tokens)
    rows = list(zip(first.tolist(), after.tolist(), label.tolist(), strict=True))
    assert rows == [(1, 3, 0), (3, 4, 1), (4, 5, 1), (5, 6, 0)]


def test_the_source_is_the_one_given() -> None:
    tokens = tokenize([Document("a", "a b")])
    spans = tags_to_spans(np.array([1, 3], np.int32), tokens, SCHEME, source="x")
    assert spans == [(Span(0, 1, "DATE", 1.0, "x"), Span(2, 3, "NAME", 1.0, "x"))]


def test_what_cannot_be_carried_is_counted() -> None:
    tokens = tokenize([Document("a", "abc 123")])
    inside = spans_to_tags([[Span(1, 2, "NAME")]], tokens, SCHEME)
    assert (inside.codes.tolist(), inside.cut, inside.lost) == ([3, 0], 1, 0)
    second = spans_to_tags([[Span(0, 1, "NAME"), Span(1, 3, "DATE")]], tokens, SCHEME)
    assert (second.codes.tolist(), second.cut, second.lost) == ([3, 0], 1, 1)
    space = spans_to_tags([[Span(3, 4, "NAME")]], tokens, SCHEME)
    assert (space.codes.tolist(), space.lost) == ([0, 0], 1)
    higher = spans_to_tags([[Span(0, 7, "NAME", 0.5), Span(4, 7, "DATE", 0.9)]], tokens, SCHEME)
    assert (higher.codes.tolist(), higher.lost) == ([0, 1], 1)


def test_a_label_outside_the_scheme_is_refused() -> None:
    with pytest.raises(ValueError, match="'AGE' is not in the scheme: DATE, NAME"):
        spans_to_tags([[Span(0, 1, "AGE")]], tokenize([Document("a", "x")]), SCHEME)


SPANS = st.builds(
    lambda start, size, label, score: Span(start, start + size, label, score / 4),
    st.integers(0, 20),
    st.integers(1, 8),
    st.sampled_from("AB"),
    st.integers(0, 4),
)


@given(st.lists(SPANS, max_size=15))
def test_dropping_overlaps_is_greedy_by_score_then_length(spans: list[Span]) -> None:
    kept: list[Span] = []
    for span in sorted(set(spans), key=lambda s: (-s.score, s.start - s.end, s.start, s.label, s.source)):
        if not any(span.overlaps(other) for other in kept):
            kept.append(span)
    assert drop_overlaps(spans) == tuple(sorted(kept))


def test_dropping_overlaps_from_many_spans_is_quick() -> None:
    spans = [Span(3 * i, 3 * i + 2, "A") for i in range(60_000)]
    assert drop_overlaps(spans) == tuple(spans)


def test_what_tags_cannot_express_is_counted() -> None:
    text = "Ada Lee 1/2 abcdef"
    spans = (
        Span(0, 3, "NAME"),
        Span(0, 7, "NAME"),  # longer than the first, which is lost
        Span(8, 11, "DATE"),
        Span(12, 14, "NAME"),  # cut: "ab" of "abcdef"
        Span(15, 18, "NAME"),  # lost: the token is taken
    )
    documents = [Document("a", text, spans), Document("b", "")]
    loss = tag_loss(documents, tokenize(documents))
    assert loss == TagLoss(spans=5, cut=1, lost=2)
    assert str(loss) == "1 of 5 spans begin or end inside a token, 2 cannot be tagged"
    assert tag_loss([], tokenize([])) == TagLoss(0, 0, 0)
