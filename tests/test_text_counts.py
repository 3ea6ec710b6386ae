"""Counts, F1, and the one strict counting that all use, held against the table of the evaluation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.evaluation.views import count_view
from ensemble_deid.note.counts import Counts, f1_score, strict_counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span


def test_counts_add_and_give_the_three_figures() -> None:
    counts = Counts(1, 2, 0) + Counts(2, 1, 3)
    assert counts == Counts(3, 3, 3)
    assert (counts.precision, counts.recall, counts.f1) == (0.5, 0.5, 0.5)
    assert (counts.gold, counts.system) == (6, 6)


def test_what_is_undefined_is_none() -> None:
    assert (Counts().precision, Counts().recall, Counts().f1) == (None, None, None)
    assert (Counts(fn=2).precision, Counts(fn=2).recall, Counts(fn=2).f1) == (None, 0.0, 0.0)
    assert (Counts(fp=2).precision, Counts(fp=2).recall, Counts(fp=2).f1) == (0.0, None, 0.0)


def test_negative_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="never negative"):
        Counts(tp=-1)


def test_f1_is_undefined_only_where_both_sides_are_empty() -> None:
    assert f1_score(0, gold=0, system=0) is None
    assert (f1_score(0, gold=2, system=0), f1_score(0, gold=0, system=2)) == (0.0, 0.0)
    assert f1_score(1, gold=1, system=3) == Counts(1, 2, 0).f1 == 0.5


def test_strict_counts_need_start_end_and_label_note_by_note() -> None:
    date = Span(0, 4, "DATE")
    assert strict_counts([[date]], [[Span(0, 4, "DATE", 0.5), Span(0, 4, "DATE", 0.9)]]) == Counts(1, 0, 0)
    assert strict_counts([[date]], [[Span(0, 3, "DATE"), Span(0, 4, "AGE")]]) == Counts(0, 2, 1)
    assert strict_counts([[date], []], [[], [date]]) == Counts(0, 1, 1)
    assert strict_counts([[], []], [[], []]).f1 is None
    with pytest.raises(ValueError, match="longer than"):
        strict_counts([[]], [[], []])


spans = st.builds(
    lambda start, length, label: Span(start, start + length, label),
    st.integers(0, 6),
    st.integers(1, 3),
    st.sampled_from("AB"),
)
notes = st.lists(st.tuples(st.lists(spans, max_size=5), st.lists(spans, max_size=5)), min_size=1, max_size=4)


@given(notes)
def test_strict_counts_are_the_total_of_the_evaluations_table(both: list[tuple[list[Span], list[Span]]]) -> None:
    golds = [Document(str(k), "x" * 10, tuple(spans)) for k, (spans, _) in enumerate(both)]
    systems = [Document(str(k), "x" * 10, tuple(spans)) for k, (_, spans) in enumerate(both)]
    counts = strict_counts((note.spans for note in golds), (note.spans for note in systems))
    assert counts == count_view(golds, systems, "strict").total
