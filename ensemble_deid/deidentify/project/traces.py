"""Which earlier notes may hold an identifier that became known later, told by hashes of their words.

Every note in which `KnownIdentifiers` would find it is told; a false alarm only means that a note is written again.
"""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from ensemble_deid.deidentify.known.dates import date_forms, date_part, read_date
from ensemble_deid.deidentify.known.identifiers import Identifier, initials_groups
from ensemble_deid.deidentify.known.kinds import Matching
from ensemble_deid.deidentify.known.names import SHORTEST, Person, deletions
from ensemble_deid.deidentify.known.words import Words
from ensemble_deid.keys import Key
from ensemble_deid.surrogates.lists import name_lists

_SIZE = 6
_SHORT = 2
_LONGEST_PIECE = 40
_LEAST_CUT = 4
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def traces_of(text: str, key: Key) -> str:
    """Return hashes of a note's words; their order says nothing."""
    words = Words.of(text)
    told = {*words.folded, *map(date_part, words.folded), *(word for *_, word in words.misread())}
    told |= {full for word in words.folded for full in name_lists().full_forms.get(word, ())}
    told |= {_initials(words.folded[first : last + 1]) for first, last, _ in initials_groups(words)}
    pairs = zip(words.folded, words.folded[1:], strict=False)
    told |= {f"{one} {two}" for one, two in pairs if max(len(one), len(two)) <= _SHORT}
    # Typing errors in other alphabets: not all letters can be tried.
    told |= {form for word in words.folded if not word.isascii() for form in deletions(word)}
    return b64encode(b"".join(sorted(_hash(word, key) for word in told))).decode()


def held_by(traces: str, identifiers: Iterable[Identifier], key: Key) -> list[Identifier]:
    """Return the identifiers that a note with these traces may hold."""
    kept = b64decode(traces)
    words = frozenset(kept[start : start + _SIZE] for start in range(0, len(kept), _SIZE))
    return [identifier for identifier in identifiers if may_hold(words, identifier, key)]


def may_hold(words: Collection[bytes], identifier: Identifier, key: Key) -> bool:
    """Whether a note whose words have these hashes may hold an identifier."""
    kind, value = identifier.kind, identifier.value
    if kind.matching is Matching.NAME:
        person = Person.of(value, 0)
        return person is not None and _names(words, person, key)
    day = read_date(value) if kind.matching is Matching.DATE else None
    if day is not None:
        return any(all(_hash(part, key) in words for part in form) for form in date_forms(day))
    forms = [form for form, _ in kind.forms(value)]
    return any(
        _written(words, form, key) or (form.isalpha() and not _near(form, key).isdisjoint(words)) for form in forms
    )


def _names(words: Collection[bytes], person: Person, key: Key) -> bool:
    return (
        any(len(part) > 1 and not _near(part, key).isdisjoint(words) for part in person.parts)
        or any(_hash(form, key) in words for form in person.written_together())
        or any(_written(words, part, key) for part in person.parts if len(part) >= _LEAST_CUT)
        or any(_hash(_initials(letters), key) in words for letters in person.initials())
    )


def _initials(parts: Iterable[str]) -> str:
    return "initials " + "".join(sorted("".join(parts)))


@lru_cache(maxsize=1 << 12)
def _near(part: str, key: Key) -> frozenset[bytes]:
    """Return the hashes of a word, its full forms, and its spellings with one typing error."""
    forms = {part, *name_lists().full_forms.get(part, ())}
    if len(part) >= SHORTEST:
        forms |= set(_one_edit(part))
    return frozenset(_hash(form, key) for form in forms)


def _one_edit(word: str) -> Iterator[str]:
    yield from deletions(word)
    for place in range(len(word) + 1):
        yield from (word[:place] + letter + word[place:] for letter in _LETTERS)
        yield from (word[:place] + letter + word[place + 1 :] for letter in _LETTERS)
        yield word[:place] + word[place : place + 2][::-1] + word[place + 2 :]


def _written(words: Collection[bytes], form: str, key: Key) -> bool:
    """Whether consecutive words of a note may spell a form; for short words, pairs are known."""
    open_ends, seen = [(0, "")], set[tuple[int, str]]()
    while open_ends:
        start, before = open_ends.pop()
        if start == len(form):
            return True
        for end in range(start + 1, min(len(form), start + _LONGEST_PIECE) + 1):
            piece = form[start:end]
            state = end, piece if len(piece) <= _SHORT else ""
            paired = not (before and state[1]) or _hash(f"{before} {piece}", key) in words
            if state not in seen and paired and _hash(piece, key) in words:
                seen.add(state)
                open_ends.append(state)
    return False


@lru_cache(maxsize=1 << 16)
def _hash(word: str, key: Key) -> bytes:
    return hashlib.blake2b(word.encode("utf-8", "surrogatepass"), key=_secret(key), digest_size=_SIZE).digest()


@lru_cache(maxsize=4)
def _secret(key: Key) -> bytes:
    return bytes.fromhex(key.fingerprint("project traces", b""))
