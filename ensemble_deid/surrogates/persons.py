"""Surrogate names of people: a person has one name in all notes of a patient, in full, in part and as initials."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import regex

from ensemble_deid.note.folding import fold, match_case
from ensemble_deid.surrogates.source import ValueSource

_LETTERS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_RUN = re.compile(r"[^\W\d_]+")
_CAMEL = regex.compile(r"(?<=\p{Ll})(?=\p{Lu})")
_CAMEL_PREFIXES = frozenset("mc mac de la le di du van fitz al el".split())
_KEPT = frozenset(
    "jr sr ii iii iv de da do dos das del di la las le los van von der den ter bin ibn al el y e st".split()
)
_LONGEST_INITIALS = 3
_FORMAL = re.compile(r"\b(?:mr|mrs|ms|mx|miss|dr|sr|sra|dra|d|dña)\.?\s*$", re.IGNORECASE)
_ALPHABET = "ABCDEGHJKLMNPRSTVWYZ"
GIVEN, FAMILY = "given", "family"

Token = tuple[int, int]
"""Position of a part of a name in the string, [start, end)."""


def name_tokens(surface: str) -> list[Token]:
    """Return the parts of a name: runs of letters, with SamLee split, but McDonald and O'Brien whole."""
    tokens: list[Token] = []
    for run in _LETTERS.finditer(surface):
        start = run.start()
        for cut in _CAMEL.finditer(surface, run.start(), run.end()):
            at = cut.start()
            if at > start and surface[start:at].casefold() not in _CAMEL_PREFIXES:
                tokens.append((start, at))
                start = at
        tokens.append((start, run.end()))
    return tokens


