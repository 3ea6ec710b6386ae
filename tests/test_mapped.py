"""Mapped arrays and sorted strings, against a dictionary and against files that are not what they say."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from ensemble_deid.compiled import SWITCH, has_core
from ensemble_deid.mapped import MappedArrays, StringTable, to_file_bytes

ANY_STRINGS = st.lists(st.text("ab\0é日\U0001f600 ", max_size=20), max_size=30)


@pytest.fixture(params=["compiled", "numpy"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    # So that blocks meet.
    monkeypatch.setattr("ensemble_deid.mapped._MOST_HEADS", 2)
    if request.param == "numpy":
        monkeypatch.setenv(SWITCH, "none")
    elif not has_core():
        pytest.skip("the compiled core is not installed")


@pytest.mark.usefixtures("where")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ANY_STRINGS, ANY_STRINGS)
def test_strings_are_found_as_in_a_dictionary(strings: list[str], others: list[str]) -> None:
    arrays = MappedArrays.of_bytes(to_file_bytes(StringTable.of(strings).to_arrays("a"))).arrays
    table = StringTable.of_arrays(arrays, "a")
    expected = {string: place for place, string in enumerate(sorted(set(strings)))}
    assert list(table) == list(expected)
    assert table.in_order
    assert [one in table for one in [*strings, *others]] == [one in expected for one in [*strings, *others]]
    assert table.find([*strings, *others]).tolist() == [expected.get(one, -1) for one in [*strings, *others]]
    prefixes = ["", *(one[:9] for one in [*strings, *others])]
    for prefix, low, high in zip(prefixes, *table.beginning_with(prefixes), strict=True):
        assert table[low:high] == [one for one in expected if one.startswith(prefix)]


@pytest.mark.usefixtures("where")
def test_strings_of_many_blocks_are_found_where_many_have_one_head() -> None:
    strings = sorted({f"{'sameheads' if k % 3 else 'other'}{k * 37 % 1000:03d}" for k in range(900)})
    table = StringTable.of(strings)
    others = ["samehead", "sameheads", "sameheads9999", "a", "zz", *(f"{one}0" for one in strings)]
    assert table.find([*strings, *others]).tolist() == [*range(len(strings)), *[-1] * len(others)]
    assert all(one in table for one in strings)
    assert not any(one in table for one in others)
    prefixes = ["same", "other1", "sameheads99", "x", ""]
    for prefix, low, high in zip(prefixes, *table.beginning_with(prefixes), strict=True):
        assert table[low:high] == [one for one in strings if one.startswith(prefix)]


@pytest.mark.usefixtures("where")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text("a\0", max_size=18), min_size=2, max_size=4))
def test_strings_out_of_order_are_noticed(strings: list[str]) -> None:
    ends = np.cumsum([len(one) + 1 for one in strings]).astype(np.uint32) - np.uint32(1)
    table = StringTable(np.frombuffer("".join(one + "|" for one in strings).encode(), np.uint8), ends)
    assert table.in_order == (sorted(set(strings)) == strings)


def test_arrays_are_those_that_were_written_and_cannot_be_changed(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros((0, 2), np.int64)}
    (tmp_path / "x").write_bytes(to_file_bytes(arrays, {"of": "this"}))
    read = MappedArrays.of_file(tmp_path / "x")
    assert read.metadata == {"of": "this"}
    assert all(np.array_equal(read.arrays[name], array) for name, array in arrays.items())
    assert not read.arrays["a"].flags.writeable


def test_a_file_that_is_not_what_it_says_is_refused(tmp_path: Path) -> None:
    data = save({"a": np.arange(4, dtype=np.uint8)})
    for damaged in (b"", data[:-1], data + b"0", data.replace(b'"U8"', b'"U9"'), data.replace(b"[4]", b"[5]")):
        (tmp_path / "x").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"fit|fill|empty"):
            MappedArrays.of_file(tmp_path / "x")
    for offsets in (b"[0,9]", b"[9,0]", b"[1,5]"):
        with pytest.raises(ValueError, match="fit"):
            MappedArrays.of_bytes(data.replace(b"[0,4]", offsets))
    pair = save({"a": np.arange(4, dtype=np.uint8), "b": np.arange(4, dtype=np.uint8)})
    with pytest.raises(ValueError, match="fill"):
        MappedArrays.of_bytes(pair.replace(b"[4,8]", b"[0,4]"))
