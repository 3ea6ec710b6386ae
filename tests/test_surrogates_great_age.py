"""Birth years that show an age over 89: the patient's dates and ages together say which ones do."""

import pytest
from made_keys import KEY
from marked_notes import marked_note

from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.note.folding import same_string
from ensemble_deid.surrogates.ages import is_great_age

HARBOR = Replacer.from_options(policy="safe-harbor", key=KEY)
SURROGATES = Replacer.from_options("surrogate", key=KEY)


@pytest.mark.parametrize(
    ("marked", "kept"),
    [
        ("<AGE|94>-year-old, born <DATE|3/4/1925>.", "90+-year-old, born [DATE]."),
        ("DOB: <DATE|5/6/1920>.", "DOB: [DATE]."),
        ("DOB: <DATE|1920>, married <DATE|6/1/1948>.", "DOB: [DATE], married 1948."),
        ("<AGE|ninety-four>, born <DATE|3/4/1925>, bypass <DATE|1995>.", "90+, born [DATE], bypass 1995."),
        ("In <AGE|her nineties>, born <DATE|1929>.", "In [AGE], born [DATE]."),
        ("<AGE|84>, born <DATE|3/4/1930>, seen <DATE|3/5/2014>.", "84, born 1930, seen 2014."),
        ("Born <DATE|3/4/1925>, seen <DATE|3/5/2014>.", "Born 1925, seen 2014."),
        ("Born <DATE|3/4/1924>, seen <DATE|3/5/2014>.", "Born [DATE], seen 2014."),
        ("DOB: <DATE|5/6/1960>.", "DOB: 1960."),
        *(
            (f"Seen <DATE|5/6/2005>. DOB <DATE|4/5/1932>. CABG <DATE|{year}>.", f"Seen 2005. DOB 1932. CABG {full}.")
            for year, full in (("'95", 1995), ("’95", 1995), ("3/95", 1995), ("12/92", 1992), ("in '94", 1994))
        ),
        ("Aged <AGE|94-95>, born <DATE|3/4/1925>.", "Aged [AGE], born [DATE]."),
        (
            "<AGE|95 days> old, his aunt born <DATE|1930>, seen <DATE|3/5/2014>.",
            "95 days old, his aunt born 1930, seen 2014.",
        ),
    ],
)
def test_a_year_that_shows_a_great_age_becomes_a_tag(marked: str, kept: str) -> None:
    assert HARBOR.replace(marked_note(marked)).text == kept
    value = SURROGATES.replace(marked_note(marked)).text
    assert ("[DATE]" in value) == ("[DATE]" in kept)


def test_a_great_age_in_another_note_counts() -> None:
    birth = marked_note("DOB: <DATE|3/4/1925>. Seen <DATE|1/2/2010>.")
    taken = set(map(same_string, ["3/4/1925", "1/2/2010"]))
    assert HARBOR.replace(birth, taken=taken).text == "DOB: 1925. Seen 2010."
    assert HARBOR.replace(birth, taken={*taken, "94"}).text == "DOB: [DATE]. Seen 2010."


@pytest.mark.parametrize(
    ("surface", "great"),
    [
        *(("94", True), ("94-year-old", True), ("noventa años", True), ("94 anos", True), ("ninety one", True)),
        *(("102 y/o", True), ("one hundred", True), ("centenarian", True), ("90s", True), ("95 years 3 months", True)),
        *(("89", False), ("95 days", False), ("94 weeks", False), ("940", False), ("1994", False), ("94 Oak", False)),
        *(("'95", False), ("3/95", False), ("1/90", False), ("03-95", False), ("2/94 - 3/95", False)),
        *(
            ("her '90s", True),
            ("94's", True),
            ("94-95", True),
            ("94.5", True),
            ("94 1/2", True),
            ("94 in 3/95", True),
        ),
        *(("3/4/94", False), ("130", False), ("elderly", False), ("", False)),
    ],
)
def test_strings_that_are_great_ages_if_they_are_ages(surface: str, great: bool) -> None:
    assert is_great_age(surface) is great