class PersonMap:
    """The names in one patient's notes, each part with its replacement.

    The parts of a name have the same origin, and so do all names that share a part (a family). A replacement begins
    with a different letter than the original, so that initials change too.
    """

    def __init__(self, source: ValueSource, names: Iterable[str]) -> None:
        """`names` are all names of people in the patient's notes, so that a part alone can be recognised."""
        self._source = source
        self._votes: dict[str, Counter[str]] = {}
        self._origin_of: dict[str, str] = {}
        self._fresh: dict[tuple[str, str], str] = {}
        self._initials: dict[str, str] = {}
        self._full: list[tuple[str, ...]] = []
        for name in names:
            self._learn(name)

    def replace(self, surface: str, *, before: str = "", formal: bool = False) -> str:
        """Return the new name in the form of `surface`; `before` is the text before it (for a title).

        `formal`: a part alone is more likely a family name (clinicians) than a given name (patients).
        """
        tokens = name_tokens(surface)
        parts = [surface[start:end] for start, end in tokens]
        alone = len(parts) == 1
        if alone and self._is_initials(parts[0]):
            return surface[: tokens[0][0]] + self._initials_of(parts[0]) + surface[tokens[0][1] :]
        usual = FAMILY if formal or _FORMAL.search(before) else GIVEN
        one_name = all(surface[a[1] : b[0]] == "-" for a, b in pairwise(tokens))
        roles = [usual] * len(tokens) if one_name else _roles(surface, tokens)
        kept_all = all(part.casefold() in _KEPT for part in parts)
        done, cursor = "", 0
        for (start, end), part, role in zip(tokens, parts, roles, strict=True):
            done += surface[cursor:start]
            done += part if part.casefold() in _KEPT and not kept_all else self._part(part, role)
            cursor = end
        return done + surface[cursor:] if tokens else self._source.family_name(self._source.origins[0], surface)

    def replace_handle(self, surface: str) -> str | None:
        """Return a user name or the local part of an address with the names in it replaced; None if it contains none.

        A part of a name is recognised, also with an initial before or after it (`crivers`, `hopef`).
        """
        runs = list(_RUN.finditer(surface))
        fresh = [self._handle_piece(run.group()) for run in runs]
        if not any(fresh):
            return None
        done, cursor = "", 0
        for run, piece in zip(runs, fresh, strict=True):
            initial = fold(self._initial(run.group())) if len(run.group()) == 1 else run.group()
            done += surface[cursor : run.start()] + (piece or initial)
            cursor = run.end()
        return done + surface[cursor:]

    def _learn(self, name: str) -> None:
        tokens = name_tokens(name)
        if len(tokens) < 2:
            return
        words = [fold(name[start:end]) for start, end in tokens]
        for word, role in zip(words, _roles(name, tokens), strict=True):
            self._votes.setdefault(word, Counter())[role] += 1
        known = next((self._origin_of[word] for word in words if len(word) > 1 and word in self._origin_of), None)
        origin = known or self._source.origin()
        for word in words:
            if len(word) > 1:
                self._origin_of.setdefault(word, origin)
        ordered = words[-1:] + words[:-1] if "," not in name else words
        self._full.append(tuple(ordered))

    def _role(self, word: str, usual: str) -> str:
        votes = self._votes.get(word)
        # Ties are decided in favour of the family name, not by the order of the counter.
        return usual if votes is None else max((GIVEN, FAMILY), key=lambda role: (votes[role], role == FAMILY))

    def _part(self, part: str, usual: str) -> str:
        if len(part) == 1:
            return match_case(part, self._initial(part))
        word = fold(part)
        role = self._role(word, usual)
        key = (role, word)
        if key not in self._fresh:
            origin = self._origin_of.setdefault(word, self._source.origin())
            draw = self._source.given_name if role == GIVEN else self._source.family_name
            self._fresh[key] = draw(origin, part)
        return match_case(part, self._fresh[key])

    def _initial(self, letter: str) -> str:
        key = fold(letter) or letter
        if key not in self._initials:
            owner = next((word for name in self._full for word in name if len(word) > 1 and word[0] == key), None)
            if owner is not None:
                self._initials[key] = self._part(owner, GIVEN)[0].upper()
            else:
                self._initials[key] = self._source.pick(_ALPHABET, letter)
        value = self._initials[key]
        return value if fold(value) != key else self._source.pick(_ALPHABET, letter)

    def _is_initials(self, part: str) -> bool:
        if len(part) == 1:
            return True
        same_case = part.isupper() or (part.islower() and len(part) == 2)
        return len(part) <= _LONGEST_INITIALS and same_case and fold(part) not in self._votes

    def _initials_of(self, part: str) -> str:
        return "".join(match_case(part + part, self._initial(letter)) for letter in part)

    def _handle_piece(self, piece: str) -> str | None:
        word = fold(piece)
        if word in self._votes and len(word) > 1:
            return fold(self._part(word, GIVEN))
        for start, end, initial_first in ((1, len(word), True), (0, len(word) - 1, False)):
            inner = word[start:end]
            if len(inner) > 2 and inner in self._votes:
                name = fold(self._part(inner, FAMILY if initial_first else GIVEN))
                initial = fold(self._initial(word[0] if initial_first else word[-1]))
                return initial + name if initial_first else name + initial
        return None


def _roles(surface: str, tokens: Sequence[Token]) -> list[str]:
    """Return GIVEN or FAMILY for each part: the last part is a family name, or all parts before a comma."""
    comma = surface.find(",")
    if comma >= 0 and any(start > comma for start, _ in tokens):
        return [FAMILY if end <= comma else GIVEN for _, end in tokens]
    words = [surface[start:end].casefold() for start, end in tokens]
    last = max((i for i, word in enumerate(words) if word not in _KEPT and len(word) > 1), default=len(words) - 1)
    roles = [GIVEN] * len(tokens)
    roles[last] = FAMILY
    for index in range(last - 1, -1, -1):
        # A hyphen joins two family names.
        if surface[tokens[index][1] : tokens[index + 1][0]] != "-":
            break
        roles[index] = FAMILY
    return roles
