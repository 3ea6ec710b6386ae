"""The kinds of known identifiers: the label of each, how its values are matched, and the forms that they take."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate

from ensemble_deid.deidentify.known.words import Words, compacted
from ensemble_deid.note.folding import visible
from ensemble_deid.note.labels import to_i2b2
from ensemble_deid.note.number_words import ORDINALS
from ensemble_deid.surrogates.lists import towns

_LEAST_LOCAL = 7
_NATIONAL = 10
_LEAST_NUMBER = 5
_LEAST_PLACE = 4
_LONGEST_STATE = 3
_NO_STATES = frozenset(("dc", "pr", "districtofcolumbia"))
_LETTERS_IN_FRONT = re.compile(r"\A[^\W\d_]+")
_SUFFIXES = (
    "street st, avenue ave av, road rd, drive dr, lane ln, boulevard blvd, court ct, place pl, square sq, terrace ter, "
    "parkway pkwy, highway hwy, circle cir, trail trl, turnpike tpke, crossing xing, way, loop, alley aly"
).split(", ")
_SAME_SUFFIX = {word: group.split() for group in _SUFFIXES for word in group.split()}
_DIRECTIONS = frozenset("n s e w ne nw se sw north south east west".split())
_UNIT = frozenset("apt apartment unit suite ste floor fl room rm no number".split())
_BOX = re.compile(r"(?:rr\d+)?(?:po|postoffice)?(?P<box>box\d+)")
_ENDINGS = ("st", "nd", "rd", "th")
_SHORT_ORDINAL = re.compile(r"\d\d(?:st|nd|rd|th)")
_IN_WORDS = {f"{number}{_ENDINGS[min(number, 4) - 1]}": word for number, word in enumerate(ORDINALS, start=1)}
_OTHER_ORDINAL = _IN_WORDS | {word: number for number, word in _IN_WORDS.items()}
_ZIP, _ZIP_PLUS_FOUR = 5, 9


def number_forms(value: str) -> Iterator[str]:
    """Yield a number without separators, without leading zeros, and without letters in front of it."""
    whole = compacted(value)
    yield whole
    digits = _LETTERS_IN_FRONT.sub("", whole)
    for form in (whole.lstrip("0"), digits, digits.lstrip("0")):
        if len(form) >= _LEAST_NUMBER:
            yield form


def phone_forms(value: str) -> Iterator[str]:
    """Yield a telephone number with and without the country's prefix, and the local number of a North American one."""
    digits = "".join(word for word in Words.of(re.split(r"[xX#]|ext", value)[0]).folded if word.isdecimal())
    yield compacted(value)
    if len(digits) == _NATIONAL + 1 and digits[0] == "1":
        digits = digits[1:]
    if len(digits) >= _LEAST_LOCAL:
        yield digits
    if len(digits) == _NATIONAL:
        yield f"1{digits}"
        yield digits[-_LEAST_LOCAL:]
    elif visible(value).lstrip().startswith("+"):
        # A national number abroad begins with 0 in place of a prefix of one to three digits.
        for size in (1, 2, 3):
            if len(digits) - size >= _LEAST_LOCAL:
                yield from (digits[size:], f"0{digits[size:]}")


def zip_forms(value: str) -> Iterator[str]:
    """Yield a ZIP code as a number, and without the last four of nine digits."""
    yield from number_forms(value)
    digits = compacted(value)
    if digits.isdecimal() and len(digits) == _ZIP_PLUS_FOUR:
        yield digits[:_ZIP]


