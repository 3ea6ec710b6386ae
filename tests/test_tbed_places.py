"""Lists of places against plain loops."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.taggers.tbed.places import NO_LIST, list_places, places_seeing, shortest_way, stable_order

NUMBERS = st.lists(st.integers(0, 6), max_size=30)


@given(NUMBERS, st.integers(1, 7), st.sampled_from([np.uint8, np.int64]))
def test_each_number_has_its_places(numbers: list[int], n_numbers: int, kind: type[np.integer]) -> None:
    places = np.arange(len(numbers)) * 3 + 1
    lists = list_places(np.array(numbers, kind), n_numbers, places)
    expected = [[3 * i + 1 for i, other in enumerate(numbers) if other == number] for number in range(n_numbers)]
    assert [lists[number].tolist() for number in range(len(lists))] == expected
    asked = np.array([n_numbers - 1, 0, n_numbers - 1])
    found, owners = lists.gather(asked)
    assert found.tolist() == [place for number in asked for place in expected[number]]
    assert owners.tolist() == [i for i, number in enumerate(asked) for _ in expected[number]]
    # By column: the shortest of two lists, and of one list and none.
    which, lengths = lists.shortest(np.array([[0, -1], [n_numbers - 1, 0]]))
    sizes = [len(expected[0]), len(expected[n_numbers - 1])]
    assert (which.tolist(), lengths.tolist()) == ([sizes.index(min(sizes)), 1], [min(sizes), sizes[0]])
    assert lists.shortest(np.array([[-1]]))[1].tolist() == [NO_LIST]


@given(st.lists(st.sampled_from([0, 5, 70_000, 99_999]), max_size=20))
def test_large_numbers_keep_the_order_of_equal_ones(numbers: list[int]) -> None:
    order = stable_order(np.array(numbers, np.int64), 100_000)
    assert order.tolist() == sorted(range(len(numbers)), key=lambda i: numbers[i])


@given(st.sets(st.integers(10, 40)), st.integers(-4, 4), st.integers(0, 4))
def test_places_see_what_lies_at_their_offsets(listed: set[int], first: int, more: int) -> None:
    offsets = range(first, first + more + 1)
    expected = [place for place in range(60) if any(place + offset in listed for offset in offsets)]
    assert places_seeing(np.array(sorted(listed), np.int64), offsets).tolist() == expected


def test_the_shortest_way_counts_every_offset() -> None:
    lists = [np.arange(5), np.arange(2), np.arange(3)]
    assert shortest_way(lists, [(0,), (-2, -1, 0), (1,)]) == (2, 3)
    assert shortest_way(lists, [(0,), (0,), (0,)]) == (1, 2)
    # Of equal ones the first.
    assert shortest_way([np.arange(2), np.arange(2)], [(0,), (0,)]) == (0, 2)
