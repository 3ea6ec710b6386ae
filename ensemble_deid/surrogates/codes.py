"""Numbers and codes of the output, in the form they have: telephone numbers, identifiers, IP addresses.

What could belong to somebody is avoided where a range for examples exists: the telephone numbers 555-01xx, social
security numbers that begin with 9, the networks of RFC 5737 and RFC 3849. Spain has no such range; in its landline
numbers 000 follows the area, as in none that is assigned.
"""

import re
from dataclasses import dataclass, field

from ensemble_deid.note.folding import fold
from ensemble_deid.surrogates.choices import Keyed
from ensemble_deid.surrogates.known import Avoided

_LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZ"
_KEPT_WORDS = frozenset(
    "mrn id no nr num number acct account ssn npi dea lic license policy member ref sn vin dl x ext".split()
)
_LABELS = frozenset("ip ipv addr address host social security soc sec".split())
_TAIL = 4
_SHORTEST_WITH_TAIL = 7
_ATTEMPTS = 200
_RUN = re.compile(r"[^\W\d_]+|\d+")
_EXTENSION = re.compile(r"\s*(?:x|ext|extension)\.?\s*\d+\s*\Z", re.IGNORECASE)
_LAST_DIGITS = re.compile(r"(?<!\d)[0-9]{4}\Z")
_TELEPHONE = re.compile(
    r"(?:\+?1[\s.-]*)?(?:\(?[0-9]{3}\)?[\s./-]*)?(?<![0-9])[0-9]{3}[\s.-]+[0-9]{4}|(?:\+?1)?[0-9]{10}"
)
_SPANISH_TELEPHONE = re.compile(r"(?P<country>(?:(?:00)?34)?)(?P<area>[6-9]\d{2})(?P<line>\d{6})")
_NETWORKS = ("192.0.2", "198.51.100", "203.0.113")
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_IPV6 = re.compile(r"[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}", re.IGNORECASE)
_SSN_DIGITS, _US_DIGITS, _LOCAL_DIGITS = 9, 10, 7


