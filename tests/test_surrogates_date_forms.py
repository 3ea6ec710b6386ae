"""Dates whose parts stand apart are shifted as one date, or are not understood; never part by part."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_keys import KEY, made_key
from marked_notes import marked_note

from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.surrogates.dates import DateText

DAYS = 400
YEAR = 2014


def shifted(written: str, *, day_first: bool = False) -> str | None:
    return DateText(DAYS, day_first=day_first).shift(written, year=YEAR)


@pytest.mark.parametrize(
    ("written", "moved"),
    [
        ("12 25 2014", "01 29 2016"),
        ("3 - 5 - 2014", "4 - 9 - 2015"),
        ("3 / 5 / 2014", "4 / 9 / 2015"),
        ("3. 5. 2014", "4. 9. 2015"),
        ("2014 03 05", "2015 04 09"),
        ("2014. 03. 05", "2015. 04. 09"),
        ("12/25 2014", "01/29 2016"),
        ("12/25, 2014", "01/29, 2016"),
        ("12/4 - 9", "1/8 - 13"),
        ("12/4-9, 2014", "1/8-13, 2016"),
        ("2nd week of May", "2nd week of June"),
        ("1st weekend in May 2014", "1st weekend in June 2015"),
        ("2014 Dec 25", "2016 Jan 29"),
        ("2014-DEC-25 10:30", "2016-JAN-29 10:30"),
        ("2014 December 25th", "2016 January 29th"),
        ("2014 December", "2016 January"),
        ("'14 Dec", "'16 Jan"),
        ("25 Dec in 2014", "29 Jan in 2016"),
        ("12/25 in 2014", "01/29 in 2016"),
        ("the 25th of December in 2014", "the 29th of January in 2016"),
        ("December in 2014", "January in 2016"),
        ("Christmas in 2014", "Groundhog Day in 2016"),
        ("Christmas Day 2014", "Groundhog Day 2016"),
        ("Christmas day", "Groundhog Day"),
    ],
)
def test_parts_that_stand_apart_are_one_date(written: str, moved: str) -> None:
    assert shifted(written) == moved


@pytest.mark.parametrize(
    "written",
    [
        *("5 2014", "5, 2014", "3, 5, 2014", "5th 2014", "3 5 14", "3(5)2014", "1 9 9 7", "2014 3/5"),
        *("on 3/5 (2014)", "2014 (3/5)", "3/5 '14", "Dec 25 14", "Dec 25, 14", "March 3, 5 and 7", "13 45 2014"),
        *("30 - 2 - 2014", "2/29 / 2013", "2/29, 2013", "2/29 2013", "3/5/2014 1430", "2014-03-05 10"),
        *("week 2", "2 weeks", "2 days", "12 noon", "5th night", "3rd day of March", "FY 14", "year 14", "spring 14"),
        *("week 12 2014", "3/5/2014 at 10", "May 5 2014 5"),
    ],
)
def test_a_number_whose_part_in_a_date_is_unknown_has_no_surrogate(written: str) -> None:
    check_that_a_tag_follows(written)


@pytest.mark.parametrize(
    "written",
    [
        *("25 Dec (2014)", "2014 (Dec 25)", "2014, March 5", "2014 Dec 3-5", "2014 spring", "Christmas (2014)"),
        *("2014-15 winter", "3/5, in the year 2014", "late 2014, early March", "5 March in 14 weeks", "2013 - March"),
        *("winter of 2013-2014", "winter 2013/2014", "Christmas 2013 and 2014", "spring '13 - 2015"),
        *("March 2014, the 5th", "January 2000 in 2", "3/5/2014 and the 7th", "the 5th (2014)", "5th (March)"),
    ],
)
def test_parts_of_one_date_that_stand_apart_have_no_surrogate(written: str) -> None:
    check_that_a_tag_follows(written)


def check_that_a_tag_follows(written: str) -> None:
    assert shifted(written) is None
    note = marked_note(f"<DATE|{written}>")
    assert Replacer.from_options("surrogate", key=KEY).replace(note).text == "[DATE]"


@pytest.mark.parametrize(
    ("written", "moved"),
    [
        ("the 3rd, 5th and 7th", "the 7th, 9th and 11th"),
        ("5 10:30", "9 10:30"),
        ("10:30 2014", "10:30 2015"),
        ("2013 - 2014", "2014 - 2015"),
        ("2/2013 - 3/2014", "3/2014 - 4/2015"),
        ("2012 - 3/2014", "2013 - 4/2015"),
        ("2012, 2013", "2013, 2014"),
        ("2013, March 5, 2014", "2014, April 9, 2015"),
        ("2012 - spring 2014", "2013 - spring 2015"),
        ("winter 2013, summer 2014", "winter 2014, summer 2015"),
        ("Monday 2014", "Tuesday 2015"),
        ("3-5 - 3-9", "4-9 - 4-13"),
        ("night of the 5th", "night of the 9th"),
        ("el día 5", "el día 9"),
        ("Monday 5 March", "Tuesday 9 April"),
    ],
)
def test_several_dates_and_days_alone_are_still_understood(written: str, moved: str) -> None:
    assert shifted(written) == moved


_BLANKS = st.sampled_from(["", " ", "  ", "\n"])
_SIGNS = st.sampled_from(["", "-", "/", ".", ",", "–", ";", "("])
_SEPARATORS = st.builds(lambda before, sign, after: (before + sign + after) or " ", _BLANKS, _SIGNS, _BLANKS)


@given(st.dates(date(1950, 1, 1), date(2030, 1, 1)), _SEPARATORS, _SEPARATORS, st.sampled_from(["mdy", "dmy", "ymd"]))
def test_three_numbers_are_one_date_or_none(day: date, first: str, second: str, order: str) -> None:
    def written(day: date) -> str:
        parts = {"y": f"{day.year}", "m": f"{day.month:02d}", "d": f"{day.day:02d}"}
        return f"{parts[order[0]]}{first}{parts[order[1]]}{second}{parts[order[2]]}"

    assert shifted(written(day), day_first=order == "dmy") in (None, written(day + timedelta(days=DAYS)))


_NEAR_NAMES = st.one_of(_SEPARATORS, st.sampled_from([" in ", " of ", ", in ", " of the year "]))


@given(
    st.dates(date(1950, 1, 1), date(2030, 1, 1)),
    st.integers(-3000, 3000),
    st.sampled_from([" ", "-", "/", ".", ", ", ". ", " of "]),
    _NEAR_NAMES,
    st.sampled_from(["ymd", "dmy", "mdy", "myd"]),
)
def test_a_date_with_the_name_of_its_month_is_one_date_or_none(
    day: date, days: int, first: str, second: str, order: str
) -> None:
    def written(day: date) -> str:
        parts = {"y": f"{day.year}", "m": day.strftime("%B"), "d": f"{day.day}"}
        return f"{parts[order[0]]}{first}{parts[order[1]]}{second}{parts[order[2]]}"

    moved = DateText(days, day_first=False).shift(written(day), year=YEAR)
    assert moved in (None, written(day + timedelta(days=days)))
    if order == "ymd" and {first, second} <= {" ", "-", "/", "."}:
        assert moved is not None


@given(st.integers(1950, 2030), st.integers(1, 12), st.integers(-3000, 3000), _NEAR_NAMES, st.booleans())
def test_a_month_with_its_year_is_one_date_or_none(
    year: int, month: int, days: int, between: str, year_first: bool
) -> None:
    def written(day: date) -> str:
        parts = [f"{day.year}", day.strftime("%B")]
        return between.join(parts if year_first else parts[::-1])

    middle = date(year, month, 15)
    moved = DateText(days, day_first=False).shift(written(middle), year=YEAR)
    assert moved in (None, written(middle + timedelta(days=days)))


def test_dates_of_several_forms_keep_their_intervals() -> None:
    for number in range(6):
        replacer = Replacer.from_options("surrogate", key=made_key(str(number)))
        note = marked_note("<DATE|2014-Dec-25>, <DATE|2014-12-26>, <DATE|25 Dec in 2014>")
        named, plain, apart = replacer.replace(note).text.split(", ")
        day = date.fromisoformat(plain) - timedelta(days=1)
        assert named == f"{day.year}-{day:%b}-{day.day}"
        assert apart == f"{day.day} {day:%b} in {day.year}"


def test_the_year_style_still_shows_a_year_that_stands_apart() -> None:
    years = Replacer.from_options(styles={"DATE": "year"}, key=KEY)
    assert years.replace(marked_note("<DATE|25 Dec (2014)>")).text == "2014"


def test_dates_asked_for_again_and_by_several_threads_are_shifted_as_alone() -> None:
    written = [f"{day}/{month}/{year}" for year in range(1950, 1954) for month in range(1, 13) for day in range(1, 29)]
    written += ["25 Dec (2014)", "2014"]
    alone = [shifted(text, day_first=True) for text in written]
    assert None in alone
    assert any(alone)
    together = DateText(DAYS, day_first=True)
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda text: together.shift(text, year=YEAR), written * 2)) == alone * 2
