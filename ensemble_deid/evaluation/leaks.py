"""What a reader of the de-identified notes could still see: PHI that no system span covers, whatever its label.

A letter or digit of a gold annotation leaks when no system span covers it; an annotation without letters and digits
counts by its characters other than white space. An annotation is missed when any of it leaks (Murugadoss et al.
2021, "failed to detect the PHI element completely"), and missed whole when nothing of it is covered.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ensemble_deid.evaluation.bootstrap import Share
from ensemble_deid.evaluation.pairs import Pair
from ensemble_deid.note.counts import ratio
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import is_direct
from ensemble_deid.note.span import SpanKey

KIND_KEY = "kind"
"""The metadata entry that tells a note's kind (progress note, discharge summary, ...) unless another is named."""


@dataclass(frozen=True, slots=True)
class NoteLeaks:
    """One note: its distinct gold annotations by label, the missed ones, and characters that count and that leak."""

    id: str
    group: str
    kind: str | None
    phi: Mapping[str, int]
    missed: Mapping[str, int]
    missed_whole: int
    characters: int
    leaked_characters: int

    @property
    def phi_count(self) -> int:
        return sum(self.phi.values())

    @property
    def missed_count(self) -> int:
        """Gold annotations of which at least one character leaks."""
        return sum(self.missed.values())


@dataclass(frozen=True, slots=True)
class LabelLeaks:
    """Leaks of one label (or of all): among annotations, and among the notes and patients that hold one."""

    phi: Share
    notes: Share
    patients: Share


@dataclass(frozen=True, slots=True)
class NotesWithErrors:
    """A line of Murugadoss et al. 2021, table 5: the notes in which exactly `errors` annotations were missed.

    `coverage` is the recall if only the notes with more errors counted; `mean_labels` the mean number of distinct
    labels among a note's missed annotations.
    """

    errors: int
    notes: int
    total_errors: int
    cumulative_errors: int
    coverage: float | None
    mean_labels: float


@dataclass(frozen=True, slots=True)
class KindLeaks:
    """A line of Murugadoss et al. 2021, table 6: the notes of one kind (None: the note tells no kind)."""

    kind: str | None
    missed: int
    phi: int
    notes: Share


@dataclass(frozen=True, slots=True)
class LeakView:
    """Leaks over all notes. `total` is out of all notes and patients, `by_label` out of those that hold the label.

    `direct` is out of all notes and patients, too: of the identifiers that name somebody by themselves.
    """

    total: LabelLeaks
    direct: LabelLeaks
    missed_whole: Share
    characters: Share
    by_label: Mapping[str, LabelLeaks]
    by_errors: tuple[NotesWithErrors, ...]
    by_kind: tuple[KindLeaks, ...]
    notes: tuple[NoteLeaks, ...]


def leaks_of_pairs(pairs: Sequence[Pair], *, kind_key: str = KIND_KEY) -> LeakView:
    """Measure what leaks. `kind_key` names the metadata entry with a note's kind; without any, `by_kind` is empty."""
    notes = tuple(_note_leaks(pair, kind_key) for pair in pairs)
    phi = sum(note.phi_count for note in notes)
    leaking = [note for note in notes if note.missed_count]
    characters = Share(sum(note.leaked_characters for note in notes), sum(note.characters for note in notes))
    return LeakView(
        _leaks_of(notes, lambda label: True),
        _leaks_of(notes, is_direct),
        missed_whole=Share(sum(note.missed_whole for note in notes), phi),
        characters=characters,
        by_label=MappingProxyType(
            # Out of the notes and patients that hold the label.
            {
                label: _leaks_of([note for note in notes if note.phi.get(label)], label.__eq__)
                for label in sorted({label for note in notes for label in note.phi})
            }
        ),
        by_errors=_by_errors(leaking, phi),
        by_kind=_by_kind(notes),
        notes=notes,
    )


def leaking_places(document: Document, covered: bytearray, key: SpanKey) -> tuple[list[int], list[int]]:
    """Return the characters of the annotation that count, and those of them that leak.

    `covered` is what `cover` returns for the system's document.
    """
    places = range(key[0], key[1])
    counted = [i for i in places if document.text[i].isalnum()]
    counted = counted or [i for i in places if not document.text[i].isspace()]
    return counted, [i for i in counted if not covered[i]]


def cover(document: Document) -> bytearray:
    """Return one byte per character of the text: 1 where a span of the document covers it."""
    covered = bytearray(len(document.text))
    for span in document.spans:
        covered[span.start : span.end] = b"\x01" * (span.end - span.start)
    return covered


def _note_leaks(pair: Pair, kind_key: str) -> NoteLeaks:
    covered = cover(pair.system)
    phi: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    whole = 0
    counted: set[int] = set()
    leaked: set[int] = set()
    for key in sorted({span.key for span in pair.gold.spans}):
        counts, leaks = leaking_places(pair.gold, covered, key)
        phi[key[2]] += 1
        if leaks:
            missed[key[2]] += 1
            whole += len(leaks) == len(counts)
        counted.update(counts)
        leaked.update(leaks)
    kind = pair.gold.metadata.get(kind_key)
    return NoteLeaks(
        pair.id,
        pair.group,
        kind,
        phi,
        missed=missed,
        missed_whole=whole,
        characters=len(counted),
        leaked_characters=len(leaked),
    )


def _leaks_of(notes: Sequence[NoteLeaks], counts: Callable[[str], bool]) -> LabelLeaks:
    """Return the leaks of the labels that count, out of all notes and patients."""

    def number(found: Mapping[str, int]) -> int:
        return sum(n for label, n in found.items() if counts(label))

    leaking = [note for note in notes if number(note.missed)]
    return LabelLeaks(
        Share(sum(number(note.missed) for note in leaking), sum(number(note.phi) for note in notes)),
        Share(len(leaking), len(notes)),
        Share(len({note.group for note in leaking}), len({note.group for note in notes})),
    )


def _by_errors(leaking: Sequence[NoteLeaks], phi: int) -> tuple[NotesWithErrors, ...]:
    rows: list[NotesWithErrors] = []
    everything = sum(note.missed_count for note in leaking)
    cumulative = 0
    for errors in sorted({note.missed_count for note in leaking}):
        notes = [note for note in leaking if note.missed_count == errors]
        total = errors * len(notes)
        cumulative += total
        coverage = ratio(phi - (everything - cumulative), phi)
        mean_labels = sum(len(note.missed) for note in notes) / len(notes)
        rows.append(NotesWithErrors(errors, len(notes), total, cumulative, coverage=coverage, mean_labels=mean_labels))
    return tuple(rows)


def _by_kind(notes: Sequence[NoteLeaks]) -> tuple[KindLeaks, ...]:
    kinds = {note.kind for note in notes}
    if kinds == {None}:
        return ()
    rows: list[KindLeaks] = []
    for kind in kinds:
        same = [note for note in notes if note.kind == kind]
        missed = [note.missed_count for note in same]
        leaking = Share(sum(number > 0 for number in missed), len(same))
        rows.append(KindLeaks(kind, sum(missed), sum(note.phi_count for note in same), leaking))
    # The kinds in which most notes leak first, as in the paper's table; ties by name.
    return tuple(sorted(rows, key=lambda row: (-row.notes.count, -row.missed, row.kind or "")))
