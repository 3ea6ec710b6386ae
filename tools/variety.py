"""Measures of variety: words by kind of note, new names, PHI density, text shared between patients."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from ensemble_deid.arrays import Int64s
from ensemble_deid.note.document import Document

NAME_LABELS = ("PATIENT", "DOCTOR")
SHORTEST_DENSE_NOTE = 120
"""Fewest words of a note for which PHI density is meaningful."""
NGRAM = 8
OTHER_FAMILY = "other"
_WORD = re.compile(r"[^\W_]+")
_NAME_WORD = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True)
class KindVariety:
    """One family of kinds: number of notes, of words, and of distinct words (ignoring case)."""

    notes: int
    tokens: int
    types: int


@dataclass(frozen=True, slots=True)
class Density:
    """PHI per 100 words over the notes that are long enough."""

    notes: int
    lowest: float
    median: float
    highest: float


@dataclass(frozen=True, slots=True)
class Overlap:
    """Word n-grams that also occur in another patient's notes: their share in all notes, and in the worst note."""

    share: float
    highest: float
    highest_note: str
    notes_without: int


def kind_variety(notes: Iterable[Document], family_of_kind: Mapping[str, str]) -> dict[str, KindVariety]:
    """Count by family, the largest first; a kind that no family lists belongs to `OTHER_FAMILY`."""
    counts: Counter[str] = Counter()
    words: dict[str, Counter[str]] = defaultdict(Counter)
    for note in notes:
        family = family_of_kind.get(note.metadata.get("kind", ""), OTHER_FAMILY)
        counts[family] += 1
        words[family].update(_WORD.findall(note.text.casefold()))
    ordered = sorted(counts, key=lambda family: (-counts[family], family))
    return {family: KindVariety(counts[family], words[family].total(), len(words[family])) for family in ordered}


def new_name_share(train: Iterable[Document], test: Iterable[Document]) -> tuple[float | None, float | None]:
    """Return the share of names of people in test that do not occur in train: (distinct words, whole strings).

    Case is ignored; a word has two letters or more. None if the test notes name nobody.
    """
    known_words, known_strings = _names(train)
    words, strings = _names(test)
    return _share(words - known_words, words), _share(strings - known_strings, strings)


def phi_density(notes: Iterable[Document]) -> Density | None:
    """Return the range of PHI per 100 words in notes of `SHORTEST_DENSE_NOTE` words or more; None without any."""
    lengths = ((note, len(note.text.split())) for note in notes)
    found = sorted(100 * len(note.spans) / length for note, length in lengths if length >= SHORTEST_DENSE_NOTE)
    if not found:
        return None
    return Density(len(found), found[0], median(found), found[-1])


def ngram_overlap(notes: Sequence[Document], *, length: int = NGRAM) -> Overlap:
    """Measure how much text the notes of different patients share, in word n-grams (ignoring case and punctuation).

    Repetition between the notes of one patient, as with copied text in a chart, does not count.
    """
    grams, owners = _ngrams(notes, length)
    patients = np.unique([note.group for note in notes], return_inverse=True)[1]
    # One column per n-gram and patient: an n-gram with several columns is shared.
    pairs = np.unique(np.stack([grams, patients[owners]]), axis=1)
    shared = np.bincount(pairs[0], minlength=1)[grams] > 1
    whole = np.bincount(owners, minlength=len(notes)).tolist()
    part = np.bincount(owners[shared], minlength=len(notes)).tolist()
    shares = [(part[d] / whole[d], note.id) for d, note in enumerate(notes) if whole[d]]
    highest, name = max(shares, default=(0.0, ""))
    return Overlap(float(shared.mean()) if len(shared) else 0.0, highest, name, part.count(0))


def _ngrams(notes: Sequence[Document], length: int) -> tuple[Int64s, Int64s]:
    """Return an id for every n-gram (equal n-grams, equal ids) and its note, both (n_ngrams,) in text order."""
    code: dict[str, int] = {}
    words: list[int] = []
    owner: list[int] = []
    for d, note in enumerate(notes):
        found = [code.setdefault(word, len(code)) for word in _WORD.findall(note.text.casefold())]
        words += found
        owner += [d] * len(found)
    word, owners = np.array(words, dtype=np.int64), np.array(owner, dtype=np.int64)
    grams = word
    for k in range(1, length):
        # The id of an n-gram is that of the pair (id of its first n - 1 words, id of its last word).
        grams = np.unique(grams[:-1] * len(code) + word[k:], return_inverse=True)[1].astype(np.int64)
    last = length - 1
    within = owners[: len(grams)] == owners[last : last + len(grams)]
    return grams[within], owners[: len(grams)][within]


def _names(notes: Iterable[Document]) -> tuple[set[str], set[str]]:
    words: set[str] = set()
    strings: set[str] = set()
    for note in notes:
        for span in note.spans:
            if span.label in NAME_LABELS:
                surface = " ".join(note.text[span.start : span.end].casefold().split())
                strings.add(surface)
                words.update(_NAME_WORD.findall(surface))
    return words, strings


def _share(part: set[str], whole: set[str]) -> float | None:
    return len(part) / len(whole) if whole else None
