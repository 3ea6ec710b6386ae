"""Named sets of PHI labels."""

import pytest

from ensemble_deid.note.labels import (
    GROUPS,
    HIPAA_TYPES,
    I2B2_TYPES,
    category_of,
    is_hipaa,
    known_labels,
    labels_in_group,
)


def test_each_group_holds_the_one_before() -> None:
    assert GROUPS["A"] < GROUPS["B"] < GROUPS["C"] < GROUPS["D"] < set(I2B2_TYPES)
    assert GROUPS["A"] > HIPAA_TYPES
    assert GROUPS["D"] - GROUPS["C"] == {"PROFESSION"}


def test_labels_of_another_corpus_are_placed_by_what_they_are() -> None:
    labels = ["FECHAS", "PAIS", "PROFESION", "nonsense"]
    assert labels_in_group("A", labels) == {"FECHAS"}
    assert labels_in_group("D", labels) == {"FECHAS", "PAIS", "PROFESION"}
    with pytest.raises(KeyError):
        labels_in_group("E", labels)


def test_categories_and_hipaa_ignore_case_and_know_what_they_do_not_know() -> None:
    assert [category_of(label) for label in ("patient", "FECHAS", "NAME", "ROOM")] == ["NAME", "DATE", "NAME", None]
    assert is_hipaa("Date")
    assert not is_hipaa("IDNUM")
    assert not is_hipaa("ROOM")
    assert {"FECHAS", "ZIP"} <= known_labels()
