"""No part of what is replaced stays in its surrogate: names that look like suffixes or are written small, handles."""

import re
from collections.abc import Callable
from itertools import product

import pytest
from bounded_work import calls
from hypothesis import given
from hypothesis import strategies as st
from made_keys import KEY
from marked_notes import marked_note

from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.note.folding import fold, same_string
from ensemble_deid.surrogates.ages import capped_age
from ensemble_deid.surrogates.lists import generic_words

REPLACER = Replacer.from_options("surrogate", key=KEY)


def surrogate(label: str, surface: str) -> str:
    return REPLACER.replace(marked_note(f"<{label}|{surface}>")).text


def words(text: str) -> set[str]:
    return {fold(word) for word in re.findall(r"[^\W\d_]+", text) if len(word) > 1}


@pytest.mark.parametrize("label", ["PATIENT", "DOCTOR"])
@pytest.mark.parametrize(
    "name",
    [
        *("Minh Le", "Anh Do", "TRAN MA", "Wong, Pa", "WONG, PA", "wong, pa", "Md Rahman", "Rahman, Md", "Xiao MA"),
        *("Nhi Le", "Dr. Le", "Dr. Do", "Le", "Ma", "DO MINH CHAU", "NGUYEN VAN DO", "minh le tran", "Minh Le Tran"),
        *("Thi Do Pham", "Le, Al", "Smith, Al", "Don Kowalski", "Mba, John", "JOHN MBA", "Abu Md Rahman", "Das, Ram"),
        *("Bui Van Thanh", "Naosuke Ii", "Le-Minh Tran", "Minh LeDo", "Van Do"),
    ],
)
def test_a_name_that_looks_like_a_suffix_is_replaced(label: str, name: str) -> None:
    value = surrogate(label, name)
    assert words(name) & words(value) <= {"dr"}


@pytest.mark.parametrize("name", ["Vance, JD", "VANCE,JD", "Smith, Del Q", "Smith, Von Q", "Smith, PA"])
def test_a_patients_given_name_after_a_comma_is_no_credential_and_no_particle(name: str) -> None:
    for patient in map(str, range(50)):
        value = REPLACER.replace(marked_note(f"<PATIENT|{name}>", patient=patient)).text
        assert not words(name) & words(value)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("Dr. Ann Poe Jr., MD", r"Dr\. \w+ \w+ Jr\., MD"),
        ("Minh Le, MD", r"\w+ \w+, MD"),
        ("Kowalski, RN", r"\w+, RN"),
        ("KOWALSKI, MD", r"\w+, MD"),
        ("Wong, PA", r"\w+, PA"),
        ("Poe, JD", r"\w+, JD"),
        ("Cruz, Maria del C", r"\w+, \w+ del \w"),
        ("ANN POE, DO", r"\w+ \w+, DO"),
        ("Smith, John, MD PhD", r"\w+, \w+, MD PhD"),
        ("John Smith, Esq.", r"\w+ \w+, Esq\."),
        ("Guy Jr.", r"\w+ Jr\."),
        ("Emmett Nakai III", r"\w+ \w+ III"),
        ("Ana de la Torre", r"\w+ de la \w+"),
        ("de la Cruz, Maria", r"de la \w+, \w+"),
        ("DE LA CRUZ, MARIA", r"DE LA \w+, \w+"),
        ("Torre, Ana de la", r"\w+, \w+ de la"),
        ("Yusuf al-Najjar", r"\w+ al-\w+"),
        ("Vincent van Gogh", r"\w+ van \w+"),
    ],
)
def test_what_is_only_beside_a_name_stays(name: str, form: str) -> None:
    assert re.fullmatch(form, surrogate("DOCTOR", name))


def test_a_name_that_would_also_stay_as_a_credential_becomes_a_tag() -> None:
    assert surrogate("DOCTOR", "Ma, MA") == "[DOCTOR]"


def test_a_particle_changes_nothing_of_who_a_name_is() -> None:
    value = REPLACER.replace(marked_note("<PATIENT|Ana de la Torre>; <PATIENT|de la Torre>; <PATIENT|Torre>")).text
    whole, with_particle, alone = value.split("; ")
    assert whole.split(" ", 1)[1] == with_particle == f"de la {alone}"


def test_a_surrogate_has_no_word_of_the_patients_other_names() -> None:
    names = ["Gemma Bell", "Tina Booth", "Hazel Campbell", "Norman Goodwin"]
    for patient in map(str, range(30)):
        marked = " ".join(f"<PATIENT|{name}>" for name in [*names, "Minh Le", "Anh Do", "Ann Poe"])
        replacement = REPLACER.replace(marked_note(marked, patient=patient))
        assert not words(" ".join(names)) & words(replacement.text)


