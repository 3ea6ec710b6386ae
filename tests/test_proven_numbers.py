"""Numbers that prove themselves: valid and invalid ones of every scheme, written and said, and where they count.

The numbers are the examples of the schemes' own documents, or were computed for this test.
"""

import random
import string
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.corpora.augment_words import digits_in_words
from ensemble_deid.note.labels import I2B2_TYPES
from ensemble_deid.note.number_words import read_number
from ensemble_deid.note.proven_numbers import SCHEMES, SOURCE, add_proven_numbers, proven_numbers
from ensemble_deid.note.span import Span
from ensemble_deid.seeds import generator

# Scheme -> numbers as notes write them, [in brackets].
WRITTEN = {
    "VIN": ["seen [1M8GDM9AXKP042788] today", "([1HGCM82633A004352])"],
    "payment card": ["[4111 1111 1111 1111]", "on [5555-5555-5555-4444].", "[378282246310005]"],
    "IBAN": ["[GB82 WEST 1234 5698 7654 32], then", "[IE29 AIBK 9311 5212 3456 78] PAID 12"],
    "South African identity number": ["[7503305044089]", "[800101 5009 08 7]"],
    "CHI number": ["[0101016018]"],
    "Medicare beneficiary identifier": ["[1EG4-TE5-MK73]", "[1EG4TE5MK73]"],
    "NRIC or FIN": ["[S1234567D]", "[F1234567N]", "[G1234567X]"],
    "SSN": ["[536-90-4399]"],
    "phone number with its country": ["ring [+44 20 7946 0958].", "[+1 (304) 555-0100]", "[+91 98765 43210]"],
    "postcode, United Kingdom": ["Bath [BA1 2QR].", "[SW1A 1AA]"],
    "postcode, Canada": ["(N.-B.) [E1W 0A7]"],
    "postcode, United States": ["Austin, TX [78701].", "NY [10001-1234]"],
    "postcode, Australia": ["Parramatta NSW [2150]", "WA [6000]"],
    "NHS number": ["NHS No: [943 476 5919]", "nhs number is [9434765919]"],
    "NHI number": ["NHI [ZAC5361]", "NHI: [ZBN77VL]", "NHI [ALU18KZ]", "NHI [ZZZ00AX]"],
    "Medicare card": ["Medicare card no. [2123 45670 1]", "MEDICARE: [2123456701]"],
    "Ontario health card": ["OHIP # [1234 567 897]", "Health card: [1234-567-897-AB]"],
    "British Columbia PHN": ["PHN [9698 658 215]"],
    "RAMQ number": ["carte RAMQ [TREM 5553 2514]"],
    "SIN": ["SIN [046 454 286]", "social insurance number [046-454-286]"],
    "PPSN": ["PPS No. [6433435F]", "PPSN [6433435OA]"],
    "Aadhaar": ["Aadhaar: [2341 2341 2346]"],
    "NPI": ["NPI [1234567893]"],
    "DEA number": ["DEA # [AB1234563]"],
    "BIC": ["BIC [ABNANL2A]"],
}  # fmt: skip
SCHEME = {scheme.name: scheme for scheme in SCHEMES}
EXAMPLES = [(name, text) for name, texts in WRITTEN.items() for text in texts]
NUMBERS = [(name, text[text.index("[") + 1 : text.index("]")]) for name, text in EXAMPLES]
CHECKED = [
    name for name in WRITTEN
    if SCHEME[name].chance is not None and name not in ("Medicare beneficiary identifier", "RAMQ number", "BIC")
]  # fmt: skip


def shown(text: str) -> str:
    """Return a text with the numbers that prove themselves in brackets."""
    for span in reversed(proven_numbers(text)):
        text = f"{text[: span.start]}[{text[span.start : span.end]}]{text[span.end :]}"
    return text


def compact(number: str) -> str:
    return "".join(filter(str.isalnum, number))


def test_every_scheme_has_an_example() -> None:
    assert set(WRITTEN) == set(SCHEME)


@pytest.mark.parametrize(("name", "marked"), EXAMPLES)
def test_a_number_is_found_as_a_whole_under_its_label(name: str, marked: str) -> None:
    text = marked.replace("[", "").replace("]", "")
    assert shown(text) == marked
    assert {span.label for span in proven_numbers(text)} == {SCHEME[name].label}


@pytest.mark.parametrize("name", CHECKED)
def test_one_changed_digit_breaks_the_proof(name: str) -> None:
    scheme = SCHEME[name]
    for number in (compact(number) for other, number in NUMBERS if other == name):
        assert scheme.proves(number)
        if name == "NHI number" and number[-1].isalpha():
            continue
        # Version letters and the like are not under the check, nor the issue of a card and what follows.
        last = {"Ontario health card": 10, "Medicare card": 9}.get(name, len(number))
        for place in (k for k in range(last) if number[k].isdecimal()):
            # Of every second digit a DEA number's check tells only the last digit of its double.
            same = {str((int(number[place]) + 5) % 10)} if name == "DEA number" and place in (3, 5, 7) else set()
            for digit in set(string.digits) - {number[place]} - same:
                assert not scheme.proves(number[:place] + digit + number[place + 1 :]), (number, place, digit)


