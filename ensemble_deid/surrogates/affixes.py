"""What stays in the surrogate of a name: titles, credentials, suffixes, and particles such as `de la`.

Many of these are names, too (`Minh Le`, `Anh Do`, `Md Rahman`). A part stays only where how it is written, and what
stands beside it, leaves the name another part for each of its places; in doubt it is replaced like a name.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

import regex

from ensemble_deid.note.folding import fold

SUFFIXES = frozenset("jr sr ii iii iv".split())
KEPT_PARTS = SUFFIXES | frozenset("de da do dos das del di la las le los van von der den ter bin ibn al el y".split())
TITLES = frozenset("mr mrs ms mx miss dr doctor prof professor sr sra dra don doña fr rev sister nurse".split())
CREDENTIALS = frozenset(
    "md do phd rn np pa pac aprn lpn lvn cna msw lcsw dds dmd dpm od pharmd facs facp fnp dnp crna psyd esq ma bsn msn "
    "pt ot slp mph mba jd".split()
)
ALSO_NAMES = frozenset("le do da das di van al ma pa mba od ot pt slp don jd".split())
_NEVER_NAMES = frozenset("phd psyd pharmd".split())
_ONLY_IN_CAPITALS = frozenset("md ii iii iv".split())
_BEFORE_HYPHEN = frozenset("al el".split())
_MOST_LETTERS = 4
_FULL_STOP = re.compile(r"\.\s?")
_BETWEEN_LETTERS = re.compile(r"[.\s]")
_LETTERS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_CAMEL = regex.compile(r"(?<=\p{Ll})(?=\p{Lu})")
_CAMEL_PREFIXES = frozenset("mc mac de la le di du van fitz al el".split())

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


def parts_of_name(surface: str) -> list[Token]:
    """Return the parts of a name as `name_tokens` does, but a credential such as `PhD` or `M.D.` whole."""
    parts: list[Token] = []
    for start, end in name_tokens(surface):
        if parts and parts[-1][1] == start and fold(surface[parts[-1][0] : end]) in CREDENTIALS:
            start = parts.pop()[0]
        parts.append((start, end))
    number = 1
    while "." in surface and number < len(parts):
        parts = _with_credential(surface, parts, number) or parts
        number += 1
    return parts


def _with_credential(surface: str, parts: list[Token], number: int) -> list[Token] | None:
    """Return the parts with those from `number` on joined to a credential with full stops; None where none stays."""
    for end in range(min(len(parts), number + _MOST_LETTERS), number + 1, -1):
        run = parts[number:end]
        if fold(surface[run[0][0] : run[-1][1]]) in CREDENTIALS and _is_clear(surface, parts, number, end):
            joined = [*parts[:number], (run[0][0], run[-1][1]), *parts[end:]]
            if kept_parts(surface, joined)[number]:
                return joined
    return None


def _is_clear(surface: str, parts: Sequence[Token], number: int, end: int) -> bool:
    """Whether the parts `[number, end)` are a credential with full stops, and not initials as in `Smith, J.D.`"""
    gaps = [surface[a[1] : b[0]] for a, b in pairwise(parts)]
    inside, before = gaps[number - 1 : end - 1][1:], gaps[number - 1]
    after = gaps[end - 1] if end < len(parts) else ""
    if not all(map(_FULL_STOP.fullmatch, inside)) or ("," not in before and set(inside) != {"."}):
        return False
    if before == "." and fold(surface[slice(*parts[number - 1])]) not in CREDENTIALS | SUFFIXES:
        return False
    if after == "." and parts[end][1] - parts[end][0] == 1:
        return False
    names = kept_parts(surface, parts[:number]).count(False)
    return names > 1 or (names == 1 and any(stop - start > 1 for start, stop in parts[number:end]))


def kept_parts(surface: str, tokens: Sequence[Token], *, clinician: bool = True) -> list[bool]:
    """Return for each part of a name whether it stays; never for all of them.

    After one surname alone (`Smith, PA`), what may be a credential is one only if the name may be a `clinician`'s.
    """
    return _Name(surface, tokens, clinician=clinician).kept()


class _Name:
    def __init__(self, surface: str, tokens: Sequence[Token], *, clinician: bool) -> None:
        self.surface, self.tokens, self.clinician = surface, tokens, clinician
        self.written = [_BETWEEN_LETTERS.sub("", surface[start:end]) for start, end in tokens]
        self.words = [fold(part) for part in self.written]
        self.sides = [surface.count(",", 0, start) for start, _ in tokens]
        # Parts that are nothing but names.
        self.names = {i for i, word in enumerate(self.words) if word not in KEPT_PARTS | CREDENTIALS | TITLES}

    def kept(self) -> list[bool]:
        kept = [self._is_title(i) or self._is_particle(i) or self._is_plain_suffix(i) for i in range(len(self.words))]
        unclear = [i for i, stays in enumerate(kept) if i and not stays and self._ends_its_side(i)]
        unclear = [i for i in unclear if self.words[i] in CREDENTIALS & ALSO_NAMES]
        others = [i for i, stays in enumerate(kept) if not stays and i not in unclear and len(self.words[i]) > 1]
        for number in unclear:
            kept[number] = self._is_unclear_credential(number, others)
        return kept if not all(kept) else [False] * len(kept)

    def _is_title(self, number: int) -> bool:
        word = self.words[number]
        return not number and word in TITLES and (word not in ALSO_NAMES or self._written_small(number))

    def _is_particle(self, number: int) -> bool:
        word, side = self.words[number], self.sides[number]
        if word not in KEPT_PARTS - SUFFIXES:
            return False
        followed = any(self.sides[i] == side and i > number and len(self.words[i]) > 1 for i in self.names)
        if self._written_small(number):
            # `Torre, Ana de la`: nothing follows after the comma.
            return followed or (side > 0 and word not in ALSO_NAMES and any(self.sides[i] == side for i in self.names))
        if word in _BEFORE_HYPHEN and self.surface[self.tokens[number][1] :][:1] == "-":
            return followed
        next_too = self.words[number + 1 : number + 2] in (["la"], ["las"], ["los"], ["der"], ["den"])
        return (number > 0 or next_too) and followed and word not in ALSO_NAMES

    def _is_plain_suffix(self, number: int) -> bool:
        """Whether this is a suffix or credential that is no name as it is written."""
        word, written = self.words[number], self.written[number]
        opens = number == 0 or (number == 1 and self._is_title(0))
        if opens or word not in SUFFIXES | (CREDENTIALS - ALSO_NAMES) or not self._ends_its_side(number):
            return False
        if word in _ONLY_IN_CAPITALS and written.istitle():
            return False
        return word in SUFFIXES | _NEVER_NAMES or written.isupper() or self.sides[number] > 0 or self.surface.islower()

    def _is_unclear_credential(self, number: int, others: Sequence[int]) -> bool:
        """Whether a part such as `PA`, `DO` or `MA` is a credential beside the names `others`."""
        written = self.written[number]
        in_contrast = written.isupper() and bool(others) and not any(self.written[i].isupper() for i in others)
        if self.sides[number] == 0:
            return in_contrast and len(others) > 1
        before = [i for i in others if self.sides[i] < self.sides[number]]
        # `WONG, PA` may be a person's name and surname; before `WONG LEE, PA` the comma leaves no other reading.
        in_contrast = in_contrast and (self.clinician or len(others) > 1)
        return in_contrast or (len(before) > 1 and not written.istitle())

    def _ends_its_side(self, number: int) -> bool:
        return not any(self.sides[i] == self.sides[number] and i > number for i in self.names)

    def _written_small(self, number: int) -> bool:
        return self.written[number].islower() and any(not self.written[i].islower() for i in self.names)
