"""Surrogate numbers and codes: a random digit for each digit, a random letter for each letter."""

import re

import numpy as np

from ensemble_deid.note.folding import fold

_DIGITS = "0123456789"
_LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZ"
_SHORTEST_PART, _LONGEST_PART = 3, 12
_INVALID_SSN = re.compile(r"\A(?:9|000(?=-?\d))")
_FICTIONAL_EXCHANGE = re.compile(r"(?<!\d)555(?=[-. )]*\d{4}(?!\d))")
_OCTET = re.compile(r"\d+")


class CodeMap:
    """One patient's numbers: a number is replaced alike however it is punctuated, and so are its last digits alone."""

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        self._known: dict[str, str] = {}
        self._parts: dict[str, str] = {}

    def replace(self, surface: str, label: str) -> str:
        """Return a code of the same pattern: digits, letters (in their case) and punctuation in the same positions.

        Lower-case letters of telephone numbers (`x4471`, `ext`), leading zeros and the exchange 555 of fictional
        telephone numbers are kept, as is the start of a social security number that marks it as invalid (9.., 000).
        """
        if label == "IPADDR":
            return self._address(surface)
        kept = _kept_places(surface, label)
        signs = [index for index, character in enumerate(surface) if character.isalnum()] or list(range(len(surface)))
        places = [index for index in signs if index not in kept] or signs
        characters = list(surface)
        for index, character in zip(places, self._fresh("".join(surface[i] for i in places)), strict=True):
            characters[index] = character.lower() if surface[index].islower() else character
        return "".join(characters)

    def _fresh(self, code: str) -> str:
        key = fold(code) if len(fold(code)) == len(code) else code
        if key in self._known:
            return self._known[key]
        if key in self._parts:
            return self._parts[key]
        value = self._draw(code)
        if value[-1].casefold() == code[-1].casefold():
            # The last character always changes, so that the last digits alone, too, differ from the original.
            value = value[:-1] + _next(value[-1])
        self._known[key] = value
        for length in range(_SHORTEST_PART, min(len(key), _LONGEST_PART + 1)):
            self._parts.setdefault(key[-length:], value[-length:])
        return value

    def _draw(self, code: str) -> str:
        return "".join(self._other(code, index) for index in range(len(code)))

    def _other(self, code: str, index: int) -> str:
        character = code[index]
        if character.isdecimal():
            leading = index == 0 or not code[index - 1].isdecimal()
            if leading:
                # A leading zero is usually part of the format.
                return "0" if character == "0" and len(code) > 1 else _DIGITS[int(self._random.integers(1, 10))]
            return _DIGITS[int(self._random.integers(10))]
        return _LETTERS[int(self._random.integers(len(_LETTERS)))]

    def _address(self, surface: str) -> str:
        octets = list(_OCTET.finditer(surface))
        if len(octets) != 4 or surface in self._known:
            return self._known.get(surface) or self.replace(surface, "IDNUM")
        value = surface
        while value == surface:
            fresh = [str(int(self._random.integers(1, 255))) for _ in range(2)]
            value = surface[: octets[2].start()] + ".".join(fresh)
        self._known[surface] = value
        return value


def _kept_places(surface: str, label: str) -> set[int]:
    kept: set[int] = set()
    if label in ("PHONE", "FAX"):
        kept.update(index for index, character in enumerate(surface) if character.islower())
        for match in _FICTIONAL_EXCHANGE.finditer(surface):
            kept.update(range(*match.span()))
    if label == "SSN":
        for match in _INVALID_SSN.finditer(surface):
            kept.update(range(*match.span()))
    return kept


def _next(character: str) -> str:
    if character.isdecimal():
        return _DIGITS[(int(character) + 1) % 10]
    position = _LETTERS.find(character.upper())
    return _LETTERS[(position + 1) % len(_LETTERS)]