@dataclass(frozen=True, slots=True)
class Codes:
    """One patient's numbers: a number is replaced alike however it is punctuated, and so are its last four digits.

    For telephone numbers this holds where exactly one of the patient's PHI, `known`, ends in these four.
    """

    keyed: Keyed
    avoided: Avoided
    known: frozenset[str] = field(default=frozenset(), repr=False)
    language: str = "en"

    def replace(self, surface: str, label: str) -> str | None:
        """Return another code in the form of `surface`, None where it has neither digits nor letters."""
        make = {"PHONE": self._phone, "FAX": self._phone, "SSN": self._social_security, "IPADDR": self._address}
        whole = self._whole_number(surface) if label in ("PHONE", "FAX") else None
        number = self.replace(whole, "PHONE") if whole else None
        if number:
            end = _LAST_DIGITS.sub(number[-_TAIL:], surface)
            if self.avoided.allows(end):
                return end
        for attempt in range(_ATTEMPTS):
            value = make.get(label, self._code)(surface, str(attempt))
            if value is None:
                return None
            if fold(value) != fold(surface) and self.avoided.allows(value):
                return value
        return None

    def digits(self, text: str) -> str:
        """Return the text with the digits in it replaced, such as the number of a house."""
        return re.sub(r"\d+", lambda match: self.replace(match.group(), "IDNUM") or "", text)

    def _around(self, text: str) -> str:
        """Return what stands beside a number, with the digits and all words but those of labels replaced."""

        def replaced(match: "re.Match[str]") -> str:
            run = match.group()
            return run if run.casefold() in _KEPT_WORDS | _LABELS else self.replace(run, "IDNUM") or ""

        return _RUN.sub(replaced, text)

    def _code(self, surface: str, attempt: str) -> str | None:
        places = [
            place
            for run in _RUN.finditer(surface)
            if run.group().casefold() not in _KEPT_WORDS
            for place in range(*run.span())
        ]
        if not places:
            places = [place for run in _RUN.finditer(surface) for place in range(*run.span())]
        return _filled(surface, places, self._signs("".join(surface[p] for p in places), attempt)) if places else None

    def _signs(self, code: str, attempt: str) -> str:
        """Return other characters, of the same kinds; what is one code with other letters' case gives the same."""
        value = "".join(self._sign(code, place, attempt) for place in range(len(code)))
        tail = code[-_TAIL:]
        if len(code) >= _SHORTEST_WITH_TAIL and tail.isdecimal():
            # The last four digits alone name the same person as the whole number.
            value = value[:-_TAIL] + self._signs(tail, attempt)
        return value

    def _sign(self, code: str, place: int, attempt: str) -> str:
        character = code[place]
        parts = ("code", fold(code), str(place), attempt)
        if not character.isdecimal():
            # No letter stays by chance: two of them may be the initials or the name of a person.
            letters = _LETTERS.replace(character.upper(), "")
            letter = letters[self.keyed.number(len(letters), *parts)]
            return letter.lower() if character.islower() else letter
        leading = len(code) > 1 and (place == 0 or not code[place - 1].isdecimal())
        if leading:
            # A leading zero is usually part of the format, and a number does not begin with another one.
            return "0" if character == "0" and attempt == "0" else str(1 + self.keyed.number(9, *parts))
        return str(self.keyed.number(10, *parts))

    def _whole_number(self, surface: str) -> str | None:
        tail = _LAST_DIGITS.search(surface)
        if tail is None or any(map(str.isalnum, surface[: tail.start()])):
            return None
        numbers = (_EXTENSION.sub("", string).strip() for string in self.known)
        whole = sorted(number for number in numbers if number.endswith(tail.group()) and _TELEPHONE.fullmatch(number))
        lines = {re.sub(r"\D", "", number)[-_LOCAL_DIGITS:] for number in whole}
        return whole[0] if len(lines) == 1 else None

    def _phone(self, surface: str, attempt: str) -> str | None:
        extension = _EXTENSION.search(surface)
        head = surface[: extension.start()] if extension else surface
        tail = surface[len(head) :]
        places = [place for place, character in enumerate(head) if character.isdecimal()]
        digits = "".join(head[place] for place in places)
        if extension and tail:
            tail = self.digits(tail)
        if self.language == "es" and (spanish := _SPANISH_TELEPHONE.fullmatch(digits)):
            region = 10 + self.keyed.number(90, "area", spanish["area"], attempt)
            ending = self.keyed.number(1000, "phone", spanish["line"], attempt)
            return _filled(head, places, f"{spanish['country']}9{region}000{ending:03d}") + tail
        country = len(digits) - _US_DIGITS if len(digits) == _US_DIGITS + 1 and digits[0] == "1" else 0
        if not digits:
            return self._code(surface, attempt)
        if any(c.isalnum() and not c.isdecimal() for c in head) or len(digits) - country not in (
            _LOCAL_DIGITS,
            _US_DIGITS,
        ):
            fresh = self._code(head, attempt)
            return None if fresh is None else fresh + tail
        number = digits[country:]
        line = 100 + self.keyed.number(100, "phone", number[-_LOCAL_DIGITS:], attempt)
        area = f"{201 + self.keyed.number(789, 'area', number[:-_LOCAL_DIGITS], attempt)}"
        value = digits[:country] + (area if len(number) == _US_DIGITS else "") + f"5550{line}"
        return _filled(head, places, value) + tail

    def _social_security(self, surface: str, attempt: str) -> str | None:
        places = [place for place, character in enumerate(surface) if character.isdecimal()]
        digits = "".join(surface[place] for place in places)
        inside = range(places[0], places[-1]) if places else ()
        if len(digits) != _SSN_DIGITS or any(surface[at].isalnum() for at in inside if at not in places):
            return self._code(surface, attempt)
        # Numbers 900-01 to 999-49 belong neither to a person nor to a taxpayer.
        area = 900 + self.keyed.number(100, "ssn area", digits, attempt)
        group = 1 + self.keyed.number(49, "ssn group", digits, attempt)
        value = _filled(surface, places, f"{area}{group:02d}{self._signs(digits[-_TAIL:], attempt)}")
        first, last = places[0], places[-1] + 1
        return self._around(value[:first]) + value[first:last] + self._around(value[last:])

    def _address(self, surface: str, attempt: str) -> str | None:
        four, six = _IPV4.search(surface), _IPV6.search(surface)
        if four:
            network = _NETWORKS[self.keyed.number(len(_NETWORKS), "ip", four.group(), attempt)]
            host = 1 + self.keyed.number(254, "ip host", four.group(), attempt)
            return self._around(surface[: four.start()]) + f"{network}.{host}" + self._around(surface[four.end() :])
        if six:
            groups = [f"{self.keyed.number(1 << 16, 'ip', fold(six.group()), str(i), attempt):x}" for i in range(2)]
            value = f"2001:db8::{':'.join(groups)}"
            return self._around(surface[: six.start()]) + value + self._around(surface[six.end() :])
        return self._code(surface, attempt)


def _filled(surface: str, places: list[int], value: str) -> str:
    characters = list(surface)
    for place, character in zip(places, value, strict=True):
        characters[place] = character
    return "".join(characters)
