"""Surrogates of the output: form and person are kept, the original is gone, and the key alone decides."""

import re
import subprocess
import sys
import unicodedata
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_keys import KEY, made_key
from marked_notes import marked_note

from ensemble_deid.deidentify.replacement import Key, Replacement, Replacer
from ensemble_deid.features.knowledge import read_knowledge
from ensemble_deid.note.document import Document
from ensemble_deid.note.folding import fold, same_string
from ensemble_deid.note.labels import I2B2_TYPES, MEDDOCAN_TYPES
from ensemble_deid.note.span import Span
from ensemble_deid.resources import rules_directory
from ensemble_deid.surrogates.ages import capped_age
from ensemble_deid.surrogates.choices import Keyed
from ensemble_deid.surrogates.dates import DateText, keyed_days, possible_days
from ensemble_deid.surrogates.lists import MEN, WOMEN, name_lists, towns
from ensemble_deid.surrogates.patient import kind_of

REPLACER = Replacer.from_options("surrogate", key=KEY)


def surfaces(replacement: Replacement) -> list[str]:
    return [replacement.text[span.new_start : span.new_end] for span in replacement.spans]


def surrogates(marked: str, *, taken: frozenset[str] = frozenset(), replacer: Replacer = REPLACER) -> list[str]:
    return surfaces(replacer.replace(marked_note(marked), taken=taken))


def test_one_person_has_one_name_in_whole_and_in_part() -> None:
    full, last, comma, initials, short, possessive, middle, hyphen = surrogates(
        "<PATIENT|John Smith>, Mr. <PATIENT|Smith>, <PATIENT|SMITH,JOHN>, <PATIENT|J.S.>, <PATIENT|Johnny>, "
        "<PATIENT|Smith's>, <PATIENT|Smith, John A.>, <PATIENT|Mary-Ann Smith>"
    )
    given, family = full.split()
    assert last == family != "Smith"
    assert comma == f"{family.upper()},{given.upper()}"
    assert initials == f"{given[0]}.{family[0]}."
    assert initials not in ("J.S.", "S.J.")
    assert short == given
    assert possessive == f"{family}'s"
    assert re.fullmatch(rf"{family}, {given} [B-Z]\.", middle)
    assert re.fullmatch(rf"[A-Z][a-z]+-[A-Z][a-z]+ {family}", hyphen)


def test_a_part_alone_is_the_same_person_in_another_note() -> None:
    taken = frozenset(map(same_string, ["John Smith", "Smith", "J.S.", "Johnny", "Ann Lee"]))
    (full,) = surrogates("<PATIENT|John Smith>", taken=taken)
    (last,) = surrogates("seen <PATIENT|Smith>", taken=taken)
    (initials,) = surrogates("<PATIENT|J.S.>", taken=taken)
    (short,) = surrogates("<PATIENT|Johnny>", taken=taken)
    assert [short, last] == full.split()
    assert initials == f"{short[0]}.{last[0]}."


def test_other_patients_and_projects_and_keys_give_other_names() -> None:
    marked = marked_note("<PATIENT|John Smith>")
    names = {
        replacer.replace(Document("n", marked.text, marked.spans, patient_id=patient)).text
        for replacer in (REPLACER, Replacer.from_options("surrogate", key=KEY, scope="b"))
        for patient in ("1", "2", "3")
    }
    assert len(names) == 6
    other = Replacer.from_options("surrogate", key=made_key("another"))
    assert other.replace(marked).text not in {REPLACER.replace(marked).text, *names}


def test_two_people_of_a_patient_never_become_one() -> None:
    names = [
        "Ann Poe",
        "Bea Fox",
        "Cal Roy",
        "Dee Lum",
        "Eve Kay",
        "Flo Orr",
        "Gus Ives",
        "Hal Yost",
        "Ida Nye",
        "Jed Urs",
    ]
    for patient in map(str, range(30)):
        document = marked_note(" ".join(f"<PATIENT|{name}>" for name in names), patient=patient)
        given, family = zip(*(value.split() for value in surfaces(REPLACER.replace(document))), strict=True)
        assert len(set(given)) == len(set(family)) == len(names)


