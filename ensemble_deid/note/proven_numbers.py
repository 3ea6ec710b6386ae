"""Numbers that prove themselves: by a check digit, by what their parts may be, or by a form that nothing else has.

Each scheme says what share of random numbers of its form pass its test (`chance`). Where few do, or where nothing else
in a note has the form, the number is found wherever it stands (`written`). Where every tenth number passes, a name
before it must say what it is (`_NAMES`); such a number may also be said in words.

Check digits are computed by python-stdnum where it has the scheme.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module

from ensemble_deid.note.number_words import SPOKEN_DIGIT, read_number
from ensemble_deid.note.overlaps import drop_overlaps, join_overlaps, outside
from ensemble_deid.note.span import Span

SOURCE = "proven number"
"""The source of a span that a number's own digits prove."""

_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_VIN_VALUES = dict(zip("ABCDEFGHJKLMNPRSTUVWXYZ", "12345678123457923456789", strict=True))
_VIN_WEIGHTS = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)
_NHI_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
_NRIC_LETTERS = {"S": "JZIHGFEDCBA", "T": "JZIHGFEDCBA", "F": "XWUTRQPNMLK", "G": "XWUTRQPNMLK", "M": "XWUTRQPNJLK"}
_NRIC_ADDS = {"S": 0, "T": 4, "F": 0, "G": 4, "M": 3}
_CARD = re.compile(
    r"3[47]\d{13}|4\d{15}|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"
    r"|6(?:011|4[4-9]\d|5\d\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|62\d{14}"
)
_MBI = re.compile(
    r"[1-9][AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9]\d[AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9]\d[AC-HJKMNP-RT-Y]{2}\d\d"
)
_STATES = (
    "CT|MA|ME|NH|NJ|RI|VT DE|NY|PA DC|MD|NC|SC|VA|WV AL|FL|GA|MS|TN IN|KY|MI|OH IA|MN|MT|ND|SD|WI IL|KS|MO|NE "
    "AR|LA|OK|TX AZ|CO|ID|NM|NV|UT|WY AK|CA|HI|OR|WA"
).split()
_US_ZIP = "|".join(rf"(?<=\b{state}[ ]){digit}" for digit, part in enumerate(_STATES) for state in part.split("|"))
_AU_STATES = {"NT": 0, "NSW": 2, "ACT": 2, "VIC": 3, "Vic": 3, "QLD": 4, "Qld": 4, "SA": 5, "WA": 6, "TAS": 7, "Tas": 7}
_AU_CODE = "|".join(rf"(?<=\b{state}[ ]){digit}" for state, digit in _AU_STATES.items())
_UK_AREA = (
    "(?:A[BL]|B[ABDHLNRST]?|C[ABFHMORTVW]|D[ADEGHLNTY]|E[CHNX]?|F[KY]|G[LUY]?|H[ADGPRSUX]|I[GMPV]|JE|K[ATWY]"
    "|L[ADELNSU]?|M[EKL]?|N[EGNPRW]?|O[LX]|P[AEHLOR]|R[GHM]|S[AEGKLMNOPRSTWY]?|T[ADFNQRSW]|UB|W[ACDFNRSV]?|YO|ZE)"
)
_CA_LAST = "[ABCEGHJ-NPRSTV-Z]"
_PHONE_SAID = re.compile(r"1?[2-9]\d\d[2-9]\d{6}|0[1237]\d{9}|0[23478]\d{8}")


def _vin(number: str) -> bool:
    if not re.fullmatch(r"(?=.*[A-Z])[A-HJ-NPR-Z0-9]{8}[0-9X][A-HJ-NPR-Z0-9]{8}", number):
        return False
    total = sum(w * int(_VIN_VALUES.get(c, c)) for w, c in zip(_VIN_WEIGHTS, number, strict=True))
    return "0123456789X"[total % 11] == number[8]


def _of_stdnum(scheme: str, *, digits: bool = False) -> Callable[[str], bool]:
    """Return the check of a python-stdnum scheme; with `digits`, numbers with other characters fail it."""
    return lambda number: (number.isdecimal() or not digits) and import_module(f"stdnum.{scheme}").is_valid(number)


