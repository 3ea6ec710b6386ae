"""Pools of names, places and occupations drawn from Faker (extra `resample`) in several origins."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ensemble_deid.errors import ConfigError
from ensemble_deid.note.folding import fold
from ensemble_deid.surrogates.place_words import PLAIN_WORDS

ENGLISH_ORIGINS = tuple(
    (
        "en_US en_US en_US en_GB es_MX pt_BR fr_FR de_DE it_IT pl_PL tr_TR id_ID "
        "en_IN tw_GH zu_ZA nl_NL hr_HR ja_JP zh_CN"
    ).split()
)
"""Faker locales of people's names for English notes; a repeated one is drawn more often."""
SPANISH_ORIGINS = ("es_ES", "es_ES", "es_ES", "es_MX", "es_CO", "pt_PT", "fr_FR", "ro_RO", "it_IT")

_DRAWS = 700
_WORD = re.compile(r"[^\W\d_]{2,}(?:['’][^\W\d_]+)?")
_PLACE = re.compile(r"[^\W\d_]+(?:[ '’-][^\W\d_]+){0,2}")
_LAST_LATIN = 0x24F
_LATIN_ADDITIONAL = range(0x1E00, 0x1F00)
_ATTEMPTS = 30
_SHORTEST_JOB = 4


class ValueSource:
    """Draws values with a numpy generator, so that a seed determines the values (for one version of Faker).

    `home` is the locale of places, streets and occupations, `origins` are those of people's names.
    Raises ConfigError if Faker is not installed or does not have a locale.
    """

    def __init__(self, random: np.random.Generator, *, home: str, origins: Sequence[str]) -> None:
        self.random = random
        self.home = home
        self.origins = tuple(origins)

    def origin(self) -> str:
        """Draw the origin of a family of names."""
        return self.origins[int(self.random.integers(len(self.origins)))]

    def given_name(self, origin: str, original: str) -> str:
        """Draw a given name that begins with a different letter than `original`."""
        return self.pick(_names(origin, "first"), original, other_initial=True)

    def family_name(self, origin: str, original: str) -> str:
        """Draw a family name that begins with a different letter than `original`."""
        return self.pick(_names(origin, "last"), original, other_initial=True)

    def city(self, original: str) -> str:
        """Draw a city, in half of the cases from the home locale."""
        locale = self.home if self.random.random() < 0.5 else self.origin()
        return self.pick(_places(locale, self.home), original)

    def place_word(self, original: str) -> str:
        """Draw a distinctive word for the name of a place or company: an English word or a family name."""
        if self.home.startswith("en") and self.random.random() < 0.5:
            return self.pick(PLAIN_WORDS, original, other_initial=True)
        origin = self.home if self.random.random() < 0.6 else self.origin()
        return self.family_name(origin, original)

    def country(self, original: str) -> str:
        """Draw a country, named in the home language."""
        return self.pick(_pool(self.home, "country", _PLACE), original)

    def state(self, original: str) -> str:
        """Draw a state of the home country."""
        return self.pick(_pool(self.home, "state", _PLACE), original)

    def job(self, original: str) -> str:
        """Draw an occupation, in lower case as in notes."""
        return self.pick(_jobs(self.home), original)

    def pick(self, values: Sequence[str], original: str, *, other_initial: bool = False) -> str:
        """Draw one of `values` that differs from `original` (ignoring case and accents)."""
        avoided = fold(original)

        def fits(value: str) -> bool:
            folded = fold(value)
            return folded != avoided and not (other_initial and folded[:1] == avoided[:1])

        for _ in range(_ATTEMPTS):
            value = values[int(self.random.integers(len(values)))]
            if fits(value):
                return value
        fitting = [value for value in values if fits(value)]
        if not fitting:
            raise ConfigError("the value source has no value that differs from the one to replace")
        return fitting[int(self.random.integers(len(fitting)))]


def _is_latin(value: str) -> bool:
    return all(ord(character) <= _LAST_LATIN or ord(character) in _LATIN_ADDITIONAL for character in value)


@cache
def _faker(locale: str) -> Any:
    try:
        from faker import Faker
    except ImportError:
        raise ConfigError("resampling draws its values from Faker: pip install 'ensemble_deid[resample]'") from None
    try:
        faker = Faker(locale)
    except AttributeError:
        raise ConfigError(f"Faker has no locale '{locale}'") from None
    for provider in faker.get_providers():
        # Some locales (it_IT) list their cities in the order of a set, which differs from process to process.
        if isinstance(getattr(provider, "cities", None), list):
            provider.cities = sorted(provider.cities)
    return faker


@cache
def _pool(locale: str, method: str, pattern: "re.Pattern[str]") -> tuple[str, ...]:
    faker = _faker(locale)
    # Seeded for each pool: what a pool holds must not depend on which pools were drawn before it.
    faker.seed_instance(0)
    draw: Callable[[], str] = getattr(faker, method)
    drawn = {draw() for _ in range(_DRAWS)}
    # Sorted: the pool, and so the corpus, must not depend on the order of a set.
    return tuple(sorted(value for value in drawn if pattern.fullmatch(value) and _is_latin(value)))


@cache
def _names(locale: str, which: str) -> tuple[str, ...]:
    romanized = f"{which}_romanized_name"
    method = romanized if hasattr(_faker(locale), romanized) else f"{which}_name"
    return _pool(locale, method, _WORD)


@cache
def _places(locale: str, home: str) -> tuple[str, ...]:
    return _pool(locale, "city", _PLACE) or _pool(home, "city", _PLACE)


@cache
def _jobs(locale: str) -> tuple[str, ...]:
    titles = set()
    for title in _pool(locale, "job", re.compile(r"[^\W\d_][\w ,'’/-]+")):
        # "Engineer, civil" is a register's form; a note says "civil engineer".
        noun, _, kind = title.partition(", ")
        if "/" not in title and "," not in kind and len(noun) > _SHORTEST_JOB:
            titles.add((f"{kind} {noun}" if kind else noun).lower())
    return tuple(sorted(titles))
