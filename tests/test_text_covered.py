"""Places that spans cover, against looking at every span."""

from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.deidentify.known.site_lists import Covered

PLACES = st.tuples(st.integers(0, 30), st.integers(1, 8)).map(lambda place: (place[0], sum(place)))


@given(st.lists(PLACES, max_size=12), st.integers(0, 40), st.integers(0, 8))
def test_a_place_overlaps_where_any_span_does(places: list[tuple[int, int]], start: int, length: int) -> None:
    end = start + length
    slow = any(a < end and start < b for a, b in places) if length else False
    assert Covered(places).overlaps(start, end) == slow
