"""Numbers that a measurement explains: bounded patterns against the simplest ones, and long runs of one sign."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.stacking.net import EXPLAINED

UNIT = r"(?:%|(?:mg|x)\b)"
SIMPLE = re.compile(
    "|".join(
        (
            r"\d+\.\d+",
            rf"\d[\d,.]*\s?-?\s?(?:to\s|-\s?|/)?\d*\s?{UNIT}",
            rf"\d[\d,.]*(?=\s?{UNIT})",
            r"(?i:\b(?:BP|mg))\b\s?(?:is|was|of|:|=|-|<|>|~)?\s?\d[\d.,/]*",
            r"\d{2,3}/\d{2,3}",
            r"\b[0-2]?\d:[0-5]\d(?::[0-5]\d)?",
            r"(?m:^[^\S\n]*\d{1,2}[.)])",
        )
    )
)
"""What they say in the simplest words, whose time grows with the cube of a run of digits."""


def digits_in(pattern: re.Pattern[str], text: str) -> set[int]:
    covered = {k for match in pattern.finditer(text) for k in range(*match.span())}
    return {k for k in covered if text[k].isdigit()}


@given(st.lists(st.sampled_from((*"0123456789.,-/:) \n", "12", "mg", "BP", "to ", "%", "x", "é")), max_size=14))
def test_they_explain_the_digits_that_the_simplest_patterns_explain(parts: list[str]) -> None:
    text = "".join(parts)
    assert digits_in(EXPLAINED, text) == digits_in(SIMPLE, text)


def test_of_a_number_longer_than_any_the_end_before_a_unit_is_explained() -> None:
    text = "1" * 200 + " mg"
    assert max(digits_in(EXPLAINED, text)) == 199


@pytest.mark.parametrize("run", ["1", "1,", "1.", "1/", "\n", " ", "\n ", "1 ", "1-", "BP ", "P", "1:"])
def test_a_run_of_one_sign_takes_no_long_time(run: str) -> None:
    text = (run * 50_000)[:50_000]
    begun = time.thread_time()
    for lead in ("", "BP 1"):
        list(EXPLAINED.finditer(lead + text + " y"))
    assert time.thread_time() - begun < 10, "seconds, where a quadratic pattern takes minutes"
