"""Places of the output: towns, states and ZIP codes that fit each other; generic words of other places stay."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ensemble_deid.note.folding import fold, match_case
from ensemble_deid.surrogates.choices import Keyed
from ensemble_deid.surrogates.codes import Codes
from ensemble_deid.surrogates.known import Avoided
from ensemble_deid.surrogates.lists import DEFAULT_ORIGIN, SURNAMES, Towns, generic_words, name_lists, plain_list, towns

_COUNTRY_SHORT = ("UK", "USA", "UAE", "DRC", "U.K.", "U.S.", "U.A.E.")
_SAME_COUNTRY = {"us": "usa", "usa": "us", "gb": "uk"}
_ZIP = re.compile(r"(\d{5})([-\s]?\d{4})?")
_TOWN_AND_STATE = re.compile(r"(?P<town>.*?)(?P<between>,?\s+)(?P<state>[A-Z]{2}|[A-Z][a-z]+(?: [A-Z][a-z]+)?)")
_LONGEST_CODE = 3
_PROVINCES = 52
_SIDES = ("", "North ", "South ", "East ", "West ")
_WORD = re.compile(r"[^\W\d_]+(?:['’.](?!s\b)[^\W\d_]+)*", re.IGNORECASE)
_LONGEST_ACRONYM = 6
_SMALL = ("of", "and", "the", "for", "at", "in", "de", "del", "la", "y")
_ORDINAL_ENDING = re.compile(r"(?<=\d)(?:st|nd|rd|th)(?![^\W_])", re.IGNORECASE)
_PLAIN_IF_SMALL = frozenset(
    "st nd rd th km block exit gate line tunnel heights roundabout turnoff cutoff shaft bend gorge jail diner off near "
    "behind between from opposite outside".split()
)
"""Words that are no name where they are written small: `12th`, `Larkin shaft`."""


@dataclass(slots=True)
class Geography:
    """One patient's places in the United States, and countries; with `language` es, the towns of Spain instead.

    With `open_ended`, each state has its surrogate from the start, even one that the notes name too.
    """

    keyed: Keyed
    avoided: Avoided
    known: frozenset[str] = field(repr=False)
    language: str = "en"
    open_ended: bool = False
    towns: Towns = field(init=False, repr=False)
    _states: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.towns = towns()
        self._states = {}
        if self.open_ended:
            order = sorted(self.towns.states, key=lambda code: self.keyed.digest("state", code))
            self._states = dict(zip(order, [*order[1:], order[0]], strict=True))
            return
        named = sorted({state for string in self.known for state in self._states_in(string)})
        for state in named:
            self._states[state] = self._new_state(state, {*named, *self._states.values()})

    def state(self, surface: str) -> str | None:
        """Return another state, as a code where `surface` is one."""
        code = self.towns.code_of.get(fold(surface))
        if code is None:
            names = tuple(self.towns.states.values())
            value = self.keyed.pick(names, "state", fold(surface), fits=self.avoided.allows_words)
            return match_case(surface, value) if value else None
        new = self._state(code)
        written = new if len(fold(surface)) == 2 else self.towns.states[new]
        return f"{new[0]}.{new[1]}." if re.fullmatch(r"\w\.\w\.", surface) else match_case(surface, written)

    def city(self, surface: str, *, beside: str = "") -> str | None:
        """Return another town; `beside` is the text after it, which may name its state."""
        both = _TOWN_AND_STATE.fullmatch(surface)
        if both and fold(both["state"]) in self.towns.code_of and fold(surface) not in self.towns.states_of:
            town = self.city(both["town"], beside=both["state"])
            return None if town is None else town + both["between"] + (self.state(both["state"]) or "")
        key = fold(surface)
        if self.language != "en":
            return self._pick_town(surface, key, plain_list(f"cities-{self.language}"))
        home = self._state_of(key, beside)
        states = sorted(self.towns.states)
        new = self._state(home) if home else states[self.keyed.number(len(states), "home")]
        names = self.towns.by_state[new]
        if key not in self.towns.states_of:
            # More names, so that two towns of a patient seldom become one.
            names = tuple(f"{side}{name}" for side in _SIDES for name in names)
        return self._pick_town(surface, key, names)

    def zip_code(self, surface: str) -> str | None:
        """Return a ZIP code in the state (in Spain, province) that replaces that of `surface`; None for no ZIP code."""
        match = _ZIP.fullmatch(surface.strip())
        if match is None:
            return None
        state = self._state_of_zip(match[1])
        first, last = self.towns.codes[self._state(state)] if state else (10000, 99999)
        if self.language == "es":
            province = 1 + self.keyed.number(_PROVINCES, "province", match[1][:2])
            first, last = province * 1000 + 1, province * 1000 + 999
        for attempt in range(100):
            number = first + self.keyed.number(last - first + 1, "zip", match[1], str(attempt))
            extra = match[2] or ""
            if extra:
                digits = f"{1000 + self.keyed.number(9000, 'zip+4', match[1], extra[-4:], str(attempt))}"
                extra = extra[:-4] + digits
            value = surface.replace(match.group(), f"{number:05d}{extra}")
            if fold(value) != fold(surface) and self.avoided.allows(value):
                return value
        return None

    def country(self, surface: str) -> str | None:
        """Return another country, as a short form where `surface` is one."""
        if surface.replace(".", "").isupper() and len(fold(surface)) <= _LONGEST_CODE:
            others = [short for short in _COUNTRY_SHORT if fold(short) != _SAME_COUNTRY.get(fold(surface))]
            shorts = tuple(short for short in others if ("." in short) == ("." in surface))
            return self.keyed.pick(shorts, "country", fold(surface), fits=self._fits(surface))
        values = plain_list(f"countries-{self.language}")
        value = self.keyed.pick(values, "country", fold(surface), fits=self._fits(surface))
        return match_case(surface, value) if value else None

    def is_town(self, words: str) -> bool:
        return fold(words) in self.towns.states_of

    def _pick_town(self, surface: str, key: str, values: tuple[str, ...]) -> str | None:
        value = self.keyed.pick(values, "town", key, fits=self._fits(surface))
        return match_case(surface, value) if value else None

    def _fits(self, surface: str) -> Callable[[str], bool]:
        return lambda value: fold(value) != fold(surface) and self.avoided.allows_words(value)

    def _state(self, code: str) -> str:
        return self._states.get(code) or self._new_state(code, {*self._states, *self._states.values()})

    def _new_state(self, code: str, unwanted: set[str]) -> str:
        def fits(state: str) -> bool:
            return state != code and state not in unwanted and self.avoided.allows_words(self.towns.states[state])

        states = tuple(sorted(self.towns.states))
        return self.keyed.pick(states, "state", code, fits=fits) or states[states.index(code) - 1]

    def _states_in(self, string: str) -> list[str]:
        folded = fold(string)
        if folded in self.towns.code_of:
            return [self.towns.code_of[folded]]
        tail = re.search(r",\s*([a-z]{2})\.?\Z", string.casefold())
        if tail and tail[1] in self.towns.code_of:
            return [self.towns.code_of[tail[1]]]
        match = _ZIP.fullmatch(string.strip())
        state = self._state_of_zip(match[1]) if match else None
        return [state] if state else []

    def _state_of(self, town: str, beside: str) -> str | None:
        """Return the state of a town: that beside it, one that it may lie in, or one that the patient's notes name."""
        after = state_beside(beside)
        states = self.towns.states_of.get(town, ())
        if self.open_ended:
            # Only what is beside it, or where it is: what other notes name would move it.
            return after if after in states else next(iter(states), None)
        named_first = [state for state in (after, *states) if state in self._states]
        return next(iter((*named_first, *states, *self._states)), None)

    def _state_of_zip(self, digits: str) -> str | None:
        number = int(digits)
        return next((s for s, (first, last) in self.towns.codes.items() if first <= number <= last), None)