@pytest.mark.parametrize(
    "wrong",
    [
        "SSN 666-12-3456 and 000-12-3456", "RAMQ TREM 5593 2514", "MBI 1EG4-TE5-MO73", "BIC HOSPXX2A", "IN 12345",
        "NSW 3000", "+1 555 1 2", "D1M 0A7", "QQ1 1AA", "BA1 2CK", "+6 pitting edema", "4111 1111 1111 1112",
        "1111 4111 1111 1111 1111", "NHS No. 943 476 5918", "A1B 2C", "12/0101016003", "no. 1-2341 2341 2346",
    ],
)  # fmt: skip
def test_others_are_left_alone(wrong: str) -> None:
    assert shown(wrong) == wrong


@pytest.mark.parametrize("name", [name for name in WRITTEN if not SCHEME[name].written])
def test_a_weak_number_counts_only_after_its_name(name: str) -> None:
    for number in (number for other, number in NUMBERS if other == name):
        assert SCHEME[name].chance is not None
        assert name not in {
            s.name for s in SCHEMES if any(s.label == x.label for x in proven_numbers(f"given {number}"))
        }


@pytest.mark.parametrize("name", CHECKED)
def test_the_chance_that_is_told_is_that_of_random_numbers_of_the_form(name: str) -> None:
    lot, scheme = random.Random(7), SCHEME[name]
    number = compact(next(number for other, number in NUMBERS if other == name))
    kinds = [string.digits if c.isdecimal() else string.ascii_uppercase for c in number]
    if name == "VIN":
        kinds = [string.digits + "ABCDEFGHJKLMNPRSTUVWXYZ"] * 17
    if name in ("NRIC or FIN", "IBAN"):
        kinds[: 2 if name == "IBAN" else 1] = [[c] for c in number[: 2 if name == "IBAN" else 1]]
    draws = 20_000
    passed = sum(scheme.proves("".join(lot.choice(kind) for kind in kinds)) for _ in range(draws)) / draws
    assert scheme.chance is not None
    assert passed <= 1.3 * scheme.chance + 0.001


@pytest.mark.parametrize(
    "said",
    [
        "nhs number nine four three, four seven six, five nine one nine",
        "NHS number is nine four three four seven six fifty nine nineteen",
        "NPI one two three four five six seven eight nine three",
        "social insurance number oh four six, four five four, two eight six",
        "DEA number is A B one two three four five six three",
        "Medicare card two one two three, four five six seven oh, one",
        "call four oh seven, five five five, zero one six eight",
        "Seven eight seven, five five five, oh one double two",
    ],
)
def test_numbers_in_words_are_read(said: str) -> None:
    [span] = proven_numbers(f"He said: {said}, he thinks.")
    assert f"He said: {said}"[span.start :].split()[0].lower() in (
        "nine", "one", "oh", "a", "two", "four", "seven",
    )  # fmt: skip
    assert span.end == len(f"He said: {said}")


def test_counts_in_words_are_no_numbers() -> None:
    for text in (
        "one two three four five six seven eight nine ten",
        "oh, two or three, four weeks",
        "nhs nine four three",
    ):
        assert proven_numbers(text) == ()


@given(st.text("0123456789", min_size=1, max_size=16), st.integers(0, 9))
def test_what_dictation_says_reads_back(number: str, seed: int) -> None:
    said = digits_in_words(number, generator(seed, "dictation"))
    assert (number, len(said)) in read_number(said, 0)


@given(st.text("NHS SIN card PI+-.,[1234567890 \nA", max_size=60))
def test_any_text_has_spans_inside_it_that_do_not_overlap(text: str) -> None:
    spans = proven_numbers(text)
    assert list(spans) == sorted(spans)
    assert all(0 <= span.start < span.end <= len(text) and "\n" not in text[span.start : span.end] for span in spans)
    assert all(a.end <= b.start for a, b in pairwise(spans))
    added = add_proven_numbers(text, [], I2B2_TYPES)
    assert added == spans
    assert add_proven_numbers(text, added, I2B2_TYPES) == added


def test_a_number_with_a_span_keeps_it_and_a_part_grows() -> None:
    text = "NHS No: 943 476 5919"
    whole = Span(8, 20, "IDNUM", 0.4)
    assert add_proven_numbers(text, [whole], I2B2_TYPES) == (whole,)
    assert add_proven_numbers(text, [Span(4, 20, "IDNUM", 0.4)], I2B2_TYPES) == (Span(4, 20, "IDNUM", 0.4),)
    assert [s.key for s in add_proven_numbers(text, [Span(8, 15, "IDNUM", 0.4)], I2B2_TYPES)] == [(8, 20, "IDNUM")]
    assert add_proven_numbers(text, [], I2B2_TYPES) == (Span(8, 20, "MEDICALRECORD", 1.0, SOURCE),)
    assert add_proven_numbers(text, [], ["DATE"]) == ()


def test_the_library_of_check_digits_is_loaded_for_a_candidate_only() -> None:
    script = (
        "import sys; from ensemble_deid.note.proven_numbers import proven_numbers as find; find('BP 120/80, 3/4/2071');"
        "print('stdnum' in sys.modules); find('NHS 943 476 5919'); print('stdnum' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