def test_numbers_of_words_that_capitals_or_titles_tell_apart() -> None:
    document = marked_note("Dr. <DOCTOR|Bill>, <DOCTOR|SamLee>, <DOCTOR|Samlee>, <DOCTOR|Bill>")
    taken = {"bill", "samlee"}
    values = surfaces(Replacer.from_options("numbered", key=KEY).replace(document, taken=taken))
    assert values[0] == values[3] != values[1]


def test_staff_can_keep_one_name_in_all_patients() -> None:
    marked = [marked_note("Dr. <DOCTOR|Lee>, <PATIENT|Ann Poe>", patient=patient) for patient in ("1", "2")]
    staff = Replacer.from_options("surrogate", key=KEY, settings={"staff_across_patients": True})
    (first, one), (second, two) = (surfaces(staff.replace(each)) for each in marked)
    assert first == second != "Lee"
    assert one != two
    assert surfaces(REPLACER.replace(marked[0]))[0] != surfaces(REPLACER.replace(marked[1]))[0]


@pytest.mark.parametrize(("name", "kind"), [("Mary", "F"), ("Robert", "M"), ("Guadalupe", ""), ("Bob", "M")])
def test_gender_is_kept_where_it_is_known(name: str, kind: str) -> None:
    lists = name_lists()
    women = {n for (_, k), names in lists.given_out.items() if k == "F" for n in names}
    men = {n for (_, k), names in lists.given_out.items() if k == "M" for n in names}
    for patient in map(str, range(30)):
        given = REPLACER.replace(marked_note(f"<PATIENT|{name} Poe>", patient=patient)).text.split()[0]
        assert not kind or given in (women if kind == "F" else men)


def test_origin_is_kept_where_the_lists_know_it() -> None:
    hispanic = set(name_lists().given_out["hispanic", "S"])
    plain = {fold(name) for name in hispanic}
    for patient in map(str, range(30)):
        family = REPLACER.replace(marked_note("<DOCTOR|Gutiérrez>", patient=patient)).text
        assert family in hispanic
        assert fold(REPLACER.replace(marked_note("<DOCTOR|GUTIERREZ>", patient=patient)).text) in plain


def test_credentials_titles_and_suffixes_stay() -> None:
    assert re.fullmatch(r"Dr\. \w+ \w+ Jr\., MD", surrogates("<DOCTOR|Dr. Ann Poe Jr., MD>")[0])
    assert re.fullmatch(r"\w+ de la \w+", surrogates("<PATIENT|Ana de la Torre>")[0])


YEAR = 2014


@pytest.mark.parametrize(
    ("written", "shifted"),
    [
        ("03-05-2014", "04-09-2015"),
        ("March 5th, 2014", "April 9th, 2015"),
        ("6th of June", "11th of July"),
        ("Apr '09", "May '10"),
        ("12/4-12/9", "1/8-1/13"),
        ("12/4-9", "1/8-13"),
        ("March 3-5, 2014", "April 7-9, 2015"),
        ("28-30 March 2014", "2-4 May 2015"),
        ("Monday, March 3, 2014", "Tuesday, April 7, 2015"),
        ("Mondays", "Tuesdays"),
        ("Christmas 2014", "Groundhog Day 2016"),
        ("winter of 2013", "winter of 2014"),
        ("February 29", "April 4"),
        ("2/29/2012", "4/4/2013"),
        ("2014-03-05T10:22:01Z", "2015-04-09T10:22:01Z"),
        ("03/05/2014 14:30", "04/09/2015 14:30"),
        ("20140305", "20150409"),
        ("05MAR2014", "09APR2015"),
        ("3/2014", "4/2015"),
        ("2014-03", "2015-04"),
        ("2014-15", "2015-16"),
        ("2014-2016", "2015-2017"),
        ("14/5/2014", "18/6/2015"),
        ("week of 3/5", "week of 4/9"),
        ("5 de marzo de 2014", "9 de abril de 2015"),
        ("MARCH 2014", "APRIL 2015"),
        ("3/5/2014 at 2130", "4/9/2015 at 2130"),
        ("3/5/2014 at 0815", "4/9/2015 at 0815"),
        ("3/5/2014 1930 hrs", "4/9/2015 1930 hrs"),
        # Half past seven, or a year: what may be a year is shifted.
        ("3/5/2014 at 1930", "4/9/2015 at 1931"),
        ("at 2014-03-05", "at 2015-04-09"),
        ("2/29/2013", None),
        ("13/45/2014", None),
        ("3 days ago", None),
        ("whenever", None),
        ("in the nineties", None),
        ("Q3 2014", None),
        ("12:30", None),
    ],
)
def test_dates_keep_their_form_or_have_no_surrogate(written: str, shifted: str | None) -> None:
    assert DateText(400, day_first=False).shift(written, year=YEAR) == shifted


