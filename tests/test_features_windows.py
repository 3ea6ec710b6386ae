"""Windows of the table against one look-up a token."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.errors import ConfigError
from ensemble_deid.features.table import Column, FeatureTable
from ensemble_deid.features.windows import Window, parse_window, window_column


def slow_window(columns: dict[str, list[str]], window: Window, sequence: list[int]) -> list[str]:
    values = []
    for i in range(len(sequence)):
        places = [(name, i + offset) for name, offset in window.parts]
        inside = [0 <= j < len(sequence) and sequence[j] == sequence[i] for _, j in places]
        parts = [columns[name][j] if ok else "<>" for (name, j), ok in zip(places, inside, strict=True)]
        values.append("\x1f".join(parts))
    return values


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.booleans()), max_size=12),
    st.lists(st.tuples(st.sampled_from(["one", "two"]), st.integers(-15, 15)), min_size=1, max_size=4),
)
def test_windows_are_those_of_the_slow_look_up(rows: list[tuple[str, str, bool]], parts: list[tuple[str, int]]) -> None:
    columns = {"one": [row[0] for row in rows], "two": [row[1] for row in rows]}
    sequence = np.cumsum([row[2] for row in rows]).astype(np.int32)
    window = Window("any", tuple(parts))
    table = FeatureTable({name: Column.from_strings(values) for name, values in columns.items()})
    found = window_column(table, window, sequence)
    assert found.strings() == slow_window(columns, window, sequence.tolist())
    assert len(set(found.values)) == len(found.values)


def test_values_that_no_token_has_do_no_harm() -> None:
    table = FeatureTable({"one": Column(np.array([2, 0], np.int32), ("a", "never", "b"))})
    assert window_column(table, parse_window("one[-1]&one[0]"), np.zeros(2, np.int32)).values == ("b\x1fa", "<>\x1fb")


def test_windows_are_read_into_one_form() -> None:
    window = parse_window(" lower[+1] & short_shape[-2]")
    assert window.parts == (("lower", 1), ("short_shape", -2))
    assert parse_window(window.text) == window == Window("lower[1]&short_shape[-2]", window.parts)


@pytest.mark.parametrize("text", ["", "lower", "lower[]", "lower[a]", "lower[0]&", "lower[0]+word[1]", "Lower[0]"])
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no window"):
        parse_window(text)
