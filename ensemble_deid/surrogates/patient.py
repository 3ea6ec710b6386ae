"""The surrogates of one patient, functions of key, patient and PHI; addresses are in the domains of RFC 2606."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ensemble_deid.note.folding import fold, match_case, visible, without_marks
from ensemble_deid.note.labels import I2B2_TYPES, MEDDOCAN_TO_I2B2, category_of, to_i2b2
from ensemble_deid.surrogates.ages import capped_age, is_great_age
from ensemble_deid.surrogates.choices import Keyed
from ensemble_deid.surrogates.codes import Codes
from ensemble_deid.surrogates.date_forms import is_day_first
from ensemble_deid.surrogates.dates import POSSIBLE_YEARS, USUAL_YEAR, DateText, keyed_days
from ensemble_deid.surrogates.known import Avoided, KnownNames
from ensemble_deid.surrogates.lists import plain_list
from ensemble_deid.surrogates.names import PersonNames
from ensemble_deid.surrogates.places import Geography, NamedPlaces

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)?(?P<host>[^\s/:?#]+)(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_LETTERS = re.compile(r"[^\W\d_]+")
_KEPT = frozenset("www http https html htm php aspx pdf index home mailto ftp com org net".split())
_SCHEMES = frozenset(f"{name}://" for name in "http https ftp ftps sftp file tel smb".split())
_TOP_LEVEL = ("com", "org", "net")
_SHORTEST_WORD, _SHORTEST_CODE = 4, 4


@dataclass(frozen=True, slots=True)
class Web:
    """The addresses in one patient's notes; people in them have the surrogates that they have elsewhere."""

    keyed: Keyed
    avoided: Avoided
    names: PersonNames
    codes: Codes

    def email(self, surface: str) -> str | None:
        """Return another address, such as `mlopez@willow.example.org`."""
        local, at, host = surface.rpartition("@")
        if not at:
            return self.url(surface)
        handle = self.handle(local) if local else None
        return None if handle is None else f"{handle}@{self._host(host)}"

    def url(self, surface: str) -> str | None:
        """Return another URL: the scheme stays, the words and numbers of the path are replaced."""
        match = _URL.fullmatch(surface.strip())
        if match is None:
            return None
        scheme = match["scheme"] or ""
        if scheme.casefold() not in _SCHEMES:
            scheme = self._words(scheme)
        return surface.replace(match.group(), scheme + self._host(match["host"]) + self._words(match["rest"]))

    def handle(self, surface: str) -> str | None:
        """Return another user name: from a person's surrogate if it is one, else word by word."""
        named = self.names.handle(surface, self._letters)
        value = self.codes.digits(named) if named is not None else self._words(surface)
        if fold(value) == fold(surface) or not self.avoided.allows(value):
            return self.codes.replace(surface, "USERNAME")
        return value

    def _host(self, host: str) -> str:
        labels = host.casefold().split(".")
        ending = labels[-1] if labels[-1] in _TOP_LEVEL else _TOP_LEVEL[self.keyed.number(3, "ending", labels[-1])]
        www = "www." if labels[0] == "www" else ""
        # What tells the hosts of an organisation apart (mail, www) is left out: the domain is theirs.
        domain = ".".join(labels[-2:])
        return f"{www}{self._word(domain).lower()}.example.{ending}"

    def _words(self, text: str) -> str:
        return self.codes.digits(_LETTERS.sub(lambda match: self._letters(match.group()), text))

    def _letters(self, letters: str) -> str:
        if letters.casefold() in _KEPT:
            return letters
        if len(letters) < _SHORTEST_WORD:
            return self.codes.replace(letters, "IDNUM") or ""
        return match_case(letters, self._word(letters))

    def _word(self, word: str) -> str:
        value = self.keyed.pick(plain_list("place-names"), "web", fold(word), fits=self.avoided.allows_words)
        return value or self.codes.replace(word, "IDNUM") or "example"


_SPANISH = set(MEDDOCAN_TO_I2B2) - set(I2B2_TYPES)
_KIND_OF_CATEGORY = {"NAME": "PATIENT", "ID": "IDNUM", "LOCATION": "LOCATION-OTHER"}
_AROUND = 24
_VOWELS = "aeiou"
# Electronic notes are hardly older: where the latest date is, it is a birth date or the like, not that of the notes.
_FIRST_NOTES = 1990
OLDEST = 89


