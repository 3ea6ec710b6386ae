"""Candidates in tables: what a column's other cells say of a cell."""

import numpy as np

from ensemble_deid.arrays import Floats
from ensemble_deid.features.batch import Batch, plain_batch
from ensemble_deid.model.pattern_choice import NO_PATTERNS
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.stacking.candidates import CandidateTable, NamedColumns, collect
from ensemble_deid.stacking.context import extract_candidates
from ensemble_deid.stacking.text_tables import BatchCells, cells_like_others, text_table_columns
from ensemble_deid.taggers.base import Proposals

LABELS = ("AGE", "DOCTOR")
TEXT = "bed\tmd\tage\n1\tKiser\t70\n2\tLee\t81\n3\tBE\t4\n\nDr. Lee agrees."


def batch_of(*texts: str) -> Batch:
    return plain_batch([Document(str(k), text) for k, text in enumerate(texts)], patterns=NO_PATTERNS, split_lines=True)


def spans(text: str, **confidence: float) -> tuple[Span, ...]:
    labels = {word: "AGE" if word[-1].isdecimal() else "DOCTOR" for word in confidence}
    found = ((word.removeprefix("_"), word, p) for word, p in confidence.items())
    return tuple(Span(text.index(word), text.index(word) + len(word), labels[key], p) for word, key, p in found)


def candidates(batch: Batch, *notes: tuple[Span, ...]) -> CandidateTable:
    proposals = {"crf": Proposals(notes, notes)}
    return collect(proposals, labels=LABELS, min_confidence=0.01)


def columns_of(table: CandidateTable, batch: Batch, odds: Floats) -> NamedColumns:
    return text_table_columns(table, batch.tokens, BatchCells.of(batch), odds)


def test_the_columns_are_means_over_the_other_cells_of_a_column() -> None:
    batch = batch_of(TEXT)
    table = candidates(batch, spans(TEXT, Kiser=0.8, Lee=0.6, BE=0.1, _81=0.5))
    odds = np.log(np.array([0.9, 0.5, 0.2, 0.3]) / np.array([0.1, 0.5, 0.8, 0.7]))
    order = ["Kiser", "Lee", "81", "BE"]
    assert [TEXT[a:b] for a, b in zip(table.start.tolist(), table.end.tolist(), strict=True)] == order
    found = columns_of(table, batch, odds)
    assert found.names == ("column:phi", "column:same", "column:cells")
    # Three cells to a column, without the heading. The odds of 0.2 are those of 81.
    phi = {"Kiser": (0.5 + 0.3) / 2, "Lee": (0.9 + 0.3) / 2, "81": 0.0, "BE": (0.9 + 0.5) / 2}
    same = {"Kiser": (0.6 + 0.1) / 2, "Lee": (0.8 + 0.1) / 2, "81": 0.0, "BE": (0.8 + 0.6) / 2}
    expected = [[phi[word], same[word], np.log(3)] for word in order]
    np.testing.assert_allclose(found.values, expected)


def test_outside_tables_and_without_candidates_the_columns_are_zero() -> None:
    batch = batch_of("Dr. Lee agrees.", "", TEXT)
    table = candidates(batch, (Span(4, 7, "DOCTOR", 0.9),), (), ())
    assert not columns_of(table, batch, np.ones(1)).values.any()
    nobody = candidates(batch, (), (), ())
    assert columns_of(nobody, batch, np.zeros(0)).values.shape == (0, 3)
    assert not list(cells_like_others(nobody, batch.tokens, BatchCells.of(batch), np.ones(len(batch.tokens), bool)))


def test_cells_of_a_column_that_is_believed_become_candidates() -> None:
    # One of two others is believed in the third column, which is not enough.
    batch, found = batch_of(TEXT), (spans(TEXT, Kiser=0.9, Lee=0.9, _81=0.7),)
    table, context = extract_candidates(
        {"crf": Proposals(found, found)},
        batch,
        labels=LABELS,
        min_confidence=0.01,
        net=True,
        tables=True,
    )
    of_column = context.more.values[:, context.more.names.index("net:column")]
    (row,) = np.flatnonzero(of_column).tolist()
    assert (TEXT[table.start[row] : table.end[row]], table.labels[table.label[row]]) == ("BE", "DOCTOR")
    assert context.more.values[row, context.more.names.index("column:same")] == 0.9


def test_a_note_has_the_same_columns_beside_other_notes() -> None:
    alone, beside = batch_of(TEXT), batch_of(TEXT, TEXT)
    found = spans(TEXT, Kiser=0.9, BE=0.4)
    one = columns_of(candidates(alone, found), alone, np.ones(2)).values
    two = columns_of(candidates(beside, found, found), beside, np.ones(4)).values
    np.testing.assert_array_equal(two, np.concatenate([one, one]))
