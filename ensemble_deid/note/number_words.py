"""English numbers in words: the words themselves, and identifiers read digit by digit as people say them."""

import re

DIGITS: tuple[str, ...] = tuple("zero one two three four five six seven eight nine".split())
TEENS: tuple[str, ...] = tuple(
    "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
)
BELOW_TWENTY = DIGITS + TEENS
TENS: tuple[str, ...] = tuple("twenty thirty forty fifty sixty seventy eighty ninety".split())
ORDINALS: tuple[str, ...] = tuple(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth".split()
)
"""The first to the twentieth."""

UNIT = rf"(?:{'|'.join(DIGITS[1:])})"
TEEN = rf"(?:{'|'.join(TEENS)})"
TEN = rf"(?:{'|'.join(TENS)})"
CARDINAL = rf"(?:{TEN}(?:[ -]{UNIT})?|{TEEN}|{UNIT})"
"""One to ninety-nine."""

_DIGIT_OF = {**{word: str(k) for k, word in enumerate(DIGITS)}, "oh": "0", "o": "0", "nought": "0"}
_SPOKEN = rf"(?:{'|'.join(_DIGIT_OF)})"
SPOKEN_DIGIT = rf"(?:oh|zero|nought|{UNIT}|double|triple)"
"""A digit as it is said, or the word for two or three of the next one."""
_PART = re.compile(
    rf"(?i:(?P<times>double|triple)[ -](?P<repeated>{_SPOKEN})\b|(?P<digit>{_SPOKEN})\b"
    rf"|(?P<tens>{TEN})\b(?:[ -](?P<units>{UNIT})\b)?|(?P<teen>{TEEN})\b)"
    r"|(?P<written>[A-Za-z]{0,7}[0-9][A-Za-z0-9]*|[A-Z]{1,11}(?!\w)|[a-z](?!\w))"
)
_BETWEEN = re.compile(r"[ ,./()-]{0,3}(?:(?:dash|hyphen|slash|space|dot)\b[ ,]{0,2})?")
_MOST_PARTS = 40


def cardinal(number: int) -> str:
    """Return a number below 100 in words: `eighty three`."""
    if number < 20:
        return BELOW_TWENTY[number]
    tens, ones = divmod(number, 10)
    return TENS[tens - 2] + (f" {DIGITS[ones]}" if ones else "")


def read_number(text: str, start: int) -> list[tuple[str, int]]:
    """Return the readings of the number at `start`, in digits and capitals, each with its end, the longest first.

    Digits may be written or said (`nine four double seven`); letters are single or capitals. None crosses a line end.
    """
    found: list[tuple[str, int]] = []
    number, place = "", start
    while len(found) < _MOST_PARTS and (match := _PART.match(text, place)):
        number += _in_digits(match)
        found.append((number, match.end()))
        gap = _BETWEEN.match(text, match.end())
        place = gap.end() if gap else match.end()
    return found[::-1]


def _in_digits(match: "re.Match[str]") -> str:
    part = {name: value.lower() for name, value in match.groupdict().items() if value}
    if "written" in part:
        return part["written"].upper()
    if "teen" in part:
        return str(10 + TEENS.index(part["teen"]))
    if "tens" in part:
        units = DIGITS.index(part["units"]) if "units" in part else 0
        return str(10 * (2 + TENS.index(part["tens"])) + units)
    if "times" in part:
        return _DIGIT_OF[part["repeated"]] * (2 if part["times"] == "double" else 3)
    return _DIGIT_OF[part["digit"]]
