"""Spans that reach too far: no number and no combining mark of the original stays, whatever the label says."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_keys import KEY
from marked_notes import marked_note

from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.note.labels import I2B2_TYPES, MEDDOCAN_TYPES

REPLACER = Replacer.from_options("surrogate", key=KEY)
THAI, HINDI = "สมชาย ใจดี", "राम शर्मा"


def surrogate(label: str, surface: str, *, replacer: Replacer = REPLACER, patient: str = "7") -> str:
    return replacer.replace(marked_note(f"<{label}|{surface}>", patient=patient)).text


@pytest.mark.parametrize("label", ["PATIENT", "DOCTOR"])
@pytest.mark.parametrize(
    ("surface", "form"),
    [
        ("Bell, Anna 0048213", r"[A-Z]\w+, [A-Z]\w+ \d{7}"),
        ("ANNA BELL 03/04/1950", r"[A-Z]+ [A-Z]+ \d\d/\d\d/\d{4}"),
        ("Bell 555-123-4567", r"[A-Z]\w+ \d{3}-\d{3}-\d{4}"),
        ("7 Bell", r"\d [A-Z]\w+"),
        ("smith1", r"[a-z]+\d"),
        ("J.S. 4711", r"[A-Z]\.[A-Z]\. \d{4}"),
        ("Dr. Anna Bell, MD 4711", r"Dr\. [A-Z]\w+ [A-Z]\w+, MD \d{4}"),
    ],
)
def test_numbers_beside_a_name_are_replaced(label: str, surface: str, form: str) -> None:
    for patient in map(str, range(20)):
        value = surrogate(label, surface, patient=patient)
        assert re.fullmatch(form, value)
        numbers = zip(re.findall(r"\d+", surface), re.findall(r"\d+", value), strict=True)
        assert all(old != new for old, new in numbers)


def test_a_number_beside_a_clinician_is_the_same_in_all_patients_where_the_name_is() -> None:
    staff = Replacer.from_options("surrogate", key=REPLACER.key, settings={"staff_across_patients": True})
    values = {surrogate("DOCTOR", "Bell 4711", replacer=staff, patient=patient) for patient in ("1", "2")}
    assert len(values) == 1
    assert "4711" not in values.pop()


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_one_person_has_one_name_however_accents_are_encoded(form: str) -> None:
    note = marked_note(f"<PATIENT|José García>; <PATIENT|{unicodedata.normalize(form, 'García, José')}>")
    whole, comma = REPLACER.replace(note).text.split("; ")
    given_name, family = whole.split()
    assert comma == f"{family}, {given_name}"


@pytest.mark.parametrize("name", [THAI, HINDI])
def test_a_name_with_vowel_signs_has_as_many_parts_as_it_shows(name: str) -> None:
    last = name.split()[1]
    whole, alone = REPLACER.replace(marked_note(f"<PATIENT|{name}>; <PATIENT|{last}>")).text.split("; ")
    assert re.fullmatch(r"[A-Z][a-z]+ [A-Z][a-z]+", whole)
    assert alone == whole.split()[1]


@pytest.mark.parametrize(
    ("label", "surface", "gone"),
    [("SSN", "123 Bell 45 6789", "Bell"), ("PHONE", "555-523-8842²", "²"), ("AGE", "45 ٩٤", "٩٤")],
)
def test_nothing_between_or_beside_the_digits_of_a_number_stays(label: str, surface: str, gone: str) -> None:
    assert gone not in surrogate(label, surface)


_NUMBERS = st.integers(1_000_000, 99_999_999).map(str)
_PIECES = st.sampled_from(
    ["Bell", "ANNA", "J.", "Dr.", "Oak St", "IL", "John Bell", "José", THAI, HINDI, "jsmith", "yo"]
)
_BETWEEN = st.sampled_from([" ", ", ", "", "-", "@", ".", " (", "/"])
_LABELS = st.sampled_from(sorted({*I2B2_TYPES, *MEDDOCAN_TYPES}))


@given(
    st.lists(st.tuples(_PIECES | _NUMBERS, _BETWEEN), min_size=1, max_size=5), _LABELS, st.sampled_from(["NFC", "NFD"])
)
def test_no_number_and_no_mark_of_a_span_stays(pieces: list[tuple[str, str]], label: str, form: str) -> None:
    surface = unicodedata.normalize(form, "".join(piece + between for piece, between in pieces))
    value = surrogate(label, surface)
    assert not {number for number in re.findall(r"\d+", surface) if len(number) >= 7} & set(re.findall(r"\d+", value))
    assert not [c for c in value if unicodedata.category(c).startswith("M")]
