"""Windows of the table against one look-up a token, and the one grammar that they are written in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.errors import RuleError
from ensemble_deid.features.table import Column, FeatureTable
from ensemble_deid.features.windows import Window, joined_column, parse_windows


def slow_join(columns: dict[str, list[str]], places: list[tuple[str, int]], sequence: list[int]) -> list[str]:
    values = []
    for i in range(len(sequence)):
        at = [(name, i + offset) for name, offset in places]
        inside = [0 <= j < len(sequence) and sequence[j] == sequence[i] for _, j in at]
        parts = [columns[name][j] if ok else "<>" for (name, j), ok in zip(at, inside, strict=True)]
        values.append("\x1f".join(parts))
    return values


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.booleans()), max_size=12),
    st.lists(st.tuples(st.sampled_from(["one", "two"]), st.integers(-15, 15)), min_size=1, max_size=4),
)
def test_windows_are_those_of_the_slow_look_up(
    rows: list[tuple[str, str, bool]], places: list[tuple[str, int]]
) -> None:
    columns = {"one": [row[0] for row in rows], "two": [row[1] for row in rows]}
    sequence = np.cumsum([row[2] for row in rows]).astype(np.int32)
    table = FeatureTable({name: Column.from_strings(values) for name, values in columns.items()})
    found = joined_column(table, [Window(name, offset, offset) for name, offset in places], sequence)
    assert found.strings() == slow_join(columns, places, sequence.tolist())
    assert len(set(found.values)) == len(found.values)


def test_values_that_no_token_has_do_no_harm() -> None:
    table = FeatureTable({"one": Column(np.array([2, 0], np.int32), ("a", "never", "b"))})
    windows = parse_windows("one[-1]&one[0]", place="test")
    assert joined_column(table, windows, np.zeros(2, np.int32)).values == ("b\x1fa", "<>\x1fb")


def test_a_window_of_several_places_has_no_value() -> None:
    table = FeatureTable({"one": Column.from_strings("ab")})
    with pytest.raises(ValueError, match="several places"):
        joined_column(table, [Window("one", -1, 0)], np.zeros(2, np.int32))


@given(
    st.lists(
        st.builds(
            lambda name, ends: Window(name, min(ends), max(ends)),
            st.from_regex(r"[a-z_][a-z0-9_.-]*", fullmatch=True),
            st.tuples(st.integers(-99, 99), st.integers(-99, 99)),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_what_is_written_is_read(windows: list[Window]) -> None:
    assert parse_windows(" & ".join(map(str, windows)), place="test") == tuple(windows)


def test_other_spellings_mean_the_same() -> None:
    expected = (Window("lower", 1, 1), Window("short_shape", -2, 0))
    for text in (" lower[+1] & short_shape[-2..0]", "lower[ 1 ]&short_shape in [ -2 , 0 ]"):
        assert parse_windows(text, place="test") == expected


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("", 1, "expected the name"),
        ("1a[0]", 1, "expected the name"),
        ("lower", 6, r"expected \[offset\] or in \[first,last\]"),
        ("lower[]", 6, r"expected \[offset\]"),
        ("lower[a]", 6, r"expected \[offset\]"),
        ("lower[12345]", 6, r"expected \[offset\]"),
        ("lower[0]&", 10, "expected the name"),
        ("lower[0]+word[1]", 9, "expected '&'"),
        ("lower[0] & word in [2,1]", 12, "ends before it begins"),
        ("lower[0] & word[-5]", 12, "reaches beyond offsets -4 to 4"),
        ("lower[0] & word in [1,5]", 12, "reaches beyond offsets -4 to 4"),
    ],
)
def test_what_is_no_window_is_told_with_its_place(text: str, column: int, expected: str) -> None:
    with pytest.raises(RuleError, match=f"here, column {column}: .*{expected}"):
        parse_windows(text, place="here", most=4)
