"""Confidences of patterns and rules, and the spans of what a chain decoded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.errors import ModelError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.note.tokens import tokenize
from ensemble_deid.taggers.confidence import SourceConfidence
from ensemble_deid.taggers.decoding import Decoded, SequenceSpan
from ensemble_deid.taggers.sequences import chain_proposals, merge_lines, sequence_of_rows

SCHEME = TagScheme(("A", "B"))


def test_a_source_is_believed_by_its_share_of_right_spans() -> None:
    found = [(Span(0, 1, "A", 1.0, "x"), Span(2, 3, "A", 1.0, "x"), Span(4, 5, "B", 1.0, "y")), ()]
    gold = [(Span(0, 1, "A"), Span(4, 5, "A")), (Span(0, 1, "A"),)]
    confidence = SourceConfidence.measured(found, gold)
    assert dict(confidence.counts) == {"x": (1, 2), "y": (0, 1)}
    assert [confidence.score(source) for source in ("x", "y", "never seen")] == [2 / 4, 1 / 3, 1 / 2]
    assert [span.score for span in confidence.scored(found[0])] == [2 / 4, 2 / 4, 1 / 3]
    assert SourceConfidence.from_json(confidence.to_json()) == confidence


@pytest.mark.parametrize("text", ["", "[]", '{"x": 1}', '{"x": [1]}', '{"x": [2, 1]}', '{"x": [-1, 1]}', '{"x": "ab"}'])
def test_a_damaged_table_is_a_model_error(text: str) -> None:
    with pytest.raises(ModelError, match="table of confidences is damaged"):
        SourceConfidence.from_json(text)


def test_an_entity_over_a_sequence_end_is_one_span_as_sure_as_its_weakest_part() -> None:
    tokens = tokenize([Document("a", "w w w w"), Document("b", "w")])
    candidates = [SequenceSpan(1, 2, 0, 0.9), SequenceSpan(2, 4, 0, 0.6), SequenceSpan(2, 3, 0, 0.2)]
    phi, label = np.array([0.0, 0.9, 0.6, 0.6, 0.7], np.float32), np.array([1, 0, 0, 0, 1], np.int16)
    found = [*candidates, SequenceSpan(4, 5, 1, 0.7)]
    decoded = Decoded(np.array([0, 1, 2, 2, 3], np.int32), phi, label, found)
    proposals = chain_proposals(decoded, tokens, SCHEME, source="s")
    whole = Span(2, 7, "A", 0.6, "s")
    assert proposals.best == ((whole,), (Span(0, 1, "B", 0.7, "s"),))
    parts = {Span(2, 3, "A", 0.9, "s"), Span(4, 7, "A", 0.6, "s"), Span(4, 5, "A", 0.2, "s")}
    assert set(proposals.candidates[0]) == {whole, *parts}
    assert [scores.phi.tolist() for scores in proposals.tokens] == [phi[:4].tolist(), phi[4:].tolist()]
    assert [scores.label.tolist() for scores in proposals.tokens] == [[1, 0, 0, 0], [1]]


@given(st.lists(st.lists(st.integers(0, 6), max_size=6), max_size=4), st.integers(1, 8))
def test_sequences_are_whole_lines_merged_while_they_fit(notes: list[list[int]], most: int) -> None:
    documents = [Document(str(d), "\n".join("w " * n for n in lines)) for d, lines in enumerate(notes)]
    tokens = tokenize(documents)
    expected, row = [], 0
    for lines in notes:
        size = 0
        for n in filter(None, lines):
            if size == 0 or size + n > most:
                expected.append(row)
                size = 0
            size += n
            row += n
    starts = merge_lines(tokens, max_tokens=most)
    assert starts.tolist() == expected
    sequence = sequence_of_rows(starts, len(tokens))
    assert sequence.tolist() == [sum(s <= i for s in expected) - 1 for i in range(len(tokens))]