@pytest.mark.parametrize(
    ("days", "moved"),
    [(1830, "the 2000s, '90s"), (-1830, "the 1980s, '70s"), (9131, "the 2020s, '10s"), (-9131, "the 1970s, '60s")],
)
def test_decades_move_with_the_shift(days: int, moved: str) -> None:
    assert DateText(days, day_first=False).shift("the 1990s, '80s", year=YEAR) == moved


PARTS = [
    "May", "may", "SEPT", "Sun", "mondays", "2077", "'77", "the 2040s", "'80s", "fall", "Winter 2080", "Christmas",
    "late May", "New Year’s Eve", "5/2088", "3rd", "2/29", "3/14", "March 3-5", "16 de mayo de 2016", "early '70s",
    "Feb 28-29", "Ash Wednesday", "feb 98",
]  # fmt: skip


def test_no_part_of_a_date_stays_whatever_the_shift() -> None:
    # Around whole years, where months, days and seasons would stay, and at both ends; seven of each.
    near = {round(years * 365.25) + by for years in range(6, 25) for by in range(-3, 4)}
    later = set(possible_days(whole_weeks=False))
    for days in sorted(later & (near | set(range(1830, 1838)) | set(range(9124, 9132)))):
        for shift in (days, -days):
            for surface in PARTS:
                moved = DateText(shift, day_first=False).shift(surface, year=2088)
                assert moved is not None
                assert fold(moved) != fold(surface), (surface, shift)