def address_forms(value: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a postal address and the i2b2 type of each: STREET, CITY or ZIP.

    A street is found with its number (`12 Oak`) or with its suffix (`Oak St`), a box with its number, a town with and
    without the state after it. Short parts, such as the code of a state, are not found alone.
    """
    yield compacted(value), "STREET"
    for line in re.split(r"[,;\n]", value):
        words = _words_of(line)
        if len(words) > 1 and words[0].isdecimal() and not words[1].isdecimal():
            other = [_OTHER_ORDINAL.get(word, word) for word in words]
            for written in (words, other) if other != words else (words,):
                # `2 5th` of `2 5th Ave` would be found in `the 25th percentile`.
                forms = (form for form in _street_forms(written) if not _SHORT_ORDINAL.fullmatch(form))
                yield from ((form, "STREET") for form in forms)
            continue
        box = _BOX.match("".join(words))
        if box:
            yield from ((box[0], "STREET"), (box["box"], "STREET"))
            ends = accumulate(map(len, words))
            words = [word for word, end in zip(words, ends, strict=True) if end > box.end()]
        if words and words[0] not in _UNIT:
            yield from _town_forms(words)


def _words_of(line: str) -> list[str]:
    """Return the folded words of a line, ordinals such as `5th` as one."""
    words = Words.of(line)
    found: list[str] = []
    for number, word in enumerate(words.folded):
        if found and found[-1].isdecimal() and word in _ENDINGS and not words.gap(number - 1):
            found[-1] += word
        else:
            found.append(word)
    return found


def _town_forms(words: list[str]) -> Iterator[tuple[str, str]]:
    numbers = [word for word in words if word.isdecimal() and len(word) >= _LEAST_NUMBER]
    yield from ((form, "ZIP") for number in numbers for form in zip_forms(number))
    letters = [word for word in words if not word.isdecimal()]
    town = letters[: len(letters) - _words_of_state(letters, sure=bool(numbers))]
    yield from (
        (form, "CITY") for form in dict.fromkeys(["".join(letters), "".join(town)]) if len(form) >= _LEAST_PLACE
    )


def _words_of_state(words: list[str], *, sure: bool) -> int:
    """Return how many words at the end of a town are a state; a whole name only where a ZIP code makes it `sure`."""
    for count in range(min(len(words), _LONGEST_STATE), 0, -1):
        state = "".join(words[-count:])
        if state in _NO_STATES or (state in towns().code_of and (sure or len(state) == 2)):
            return count if count < len(words) else 0
    return 0


def _street_forms(words: Sequence[str]) -> Iterator[str]:
    end = next((at for at, word in enumerate(words) if at > 1 and word in _SAME_SUFFIX), None)
    cut = next((at for at, word in enumerate(words) if at > 0 and word in _UNIT), len(words))
    if end is None:
        yield "".join(words[:cut])
        return
    name = "".join(words[1:end])
    without_direction = "".join(word for word in words[1:end] if word not in _DIRECTIONS)
    for suffix in _SAME_SUFFIX[words[end]]:
        yield from (f"{words[0]}{name}{suffix}", f"{name}{suffix}")
        if without_direction:
            yield f"{without_direction}{suffix}"
    yield f"{words[0]}{name}"


class Matching(Enum):
    """How values of a kind are matched."""

    NAME = "name"
    NUMBER = "number"
    ZIP = "zip"
    PHONE = "phone"
    ADDRESS = "address"
    DATE = "date"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of identifier: its i2b2 type, and how it is matched."""

    type: str
    matching: Matching

    @property
    def needs_patient(self) -> bool:
        """Whether it says something of a single patient only."""
        return self.type in ("PATIENT", "MEDICALRECORD", "SSN", "DATE")

    @property
    def least(self) -> int:
        """The least number of letters and digits that a value must have."""
        return 4 if self.matching in (Matching.NUMBER, Matching.ZIP, Matching.PHONE) else 2

    def forms(self, value: str) -> Iterator[tuple[str, str]]:
        """Yield the forms of a value that is neither name nor date, without separators, and the i2b2 type of each."""
        if self.matching is Matching.ADDRESS:
            yield from address_forms(value)
            return
        made = {Matching.NUMBER: number_forms, Matching.ZIP: zip_forms, Matching.PHONE: phone_forms}.get(self.matching)
        yield from ((form, self.type) for form in ([compacted(value)] if made is None else made(value)))


KINDS = {
    "name": Kind("PATIENT", Matching.NAME),
    "relative": Kind("PATIENT", Matching.NAME),
    "staff": Kind("DOCTOR", Matching.NAME),
    "username": Kind("USERNAME", Matching.STRING),
    "mrn": Kind("MEDICALRECORD", Matching.NUMBER),
    "ssn": Kind("SSN", Matching.NUMBER),
    "account": Kind("ACCOUNT", Matching.NUMBER),
    "healthplan": Kind("HEALTHPLAN", Matching.NUMBER),
    "license": Kind("LICENSE", Matching.NUMBER),
    "vehicle": Kind("VEHICLE", Matching.NUMBER),
    "device": Kind("DEVICE", Matching.NUMBER),
    "id": Kind("IDNUM", Matching.NUMBER),
    "birthdate": Kind("DATE", Matching.DATE),
    "phone": Kind("PHONE", Matching.PHONE),
    "fax": Kind("FAX", Matching.PHONE),
    "email": Kind("EMAIL", Matching.STRING),
    "url": Kind("URL", Matching.STRING),
    "address": Kind("STREET", Matching.ADDRESS),
    "city": Kind("CITY", Matching.STRING),
    "zip": Kind("ZIP", Matching.ZIP),
    "hospital": Kind("HOSPITAL", Matching.STRING),
    "organization": Kind("ORGANIZATION", Matching.STRING),
}
"""By the name that a file has in its column `kind`, in lower case, without blanks and hyphens."""


def label_for(type: str, labels: Collection[str]) -> str:
    """Return the label that a model has for an i2b2 type: the first that corresponds to it, else the type itself."""
    return type if type in labels else next((label for label in labels if to_i2b2(label) == type), type)