_luhn = _of_stdnum("luhn")
_nhs = _of_stdnum("gb.nhs", digits=True)


def _is_day(month: str, day: str) -> bool:
    return month.isdecimal() and day.isdecimal() and 1 <= int(month) <= 12 and 1 <= int(day) <= _DAYS[int(month) - 1]


def _nhi(number: str) -> bool:
    """Three letters and four digits, or two digits and two letters (HISO 10046; of these, two checks are in use)."""
    if not re.fullmatch(r"[A-HJ-NP-Z]{3}\d\d(?:\d\d|[A-HJ-NP-Z]{2})", number):
        return False
    values = [int(c) if c.isdecimal() else _NHI_LETTERS.index(c) + 1 for c in number]
    total = sum(weight * value for weight, value in zip(range(7, 1, -1), values, strict=False))
    if number[-1].isdecimal():
        return total % 11 > 0 and (11 - total % 11) % 10 == values[-1]
    return values[-1] in (23 - total % 23, 24 - total % 24)


def _medicare(number: str) -> bool:
    """Of Australia: the card's nine digits, its issue, and perhaps the person's place on it."""
    if not re.fullmatch(r"[2-6]\d{8}[1-9][1-9]?", number):
        return False
    return sum(w * int(c) for w, c in zip((1, 3, 7, 9, 1, 3, 7, 9), number, strict=False)) % 10 == int(number[8])


def _ontario(number: str) -> bool:
    return re.fullmatch(r"[1-9]\d{9}(?:[A-Z]{1,2})?", number) is not None and _luhn(number[:10])


def _quebec(number: str) -> bool:
    """Letters of the name, the day of birth (50 is added to a woman's month), and two digits."""
    if not re.fullmatch(r"[A-Z]{4}\d{8}", number):
        return False
    month = int(number[6:8])
    return _is_day(str(month - 50 if month > 50 else month), number[8:10])


def _sin(number: str) -> bool:
    return re.fullmatch(r"[0-79]\d{8}", number) is not None and _luhn(number)


def _nric(number: str) -> bool:
    if not re.fullmatch(r"[STFGM]\d{7}[A-Z]", number):
        return False
    total = _NRIC_ADDS[number[0]] + sum(w * int(c) for w, c in zip((2, 7, 6, 5, 4, 3, 2), number[1:8], strict=True))
    return _NRIC_LETTERS[number[0]][total % 11] == number[8]


def _south_africa(number: str) -> bool:
    return re.fullmatch(r"\d{10}[01]\d\d", number) is not None and _is_day(number[2:4], number[4:6]) and _luhn(number)


def _dea(number: str) -> bool:
    if not re.fullmatch(r"[A-HJ-MPR-UX][A-Z9]\d{7}", number):
        return False
    digits = [int(c) for c in number[2:]]
    return (sum(digits[0:6:2]) + 2 * sum(digits[1:6:2])) % 10 == digits[6]


def _ssn(number: str) -> bool:
    return re.fullmatch(r"(?!000|666|9)\d{3}(?!00)\d\d(?!0000)\d{4}", number) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """A kind of number: its label, its test, and how it is written where it needs no name before it.

    `proves` takes the number without what separates its parts. `written` has one group, the number. `chance` is the
    share of random numbers of the form that pass; None for a scheme that has its form alone.
    """

    name: str
    label: str
    proves: Callable[[str], bool] = field(repr=False)
    written: str = field(default="", repr=False)
    chance: float | None = None


