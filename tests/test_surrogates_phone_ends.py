"""The last four digits of a telephone number alone, as in `ends in 8842`, are those of its surrogate."""

import pytest
from made_keys import KEY
from marked_notes import marked_note

from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.note.folding import same_string

REPLACER = Replacer.from_options("surrogate", key=KEY)


def surrogates(marked: str, *, taken: frozenset[str] = frozenset()) -> list[str]:
    replacement = REPLACER.replace(marked_note(marked), taken=taken)
    return [replacement.text[span.new_start : span.new_end] for span in replacement.spans]


@pytest.mark.parametrize(
    "number",
    [
        "(309) 523-8842",
        "309-523-8842",
        "523-8842",
        "+1 309 523 8842",
        "309.523.8842 x 12",
        "3095238842",
        "(309)523-8842",
    ],
)
@pytest.mark.parametrize("label", ["PHONE", "FAX"])
def test_the_end_alone_is_the_end_of_the_surrogate(number: str, label: str) -> None:
    whole, end, short = surrogates(f"<PHONE|{number}> or <{label}|8842>, <{label}|x-8842>")
    assert end == whole.partition(" x ")[0][-4:] != "8842"
    assert "8842" not in short


def test_the_whole_number_may_stand_in_another_note() -> None:
    taken = frozenset(map(same_string, ["(309) 523-8842", "8842"]))
    (whole,) = surrogates("<PHONE|(309) 523-8842>", taken=taken)
    assert surrogates("<PHONE|8842>, <PHONE|...8842>", taken=taken) == [whole[-4:], f"...{whole[-4:]}"]


@pytest.mark.parametrize(
    "others",
    [
        "<PHONE|(309) 523-8842> <PHONE|(309) 111-8842>",
        "<MEDICALRECORD|1238842>",
        "<DATE|3-25-8842>",
        "<IDNUM|523-88842>",
        "<PHONE|+44 20 7946 8842>",
    ],
)
def test_an_end_that_names_no_single_number_has_a_surrogate_of_its_own(others: str) -> None:
    alone = surrogates("<PHONE|8842>")
    assert surrogates(f"{others} <PHONE|8842>")[-1:] == alone
