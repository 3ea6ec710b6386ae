"""Counts and the entity-level matchings, held against slow and obvious references."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.evaluation.counts import Counts
from ensemble_deid.evaluation.entity import MATCHINGS, count_entities, strict_counts
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span, SpanKey

TEXT = "x" * 40


def note(*keys: SpanKey, id: str = "a", text: str = TEXT) -> Document:
    return Document(id, text, tuple(Span(start, end, label) for start, end, label in keys))


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


def test_strict_needs_start_end_and_label_and_counts_duplicates_once() -> None:
    gold = [note((0, 4, "DATE"), (5, 9, "NAME"), (10, 12, "AGE"))]
    system = [Document("a", TEXT, (Span(0, 4, "DATE", 0.5), Span(0, 4, "DATE", 0.9), Span(5, 9, "AGE")))]
    counts = strict_counts(gold, system)
    assert counts.total == Counts(1, 1, 2)
    assert counts.by_label == {"AGE": Counts(0, 1, 1), "DATE": Counts(1, 0, 0), "NAME": Counts(0, 0, 1)}


def test_the_matchings_differ_as_defined() -> None:
    gold = [note((0, 4, "DATE"), (10, 20, "NAME"), (25, 30, "AGE"), (31, 35, "AGE"))]
    system = [note((0, 4, "AGE"), (10, 22, "NAME"), (24, 32, "AGE"))]
    totals = {matching: count_entities(gold, system, matching=matching).total for matching in MATCHINGS}
    assert totals == {
        "strict": Counts(0, 3, 4),
        "relaxed": Counts(1, 2, 3),
        # one system span over two gold spans finds one of them only
        "overlap": Counts(2, 1, 2),
        "type-blind": Counts(1, 2, 3),
    }


def test_a_type_blind_match_counts_under_its_gold_label() -> None:
    table = count_entities([note((0, 4, "DATE"))], [note((0, 4, "AGE"))], matching="type-blind")
    assert table.by_label == {"AGE": Counts(), "DATE": Counts(1, 0, 0)}


@pytest.mark.parametrize(
    ("gold", "system", "message"),
    [
        ([], [], "no documents"),
        ([note(id="a")], [note(id="b")], "1 documents of the gold side are not on the system side: a"),
        ([note(id="a")], [note(id="a"), note(id="b")], "1 documents of the system side"),
        ([note(id="a"), note(id="a")], [note(id="a")], "comes twice on the gold side"),
        ([note(id="a", text="secret")], [note(id="a", text="Secret")], "not the same"),
    ],
)
def test_documents_that_do_not_match_are_refused(gold: list[Document], system: list[Document], message: str) -> None:
    with pytest.raises(EvaluationError, match=message) as caught:
        strict_counts(gold, system)
    assert "ecret" not in str(caught.value)


def test_an_unknown_matching_names_those_there_are() -> None:
    with pytest.raises(EvaluationError, match="strict, relaxed, overlap, type-blind"):
        count_entities([note()], [note()], matching="fuzzy")  # type: ignore[arg-type]


def alike(matching: str, gold: SpanKey, system: SpanKey) -> bool:
    """The definition of each matching for one annotation of each side."""
    same_label = gold[2] == system[2]
    return {
        "strict": gold == system,
        "relaxed": same_label and gold[0] == system[0] and abs(gold[1] - system[1]) <= 2,
        "overlap": same_label and gold[0] < system[1] and system[0] < gold[1],
        "type-blind": gold[:2] == system[:2],
    }[matching]


def most_matches(matching: str, golds: list[SpanKey], systems: list[SpanKey]) -> int:
    """Try every assignment of the fewer to the more."""
    few, many = sorted((golds, systems), key=len)
    return max(
        sum(alike(matching, *((a, b) if few is golds else (b, a))) for a, b in zip(few, chosen, strict=True))
        for chosen in permutations(many, len(few))
    )


keys = st.tuples(st.integers(0, 12), st.integers(1, 6), st.sampled_from(["A", "B"])).map(
    lambda t: (t[0], t[0] + t[1], t[2])
)
sides = st.lists(keys, max_size=4, unique=True)


@settings(max_examples=150, deadline=None)
@given(sides, sides, st.sampled_from(MATCHINGS))
def test_as_many_are_matched_as_can_be(golds: list[SpanKey], systems: list[SpanKey], matching: str) -> None:
    total = count_entities([note(*golds)], [note(*systems)], matching=matching).total  # type: ignore[arg-type]
    best = most_matches(matching, golds, systems)
    assert total == Counts(best, len(systems) - best, len(golds) - best)


@settings(max_examples=50, deadline=None)
@given(sides, sides, sides, sides)
def test_order_of_documents_and_spans_does_not_matter(
    g1: list[SpanKey], s1: list[SpanKey], g2: list[SpanKey], s2: list[SpanKey]
) -> None:
    for matching in MATCHINGS:
        one = count_entities([note(*g1), note(*g2, id="b")], [note(*s1), note(*s2, id="b")], matching=matching)
        other = count_entities(
            [note(*reversed(g2), id="b"), note(*reversed(g1))],
            [note(*reversed(s1)), note(*reversed(s2), id="b")],
            matching=matching,
        )
        assert one.by_label == other.by_label
        assert one.document_ids == other.document_ids == ("a", "b")
