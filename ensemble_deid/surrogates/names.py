"""Names of people in the output: each part of a name has its own surrogate, so that no table of persons is needed."""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from ensemble_deid.note.folding import fold, match_case
from ensemble_deid.surrogates.affixes import ALSO_NAMES, KEPT_PARTS, parts_of_name
from ensemble_deid.surrogates.choices import Keyed
from ensemble_deid.surrogates.codes import Codes
from ensemble_deid.surrogates.known import FAMILY, GIVEN, Avoided, KnownNames, NamePart
from ensemble_deid.surrogates.lists import DEFAULT_ORIGIN, MEN, SURNAMES, WOMEN

_FORMAL = re.compile(r"\b(?:mr|mrs|ms|mx|miss|dr|sr|sra|dra|d|dña)\.?\s*$", re.IGNORECASE)
_RUN = re.compile(r"[^\W\d_]+")
_TITLES = {r"\bmr\b": MEN, r"\b(?:mrs|ms|miss)\b": WOMEN}
_ALPHABET = "ABCDEGHJKLMNPRSTVW"
_LONGEST_INITIALS = 3
_UNUSED_ATTEMPTS = 16


@dataclass(slots=True)
class PersonNames:
    """The people in one patient's notes.

    A surname and a given name each have one surrogate, with another initial, of the same gender, and of the same origin
    as far as the lists know it; in Spanish notes all are Spanish. Two names of the patient's notes get two surrogates
    as long as the lists suffice; two that are in no full name may share one where the notes are `open_ended`. With a
    `staff` key, the names of clinicians are the same for all patients.
    """

    keyed: Keyed
    known: KnownNames
    avoided: Avoided
    language: str = "en"
    staff: Keyed | None = None
    open_ended: bool = False
    _assigned: dict[str, dict[str, str]] = field(default_factory=dict, init=False, repr=False)
    _people: dict[str, list[frozenset[str]]] | None = field(default=None, init=False, repr=False)

    def replace(self, surface: str, *, before: str = "", clinician: bool = False) -> str | None:
        """Return the name in the form of `surface`; None where it has no letters or where a part of it would stay.

        `before` is the text before it, for a title. A lone part that is not known is a surname if it is a `clinician`'s
        or has a title, and else a given name.
        """
        usual = FAMILY if clinician or _FORMAL.search(before) else GIVEN
        parts = self.known.parts(surface, usual=usual, clinician=clinician)
        names = [part for part in parts if part.role]
        if not names:
            return None
        staff = clinician and self.staff is not None
        letters = self._initials(surface, names)
        if letters is not None:
            return self._filled(
                surface, names, self._replaced_initials(surface, names, letters, staff=staff), staff=staff
            )
        beside = {part.word for part in names if len(part.word) > 1}
        fresh = []
        for part in names:
            written = surface[part.start : part.end]
            if len(part.word) > 1:
                # Notes that are written without accents stay so: their readers may not be able to show them.
                new = self.surrogate(part.word, part.role, staff=staff)
                fresh.append(match_case(written, _plain(new) if written.isascii() else new))
            else:
                fresh.append(match_case(written, self._initial(part.word, beside, staff=staff)))
        value = self._filled(surface, names, fresh, staff=staff)
        # A part may stand twice in a name, once as what stays (`Ma, MA`).
        left = {fold(value[start:end]) for start, end in parts_of_name(value)} - (KEPT_PARTS - ALSO_NAMES)
        return None if beside & left else value

    def identity(self, surface: str, *, before: str = "", clinician: bool = False) -> str:
        """Return what is the same for every mention of a person, as far as the patient's full names tell."""
        usual = FAMILY if clinician or _FORMAL.search(before) else GIVEN
        parts = self.known.parts(surface, usual=usual, clinician=clinician)
        names = [part for part in parts if part.role]
        letters = self._initials(surface, names)
        full = self.known.of_initials(letters) if letters is not None else None
        words = {self._word(part) for part in (full or names) if len(part.word) > 1}
        if letters is not None and full is None:
            return "".join(letters)
        # `John Smith` is `John Andrew Smith` where the notes know one of that name only.
        gender = next((gender for title, gender in _TITLES.items() if re.search(title, before + surface, re.I)), "")
        found = [
            person
            for person in self._people_with(words)
            if (not gender or all(self.known.lists.genders.get(word) in (gender, "", None) for word in person))
        ]
        return " ".join(sorted(found[0] if len(found) == 1 else words)) or fold(surface)

    def surrogate(self, word: str, role: str, *, staff: bool = False) -> str:
        """Return the surrogate of a folded part of a name."""
        canonical = self.known.canonical(word, role)
        if staff and self.staff is not None:
            return self._choice(self.staff, canonical, role, used=set())
        table = self._table(role)
        if canonical in table:
            return table[canonical]
        # A part that stands in a longer word of the notes. Nothing is stored: values must not depend on their order.
        return self._choice(self.keyed, canonical, role, used=set(table.values()))

    def handle(self, surface: str, other: Callable[[str], str]) -> str | None:
        """Return a user name or local part with its names replaced, other letters by `other`; None without a name."""
        pieces = [(run, self._handle_piece(fold(run.group()))) for run in _RUN.finditer(surface)]
        if not any(piece for _, piece in pieces):
            return None
        done, cursor = "", 0
        for run, piece in pieces:
            letters = run.group()
            if piece is None and len(letters) == 1:
                piece = fold(self._initial(fold(letters), set()))
            done += surface[cursor : run.start()] + (match_case(letters, piece) if piece else other(letters))
            cursor = run.end()
        return done + surface[cursor:]

    def _handle_piece(self, word: str) -> str | None:
        if len(word) > 2 and self.known.is_known(word):
            return fold(self.surrogate(word, self.known.role(word, FAMILY)))
        for initial, inner, before in ((word[:1], word[1:], True), (word[-1:], word[:-1], False)):
            if len(inner) > 2 and self.known.is_known(inner):
                name = fold(self.surrogate(inner, self.known.role(inner, FAMILY)))
                letter = fold(self._initial(initial, {inner}))
                return letter + name if before else name + letter
        return None

    def _people_with(self, words: Collection[str]) -> list[frozenset[str]]:
        """Return the people whose names have all these words, without those whose name is a part of another's."""
        if self._people is None:
            full = {frozenset(self._word(part) for part in name if len(part.word) > 1) for name in self.known.full}
            every = _by_word(full)
            self._people = _by_word(p for p in full if not any(p < other for other in _with_all(every, p)))
        return _with_all(self._people, words)

    def _table(self, role: str) -> dict[str, str]:
        """Return canonical word -> surrogate for all words of the patient's PHI, each with another surrogate."""
        if role not in self._assigned:
            known = filter(self.known.is_known, self.known.words) if self.open_ended else self.known.words
            words = {self.known.canonical(word, role) for word in known if len(word) > 1}
            table: dict[str, str] = {}
            used: set[str] = set()
            for word in sorted(words):
                table[word] = self._choice(self.keyed, word, role, used)
                used.add(table[word])
            self._assigned[role] = table
        return self._assigned[role]

    def _choice(self, keyed: Keyed, word: str, role: str, used: set[str]) -> str:
        lists = self.known.lists
        origin = DEFAULT_ORIGIN[self.language]
        if self.language == "en":
            origin = lists.origins.get((SURNAMES if role == FAMILY else "given", word), origin)
        gender = lists.genders.get(word, "")
        kinds = (SURNAMES,) if role == FAMILY else (gender,) if gender else (WOMEN, MEN)
        pool = lists.pool(origin, kinds)

        def fits(name: str) -> bool:
            folded = fold(name)
            taken = self.known.is_known(folded) if self.open_ended else folded in self.known.words
            if folded[:1] == word[:1] or taken or self.avoided.has_word(folded):
                return False
            return self.avoided.allows(name)

        # Where a patient's notes have more names than the list, two of them may have the same surrogate.
        unused = keyed.draw(
            pool, "name", role, word, fits=lambda name: name not in used and fits(name), attempts=_UNUSED_ATTEMPTS
        )
        value = unused or keyed.pick(pool, "name", role, word, fits=fits)
        return value or "".join(_ALPHABET[keyed.number(len(_ALPHABET), "name", role, word, str(i))] for i in range(6))

    def _word(self, part: NamePart) -> str:
        return self.known.canonical(part.word, part.role)

    def _initials(self, surface: str, names: list[NamePart]) -> list[str] | None:
        """Return the letters of a string that is nothing but initials, such as `J.S.` or `JAS`; else None."""
        if all(len(part.word) == 1 for part in names):
            return [part.word for part in names]
        written, word = surface[names[0].start : names[0].end], names[0].word
        known = self.known.is_known(word) or self.known.lists.is_given(word) or self.known.lists.is_surname(word)
        short = len(names) == 1 and len(word) <= _LONGEST_INITIALS and written.isupper()
        return list(word) if short and not known and len(word) == len(written) else None

    def _replaced_initials(self, surface: str, names: list[NamePart], letters: list[str], *, staff: bool) -> list[str]:
        full = self.known.of_initials(letters)
        fresh = []
        for letter in letters:
            owner = next((part for part in full or () if part.word[0] == letter and len(part.word) > 1), None)
            value = self.surrogate(owner.word, owner.role, staff=staff)[0] if owner else self._initial(letter, set())
            fresh.append(_plain(value))
        if len(names) == len(letters):
            return [match_case(surface[p.start : p.end], v.upper()) for p, v in zip(names, fresh, strict=True)]
        return [match_case(surface[names[0].start : names[0].end], "".join(fresh).upper())]

    def _initial(self, letter: str, beside: set[str], *, staff: bool = False) -> str:
        owner = self.known.owner_of(letter, beside) if beside else None
        if owner is not None:
            return _plain(self.surrogate(owner.word, owner.role, staff=staff)[0])
        keyed = self.staff if staff and self.staff is not None else self.keyed
        value = keyed.pick(tuple(_ALPHABET), "initial", letter, fits=lambda other: other.casefold() != letter)
        return value or _ALPHABET[0]

    def _filled(self, surface: str, names: list[NamePart], fresh: list[str], *, staff: bool) -> str:
        codes = Codes(self.staff if staff and self.staff is not None else self.keyed, self.avoided)
        done, cursor = "", 0
        for part, value in zip(names, fresh, strict=True):
            done += codes.digits(surface[cursor : part.start]) + value
            cursor = part.end
        return done + codes.digits(surface[cursor:])


def titles_of(before: str) -> str:
    """Return what `replace` and `identity` read of the text before a name: titles, the one beside the name last."""
    titles = [match.group() for pattern in _TITLES for match in re.finditer(pattern, before, re.IGNORECASE)]
    beside = _FORMAL.search(before)
    return " ".join([*titles, beside.group() if beside else ""])


def _by_word(people: Iterable[frozenset[str]]) -> dict[str, list[frozenset[str]]]:
    index: dict[str, list[frozenset[str]]] = {}
    for person in people:
        for word in person:
            index.setdefault(word, []).append(person)
    return index


def _with_all(index: dict[str, list[frozenset[str]]], words: Collection[str]) -> list[frozenset[str]]:
    rarest = min((index.get(word, []) for word in words), key=len, default=[])
    return [person for person in rarest if person.issuperset(words)]


def _plain(value: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", value) if c.isascii())