@dataclass(frozen=True, slots=True)
class SurrogateSettings:
    """What a site chooses: shifts by whole weeks, one name for a clinician in all patients, 14/5 for 14 May.

    `open_ended`: more notes of each patient may come, so surrogates depend on as little of the others as possible.
    `min_score`: a string that no span finds with at least this score becomes a tag, not an invented value.
    """

    whole_weeks: bool = False
    staff_across_patients: bool = False
    day_first: bool | None = None
    open_ended: bool = False
    min_score: float = 0.965


def is_spanish(label: str) -> bool:
    """Whether a label is of MEDDOCAN alone, whose notes are Spanish."""
    return label in _SPANISH


def kind_of(label: str, surface: str) -> str:
    """Return the i2b2 type that decides the surrogate; for a whole category, one that the string looks like."""
    name = label.upper()
    known = to_i2b2(name)
    if known is not None:
        return known
    if name == "CONTACT":
        return "EMAIL" if "@" in surface else "URL" if re.search(r"[a-z]\.[a-z]|/", surface) else "PHONE"
    category = category_of(name)
    return _KIND_OF_CATEGORY.get(category or "", category or "")


@dataclass(slots=True)
class PatientSurrogates:
    """Makes the surrogates for one patient's PHI; `known` has all of it, as far as it is known, without case.

    `scope` is a name and the patient; no surrogate equals a string in `avoided`. A value does not depend on what was
    asked for before.
    """

    secret: bytes = field(repr=False)
    scope: tuple[str, str] = field(repr=False)
    settings: SurrogateSettings
    known: frozenset[str] = field(repr=False)
    spanish: bool = False
    avoided: frozenset[str] = field(default=frozenset(), repr=False)
    dates: DateText = field(init=False, repr=False)
    names: PersonNames = field(init=False, repr=False)
    year: int = field(init=False)
    _latest_possible: int = field(init=False, repr=False)
    _keyed: Keyed = field(init=False, repr=False)
    _avoided: Avoided = field(init=False, repr=False)
    _codes: Codes = field(init=False, repr=False)
    _geography: Geography = field(init=False, repr=False)
    _places: NamedPlaces = field(init=False, repr=False)
    _web: Web = field(init=False, repr=False)
    _numbers: dict[str, dict[str, int]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self.known = frozenset(map(without_marks, self.known))
        scope, patient = self.scope
        language = "es" if self.spanish else "en"
        keyed = self._keyed = Keyed(self.secret, (scope, "patient", patient))
        staff = Keyed(self.secret, (scope, "staff")) if self.settings.staff_across_patients else None
        day_first = self.settings.day_first
        if day_first is None:
            day_first = self.spanish or is_day_first(iter(sorted(self.known)))
        self.dates = DateText(keyed_days(keyed, whole_weeks=self.settings.whole_weeks), day_first=day_first)
        open_ended, latest = self.settings.open_ended, self.latest_year(self.known) or USUAL_YEAR
        unclear = open_ended or latest < _FIRST_NOTES or any(map(is_great_age, self.known))
        self.year = max(latest, USUAL_YEAR) if open_ended else latest
        self._latest_possible = max(latest, USUAL_YEAR) if unclear else latest
        self._avoided = Avoided(self.known | set(map(without_marks, self.avoided)), whole_only=open_ended)
        self.names = PersonNames(
            keyed, KnownNames(self.known, language), self._avoided, language, staff=staff, open_ended=open_ended
        )
        self._codes = Codes(keyed, self._avoided, self.known, language)
        self._geography = Geography(keyed, self._avoided, self.known, language, open_ended=open_ended)
        self._places = NamedPlaces(
            keyed, self._avoided, self._codes, self._geography, known=self.known, language=language
        )
        self._web = Web(keyed, self._avoided, self.names, self._codes)

    def value(self, text: str, start: int, end: int, label: str, *, year: int | None = None) -> str | None:
        """Return the surrogate for a span of the text; None when none can be made and a tag is needed.

        `year` is assumed for dates without one, by default the latest year of the patient's PHI.
        """
        surface = without_marks(text[start:end])
        kind = kind_of(label, surface)
        if not surface.strip():
            return None
        beside = visible(text[max(0, start - _AROUND) : start]), visible(text[end : end + _AROUND])
        value = self._value(surface, kind, year or self.year, beside)
        if value is None or kind == "AGE":
            # An age of up to 89 stays: all dates are shifted alike, so it still is the age of that day.
            return value
        same = fold(value) == fold(surface) or (len(fold(surface)) > 2 and fold(surface) in fold(value))
        if kind == "DATE" and self.settings.whole_weeks and not any(map(str.isdecimal, surface)):
            # A weekday stays one when shifts are of whole weeks.
            same = False
        return None if same else value

    def identity(self, text: str, start: int, end: int, label: str) -> str:
        """Return what all mentions of the same person, place or number have in common."""
        surface = without_marks(text[start:end])
        if kind_of(label, surface) in ("PATIENT", "DOCTOR"):
            clinician = kind_of(label, surface) == "DOCTOR"
            return self.names.identity(
                surface, before=visible(text[max(0, start - _AROUND) : start]), clinician=clinician
            )
        return fold(surface) or surface

    def numbers(self, label: str) -> dict[str, int]:
        """Return the identities of all the patient's PHI, numbered in an order that says nothing about them."""
        if self.settings.open_ended:
            return {}
        if label not in self._numbers:
            every = {self.identity(string, 0, len(string), label) for string in self.known if string}
            order = sorted(every, key=lambda identity: self._keyed.digest("order", identity))
            self._numbers[label] = {identity: number for number, identity in enumerate(order, 1)}
        return self._numbers[label]

    def number(self, identity: str) -> int | None:
        """Return a number of six digits that stays when more notes come; None where people are numbered one by one."""
        return 100_000 + self._keyed.number(900_000, "number", identity) if self.settings.open_ended else None

    def latest_year(self, surfaces: Iterable[str]) -> int | None:
        """Return the latest year that the dates among some strings name, None where they name none."""
        years = [
            year
            for surface in surfaces
            if any(map(str.isdecimal, surface)) and not surface.isdecimal()
            for year in self.dates.years(surface, year=USUAL_YEAR) or ()
        ]
        return max((year for year in years if year in POSSIBLE_YEARS), default=None)

    def shows_great_age(self, surface: str) -> bool:
        """Whether a date is so long before the patient's latest that, as a birth date, it shows an age over 89.

        If the PHI has an age over 89 or no date that could be a note's, the latest may be as late as a fixed year.
        """
        years = self.dates.years(surface, year=self.year)
        return bool(years) and min(years or [self.year]) < self._latest_possible - OLDEST

    def _value(self, surface: str, kind: str, year: int, beside: tuple[str, str]) -> str | None:
        before, after = beside
        if kind in ("PATIENT", "DOCTOR"):
            return self.names.replace(surface, before=before, clinician=kind == "DOCTOR")
        if kind == "DATE":
            return None if self.shows_great_age(surface) else self.dates.shift(surface, year=year)
        if kind == "AGE":
            return capped_age(surface, following=after)
        if kind == "PROFESSION":
            return self._profession(surface)
        if kind in ("CITY", "STATE", "COUNTRY", "ZIP", "LOCATION-OTHER", "HOSPITAL", "ORGANIZATION", "STREET"):
            return self._place(surface, kind, after)
        if kind == "EMAIL":
            return self._web.email(surface)
        if kind == "URL":
            return self._web.url(surface)
        if kind == "USERNAME":
            return self._web.handle(surface)
        if not kind:
            return self._codes.replace(surface, "IDNUM") if self._is_identifier(surface, year) else None
        return self._codes.replace(surface, kind) if kind in I2B2_TYPES and kind != "OTHER" else None

    def _is_identifier(self, surface: str, year: int) -> bool:
        """Whether what has a label that is not known, such as a site's own, looks like a code, and not like a date."""
        signs = sum(map(str.isalnum, surface))
        return signs >= _SHORTEST_CODE and any(map(str.isdecimal, surface)) and not self.dates.years(surface, year=year)

    def _place(self, surface: str, kind: str, after: str) -> str | None:
        digits = sum(map(str.isdecimal, surface))
        if kind == "ZIP" or (digits >= 5 and digits >= len(fold(surface)) - 1):
            # A number as a place is a postal code, which some schemes do not distinguish from a town.
            return self._geography.zip_code(surface) or self._codes.replace(surface, "ZIP")
        if kind == "CITY":
            return self._geography.city(surface, beside=after)
        if kind == "STATE":
            return self._geography.state(surface)
        if kind == "COUNTRY":
            return self._geography.country(surface)
        return self._places.replace(surface)

    def _profession(self, surface: str) -> str | None:
        key = fold(surface)
        vowel = key[:1] in _VOWELS

        def fits(title: str) -> bool:
            # `An engineer` must not become `an teacher`: the article is not a part of the span.
            return (title[0] in _VOWELS) == vowel and self._avoided.allows(title)

        titles = plain_list("professions-es" if self.spanish else "professions-en")
        value = self._keyed.pick(titles, "profession", key, fits=fits)
        return None if value is None else match_case(surface, value.capitalize() if surface[:1].isupper() else value)
