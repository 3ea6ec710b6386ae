"""The map from keys to numbers against a dictionary."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.taggers.tbed.keyindex import KeyIndex, distinct

keys = st.lists(st.one_of(st.integers(0, 50), st.integers(0, 2**63 - 1)), max_size=60)


@settings(max_examples=60)
@given(st.lists(keys, max_size=6), keys, st.integers(0, 1000))
def test_it_numbers_keys_in_the_order_in_which_they_come(batches, asked, first):
    index, numbers = KeyIndex(first=first), {}
    for batch in batches:
        new = [key for key in dict.fromkeys(batch) if key not in numbers]
        for key in new:
            numbers[key] = first + len(numbers)
        index.add(np.array(new, np.int64))
    asked = [*asked, -1, *numbers]
    assert index.find(np.array(asked, np.int64)).tolist() == [numbers.get(key, -1) for key in asked]
    assert index.keys.tolist() == list(numbers)


def test_it_grows_and_bears_crowded_keys():
    index = KeyIndex()
    wanted = np.concatenate([np.arange(30_000) * 2**33, np.arange(1, 2000) * 2**48 + 5])
    for part in np.array_split(wanted, 40):
        index.add(part)
    assert (index.find(wanted) == np.arange(len(wanted))).all()
    assert (index.find(wanted + 1) == -1).all()


def test_distinct_keys_rise():
    assert distinct(np.array([3, 1, 3, -1])).tolist() == [-1, 1, 3]
    assert distinct(np.array([], np.int64)).tolist() == []
