"""A person has one surrogate in all notes of a patient, also where spans of one note are joined to a longer name."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_keys import KEY
from marked_notes import marked_note

from ensemble_deid.deidentify.known.identifiers import KnownIdentifiers
from ensemble_deid.deidentify.known.site_lists import SiteLists
from ensemble_deid.deidentify.one_pass import finish_alone, finish_together
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.note.folding import fold
from ensemble_deid.surrogates.known import KnownNames

REPLACER = Replacer.from_options("surrogate", key=KEY)


def together(*marked: str) -> list[str]:
    texts = []
    notes = [marked_note(text, id=str(n)) for n, text in enumerate(marked)]
    for result in finish_together(notes, RunOptions(replacer=REPLACER), None):
        assert result.text is not None
        texts.append(result.text)
    return texts


def test_a_name_that_is_joined_in_one_note_does_not_make_its_parts_others_there() -> None:
    ann, poe, alone, joined = together(
        "Name: <PATIENT|Ann Poe>.",
        "Signed <PATIENT|Poe Lee>.",
        "Today <PATIENT|Poe> came.",
        "<PATIENT|Ann Poe> Lee here. Today <PATIENT|Poe> came.",
    )
    assert joined.endswith(alone)
    family = alone.split()[1]
    assert family in f"{ann} {poe}"


_PEOPLE = st.sampled_from(
    [
        *(
            "<PATIENT|Ann Poe> Lee",
            "Ann <PATIENT|Poe Lee>",
            "<PATIENT|Ann Poe Lee>",
            "<PATIENT|Poe Lee>",
            "<PATIENT|Lee Ann>",
        ),
        *("<PATIENT|Ann>", "<PATIENT|Ann Poe>, <PATIENT|Lee>", "<PATIENT|P.L.>", "Lee <PATIENT|Ann Poe> Lee"),
    ]
)
_NOTES = st.lists(st.lists(_PEOPLE, min_size=1, max_size=3), min_size=1, max_size=4)


@given(_NOTES)
def test_every_note_calls_a_person_the_same_in_any_order(notes: list[list[str]]) -> None:
    marked = [" then ".join(people) + ". Call <PATIENT|Poe>" for people in notes]
    texts = together(*marked)
    assert len({text.rsplit(" ", 1)[1] for text in texts}) == 1
    assert together(*marked[::-1]) == texts[::-1]


def test_no_surrogate_has_a_word_of_what_is_in_this_note_alone() -> None:
    for patient in map(str, range(20)):
        first = REPLACER.replace(marked_note("<PATIENT|John Smith>", patient=patient), taken={"john smith"}).text
        family = first.split()[1]
        note = marked_note(f"<PATIENT|John Smith>; <PATIENT|{family} Zzyzxk>", patient=patient)
        assert fold(family) not in fold(REPLACER.replace(note, taken={"john smith"}).text)


def test_a_note_alone_tells_what_its_names_are_also_where_the_site_knows_something_else(tmp_path: Path) -> None:
    (tmp_path / "known.csv").write_text("patient_id,kind,value\n7,mrn,4711-0815\n", encoding="utf-8")
    lists = SiteLists(known=KnownIdentifiers.read(tmp_path / "known.csv", labels=("PATIENT", "MEDICALRECORD")))
    note = marked_note("<PATIENT|John Zzyzxk>; <PATIENT|J.Z.>; <PATIENT|Zzyzxk>")
    result = finish_alone(note, RunOptions(replacer=REPLACER, lists=lists), None)
    assert result.text is not None
    whole, initials, alone = result.text.split("; ")
    first, last = whole.split()
    assert initials == f"{first[0]}.{last[0]}."
    assert alone == last


@pytest.mark.parametrize(
    "addresses",
    [
        "<EMAIL|anna.bell@x.org> / <EMAIL|bell.a@y.org>",
        "<URL|www.bell.example> / <URL|bell.com>",
        "<URL|https://bell.org/anna> / <URL|www.b.com/bell> / <USERNAME|bell.anna>",
    ],
)
def test_addresses_do_not_tell_which_part_of_a_name_is_the_surname(addresses: str) -> None:
    note = marked_note(f"<PATIENT|Anna Bell> / {addresses} / Dr. <DOCTOR|Bell>")
    whole, *_, alone = REPLACER.replace(note).text.split(" / ")
    assert alone == f"Dr. {whole.split()[1]}"


def test_the_log_in_name_of_an_address_is_that_of_the_person() -> None:
    note = marked_note("<PATIENT|Anna Bell> / <EMAIL|abell@x.org> / <USERNAME|abell>")
    whole, address, user = REPLACER.replace(note).text.casefold().split(" / ")
    given, family = whole.split()
    assert address.split("@")[0] == user == f"{given[0]}{family}"


@pytest.mark.parametrize(
    "string", ["anna bell", "bell, anna", "bell,anna", "a.bell anna", "anna b. bell", "bell anna.b"]
)
def test_full_names_are_known_as_before(string: str) -> None:
    assert {"anna", "bell"} <= {part.word for name in KnownNames({string}).full for part in name}


@pytest.mark.parametrize(
    "string", ["abell@x.org", "anna@bell", "http://anna/bell", "www.b.com", "anna.bell", "bell.com"]
)
def test_addresses_are_no_full_names(string: str) -> None:
    assert KnownNames({string}).full == []
    assert KnownNames({string}).words