SCHEMES: tuple[Scheme, ...] = (
    Scheme(name="VIN", label="VEHICLE", proves=_vin, chance=0.03, written=r"([A-HJ-NPR-Z0-9]{17})"),
    Scheme(name="payment card", label="ACCOUNT", proves=lambda n: bool(_CARD.fullmatch(n)) and _luhn(n), chance=0.023,
           written=r"(\d{4}([ -]?)\d{4}\2\d{4}\2\d{4}|3[47]\d\d([ -]?)\d{6}\3\d{5})"),
    Scheme(name="IBAN", label="ACCOUNT", proves=_of_stdnum("iban"), chance=0.011,
           written=r"([A-Z]{2}\d\d(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?)"),
    Scheme(name="South African identity number", label="SSN", proves=_south_africa, chance=0.0007,
           written=r"(\d{6} ?\d{4} ?\d\d ?\d)"),
    Scheme(name="CHI number", label="MEDICALRECORD", proves=lambda n: _is_day(n[2:4], n[:2]) and _nhs(n),
           chance=0.0033, written=r"(\d{6} ?\d{4})"),
    Scheme(name="Medicare beneficiary identifier", label="HEALTHPLAN", proves=lambda n: bool(_MBI.fullmatch(n)),
           chance=0.0003, written=r"(\d[A-Z][A-Z0-9]\d-?[A-Z][A-Z0-9]\d-?[A-Z]{2}\d\d)"),
    Scheme(name="NRIC or FIN", label="SSN", proves=_nric, chance=0.04, written=r"([STFGM]\d{7}[A-Z])"),
    Scheme(name="SSN", label="SSN", proves=_ssn, written=r"(\d{3}-\d\d-\d{4})"),
    Scheme(name="phone number with its country", label="PHONE", proves=lambda number: 8 <= len(number) <= 15,
           written=r"(\+(?:1[ .-]?\(?[2-9]\d\d\)?[ .-]?\d{3}[ .-]?\d{4}|[2-9]\d{0,2}(?:[ .-]?\(?\d{1,4}\)?){2,5}))"),
    Scheme(name="postcode, United Kingdom", label="ZIP", proves=bool,
           written=rf"({_UK_AREA}\d[A-Z\d]? \d[ABD-HJLNP-UW-Z]{{2}})"),
    Scheme(name="postcode, Canada", label="ZIP", proves=bool,
           written=rf"([ABCEGHJ-NPRSTVXY]\d{_CA_LAST} \d{_CA_LAST}\d)"),
    Scheme(name="postcode, United States", label="ZIP", proves=bool,
           written=rf"((?=\d{{5}})(?:{_US_ZIP})\d{{4}}(?:-\d{{4}})?)"),
    Scheme(name="postcode, Australia", label="ZIP", proves=bool, written=rf"((?=\d{{4}})(?:{_AU_CODE})\d{{3}})"),
    Scheme(name="NHS number", label="MEDICALRECORD", proves=_nhs, chance=0.09),
    Scheme(name="NHI number", label="MEDICALRECORD", proves=_nhi, chance=0.09),
    Scheme(name="Medicare card", label="HEALTHPLAN", proves=_medicare, chance=0.045),
    Scheme(name="Ontario health card", label="HEALTHPLAN", proves=_ontario, chance=0.09),
    Scheme(name="British Columbia PHN", label="HEALTHPLAN", proves=_of_stdnum("ca.bc_phn", digits=True), chance=0.009),
    Scheme(name="RAMQ number", label="HEALTHPLAN", proves=_quebec, chance=0.073),
    Scheme(name="SIN", label="SSN", proves=_sin, chance=0.09),
    Scheme(name="PPSN", label="SSN", proves=_of_stdnum("ie.pps"), chance=0.04),
    Scheme(name="Aadhaar", label="SSN", proves=_of_stdnum("in_.aadhaar", digits=True), chance=0.08),
    Scheme(name="NPI", label="LICENSE", chance=0.02,
           proves=lambda n: bool(re.fullmatch(r"[12]\d{9}", n)) and _luhn(f"80840{n}")),
    Scheme(name="DEA number", label="LICENSE", proves=_dea, chance=0.07),
    Scheme(name="BIC", label="ACCOUNT", proves=_of_stdnum("bic"), chance=0.37),
)  # fmt: skip
_NAMES: dict[str, str] = {
    r"NHS|health service": "NHS number|CHI number",
    r"CHI": "CHI number",
    r"NHI": "NHI number",
    r"medicare|MBI": "Medicare card|Medicare beneficiary identifier",
    r"OHIP|health card|HCN?|carte (?:santé|soleil)|assurance maladie|RAMQ|NAM|health (?:insurance )?number":
        "Ontario health card|RAMQ number|British Columbia PHN",
    r"PHN|(?:personal|provincial) health|care ?card": "British Columbia PHN|Ontario health card",
    r"SIN|social insurance": "SIN",
    r"PPSN?|personal public service": "PPSN",
    r"NRIC|FIN": "NRIC or FIN",
    r"aadhaa?r|UIDAI": "Aadhaar",
    r"NPI|provider": "NPI",
    r"DEA": "DEA number",
    r"SSN?|social security|social": "SSN",
    r"(?:RSA |SA )?ID|identity": "South African identity number|Aadhaar|NRIC or FIN",
    r"IBAN|account|a/c": "IBAN|payment card",
    r"BIC|SWIFT(?: code|/BIC)": "BIC",
    r"card|visa|mastercard|amex": "payment card",
    r"VIN|chassis|vehicle": "VIN",
}  # fmt: skip
"""What a note calls the numbers of some schemes, in any case."""

