"""Towns, states and ZIP codes of the output, which fit each other: a town lies in the state that stands for its own."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from ensemble_deid.note.folding import fold, match_case
from ensemble_deid.surrogates.keyed.choices import Keyed
from ensemble_deid.surrogates.keyed.known import Avoided
from ensemble_deid.surrogates.keyed.lists import Towns, plain_list, towns
from ensemble_deid.surrogates.place_words import COUNTRY_SHORT, STATES

_CODE_OF = {fold(name): code for code, name in STATES.items()} | {fold(code): code for code in STATES}
_ZIP = re.compile(r"(\d{5})([-\s]?\d{4})?")
_TOWN_AND_STATE = re.compile(r"(?P<town>.*?)(?P<between>,?\s+)(?P<state>[A-Z]{2}|[A-Z][a-z]+(?: [A-Z][a-z]+)?)")
_LONGEST_CODE = 3
_SIDES = ("", "North ", "South ", "East ", "West ")


@dataclass(slots=True)
class Geography:
    """One patient's places in the United States, and countries; `language` es has the towns of Spain instead."""

    keyed: Keyed
    avoided: Avoided
    known: frozenset[str] = field(repr=False)
    language: str = "en"
    towns: Towns = field(init=False, repr=False)
    _states: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.towns = towns()
        self._states = {}
        named = sorted({state for string in self.known for state in self._states_in(string)})
        for state in named:
            self._states[state] = self._new_state(state, {*named, *self._states.values()})

    def state(self, surface: str) -> str | None:
        """Return another state, as a code where `surface` is one."""
        code = _CODE_OF.get(fold(surface))
        if code is None:
            names = tuple(STATES.values())
            value = self.keyed.pick(names, "state", fold(surface), fits=self.avoided.allows_words)
            return match_case(surface, value) if value else None
        new = self._state(code)
        written = new if len(fold(surface)) == 2 else STATES[new]
        return f"{new[0]}.{new[1]}." if re.fullmatch(r"\w\.\w\.", surface) else match_case(surface, written)

    def city(self, surface: str, *, beside: str = "") -> str | None:
        """Return another town; `beside` is the text after it, which may name its state."""
        both = _TOWN_AND_STATE.fullmatch(surface)
        if both and fold(both["state"]) in _CODE_OF and fold(surface) not in self.towns.states_of:
            town = self.city(both["town"], beside=both["state"])
            return None if town is None else town + both["between"] + (self.state(both["state"]) or "")
        key = fold(surface)
        if self.language != "en":
            return self._pick_town(surface, key, plain_list(f"cities-{self.language}"))
        home = self._state_of(key, beside)
        new = self._state(home) if home else sorted(STATES)[self.keyed.number(len(STATES), "home")]
        names = self.towns.by_state[new]
        if key not in self.towns.states_of:
            # More names, so that two towns of a patient seldom become one.
            names = tuple(f"{side}{name}" for side in _SIDES for name in names)
        return self._pick_town(surface, key, names)

    def zip_code(self, surface: str) -> str | None:
        """Return a ZIP code in the state that stands for that of `surface`; None for what is no ZIP code."""
        match = _ZIP.fullmatch(surface.strip())
        if match is None:
            return None
        state = self._state_of_zip(match[1])
        first, last = self.towns.codes[self._state(state)] if state else (10000, 99999)
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
            shorts = tuple(short for short in COUNTRY_SHORT if ("." in short) == ("." in surface))
            return self.keyed.pick(shorts, "country", fold(surface), fits=self._fits(surface))
        values = plain_list(f"countries-{self.language}")
        value = self.keyed.pick(values, "country", fold(surface), fits=self._fits(surface))
        return match_case(surface, value) if value else None

    def is_town(self, words: str) -> bool:
        """Whether these words are a town of the list."""
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
            return state != code and state not in unwanted and self.avoided.allows_words(STATES[state])

        states = tuple(sorted(STATES))
        return self.keyed.pick(states, "state", code, fits=fits) or states[states.index(code) - 1]

    def _states_in(self, string: str) -> list[str]:
        folded = fold(string)
        if folded in _CODE_OF:
            return [_CODE_OF[folded]]
        tail = re.search(r",\s*([a-z]{2})\.?\Z", string.casefold())
        if tail and tail[1] in _CODE_OF:
            return [_CODE_OF[tail[1]]]
        match = _ZIP.fullmatch(string.strip())
        state = self._state_of_zip(match[1]) if match else None
        return [state] if state else []

    def _state_of(self, town: str, beside: str) -> str | None:
        """Return the state of a town: that beside it, one that it may lie in, or one that the patient's notes name."""
        named = re.match(r"\W{0,3}([A-Za-z.]+(?: [A-Z][a-z]+)?)", beside)
        after = None if named is None else _CODE_OF.get(fold(named[1])) or _CODE_OF.get(fold(named[1].split()[0]))
        states = self.towns.states_of.get(town, ())
        named_first = [state for state in (after, *states) if state in self._states]
        return next(iter((*named_first, *states, *self._states)), None)

    def _state_of_zip(self, digits: str) -> str | None:
        number = int(digits)
        return next((s for s, (first, last) in self.towns.codes.items() if first <= number <= last), None)