def test_shifts_are_evenly_spread_in_both_directions() -> None:
    shifts = possible_days(whole_weeks=False)
    assert len(shifts) == len(set(shifts)) > 12_000
    assert all(days % 7 and abs(days) > 5 * 365.25 for days in shifts)
    assert {-days for days in shifts} == set(shifts)
    steps = {b - a for a, b in pairwise(days for days in shifts if days > 0)}
    assert steps == {1, 2}
    assert all(days % 7 == 0 for days in possible_days(whole_weeks=True))
    drawn = [keyed_days(Keyed(bytes([n]) * 32, ("p",)), whole_weeks=False) for n in range(200)]
    assert 70 < sum(days > 0 for days in drawn) < 130
    assert len({days // 1000 for days in drawn}) >= 16


_DATES = st.dates(date(1900, 1, 1), date(2100, 1, 1))
_FORMS = ("%m/%d/%Y", "%Y-%m-%d", "%B %d, %Y", "%d %B %Y", "%m-%d-%Y")


@given(_DATES, _DATES, st.sampled_from(_FORMS), st.integers(-3000, 3000))
def test_intervals_are_kept(first: date, second: date, form: str, days: int) -> None:
    dates = DateText(days, day_first=False)
    for day in (first, second):
        moved = dates.shift(day.strftime(form), year=YEAR)
        assert moved is not None
        assert _parsed(moved, form) == day + timedelta(days=days)


def _parsed(written: str, form: str) -> date:
    from datetime import datetime

    return datetime.strptime(written, form).replace(tzinfo=None).date()


@given(_DATES, st.integers(0, 89 * 365), st.sampled_from([str(number) for number in range(40)]))
def test_an_age_agrees_with_the_shifted_birth_date(seen: date, lived: int, patient: str) -> None:
    """Within two days: the leap days between may differ by one, and 2100, which has none, may be among the years."""
    born = max(seen - timedelta(days=lived), date(1860, 1, 1))
    moved = [REPLACER.shift_date(day.isoformat(), patient=patient) for day in (born, seen)]
    new_born, new_seen = (date.fromisoformat(day or "") for day in moved)
    assert new_seen - new_born == seen - born
    ages = {_age(new_born, new_seen + timedelta(days=near)) for near in range(-2, 3)}
    assert _age(born, seen) in ages


def _age(born: date, seen: date) -> int:
    return seen.year - born.year - ((seen.month, seen.day) < (born.month, born.day))


def test_weekdays_stay_where_shifts_are_of_whole_weeks() -> None:
    weeks = Replacer.from_options("surrogate", key=KEY, settings={"whole_weeks": True})
    for patient in map(str, range(20)):
        day, weekday = surfaces(weeks.replace(marked_note("<DATE|2014-03-03>, a <DATE|Monday>", patient=patient)))
        assert date.fromisoformat(day).strftime("%A") == weekday == "Monday"
        other = surfaces(REPLACER.replace(marked_note("<DATE|2014-03-03>, a <DATE|Monday>", patient=patient)))
        assert date.fromisoformat(other[0]).strftime("%A") == other[1] != "Monday"


def test_date_columns_are_shifted_like_the_notes() -> None:
    (day,) = surrogates("<DATE|2014-03-03>")
    assert REPLACER.shift_date("2014-03-03", patient="7") == day
    assert REPLACER.shift_date("2014-03-03 10:00:00", patient="7") == f"{day} 10:00:00"
    assert REPLACER.shift_date("n/a", patient="7") is None


@pytest.mark.parametrize(("label", "other"), [("DATE", "25/12/2014"), ("FECHAS", "1/1/2014")])
def test_ambiguous_dates_of_columns_are_read_as_in_the_notes(label: str, other: str) -> None:
    replacement = REPLACER.replace(marked_note(f"<{label}|03/04/2014> <{label}|{other}>"))
    taken, spanish = {"03/04/2014", other}, label == "FECHAS"
    assert REPLACER.shift_date("03/04/2014", patient="7", taken=taken, spanish=spanish) == surfaces(replacement)[0]
    assert REPLACER.shift_date("03/04/2014", patient="7") != surfaces(replacement)[0]


@pytest.mark.parametrize(
    ("age", "following", "kept"),
    [
        *(("64", "", "64"), ("89", "-year-old", "89"), ("90", "", "90+"), ("102", " y/o", "90+"), ("0", "", "0")),
        *(("ninety-two", "", "90+"), ("sixty", "", "sixty"), ("100", " days", "100"), ("95 years 3 months", "", None)),
        *(("one hundred and two", "", None), ("90", "s", None), ("1923", "", None), ("elderly", "", None)),
        *(("18 months", "", "18 months"), ("96 years", "", "90+")),
    ],
)
def test_ages_over_89_are_capped(age: str, following: str, kept: str | None) -> None:
    assert capped_age(age, following=following) == kept


def test_numbers_keep_their_form_and_lie_where_nobody_has_them() -> None:
    phone, plain, extension, social, tail, address, six, plate, record = surrogates(
        "<PHONE|(217) 523-8842>, <PHONE|217.523.8842>, <PHONE|523-8842 ext 12>, <SSN|123-45-6789>, <SSN|6789>, "
        "<IPADDR|10.20.30.40>, <IPADDR|fe80::1ff:fe23>, <VEHICLE|abc-1234>, <MEDICALRECORD|MRN 00123456>"
    )
    assert re.fullmatch(r"\([2-9]\d\d\) 555-01\d\d", phone)
    assert re.sub(r"\D", "", phone) == re.sub(r"\D", "", plain)
    assert re.fullmatch(r"555-01\d\d ext \d\d", extension)
    assert extension[:8] == phone[6:]
    assert re.fullmatch(r"x\d{5}", surrogates("<PHONE|x58817>")[0])
    assert re.fullmatch(r"9\d\d-[0-4]\d-\d{4}", social)
    assert social.endswith(tail)
    assert re.fullmatch(r"(192\.0\.2|198\.51\.100|203\.0\.113)\.\d{1,3}", address)
    assert six.startswith("2001:db8::")
    assert re.fullmatch(r"[a-z]{3}-\d{4}", plate)
    assert re.fullmatch(r"MRN 00?\d+", record)
    assert len(record) == len("MRN 00123456")


def test_addresses_of_the_web_are_examples_and_name_the_surrogate() -> None:
    name, mail, url = surrogates(
        "<PATIENT|John Smith> <EMAIL|jsmith42@mercy.org> <URL|https://www.mercy.org/patients/smith?id=553>"
    )
    given, family = name.lower().split()
    assert re.fullmatch(rf"{given[0]}{family}\d\d@\w+\.example\.org", mail)
    assert re.fullmatch(r"https://www\.\w+\.example\.org/\w+/\w+\?\w\w=\d{3}", url)
    assert mail.split("@")[1] in url


def test_geography_is_coherent() -> None:
    for patient in map(str, range(40)):
        town, state, code, again = surfaces(
            REPLACER.replace(
                marked_note("<CITY|Peoria>, <STATE|IL> <ZIP|61602>. Back in <CITY|PEORIA>", patient=patient)
            )
        )
        assert state in towns().states.keys() - {"IL"}
        assert town in towns().by_state[state]
        first, last = towns().codes[state]
        assert first <= int(code) <= last
        assert again == town.upper()


def test_hospitals_keep_their_kind_and_abbreviations_fit() -> None:
    name, short, street, job = surrogates(
        "<HOSPITAL|Lakewood General Hospital> (<HOSPITAL|LGH>), <STREET|12 Oak Hill Road, Apt 4B>, "
        "an <PROFESSION|engineer>"
    )
    word = name.removesuffix(" General Hospital")
    assert word.isalpha()
    assert short == f"{word[0]}GH"
    assert re.fullmatch(r"\d\d \w+ Hill Road, Apt \dB", street)
    assert job[0] in "aeiou"


def test_what_is_of_no_known_form_becomes_a_tag() -> None:
    assert surrogates("<OTHER|blue parrot> <DATE|whenever> <AGE|elderly> <FOO|bar>") == [
        *("[OTHER]", "[DATE]", "[AGE]", "[FOO]")
    ]


def test_spanish_notes_have_spanish_values() -> None:
    name, town, day = surrogates(
        "<NOMBRE_SUJETO_ASISTENCIA|Ana Gil>, <TERRITORIO|Sevilla>, <FECHAS|5/12/2014>, dos días"
    )
    assert len(name.split()) == 2
    assert town in (rules_directory() / "surrogates" / "cities-es.txt").read_text(encoding="utf-8").split()
    assert day == REPLACER.replace(marked_note("<FECHAS|5/12/2014> <FECHAS|25/12/2014>")).text.split()[0]


def test_spanish_people_have_two_surnames_of_their_own() -> None:
    full, both, first, called = surrogates(
        "<NOMBRE_PERSONAL_SANITARIO|Inés Navarro de la Cuesta> <NOMBRE_SUJETO_ASISTENCIA|Aranda Ruiz> "
        "<NOMBRE_PERSONAL_SANITARIO|Navarro> <NOMBRE_PERSONAL_SANITARIO|Inés>"
    )
    given, one, *particles, two = full.split()
    assert (given, one, particles) == (called, first, ["de", "la"])
    lists = name_lists().given_out
    assert given in lists["hispanic", "F"]
    assert {_unaccented(name) for name in (one, two, *both.split())} <= {_unaccented(n) for n in lists["hispanic", "S"]}


def _unaccented(name: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", name) if c.isascii())


@pytest.mark.parametrize("number", ["947 212 345", "606409021", "+34 91 727 73 36", "0034 963862500 ext. 12"])
def test_spanish_telephones_belong_to_nobody(number: str) -> None:
    (value,) = surrogates(f"<NUMERO_TELEFONO|{number}>")
    assert re.sub(r"\d", "0", value) == re.sub(r"\d", "0", number)
    assert re.match(r"(?:(?:00)?34)?9\d\d000", re.sub(r"\D", "", value))


def test_spanish_postal_codes_are_of_one_province() -> None:
    one, other = surrogates("<TERRITORIO|28016> <TERRITORIO|28905>")
    assert one[:2] == other[:2]
    assert 1 <= int(one[:2]) <= 52
    assert one != other


_SURFACES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=14),
    st.sampled_from(
        "John Smith|SMITH, JOHN|Poe|Ann|MGH|12 Oak St|Boston|MA|02115|3/4/2014|May|Nurse|555-1234".split("|")
    ),
)
# Letters of no Latin alphabet, which no surrogate and no tag has.
_BETWEEN = st.text(st.sampled_from("αβγ \n\t"), max_size=5)
# An age of up to 89 stays as it is.
_LABELS = st.sampled_from(sorted({*I2B2_TYPES, *MEDDOCAN_TYPES} - {"AGE", "EDAD_SUJETO_ASISTENCIA"}))


@st.composite
def documents(draw: st.DrawFn) -> Document:
    text, spans = draw(_BETWEEN), []
    for surface, label in draw(st.lists(st.tuples(_SURFACES, _LABELS), max_size=6)):
        spans.append(Span(len(text), len(text) + len(surface), label))
        text += surface + draw(_BETWEEN)
    return Document("n", text, tuple(spans), patient_id=draw(st.sampled_from(["1", "2"])))


@given(
    documents(), st.sampled_from(["surrogate", "tag", "numbered", "hash", "mask", "remove", "text:X"]), st.booleans()
)
def test_the_rest_of_the_text_and_the_map_are_exact(document: Document, style: str, two_passes: bool) -> None:
    taken = {same_string(document.text[s.start : s.end]) for s in document.spans} if two_passes else ()
    out = Replacer.from_options(style, key=KEY).replace(document, taken=taken)
    old, new = 0, 0
    for span, replaced in zip(document.spans, out.spans, strict=True):
        assert (span.start, span.end, span.label) == (replaced.start, replaced.end, replaced.label)
        assert document.text[old : span.start] == out.text[new : replaced.new_start]
        old, new = span.end, replaced.new_end
    assert document.text[old:] == out.text[new:]


@given(documents())
def test_no_original_stands_in_a_surrogate(document: Document) -> None:
    out = REPLACER.replace(document)
    for span, value in zip(document.spans, surfaces(out), strict=True):
        surface = document.text[span.start : span.end]
        if value != f"[{span.label}]" and len(fold(surface)) >= 3:
            assert fold(surface) not in fold(value)
        elif value != f"[{span.label}]":
            assert value != surface


@given(documents(), documents())
def test_no_surrogate_equals_any_phi_of_the_patients_notes(first: Document, second: Document) -> None:
    """Dates excepted: a shift that keeps intervals may lead to another date of the notes."""
    known = {doc.text[s.start : s.end] for doc in (first, second) for s in doc.spans}
    taken = {same_string(surface) for surface in known}
    folded = {fold(surface) for surface in known} - {""}
    for span, value in zip(first.spans, surfaces(REPLACER.replace(first, taken=taken)), strict=True):
        if kind_of(span.label, "") != "DATE" and value != f"[{span.label}]":
            assert fold(value) not in folded


@given(documents())
def test_the_same_key_gives_the_same_bytes(document: Document) -> None:
    fresh = Replacer.from_options("surrogate", key=Key(KEY.secret))
    assert fresh.replace(document).text == REPLACER.replace(document).text


def test_the_same_bytes_in_another_process() -> None:
    code = (
        "from ensemble_deid.deidentify.replacement import Key, Replacer\n"
        "from ensemble_deid import Document, Span\n"
        f"r = Replacer.from_options('surrogate', key=Key({KEY.secret!r}))\n"
        "d = Document('n', 'John Smith, MGH, 3/4/2014', (Span(0, 10, 'PATIENT'), Span(12, 15, 'HOSPITAL'),"
        " Span(17, 25, 'DATE')), patient_id='7')\n"
        "print(r.replace(d).text)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1]
    )
    here = REPLACER.replace(marked_note("<PATIENT|John Smith>, <HOSPITAL|MGH>, <DATE|3/4/2014>")).text
    assert done.stdout.strip() == here


def test_surrogates_avoid_the_phi_of_the_other_notes() -> None:
    marked = "<PATIENT|John Smith>"
    for patient in map(str, range(20)):
        document = marked_note(marked, patient=patient)
        first = REPLACER.replace(document).text
        taken = {same_string(part) for part in (*first.split(), "John Smith")}
        second = REPLACER.replace(document, taken=taken).text
        assert not {*map(str.lower, second.split())} & taken


def test_what_was_asked_before_changes_nothing() -> None:
    marked = ["<CITY|Peoria> <PATIENT|J.S.>", "<CITY|Boston>, <PATIENT|John Smith>", "<ZIP|61602> <STATE|OH>"]
    taken = frozenset(map(same_string, ["Peoria", "Boston", "John Smith", "J.S.", "61602", "OH"]))
    forward = [surrogates(each, taken=taken) for each in marked]
    fresh = Replacer.from_options("surrogate", key=KEY, scope="")
    from ensemble_deid.deidentify.replacement import replacer as module

    module._patient_surrogates.cache_clear()
    assert [surrogates(each, taken=taken, replacer=fresh) for each in reversed(marked)] == forward[::-1]


def test_the_lists_come_from_other_sources_than_the_public_lists_that_models_read() -> None:
    """Else a surrogate would be known to be a name more often than a real one is, or less."""
    files = sorted((rules_directory() / "surrogates").glob("*.txt"))
    sources = {path.name: path.read_text(encoding="utf-8").splitlines()[0] for path in files}
    # Nothing of this list is given out: the names that are stand in lists of their own.
    assert "none is given out" in sources.pop("genders-census.txt")
    assert all(re.match("# source: .*(Faker|written for this project)", line) for line in sources.values())
    knowledge = (rules_directory() / "knowledge" / "en" / "NOTICE").read_text(encoding="utf-8")
    assert "Faker" not in knowledge
    known = read_knowledge(rules_directory() / "knowledge" / "en")
    given_out = {fold(name) for names in name_lists().given_out.values() for name in names}
    listed = {fold(str(word)) for name in ("given", "surname") for word in known.words[name]}
    assert given_out - listed, "the surrogates are a part of the public lists"
    assert listed - given_out


@pytest.mark.parametrize(
    ("name", "kind"), [("Floyd", MEN), ("Lyle", MEN), ("Elmer", MEN), ("Mildred", WOMEN), ("Gladys", WOMEN)]
)
def test_names_of_older_people_keep_their_gender_though_none_is_given_out(name: str, kind: str) -> None:
    lists = name_lists()
    given_out = {fold(other) for names in lists.given_out.values() for other in names}
    assert fold(name) not in given_out
    for number in range(20):
        replacer = Replacer.from_options("surrogate", key=made_key(str(number)), scope="")
        value = surrogates(f"<PATIENT|{name}>", replacer=replacer)[0]
        assert value in lists.given_out["english", kind]