_SHORT = "Le Do Ma Pa Da Van Al Di Das Md Mba Od Don Jr Lee An Yu Kim".split()
_NAMES = st.sampled_from([*_SHORT, *"Kowalski Okonkwo Wong Tran O'Brien García Hill".split()])
Case = Callable[[str], str]
_EVERY_CASE: list[Case] = [str, str.upper, str.lower, str.title]
_CASES = st.sampled_from(_EVERY_CASE)
_AFFIXES = st.sampled_from(["", "Jr.", "III", "MD", "RN", "PhD", "PA", "DO", "MA"])


@st.composite
def people(draw: st.DrawFn) -> tuple[str, set[str]]:
    """Return a name as it is written, and the words that may stay: those that are no part of the name itself."""
    first, *others = draw(st.lists(_NAMES, min_size=1, max_size=3, unique=True))
    case, affix, has_comma = draw(_CASES), draw(_AFFIXES), draw(st.booleans())
    comma = "," if others and has_comma else ""
    name = case(f"{first}{comma} {' '.join(others)}".strip())
    title = draw(st.sampled_from(["", "Dr. ", "Mrs "]))
    # `Jr` is a suffix wherever it does not come first, and so is `MD` a credential unless it is written `Md`.
    suffixes = {"jr"} if first != "Jr" else set()
    if first != "Md" and case in (str.upper, str.lower):
        suffixes |= {"md"}
    return f"{title}{name}{', ' if affix else ''}{affix}", {fold(affix), *words(title), *suffixes}


@given(people(), st.sampled_from(["PATIENT", "DOCTOR"]))
def test_no_part_of_a_name_stays(person: tuple[str, set[str]], label: str) -> None:
    name, may_stay = person
    assert (words(name) & words(surrogate(label, name))) - {fold(label)} <= may_stay


@pytest.mark.parametrize(
    ("label", "surface", "gone"),
    [
        ("EMAIL", "john.kowalski62@x.org", "kowalski"),
        ("USERNAME", "jsmith.oakdale77", "oakdale"),
        ("USERNAME", "smith_le", "le"),
        ("EMAIL", "smith@kowalski.org", "kowalski"),
        ("URL", "kowalski://mercy.org/john", "kowalski"),
        ("IPADDR", "10.20.30.40 kowalski-pc", "kowalski"),
        ("IPADDR", "kowalski fe80::1ff:fe23", "kowalski"),
        ("SSN", "Kowalski 123-45-6789", "kowalski"),
    ],
)
def test_only_known_names_of_a_handle_have_a_persons_surrogate_and_all_others_go_too(
    label: str, surface: str, gone: str
) -> None:
    value = REPLACER.replace(marked_note(f"<PATIENT|John Smith> <{label}|{surface}>")).text
    assert gone not in words(value)
    assert not {"john", "smith"} & words(value)


_PIECES = st.sampled_from("john smith jsmith smithj kowalski oakdale le do kim x ma an okonkwo wong".split())


@given(st.lists(st.tuples(_PIECES, st.sampled_from([".", "_", "-", "7", "62", "+"])), min_size=1, max_size=4), _CASES)
def test_no_word_of_a_handle_stays(pieces: list[tuple[str, str]], case: Case) -> None:
    handle = case("".join(piece + mark for piece, mark in pieces))
    for label, surface in (("USERNAME", handle), ("EMAIL", f"{handle}@kowalski.org")):
        replacement = REPLACER.replace(marked_note(f"<PATIENT|John Smith> <{label}|{surface}>"))
        span = replacement.spans[1]
        assert not words(surface) & words(replacement.text[span.new_start : span.new_end]) - {"org"}


@pytest.mark.parametrize(
    ("surface", "form"),
    [
        ("Mercy hospital of springfield", r"\w+ hospital of [a-z ]+"),
        ("Apt K, 5 kowalski Road", r"Apt K, \d [a-z]+ Road"),
        ("12 Elm st, springfield", r"\d\d \w+ st, [a-z ]+"),
        ("Larkin shaft near 12th Street", r"\w+ shaft near \d\dth Street"),
        ("350 5th ave", r"\d+ \d+th ave"),
        ("350 W 42ND ST", r"\d+ W \d+ND ST"),
        ("4th floor", r"\d+th floor"),
        ("4th", r"\d+th"),
        ("4th kowalski", r"\d+th [a-z]+"),
    ],
)
def test_a_name_of_a_place_may_be_written_small(surface: str, form: str) -> None:
    value = surrogate("LOCATION-OTHER", surface)
    assert re.fullmatch(form, value)
    assert not {"mercy", "springfield", "kowalski", "elm", "larkin"} & words(value)


