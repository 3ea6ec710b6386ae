"""The forms of a value that is no name, by its kind: as letters and digits without separators."""

import re
from collections.abc import Iterator

from ensemble_deid.deidentify.known.words import Words, compacted
from ensemble_deid.note.folding import visible

_LEAST_LOCAL = 7
_NATIONAL = 10
_LEAST_NUMBER = 5
_LEAST_PLACE = 4
_LETTERS_IN_FRONT = re.compile(r"\A[^\W\d_]+")
_SUFFIXES = (
    "street st",
    "avenue ave av",
    "road rd",
    "drive dr",
    "lane ln",
    "boulevard blvd",
    "court ct",
    "place pl",
    "square sq",
    "terrace ter",
    "parkway pkwy",
    "highway hwy",
    "circle cir",
    "trail trl",
    "turnpike tpke",
    "crossing xing",
    "way",
    "loop",
    "alley aly",
)
_SAME_SUFFIX = {word: group.split() for group in _SUFFIXES for word in group.split()}
_DIRECTIONS = frozenset("n s e w ne nw se sw north south east west".split())
_UNIT = frozenset("apt apartment unit suite ste floor fl room rm no number".split())


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


def string_forms(value: str) -> Iterator[str]:
    """Yield the letters and digits of a value."""
    yield compacted(value)


def address_forms(value: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a postal address and the i2b2 type of each: STREET, CITY or ZIP.

    A street is found with its number (`12 Oak`, whatever it ends in), or with what streets are called (`Oak St`). Parts
    with fewer than four letters or digits, such as the code of a state, are not found alone.
    """
    yield compacted(value), "STREET"
    for line in re.split(r"[,;\n]", value):
        words = list(Words.of(line).folded)
        if words and words[0].isdecimal() and len(words) > 1 and not words[1].isdecimal():
            yield from ((form, "STREET") for form in _street_forms(words))
        elif words and words[0] not in _UNIT:
            for word in words:
                if word.isdecimal() and len(word) >= _LEAST_NUMBER:
                    yield word, "ZIP"
            letters = "".join(word for word in words if not word.isdecimal())
            if len(letters) >= _LEAST_PLACE:
                yield letters, "CITY"


def _street_forms(words: list[str]) -> Iterator[str]:
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
