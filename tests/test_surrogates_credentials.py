"""Credentials beside a name change nothing of who it is, with or without full stops; initials are no credentials."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_keys import KEY
from marked_notes import marked_note

from ensemble_deid.deidentify.replacement import Replacer

REPLACER = Replacer.from_options("surrogate", key=KEY)


def surrogates(*names: str, label: str = "DOCTOR") -> list[str]:
    return REPLACER.replace(marked_note("\n".join(f"<{label}|{name}>" for name in names))).text.split("\n")


@pytest.mark.parametrize("label", ["DOCTOR", "PATIENT"])
@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("Dr. Jane Doe, M.D.", "Dr. {given} {family}, M.D."),
        ("J. Doe, R.N.", "{initial}. {family}, R.N."),
        ("Doe, Jane, Ph.D.", "{family}, {given}, Ph.D."),
        ("Doe, Jane M.D.", "{family}, {given} M.D."),
        ("Jane Doe M.D.", "{given} {family} M.D."),
        ("Jane Doe PhD", "{given} {family} PhD"),
        ("Jane Doe, D.O.", "{given} {family}, D.O."),
        ("Jane Doe, M. D.", "{given} {family}, M. D."),
        ("JANE DOE, M.D., F.A.C.S.", "{GIVEN} {FAMILY}, M.D., F.A.C.S."),
        ("Jane Doe Jr., Pharm.D., R.N.", "{given} {family} Jr., Pharm.D., R.N."),
        ("Doe, Ph.D.", "{family}, Ph.D."),
    ],
)
def test_a_person_with_credentials_is_the_same_as_without(name: str, form: str, label: str) -> None:
    whole, other = surrogates("Jane Doe", name, label=label)
    first, last = whole.split()
    names = {"given": first, "family": last, "GIVEN": first.upper(), "FAMILY": last.upper(), "initial": first[0]}
    assert other == form.format(**names)
    if "jane" in name.casefold():
        assert surrogates(name, label=label) == [other]


@pytest.mark.parametrize(
    "name", ["J.D. Smith", "J.D.", "Smith, J.D.", "Smith J.D.", "Dr. J.D. Smith", "Lee Smith, J.D.K."]
)
def test_initials_that_read_like_a_credential_do_not_stay(name: str) -> None:
    (value,) = surrogates(name)
    assert not re.search(r"J\.\s?D", value)
    assert "D." not in value


def test_names_beside_titles_and_credentials_alone_do_not_say_that_a_surname_is_a_given_name() -> None:
    whole, *others = surrogates("Jane Zzyzxk", "Dr. Zzyzxk", "Dr Zzyzxk", "Zzyzxk", "Zzyzxk, M.D., Ph.D.")
    family = whole.split()[1]
    assert [family in other for other in others] == [True] * 4


_CREDENTIALS = st.sampled_from("M.D. R.N. Ph.D. D.O. P.A. N.P. M.S.W. F.A.C.S. Pharm.D. M.P.H. J.D. D.D.S.".split())
_NAMES = st.sampled_from(["Jane Doe", "Okonkwo, Ada", "A. Kowalski", "Minh Le", "MARIA DE LA CRUZ", "Sean O'Brien"])


@given(_NAMES, st.lists(_CREDENTIALS, min_size=1, max_size=3, unique=True))
def test_credentials_with_full_stops_stay_after_a_comma_and_the_name_is_that_without(
    name: str, credentials: list[str]
) -> None:
    after = ", ".join(credentials)
    alone, beside = surrogates(name, f"{name}, {after}")
    assert beside == f"{alone}, {after}"
    assert not set(re.findall(r"\w{2,}", name)) & set(re.findall(r"\w{2,}", alone)) - {"DE", "LA"}
