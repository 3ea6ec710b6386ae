"""Overlaps, resolved character by character as slow references do."""

from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.note.overlaps import (
    Covered,
    apart,
    clip_overlaps,
    distinct_spans,
    join_overlaps,
    keep_first,
    outside,
    overlapping_groups,
    split_overlaps,
)
from ensemble_deid.note.span import Span

PLACES = st.tuples(st.integers(0, 30), st.integers(1, 8)).map(lambda place: (place[0], sum(place)))
SPANS = st.lists(
    st.builds(
        lambda place, label, score: Span(*place, label, score / 4), PLACES, st.sampled_from("AB"), st.integers(0, 4)
    ),
    max_size=10,
)


def characters(spans: list[Span]) -> set[int]:
    return {place for span in spans for place in range(span.start, span.end)}


def do_not_overlap(spans: list[Span]) -> bool:
    return len(characters(spans)) == sum(span.end - span.start for span in spans)


@given(st.lists(PLACES, max_size=12), st.integers(0, 40), st.integers(0, 8))
def test_a_place_overlaps_where_any_span_does(places: list[tuple[int, int]], start: int, length: int) -> None:
    end = start + length
    slow = any(a < end and start < b for a, b in places) if length else False
    assert Covered(places).overlaps(start, end) == slow


@given(SPANS)
def test_groups_are_what_spans_reach_through_each_other(spans: list[Span]) -> None:
    reached = [{k} for k in range(len(spans))]
    for _ in spans:
        for group in reached:
            group |= {k for k, span in enumerate(spans) if any(span.overlaps(spans[j]) for j in group)}
    groups = overlapping_groups(enumerate(spans), lambda numbered: numbered[1])
    assert {frozenset(k for k, _ in group) for group in groups} == {frozenset(group) for group in reached}


@given(SPANS)
def test_joined_spans_cover_what_the_spans_did(spans: list[Span]) -> None:
    made = join_overlaps(spans, prefer=lambda span: (span.label == "B", span.end - span.start))
    assert do_not_overlap(made)
    assert characters(made) == characters(spans)
    for one in made:
        members = [span for span in spans if span.overlaps(one)]
        assert (one.start, one.end) == (min(s.start for s in members), max(s.end for s in members))
        assert one.score == max(span.score for span in members)
        assert one.label == ("B" if any(span.label == "B" for span in members) else "A")


def test_of_equals_the_first_in_the_text_names_what_is_joined_and_then_the_first_given() -> None:
    later, first = Span(2, 6, "A", 0.5, "x"), Span(0, 4, "B", 0.4, "y")
    assert join_overlaps([later, first], prefer=lambda span: 0) == [Span(0, 6, "B", 0.5, "y")]
    same = [Span(0, 4, "B", 0.1), Span(0, 4, "A", 0.2)]
    assert join_overlaps(same, prefer=lambda span: 0) == [Span(0, 4, "B", 0.2)]


@given(SPANS)
def test_parts_of_spans_have_the_label_of_the_surest_at_each_character(spans: list[Span]) -> None:
    parts = split_overlaps(spans)
    assert do_not_overlap(parts)
    assert parts == sorted(parts)
    label = {place: part.label for part in parts for place in range(part.start, part.end)}
    assert label.keys() == characters(spans)
    for place, found in label.items():
        over = [span for span in spans if span.start <= place < span.end]
        assert found == min(over, key=lambda span: (-span.score, span.start - span.end, span)).label


@given(SPANS)
def test_clipped_spans_cover_what_the_spans_did(spans: list[Span]) -> None:
    made = clip_overlaps(spans)
    assert do_not_overlap(made)
    assert characters(made) == characters(spans)
    assert {span.end for span in made} <= {span.end for span in spans}


@given(SPANS)
def test_what_is_kept_apart_and_distinct(spans: list[Span]) -> None:
    assert apart(spans) == sorted(
        span for k, span in enumerate(spans) if not any(span.overlaps(o) for j, o in enumerate(spans) if j != k)
    )
    kept: list[Span] = []
    for span in spans:
        if not any(span.overlaps(other) for other in kept):
            kept.append(span)
    assert keep_first(spans) == tuple(sorted(kept))
    different = distinct_spans(spans)
    assert sorted({span.key for span in spans}) == [span.key for span in different]


@given(SPANS, SPANS)
def test_spans_outside_are_those_that_lie_in_no_other(around: list[Span], spans: list[Span]) -> None:
    slow = [s for s in spans if not any(other.start <= s.start and s.end <= other.end for other in around)]
    assert outside(around, spans) == sorted(slow)