_BY_NAME = {scheme.name: scheme for scheme in SCHEMES}
_WRITTEN = tuple(
    (scheme, re.compile(rf"(?<![\w+-])(?<!\d[./]){scheme.written}(?![\w-]|[./]\d)"))
    for scheme in SCHEMES
    if scheme.written
)
_NAMED = re.compile(
    rf"(?<![\w-])(?:{'|'.join(f'({names})' for names in _NAMES)})\b"
    r"(?:[ \t:#.=|(-]|(?:numbers?|no|num|nr|nbr|id|card|code|is|was|reads)\b){0,6}(?<!\w)(?=\w)",
    re.IGNORECASE,
)
_NAMED_SCHEMES = tuple(tuple(_BY_NAME[name] for name in names.split("|")) for names in _NAMES.values())
_SAID = re.compile(rf"(?<![\w-]){SPOKEN_DIGIT}(?:[ ,-]{{1,3}}{SPOKEN_DIGIT}\b){{5,}}", re.IGNORECASE)


def proven_numbers(text: str) -> tuple[Span, ...]:
    """Return the numbers of a text whose check digits or form prove what they are, in text order, without overlaps."""
    return drop_overlaps([*_alone(text), *_after_their_names(text), *_said(text)])


def _alone(text: str) -> Iterator[Span]:
    for scheme, pattern in _WRITTEN:
        for match in pattern.finditer(text):
            # What follows after a blank may be another number.
            ends = [match.end(1), *(k for k in range(match.end(1) - 1, match.start(1), -1) if text[k] == " ")]
            for end in ends:
                if scheme.proves("".join(filter(str.isalnum, text[match.start(1) : end]))):
                    yield Span(match.start(1), end, scheme.label, 1.0, SOURCE)
                    break


def _after_their_names(text: str) -> Iterator[Span]:
    for match in _NAMED.finditer(text):
        start = match.end()
        schemes = _NAMED_SCHEMES[(match.lastindex or 0) - 1]
        proven = (
            Span(start, end, scheme.label, 1.0, SOURCE)
            for number, end in read_number(text, start)
            for scheme in schemes
            if scheme.proves(number)
        )
        yield from (span for span in [next(proven, None)] if span is not None)


def _said(text: str) -> Iterator[Span]:
    """Yield the phone numbers that are said digit by digit: no count or measure is said so."""
    for match in _SAID.finditer(text):
        for number, end in read_number(text, match.start()):
            if end <= match.end() and _PHONE_SAID.fullmatch(number):
                yield Span(match.start(), end, "PHONE", 1.0, SOURCE)
                break


def add_proven_numbers(text: str, spans: Iterable[Span], labels: Collection[str]) -> tuple[Span, ...]:
    """Return a note's spans, which do not overlap, and the numbers that none of them covers, in text order.

    Only numbers of `labels`, those of the model, are added. A span over part of a number grows over all of it and keeps
    its label.
    """
    given = tuple(spans)
    numbers = [span for span in proven_numbers(text) if span.label in labels]
    return tuple(
        join_overlaps([*given, *outside(given, numbers)], prefer=lambda span: (span.source != SOURCE, span.score))
    )
