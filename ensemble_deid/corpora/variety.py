"""How varied a corpus is: words by kind of note, new names, PHI density, text shared between patients."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ensemble_deid.text.document import Document

NAME_LABELS = ("PATIENT", "DOCTOR")
SHORTEST_DENSE_NOTE = 120
"""Words from which on a note's PHI density says something."""
NGRAM = 8
OTHER_FAMILY = "other"
_WORD = re.compile(r"[^\W_]+")
_NAME_WORD = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True)
class KindVariety:
    """One family of kinds: notes, running words, different words (case aside)."""

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
    """Word n-grams of a note that also occur in another patient's: their share over all notes, and in the worst one."""

    share: float
    highest: float
    highest_note: str
    notes_without: int


def kind_variety(notes: Iterable[Document], family_of_kind: Mapping[str, str]) -> dict[str, KindVariety]:
    """Count by family, the family with most notes first; a kind that no family lists counts as `OTHER_FAMILY`."""
    counts: Counter[str] = Counter()
    words: dict[str, Counter[str]] = defaultdict(Counter)
    for note in notes:
        family = family_of_kind.get(note.metadata.get("kind", ""), OTHER_FAMILY)
        counts[family] += 1
        words[family].update(_WORD.findall(note.text.casefold()))
    ordered = sorted(counts, key=lambda family: (-counts[family], family))
    return {family: KindVariety(counts[family], words[family].total(), len(words[family])) for family in ordered}


def new_name_share(train: Iterable[Document], test: Iterable[Document]) -> tuple[float | None, float | None]:
    """Return the share of test names of people that train does not have: (of different words, of whole strings).

    Case aside; a word has two letters or more. None where the test notes name nobody.
    """
    known_words, known_strings = _names(train)
    words, strings = _names(test)
    return _share(words - known_words, words), _share(strings - known_strings, strings)


def phi_density(notes: Iterable[Document]) -> Density | None:
    """Return the spread of PHI per 100 words over notes of `SHORTEST_DENSE_NOTE` words or more; None without any."""
    lengths = ((note, len(note.text.split())) for note in notes)
    found = sorted(100 * len(note.spans) / length for note, length in lengths if length >= SHORTEST_DENSE_NOTE)
    if not found:
        return None
    return Density(len(found), found[0], median(found), found[-1])


def ngram_overlap(notes: Sequence[Document], *, length: int = NGRAM) -> Overlap:
    """Measure what different patients' notes share, in word n-grams (case aside, punctuation left out).

    A patient's own notes may repeat each other, as copied text does in a chart: that does not count.
    """
    patients_of_gram: dict[tuple[str, ...], set[str]] = defaultdict(set)
    grams_of_note = []
    for note in notes:
        words = _WORD.findall(note.text.casefold())
        grams = [tuple(words[i : i + length]) for i in range(len(words) - length + 1)]
        grams_of_note.append((note.id, grams))
        for gram in grams:
            patients_of_gram[gram].add(note.group)
    shared = [(sum(len(patients_of_gram[g]) > 1 for g in grams), len(grams), name) for name, grams in grams_of_note]
    total = sum(count for _, count, _ in shared)
    shares = [(part / whole, name) for part, whole, name in shared if whole]
    highest, name = max(shares, key=lambda item: (item[0], item[1]), default=(0.0, ""))
    without = sum(part == 0 for part, _, _ in shared)
    return Overlap(sum(part for part, _, _ in shared) / total if total else 0.0, highest, name, without)


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