_NAMES_OF_PLACES = "springfield kowalski mercy oakdale elm le do boston adams".split()
_PLACES = st.sampled_from([*_NAMES_OF_PLACES, *"hospital of road st clinic".split()])


@given(
    st.lists(st.tuples(_PLACES, _CASES), min_size=1, max_size=5),
    st.sampled_from(["HOSPITAL", "STREET", "ORGANIZATION", "LOCATION-OTHER", "CITY"]),
)
def test_no_word_of_a_place_stays_but_generic_ones(pieces: list[tuple[str, Case]], label: str) -> None:
    surface = " ".join(case(word) for word, case in pieces)
    assert words(surface) & words(surrogate(label, surface)) <= generic_words()


@pytest.mark.parametrize(
    ("label", "surface", "word"),
    [("STATE", "North Dakota", "dakota"), ("COUNTRY", "South Korea", "korea"), ("CITY", "North Adams", "adams")],
)
def test_a_place_has_no_neighbour_of_the_same_name(label: str, surface: str, word: str) -> None:
    for patient in map(str, range(60)):
        assert word not in words(REPLACER.replace(marked_note(f"<{label}|{surface}>", patient=patient)).text)


@pytest.mark.parametrize(
    ("surface", "same"), [("US", "usa"), ("USA", "us"), ("U.S.", "usa"), ("U.S.A.", "us"), ("GB", "uk")]
)
def test_another_short_form_of_a_country_is_not_its_surrogate(surface: str, same: str) -> None:
    for patient in map(str, range(100)):
        value = REPLACER.replace(marked_note(f"<COUNTRY|{surface}>", patient=patient), doubted=()).text
        assert fold(value) not in (fold(surface), same)


@pytest.mark.parametrize(
    ("surface", "kept"),
    [
        *(("67 yo Okonkwo", False), ("89-year-old Kowalski", False), ("3 (Kowalski)", False), ("3/4/67", False)),
        *(("Le, 45", False), ("45 y.o. M", True), ("67-year-old", True), ("3 1/2 months", True), ("30's", True)),
        *(("sesenta años de edad", False), ("20 años de edad", True), ("mid-60s", True), ("twenty to thirty", True)),
    ],
)
def test_an_age_with_another_word_is_no_age(surface: str, kept: bool) -> None:
    assert capped_age(surface) == (surface if kept else None)
    for style in ("surrogate", "cap-age"):
        styled = Replacer.from_options(None if style == "cap-age" else style, {"AGE": style}, key=KEY)
        assert styled.replace(marked_note(f"<AGE|{surface}>")).text == (surface if kept else "[AGE]")


@given(st.integers(0, 120), st.sampled_from("Le Do Kowalski Okonkwo garcía Pa".split()), st.booleans())
def test_no_name_stays_in_an_age(age: int, name: str, before: bool) -> None:
    surface = f"{name} {age}yo" if before else f"{age} yo {name}"
    assert capped_age(surface) is None


def test_letters_of_codes_never_stay_by_chance() -> None:
    for patient in map(str, range(200)):
        value = REPLACER.replace(marked_note("<IDNUM|JK-1234567>", patient=patient)).text
        assert value[0] != "J"
        assert value[1] != "K"


def people_note(number: int) -> str:
    """Return a note that names so many people."""
    syllables = ("ba", "ke", "lo", "mu", "ni", "ro", "sa", "te")
    names = ("".join(parts).title() for parts in product(syllables, repeat=4))
    people = zip(names, names, range(number), strict=False)
    return "; ".join(f"<PATIENT|{given} {family}>" for given, family, _ in people)


@pytest.mark.parametrize("two_passes", [False, True])
def test_numbers_of_many_people_cost_in_proportion_to_them(two_passes: bool) -> None:
    numbered = Replacer.from_options("numbered", key=KEY)
    work = []
    for number in (50, 800):
        note = marked_note(people_note(number))
        taken = {same_string(note.text[s.start : s.end]) for s in note.spans} if two_passes else ()
        work.append(calls(lambda note=note, taken=taken: numbered.replace(note, taken=taken)))
        text = numbered.replace(note, taken=taken).text
        assert sorted(map(int, re.findall(r"\d+", text))) == list(range(1, number + 1))
    # Sixteen times as many: 16 in proportion, 256 if every one were compared with every other.
    assert work[1] < 24 * work[0]