@dataclass(slots=True)
class NamedPlaces:
    """The places in one patient's notes: a word is always replaced alike, and an abbreviation fits the new name."""

    keyed: Keyed
    avoided: Avoided
    codes: Codes
    geography: Geography
    known: frozenset[str] = field(repr=False)
    language: str = "en"

    def replace(self, surface: str) -> str | None:
        """Return another name of a place, None for a string without letters and digits."""
        words = list(_WORD.finditer(surface))
        if not words:
            return self.codes.replace(surface, "IDNUM")
        endings = {ending.start() for ending in _ORDINAL_ENDING.finditer(surface)}
        words = [word for word in words if word.start() not in endings]
        only = words[0].group() if len(words) == 1 else ""
        if only.isupper() and 1 < len(only) <= _LONGEST_ACRONYM and fold(only) not in generic_words():
            return self._around(surface, [(*words[0].span(), self._acronym(only))])
        small = surface.islower()
        named = [word for word in words if self._names_the_place(word.group(), all_small=small)]
        if not named and not any(map(str.isdecimal, surface)):
            # Of nothing but generic words the first is replaced.
            named = words[:1]
        return self._around(surface, [(word.start(), word.end(), self.word(word.group())) for word in named])

    def word(self, word: str) -> str:
        """Return another word for the name of a place: a town for a town, else a plain word or a surname."""
        if self.geography.language == "en" and self.geography.is_town(word):
            town = self.geography.city(word)
            if town is not None:
                return town
        surnames = name_lists().given_out[DEFAULT_ORIGIN[self.language], SURNAMES]
        plain = plain_list("place-names")
        values = plain + surnames[:: max(1, len(surnames) // len(plain))]
        values = surnames if self.language != "en" else values

        def fits(value: str) -> bool:
            return fold(value)[:1] != fold(word)[:1] and self.avoided.allows_words(value)

        value = self.keyed.pick(values, "place", fold(word), fits=fits)
        return match_case(word, value) if value else self.codes.replace(word, "IDNUM") or ""

    def _around(self, surface: str, edits: list[tuple[int, int, str]]) -> str:
        done, cursor = "", 0
        for start, end, fresh in edits:
            done += self.codes.digits(surface[cursor:start]) + fresh
            cursor = end
        return done + self.codes.digits(surface[cursor:])

    @staticmethod
    def _names_the_place(word: str, *, all_small: bool) -> bool:
        # Single letters (Apt 2R) are not distinctive; a name may be written small (`hospital of springfield`).
        plain = word.islower() and not all_small and word in _PLAIN_IF_SMALL
        return len(word) > 1 and not plain and fold(word) not in generic_words()

    def _acronym(self, letters: str) -> str:
        for name in sorted(self.known):
            words = [match.group() for match in _WORD.finditer(name)]
            for small in (False, True):
                if len(words) > 1 and _initials(words, small) == letters.casefold():
                    fresh = [match.group() for match in _WORD.finditer(self.replace(name) or "")]
                    value = _initials(fresh, small).upper()
                    if value != letters and value and self.avoided.allows(value):
                        return value
        return self.codes.replace(letters, "IDNUM") or ""


def state_beside(text: str) -> str | None:
    """Return the code of the state that the text after a town begins with."""
    named = re.match(r"\W{0,3}([A-Za-z.]+(?: [A-Z][a-z]+)?)", text)
    code_of = towns().code_of
    return None if named is None else code_of.get(fold(named[1])) or code_of.get(fold(named[1].split()[0]))


def _initials(words: Iterable[str], small: bool) -> str:
    """Return the initials of a name; with `small` also those of `of`, `the` and the like."""
    return "".join(word[0].casefold() for word in words if small or word.casefold() not in _SMALL)
