"""The entity-level matchings, held against slow and obvious references."""

from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.evaluation.official import score_i2b2
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.evaluation.views import VIEWS, count_view
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span, SpanKey

TEXT = "x" * 40


def note(*keys: SpanKey, id: str = "a", text: str = TEXT) -> Document:
    return Document(id, text, tuple(Span(start, end, label) for start, end, label in keys))


def test_strict_needs_start_end_and_label_and_counts_duplicates_once() -> None:
    gold = [note((0, 4, "DATE"), (5, 9, "NAME"), (10, 12, "AGE"))]
    system = [Document("a", TEXT, (Span(0, 4, "DATE", 0.5), Span(0, 4, "DATE", 0.9), Span(5, 9, "AGE")))]
    table = count_view(gold, system, "strict")
    assert table.total == Counts(1, 1, 2)
    assert table.by_label == {"AGE": Counts(0, 1, 1), "DATE": Counts(1, 0, 0), "NAME": Counts(0, 0, 1)}


def test_the_views_differ_as_defined() -> None:
    text = "12/3/19 Ana Gil MD, 81 or 82 aged"
    gold = [note((0, 7, "DATE"), (8, 15, "PATIENT"), (20, 22, "AGE"), (26, 28, "AGE"), text=text)]
    system = [note((0, 7, "AGE"), (8, 17, "DOCTOR"), (8, 17, "PATIENT"), (20, 28, "AGE"), text=text)]
    assert {view: count_view(gold, system, view).total for view in VIEWS} == {
        "strict": Counts(0, 4, 4),
        "relaxed": Counts(1, 3, 3),
        # one system span over two gold spans finds one of them only
        "overlap": Counts(2, 2, 2),
        "category": Counts(0, 3, 4),
        "type-blind": Counts(1, 2, 3),
        # system: 12 3 19 as AGE, Ana Gil M as DOCTOR and as PATIENT, 81 or 82 as AGE
        "token": Counts(4, 8, 3),
        "token-category": Counts(4, 5, 3),
        "token-binary": Counts(7, 2, 0),
    }


def test_totals_are_the_sums_of_labels_and_parts_can_be_taken() -> None:
    gold = [note((0, 4, "DATE"), (5, 9, "NAME")), note((0, 4, "DATE"), id="b")]
    table = count_view(gold, [note((0, 4, "DATE")), note((1, 4, "DATE"), id="b")])
    assert table.total == Counts(1, 1, 2)
    assert table.only({"DATE", "AGE"}).total == table.by_label["DATE"] == Counts(1, 1, 1)
    assert table.per_document.tolist() == [[1, 0, 1], [0, 1, 1]]


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
        count_view(gold, system)
    assert "ecret" not in str(caught.value)


def test_an_unknown_view_names_those_there_are() -> None:
    with pytest.raises(EvaluationError, match="strict, relaxed, overlap"):
        count_view([note()], [note()], "fuzzy")


def alike(view: str, gold: SpanKey, system: SpanKey) -> bool:
    """The definition of each entity view for one annotation of each side."""
    same_label = gold[2] == system[2]
    return {
        "strict": gold == system,
        "relaxed": same_label and gold[0] == system[0] and abs(gold[1] - system[1]) <= 2,
        "overlap": same_label and gold[0] < system[1] and system[0] < gold[1],
    }[view]


def most_matches(view: str, golds: list[SpanKey], systems: list[SpanKey]) -> int:
    """Try every assignment of the fewer to the more."""
    few, many = sorted((golds, systems), key=len)
    return max(
        sum(alike(view, *((a, b) if few is golds else (b, a))) for a, b in zip(few, chosen, strict=True))
        for chosen in permutations(many, len(few))
    )


keys = st.tuples(st.integers(0, 12), st.integers(1, 6), st.sampled_from(["A", "B"])).map(
    lambda t: (t[0], t[0] + t[1], t[2])
)
sides = st.lists(keys, max_size=4, unique=True)


@settings(max_examples=80)
@given(sides, sides, st.sampled_from(["strict", "relaxed", "overlap"]))
def test_as_many_are_matched_as_can_be(golds: list[SpanKey], systems: list[SpanKey], view: str) -> None:
    total = count_view([note(*golds)], [note(*systems)], view).total
    best = most_matches(view, golds, systems)
    assert total == Counts(best, len(systems) - best, len(golds) - best)


@settings(max_examples=50)
@given(sides, sides, sides, sides)
def test_order_of_documents_and_spans_does_not_matter(
    g1: list[SpanKey], s1: list[SpanKey], g2: list[SpanKey], s2: list[SpanKey]
) -> None:
    for view in VIEWS:
        one = count_view([note(*g1), note(*g2, id="b")], [note(*s1), note(*s2, id="b")], view)
        other = count_view(
            [note(*reversed(g2), id="b"), note(*reversed(g1))],
            [note(*reversed(s1)), note(*reversed(s2), id="b")],
            view,
        )
        assert one.by_label == other.by_label
        assert one.document_ids == other.document_ids == ("a", "b")


@pytest.mark.parametrize("which", ["a", "b", "c"])
def test_token_and_type_blind_views_are_the_official_rows(which: str) -> None:
    folder = Path(__file__).parents[1].parent / "shared" / "parity" / "i2b2" / which
    if not folder.is_dir():
        pytest.skip("the outputs of the official scripts are not on this machine")
    gold, system = read_corpus(folder / "gold").documents, read_corpus(folder / "system").documents
    official = score_i2b2(gold, system)
    for view, row in {"token": "Token", "token-binary": "Binary Token", "type-blind": "Binary Strict"}.items():
        assert count_view(gold, system, view).total == official.row(row).total
