"""The lists in `rules/surrogates` that surrogates are taken from: names by origin and gender, places, occupations."""

from dataclasses import dataclass
from functools import cache
from itertools import chain

from ensemble_deid.errors import ConfigError
from ensemble_deid.note.folding import fold
from ensemble_deid.parsing import read_text
from ensemble_deid.resources import rules_directory

DEFAULT_ORIGIN = {"en": "english", "es": "hispanic"}
WOMEN, MEN, SURNAMES = "F", "M", "S"


@dataclass(frozen=True, slots=True)
class NameLists:
    """`given_out` has the names by (origin, kind); the others say what is known of an original, by its folded form.

    Kinds are `F` and `M` (given names of women and men) and `S` (surnames).
    """

    given_out: dict[tuple[str, str], tuple[str, ...]]
    genders: dict[str, str]
    origins: dict[tuple[str, str], str]
    full_forms: dict[str, tuple[str, ...]]

    def pool(self, origin: str, kinds: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of these kinds that are given out for an origin."""
        return tuple(chain.from_iterable(self.given_out[origin, kind] for kind in kinds))

    def is_given(self, word: str) -> bool:
        """Whether the folded word is a given name or a short form of one."""
        return word in self.genders or word in self.full_forms

    def is_surname(self, word: str) -> bool:
        return (SURNAMES, word) in self.origins


@cache
def name_lists() -> NameLists:
    """Read the lists of names once. Raises ConfigError where the installation lacks them."""
    given_out: dict[tuple[str, str], list[str]] = {}
    kinds: dict[str, set[str]] = {}
    origins: dict[tuple[str, str], str] = {}
    names = sorted(path.stem.removeprefix("names-") for path in (rules_directory() / "surrogates").glob("names-*.txt"))
    # The origin that is most likely in English and Spanish notes wins where a name is at home in several.
    for origin in sorted(names, key=lambda name: (name != "english", name != "hispanic", name)):
        for line in _lines(f"names-{origin}"):
            kind, name = line.split(" ", 1)
            given_out.setdefault((origin, kind), []).append(name)
            role = SURNAMES if kind == SURNAMES else "given"
            origins.setdefault((role, fold(name)), origin)
            if kind != SURNAMES:
                kinds.setdefault(fold(name), set()).add(kind)
    listed = (line.split(" ", 1) for line in (*_lines("genders"), *_lines("genders-census")))
    known = {fold(name): kind for kind, name in listed}
    for name in known:
        origins.setdefault(("given", name), "english")
    # A name that is a man's in one language and a woman's in another has no gender unless English notes give it one.
    genders = {name: next(iter(found)) if len(found) == 1 else "" for name, found in sorted(kinds.items())} | known
    full_forms: dict[str, list[str]] = {}
    for line in _lines("nicknames"):
        full, *short = line.split()
        for form in short:
            full_forms.setdefault(form, []).append(full)
    return NameLists(
        {key: tuple(values) for key, values in given_out.items()},
        genders,
        origins,
        {short: tuple(full) for short, full in full_forms.items()},
    )


@dataclass(frozen=True, slots=True)
class Towns:
    """Towns of the United States by state, the states of each town, and each state's range of ZIP codes (`codes`).

    `states` has the names of the states by code, `code_of` the codes by folded name and code.
    """

    by_state: dict[str, tuple[str, ...]]
    states_of: dict[str, tuple[str, ...]]
    codes: dict[str, tuple[int, int]]
    states: dict[str, str]
    code_of: dict[str, str]


@cache
def towns() -> Towns:
    """Read the lists of towns and states once. Raises ConfigError where the installation lacks them."""
    by_state: dict[str, tuple[str, ...]] = {}
    codes: dict[str, tuple[int, int]] = {}
    states_of: dict[str, list[str]] = {}
    for line in _lines("us-places"):
        state, code_range, names = line.split(" ", 2)
        first, last = code_range.split("-")
        codes[state] = (int(first), int(last))
        by_state[state] = tuple(names.split(", "))
        for name in by_state[state]:
            states_of.setdefault(fold(name), []).append(state)
    states: dict[str, str] = dict(line.split(" ", 1) for line in _lines("us-states"))
    return Towns(
        by_state,
        {name: tuple(found) for name, found in states_of.items()},
        codes,
        states=states,
        code_of={fold(written): code for code, name in states.items() for written in (name, code)},
    )


@cache
def generic_words() -> frozenset[str]:
    """Return the folded words that stay when the name of a place is replaced, such as `Hospital`."""
    return frozenset(fold(word) for line in _lines("place-words") for word in line.split())


@cache
def plain_list(name: str) -> tuple[str, ...]:
    """Read a list without further structure, such as `professions-en`. Raises ConfigError as above."""
    return tuple(_lines(name))


def _lines(name: str) -> list[str]:
    path = rules_directory() / "surrogates" / f"{name}.txt"
    lines = read_text(path, ConfigError).splitlines()
    return [line for line in lines if line and not line.startswith("#")]
